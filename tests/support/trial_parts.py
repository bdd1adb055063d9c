"""Programs and Plans for the tests of restart trials."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from jobplans import Local, requested, source
from modak_deploy.jobs import restarting
from modak_deploy.model.execution import Resources
from modak_deploy.model.job import JobResult
from modak_deploy.model.jobrequest import JobRequest
from modak_deploy.model.trials import RestartCandidate, RestartPlan

LOOP = """echo start >>"$TRACE"
trap 'echo term >>"$TRACE"; exit 143' TERM
i=0
while [ "$i" -lt "${1:-12}" ]; do
  i=$((i + 1))
  sleep "${PAUSE:-0.15}"
  echo "step $i loss=${LOSS:-1.$i}"
done
%s
"""
PATTERN = r"step (\d+) loss=([0-9.a-z]+)"


def candidate(name: str, **environment: str) -> RestartCandidate:
    """Return a candidate that sets variables."""
    return RestartCandidate(name=name, levers=[name], environment=environment)


DEFAULT = RestartCandidate(name="as-is")
FAST, SLOW = candidate("fast", PAUSE="0.05"), candidate("slow", PAUSE="0.8")


def restart(*candidates: RestartCandidate, **change: Any) -> RestartPlan:
    """Return what is tried, the default first."""
    values = {
        "signal": "output",
        "budget": 30,
        "units": 12,
        "window": 0.4,
        "progress": PATTERN,
        "rule": "the fastest",
        **change,
    }
    return RestartPlan.model_validate({"candidates": [DEFAULT, *candidates], **values})


def with_trials(
    text: str, trials: RestartPlan, folder: Path, *, ranks: int = 1, **rest: Any
) -> tuple[JobRequest, tuple[Local, ...]]:
    """Return the Plan of a shell program with trials, and its file."""
    file = folder / "program.sh"
    file.write_text(text)
    items = (source("program.sh", file),)
    environment = {"TRACE": str(folder / "trace"), **rest.pop("environment", {})}
    made = requested(["sh", "program.sh"], folder / "space", sources=items, environment=environment, **rest)
    resources = Resources(ranks=ranks, ranks_per_node=ranks)
    return replace(made, restart=trials, **({"resources": resources} if ranks > 1 else {})), items


def leaves_nothing(result: JobResult) -> None:
    """Check that no process and no copy of the trials is left."""
    folder = Path(result.directory) / restarting.FOLDER
    left = {"work", "progress", "code", "code.new", "log"} & {path.name for path in folder.iterdir()}
    assert not left
    mark = f"MODAK_TRIAL={result.directory}".encode()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            assert mark not in (process / "environ").read_bytes(), process
        except (OSError, ProcessLookupError):
            continue


def staged(made: JobRequest, folder: Path) -> list[str]:
    """Put what travels for the trials into a job's folder; return the words that start the program with them."""
    for path, content in restarting.files(made).items():
        (folder / path).parent.mkdir(exist_ok=True)
        (folder / path).write_bytes(content)
    (folder / "here").mkdir()
    return [*restarting.starter(made, str(folder)), "sh", str(folder / "program.sh")]


def states(result: JobResult) -> dict[str, str]:
    """Return what became of each candidate in its first trial."""
    assert result.restart is not None
    return {trial.name: trial.state for trial in reversed(result.restart.trials)}
