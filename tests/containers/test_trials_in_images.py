"""Restart trials inside real Apptainer and podman: what a candidate sets reaches the program, and nothing is left."""

import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from containers import Containers, UserTransport
from modak_deploy.documents import find_sources, parse_deployment
from modak_deploy.images.store import realise
from modak_deploy.jobrequest import job_request
from modak_deploy.jobs.control import Jobs, Present
from modak_deploy.jobs.settings import Timeouts
from modak_deploy.model.job import JobResult
from modak_deploy.model.plan import Plan
from modak_deploy.planning import plan_deployment, with_image
from trial_parts import leaves_nothing, states

RUNTIMES = ["apptainer", "podman"]
LEVERS = """version: 1
groups:
  - {name: pauses, summary: how long the program pauses}
levers:
  - {name: short, group: pauses, summary: short pauses, environment: {PAUSE: "0.1"}, preload: libm.so.6}
  - {name: deaf, group: pauses, summary: it hangs and cannot be asked to end, environment: {PAUSE: deaf}}
  - {name: missing, group: pauses, summary: a library that the image lacks, environment: {PAUSE: "0"}, preload: no.so.1}
"""
PROGRAM = """echo started >>started
[ "${PAUSE-}" != deaf ] || { trap '' TERM; setsid sleep 1000 & while :; do sleep 1; done; }
i=0
while [ "$i" -lt 12 ]; do
  i=$((i + 1))
  sleep "${PAUSE:-0.5}"
  echo "step $i"
done
. /etc/os-release
libm=$(grep -c "r-xp.*libm.so" /proc/self/maps)
echo "$VERSION_CODENAME, pause ${PAUSE-unset}, libm $libm, $(wc -l <started), $(pwd)"
"""


@pytest.fixture
def plan_in(parts: Containers, tmp_path: Path) -> Callable[..., Plan]:
    """Return what plans the program in an image, with a catalogue whose levers change its pauses."""
    folder = tmp_path / "catalogue"
    folder.mkdir()
    (folder / "levers.yaml").write_text(LEVERS)
    (tmp_path / "program.sh").write_text(PROGRAM)

    def make(runtime: str, **job: object) -> Plan:
        document = {
            "application": {
                "name": f"trials-{runtime}", "type": "hpc", "executable": "sh", "arguments": ["program.sh"],
                "inputs": ["program.sh"], "image": f"docker://{parts.registry}/library/debian:12",
                "progress": r"step (\d+)", "workload": {"model": "pauses", "unit": "iteration", "units": 12},
            },
            "target": {
                "name": "here", "workspace": str(parts.folder(f"trials-{runtime}")),
                "polling": {"first": 0.2, "maximum": 1.0},
            },
            "request": {
                "runtimes": [runtime], "catalogue": [str(folder)], "trials": {"budget": 100},
                "forbid_levers": ["one-thread", "omp-close", "omp-spread"],
            },
            "job": job,
        }  # fmt: skip
        transport = UserTransport(parts)
        deployment = parse_deployment(document, origin="the test")
        made = plan_deployment(deployment, transport, search=[tmp_path], now=datetime.now(UTC))
        return with_image(made, transport, search=[tmp_path])

    return make


@pytest.fixture
def jobs(parts: Containers) -> Jobs:
    return Jobs(UserTransport(parts), timeouts=Timeouts(settle=2.0))


def submit(parts: Containers, jobs: Jobs, plan: Plan, folder: Path) -> Present:
    request, transport = job_request(plan), UserTransport(parts)
    return jobs.present(
        request,
        find_sources(plan.application, [folder]),
        realise=lambda directory: realise(transport, request, directory) and None,
    )


def containers_left(parts: Containers, directory: str) -> list[str]:
    """Return the containers and processes of the user's that have to do with the job."""
    names = parts.run("podman", "ps", "--all", "--quiet").split()
    lines = parts.run("ps", "-eo", "pid,args").splitlines()
    return [*names, *(line for line in lines if directory in line or "sleep 1000" in line)]


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_a_candidate_reaches_the_program_in_its_image(
    parts: Containers, jobs: Jobs, plan_in: Callable[..., Plan], tmp_path: Path, runtime: str
) -> None:
    plan = plan_in(runtime)
    assert plan.restart is not None, plan.reason
    assert (plan.chosen.runtime, len(plan.restart.candidates)) == (runtime, 4)
    present = submit(parts, jobs, plan, tmp_path)
    (result,) = jobs.wait([present], timeout=200)
    result: JobResult = jobs.fetch_results(present.job, result, tmp_path / "results").result
    output = (tmp_path / "results" / plan.name / "output.log").read_text()
    assert (result.state, result.exit_code) == ("completed", 0), output
    assert result.restart is not None and result.restart.levers == ["short"], output
    assert {name.partition("+")[2]: state for name, state in states(result).items()} == {
        "": "measured", "short": "measured", "deaf": "beaten", "missing": "unusable"
    }, output  # fmt: skip
    assert output.endswith(f"bookworm, pause 0.1, libm 1, 1, {result.directory}/work\n"), output
    leaves_nothing(result)
    assert not containers_left(parts, result.directory)


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_a_job_that_is_ended_during_its_trials_leaves_no_container(
    parts: Containers, jobs: Jobs, plan_in: Callable[..., Plan], tmp_path: Path, runtime: str
) -> None:
    plan = plan_in(runtime)
    present = submit(parts, jobs, plan, tmp_path)
    directory = Path(present.job.spec.directory)
    deadline = time.monotonic() + 60
    while not (directory / "restart" / "work" / "started").exists():
        assert time.monotonic() < deadline
        time.sleep(0.1)
    number = present.job.id.partition("-")[0]
    parts.run("kill", "-s", "TERM", number)
    (result,) = jobs.wait([present], timeout=60)
    assert result.state != "completed"
    assert not (directory / "restart" / "work").exists()
    assert not containers_left(parts, str(directory))
