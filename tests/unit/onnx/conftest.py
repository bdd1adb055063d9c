"""These tests need the packages that convert and run models."""

import pytest

pytest.importorskip("onnx", reason="pip install 'modak-deploy[convert]'")
pytest.importorskip("onnxruntime", reason="pip install 'modak-deploy[convert]'")
