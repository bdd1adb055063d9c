"""Numbers of threads as candidates: an OpenMP program in C whose best number is found by restart trials."""

import shutil
from datetime import UTC, datetime
from pathlib import Path

import pytest

from modak_deploy.documents import find_sources, parse_deployment
from modak_deploy.jobrequest import job_request
from modak_deploy.jobs.control import Jobs
from modak_deploy.jobs.settings import Timeouts
from modak_deploy.planning import plan_deployment
from modak_deploy.transport.local import LocalTransport
from trial_parts import leaves_nothing, states

SOURCE = Path(__file__).parents[1] / "data" / "applications" / "crowd.c"


@pytest.mark.skipif(shutil.which("gcc") is None, reason="there is no C compiler")
def test_the_best_number_of_threads_is_found(tmp_path: Path) -> None:
    shutil.copy(SOURCE, tmp_path)
    document = {
        "application": {
            "name": "crowd", "type": "hpc", "executable": "./crowd", "arguments": ["60"], "inputs": ["crowd.c"],
            "progress": r"step (\d+)", "workload": {"model": "crowd", "unit": "iteration", "units": 60},
        },
        # The program pauses, and does not compute: the node may be said to have more cores than it has.
        "target": {
            "name": "here", "workspace": str(tmp_path / "space"), "node": {"cores": 8, "threads_per_core": 1},
            "polling": {"first": 0.2, "maximum": 1.0},
        },
        "request": {
            "trials": {"budget": 90},
            "forbid_levers": ["malloc-hugepages", "tcmalloc", "jemalloc", "omp-close", "omp-spread"],
        },
        "job": {"pre_execution": "gcc -O1 -fopenmp -o crowd crowd.c"},
    }  # fmt: skip
    transport = LocalTransport()
    deployment = parse_deployment(document, origin="the test")
    plan = plan_deployment(deployment, transport, search=[tmp_path], now=datetime.now(UTC))
    assert plan.restart is not None
    names = ["as-is", "one-thread", "threads-physical", "threads-half", "threads-2"]
    assert [candidate.name for candidate in plan.restart.candidates] == names
    assert any(r.name == "threads-4" and "as threads-half does" in r.reason for r in plan.rejected)
    jobs = Jobs(transport, timeouts=Timeouts(settle=1.0))
    present = jobs.present(job_request(plan), find_sources(plan.application, [tmp_path]))
    (result,) = jobs.wait([present], timeout=200)
    result = jobs.fetch_results(present.job, result, tmp_path / "results").result
    output = (tmp_path / "results" / plan.name / "output.log").read_text()
    assert result.restart is not None and result.restart.levers == ["threads-half"], output
    assert states(result)["one-thread"] == "beaten", output
    assert result.restart.gain is not None and result.restart.gain > 1.1, output
    assert output.endswith("4 threads\n")
    leaves_nothing(result)
