"""Jobs to write scripts for, and the shells that must understand them."""

import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from modak_deploy.jobrequest import job_request
from modak_deploy.jobs.script import render
from modak_deploy.model.application import Application
from modak_deploy.model.jobrequest import JobRequest
from modak_deploy.model.plan import Candidate, Plan, Prediction, Resources, Versions
from modak_deploy.model.request import JobOptions, Request
from modak_deploy.model.target import Facts, Target
from modak_deploy.schedulers import registry
from modak_deploy.schedulers.base import JobSpec, Scheduler

DATA = Path(__file__).parents[1] / "data"
TAG = "modak-0123456789abcdef"
ZERO = "0" * 64


def table(name: str) -> Any:
    """Return a table of cases."""
    return yaml.safe_load((DATA / "schedulers" / f"{name}.yaml").read_text())


def shells() -> list[list[str]]:
    """Return the POSIX shells of this machine, as the beginnings of command lines."""
    known = [["/bin/sh"], ["dash"], ["bash", "--posix"], ["busybox", "sh"], ["mksh"]]
    found = {os.path.realpath(path): words for words in reversed(known) if (path := shutil.which(words[0]))}
    return list(reversed(found.values()))


@dataclass(frozen=True)
class Part:
    """A job, its request and its scheduler."""

    spec: JobSpec
    request: JobRequest
    scheduler: Scheduler

    def script(self, template: str | None = None) -> str:
        """Return the job's script."""
        return render(self.spec, self.request, self.scheduler, template)


def make(
    scheduler: Any = "slurm",
    argv: tuple[str, ...] = ("./train", "--epochs", "12"),
    *,
    directory: str = "/home/user/.modak/runs/digits-0123456789abcdef",
    job: dict[str, Any] | None = None,
    target: dict[str, Any] | None = None,
    resources: dict[str, Any] | None = None,
    environment: dict[str, str] | None = None,
    candidate: dict[str, Any] | None = None,
    application: dict[str, Any] | None = None,
    tag: str = TAG,
) -> Part:
    """Return a job; ``job``, ``target``, ``resources``, ``candidate`` and ``application`` are fields of the models."""
    options = JobOptions(**{"name": "digits", **(job or {})})
    where = Target(name="here", type="machine" if scheduler == "process" else scheduler, **(target or {}))
    shape = Resources(**(resources or {}))
    plan = Plan(
        schema="modak.plan/2",
        created="2026-01-01T00:00:00Z",
        name=options.name or "digits",
        scheduler=scheduler,
        application=Application(
            name="digits", executable=argv[0], environment=environment or {}, **(application or {})
        ),
        target=where,
        request=Request(),
        job=options,
        facts=Facts(),
        chosen=Candidate(name="default", argv=list(argv), resources=shape, **(candidate or {})),
        prediction=Prediction(),
        default="default",
        reason="there is nothing else",
        versions=Versions(modak="0.1.0", catalogue=ZERO, measurements=ZERO),
        inputs=ZERO,
    )
    spec = JobSpec(
        name=plan.name,
        tag=tag,
        directory=directory,
        script=f"{directory}/job.sh",
        output=f"{directory}/{options.output or 'output.log'}",
        error=None if options.join_output else f"{directory}/{options.error or 'error.log'}",
        resources=shape,
        options=options,
        rank_start=plan.chosen.rank_start,
        target=where,
    )
    return Part(spec, job_request(plan), registry.get(scheduler))
