"""What a build's job takes over from the job that wants the image, and what is said of one that failed."""

from pathlib import Path

import pytest

from modak_deploy.images.build import _reason, reserved
from modak_deploy.model.job import JobResult
from modak_deploy.model.request import JobOptions


@pytest.mark.parametrize(
    ("wanted", "built"),
    [
        ({}, {}),
        ({"partition": "gpu", "account": "ai", "wall_time": "2h", "gpus": 1},) * 2,
        ({"modules": ["apptainer"], "pre_execution": "umask 7", "environment": {"A": "b"}},) * 2,
        ({"nodes": 4, "ranks": 32, "cores_per_rank": 2}, {"cores_per_rank": 16}),
        ({"nodes": 3, "ranks": 7, "threads": 4}, {"cores_per_rank": 12}),
        ({"nodes": 2, "ranks_per_node": 8}, {"cores_per_rank": 8}),
        ({"array": "1-10", "dependency": ["afterok:1"], "begin": "2030-01-01T00:00", "scratch": "/local"}, {}),
        ({"post_execution": "rm -r *", "output": "a", "mail_user": "a@b.c", "export_environment": True}, {}),
    ],
)
def test_a_build_is_one_process_on_one_node_where_the_job_would_run(
    wanted: dict[str, object], built: dict[str, object]
) -> None:
    made = reserved(JobOptions.model_validate(wanted), "image-x")
    assert made == JobOptions.model_validate({**built, "name": "image-x", "ranks": 1, "mpi_launcher": "none"})


@pytest.mark.parametrize(
    ("log", "says"),
    [
        ("modak: /images has 10 MB free, and 2048 MB are needed for the image\n", "has 10 MB free, and 2048 MB"),
        ("a\nE: Unable to locate package x\nmodak: the image q was not built: apptainer ended with exit code 255\n",
         "E: Unable to locate package x"),
        ("FATAL: While performing build: write /x: no space left on device\nFATAL: cleanup failed\n",
         "no space left for it: FATAL: While performing build: write /x: no space left on device"),
        ("one\ntwo\nthree\nfour\n", "ended with exit code 1; the log ends with: two | three | four"),
        ("", "the application ended with exit code 1"),
        ("x\x1b[2J\x07y\r\nFATAL: a\x1b]0;b\x9b\n", "FATAL: a ]0;b"),
        ("FATAL: " + "x" * 5000, "FATAL: " + "x" * 293),
    ],
)  # fmt: skip
def test_the_reason_of_a_failed_build_is_what_its_log_says(log: str, says: str, tmp_path: Path) -> None:
    path = tmp_path / "output.log"
    path.write_text(log)
    result = JobResult(
        id="1", scheduler="process", tag="modak-0123456789abcdef", state="failed", directory="/d",
        reason="the application ended with exit code 1",
    )  # fmt: skip
    reason = _reason(path, result)
    assert says in reason
    assert reason.isprintable()
