"""Run a bundle of ONNX files as a job: the arguments are those of ``modak infer``."""

import sys

try:
    from modak_deploy.cli import main
except ImportError as error:
    sys.exit(f"{sys.executable}: {error}; pip install 'modak-deploy[onnx]' for this interpreter")

main(["infer", *sys.argv[1:]])
