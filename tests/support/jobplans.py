"""Plans and files for the tests of the life cycle."""

from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from modak_deploy.jobrequest import job_request
from modak_deploy.model.application import Application
from modak_deploy.model.jobrequest import JobRequest
from modak_deploy.model.plan import Candidate, Launch, Plan, Prediction, Resources, Source, Versions
from modak_deploy.model.request import JobOptions, Request
from modak_deploy.model.target import Facts, Polling, Target

ZERO = "0" * 64
FAST = Polling(first=0.05, maximum=0.2)


@dataclass(frozen=True)
class Local:
    """A source and where it lies."""

    source: Source
    local: Path


def source(path: str, file: Path) -> Local:
    """Return the file as a source that travels to ``path``."""
    data = file.read_bytes()
    return Local(Source(path=path, sha256=sha256(data).hexdigest(), size=len(data)), file)


def plan(
    argv: list[str],
    workspace: Path,
    *,
    sources: tuple[Local, ...] = (),
    job: dict[str, Any] | None = None,
    name: str = "probe",
    scheduler: str = "process",
    polling: Polling = FAST,
    gpus: int = 0,
    **application: Any,
) -> Plan:
    """Return a Plan that runs ``argv``."""
    return Plan.model_validate(
        {
            "schema": "modak.plan/2",
            "created": "2026-01-01T00:00:00Z",
            "name": name,
            "scheduler": scheduler,
            "application": Application(name=name, executable=argv[0], arguments=argv[1:], **application),
            "target": Target(name="here", workspace=str(workspace), polling=polling),
            "request": Request(),
            "job": JobOptions(**(job or {})),
            "facts": Facts(),
            "sources": [item.source for item in sources],
            "chosen": Candidate(name="default", argv=argv, resources=Resources(gpus=gpus)),
            "prediction": Prediction(),
            "default": "default",
            "reason": "there is nothing else",
            "versions": Versions(modak="0.1.0", catalogue=ZERO, measurements=ZERO),
            "inputs": ZERO,
        }
    )


def requested(argv: list[str], workspace: Path, **rest: Any) -> JobRequest:
    """Return the request for the job of the Plan that ``plan`` returns."""
    return job_request(plan(argv, workspace, **rest))


def with_launch(made: JobRequest, launch: Launch | None) -> JobRequest:
    """Return the request with what travels into the application's interpreter."""
    return replace(made, launch=launch)
