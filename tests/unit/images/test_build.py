"""What a build's job takes over from the job that wants the image."""

import pytest

from modak.images.build import reserved
from modak.model.request import JobOptions


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
