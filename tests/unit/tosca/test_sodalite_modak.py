"""SODALITE's node of the optimiser: maps in, scripts in files."""

from pathlib import Path
from typing import Any

import pytest

from modak_deploy.errors import InputError
from modak_deploy.tosca.sodalite_modak import saved


def _given(path: Path, **application: Any) -> dict[str, Any]:
    return {
        "job_script": str(path),
        "job_options": {"job_name": "j", "node_count": 1, "wall_time_limit": "0:05:00 ", "queue": None},
        "application": {"app_tag": "a", "app_type": "hpc", "executable": "true", "arguments": "", **application},
        "target": {"name": "testbed", "queue_type": "torque"},
        "optimisation": {},
        "site": "",
    }


def test_the_script_is_written_once(tmp_path: Path) -> None:
    path = tmp_path / "made" / "job.sh"
    assert saved(_given(path), write=False)["changed"]
    assert not path.exists()
    made = saved(_given(path), write=True)
    assert made["changed"]
    assert made["artifact_url"] == path.as_uri()
    assert made["container_runtime"] == ""
    assert "walltime=" in path.read_text()
    assert not saved(_given(path), write=True)["changed"]


def test_a_build_has_its_script_beside(tmp_path: Path) -> None:
    build = {"src": "https://example.org/a.c", "build_command": "cc a.c"}
    saved(_given(tmp_path / "job.sh", build=build), write=True)
    assert "cc a.c" in (tmp_path / "job-build.sh").read_text()


def test_the_scripts_are_for_their_owner_only(tmp_path: Path) -> None:
    build = {"src": "https://example.org/a.c", "build_command": "cc a.c"}
    paths = [tmp_path / "job.sh", tmp_path / "job-build.sh"]
    for _ in range(2):
        assert saved(_given(tmp_path / "job.sh", build=build), write=True)["changed"]
        assert [path.stat().st_mode & 0o777 for path in paths] == [0o700, 0o700]
        paths[0].chmod(0o755)  # as an older release wrote it


@pytest.mark.parametrize("path", ["", "job.sh", "../x"])
def test_the_path_is_absolute(path: str) -> None:
    with pytest.raises(InputError, match=r"^job_script: "):
        saved({**_given(Path("/x")), "job_script": path}, write=True)


def test_a_path_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match=r"job_script: .* cannot be written"):
        saved(_given(tmp_path / "file" / "job.sh"), write=True)


def test_the_kind_of_a_training_may_have_the_name_of_tosca(tmp_path: Path) -> None:
    given = _given(tmp_path / "job.sh", container_runtime="docker://a/b:c", executable="python3 t.py")
    given["optimisation"] = {
        "enable_opt_build": False,
        "app_type": "ai_training",
        "opt_build": {"cpu_type": "x86", "acc_type": ""},
        "app_type-ai_training": {
            "config": {"ai_framework": "tensorflow", "config_type": "image_classification"},
            "ai_framework-tensorflow": {"version": "2.1", "xla": True},
        },
    }
    assert "tensorflow" in saved(given, write=True)["container_runtime"]
