"""Where a job's output goes: to files that are nothing else, in its folder and among its results."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jobplans import requested, source
from modak_deploy.errors import InputError
from modak_deploy.jobs.control import Jobs
from modak_deploy.jobs.job import specification
from modak_deploy.jobs.script import render
from modak_deploy.model.jobrequest import JobRequest
from modak_deploy.schedulers import registry

LINE = "for n in 1 2 3; do echo out $n; echo err $n >&2; done"


@pytest.mark.parametrize("error", ["all.log", "./all.log"])
def test_one_file_for_both_takes_all_lines_in_their_order(
    jobs: Jobs, shell: Callable[..., JobRequest], tmp_path: Path, error: str
) -> None:
    present = jobs.present(shell(LINE, job={"output": "all.log", "error": error}))
    (result,) = jobs.wait([present])
    jobs.fetch_results(present.job, result, tmp_path)
    lines = [f"{kind} {number}" for number in (1, 2, 3) for kind in ("out", "err")]
    assert (tmp_path / "probe" / "all.log").read_text().splitlines() == lines


def test_a_script_opens_one_file_once(tmp_path: Path) -> None:
    request = requested(["true"], tmp_path, scheduler="slurm", job={"output": "logs/a", "error": "logs//a"})
    spec = specification(request, "/runs/x")
    assert (spec.output, spec.error) == ("/runs/x/work/logs/a", None)
    assert "2>&1" in render(spec, request, registry.get("slurm"))


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        ({"output": "plan.json"}, r"job\.output: 'plan\.json' is the name of a file that modak writes itself"),
        ({"output": "./job.json"}, r"job\.output: '\./job\.json' is the name"),
        ({"error": "attempts/err"}, r"job\.error: 'attempts/err' is the name"),
        ({"error": "scheduler.log"}, r"job\.error: 'scheduler\.log' is the name"),
        ({"error": "output.log"}, r"job\.error: 'output\.log' is the name"),
        ({"output": "error.log", "join_output": False}, r"job\.output: 'error\.log' is the name"),
        ({"output": "data/in.txt"}, r"job\.output: 'data/in\.txt' is an input of the job"),
        ({"output": "../state/exit"}, r"job\.output: '\.\./state/exit' is not below the job's working directory"),
    ],
)
def test_a_file_that_is_another_as_well_is_refused(
    jobs: Jobs, tmp_path: Path, options: dict[str, Any], fault: str
) -> None:
    (tmp_path / "in.txt").write_text("input\n")
    item = source("data/in.txt", tmp_path / "in.txt")
    with pytest.raises(InputError, match=fault):
        jobs.present(requested(["true"], tmp_path / "space", job=options, sources=(item,)), [item])
    assert not (tmp_path / "space").exists()


@pytest.mark.parametrize(
    "options", [{"output": "output.log"}, {"error": "error.log"}, {"output": "a", "error": "output.log"}]
)
def test_the_usual_names_can_be_written_out(
    jobs: Jobs, shell: Callable[..., JobRequest], tmp_path: Path, options: dict[str, Any]
) -> None:
    present = jobs.present(shell("echo out; echo err >&2", job=options))
    (result,) = jobs.wait([present])
    jobs.fetch_results(present.job, result, tmp_path)
    wanted = {options.get("output", "output.log"): "out\n", options.get("error", ""): "err\n"}
    for name, text in wanted.items():
        if name:
            assert text in (tmp_path / "probe" / name).read_text()
