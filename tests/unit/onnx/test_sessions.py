"""How many threads a model is run with."""

from pathlib import Path

import pytest

from modak_deploy.launch import hardware
from modak_deploy.onnx.bundle import read_bundle
from modak_deploy.onnx.runner import Runner
from modak_deploy.onnx.sessions import Session
from onnxparts import bundle, linear


@pytest.fixture
def quota(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    """A container that may use one core's time, whatever the machine has."""
    for name, folder, file, text in (
        ("_PROC", "proc", "self/cgroup", "0::/\n"),
        ("_GROUPS", "cgroup", "cpu.max", "100000 100000\n"),
    ):
        monkeypatch.setattr(hardware, name, str(tmp_path / folder))
        path = tmp_path / folder / file
        path.parent.mkdir(parents=True)
        path.write_text(text)
    return 1


def threads(session: object) -> int:
    return session._session.get_session_options().intra_op_num_threads  # type: ignore[attr-defined,no-any-return]


def test_a_quota_of_a_container_is_kept_to(quota: int, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(linear([[1, 2], [3, 4]]).SerializeToString())
    assert threads(Session(path)) == quota
    assert threads(Session(path, threads=3)) == 3
    bundle(tmp_path / "bundle")
    assert threads(Runner(read_bundle(tmp_path / "bundle"))) == quota
