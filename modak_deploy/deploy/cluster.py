"""Runs on clusters of Kubernetes: what the commands and the action plugins do with a Plan for one."""

from collections.abc import Callable, Sequence
from pathlib import Path

import yaml

from modak_deploy.deploy.running import (
    Outcome,
    Previewed,
    RunSettings,
    check_recording,
    learn,
    recorded,
    stored,
    would_store,
)
from modak_deploy.errors import InputError, JobError
from modak_deploy.jobs.script import default_template
from modak_deploy.kubernetes import commands
from modak_deploy.kubernetes.api import Cluster
from modak_deploy.kubernetes.life import ClusterJob, State
from modak_deploy.model.job import ENDS, JobResult
from modak_deploy.model.kubernetes import Kubernetes
from modak_deploy.model.plan import Plan
from modak_deploy.objects import check_outputs
from modak_deploy.providers.kubernetes import manifests
from modak_deploy.terminal import excerpt

_SHORTEST_MEASURED = 20.0
"""Seconds of a Job that is recorded without being asked for."""
Notice = Callable[[str], None]


def is_on_cluster(plan: Plan) -> bool:
    """Return whether the Plan's job is a Job of Kubernetes."""
    return plan.target.kind.runs_manifests


class ClusterRun:
    """The Job of a Plan on the Plan's cluster."""

    def __init__(self, plan: Plan, search: Sequence[Path], notice: Notice) -> None:
        described = plan.target.kubernetes or Kubernetes()
        self.plan = plan
        self._search, self._notice = search, notice
        self._placement = described.placement
        self._cluster = Cluster(described.context)
        self.job: ClusterJob = commands.job_of(plan, self._placement, self._cluster)

    def see(self) -> JobResult | None:
        """Return what is seen of the Job; None where there is none."""
        return commands.result_of(self.plan, self.job.look())

    def preview(self, settings: RunSettings, results: Path) -> Previewed:
        """Have the cluster check what ``run`` would create; nothing is changed."""
        _check(settings)
        described = self._described()
        if settings.restarted and (there := self.see()) is not None:
            return Previewed(self._script(described), True, there, None)
        if (ended := self._ended_badly(settings)) is not None:
            result = commands.result_of(self.plan, ended)
            return Previewed(self._script(described), True, result, result)
        ran = self._deploy(described, settings, Path(), check=True)
        there = None if ran.created else ran.result
        would = would_store(self.plan, there, settings, results, self._notice)
        return Previewed(self._script(described), ran.created, ran.result, None, stores=would and not ran.created)

    def run(self, settings: RunSettings, results: Path) -> Outcome:
        """Create the Job unless it is there, wait for its end, and fetch and record its results."""
        _check(settings)
        if settings.record:
            check_recording(self.plan, wait=settings.wait)
        described = self._described()
        check_outputs(self.plan.application.objects)
        ended = self._ended_badly(settings)
        if settings.restarted or ended is not None:  # a Job that cannot be created again is not deleted
            self.job.check_replacement(manifests(described.workload, described.placement)[-1])
        if settings.restarted:
            self.remove()
        elif ended is not None:
            self._notice(f"{self.job.name} has failed: {excerpt(ended.reason)}; it is run again")
            self.job.remove_ended(ended)
        ran = self._deploy(described, settings, results, check=False)
        if ran.result is None:
            raise JobError(f"the Job {self.job.name} was deleted", hint="deploy again to run it again")
        new = None
        # Of a short Job whole seconds, which are all that the API server tells, are no measurement.
        is_exact = (ran.result.seconds or 0.0) >= _SHORTEST_MEASURED
        if settings.wait and not ran.problem and (is_exact or settings.record):
            new = recorded(self.plan, ran.result, settings.record, self._search, self._notice)
        changed = ran.changed
        if settings.wait and not ran.problem and ran.result.state == "completed":
            changed |= stored(self.plan, ran.result, self._notice)
            learn(new, self._notice)
        script = self._script(described)
        previous = None if ended is None else commands.result_of(self.plan, ended)
        return Outcome(changed, ran.created, script, ran.result, previous, problem=ran.problem, recorded=new)

    def _ended_badly(self, settings: RunSettings) -> State | None:
        """Return the end of the Job that is there and is to be run again; None where there is none."""
        retry = self.plan.job.retry if settings.retry is None else settings.retry
        if not retry or settings.restarted:
            return None
        seen = self.job.look()
        return seen if seen.state == "failed" else None

    def fetch(self, results: Path) -> tuple[JobResult, bool]:
        """Fetch the results of a Job that has ended; return whether anything was written."""
        there = self.see()
        if there is None:
            raise JobError(f"{self.plan.name} has no job on {self.plan.target.name}", hint="deploy its document")
        if there.state not in ENDS:
            raise JobError(
                f"job {there.id} of {self.plan.name} is {there.state}", hint="modak deploy waits for its end"
            )
        return commands.fetch(self._described(), self.job, self.job.look(), results)

    def logs(self, lines: int) -> str:
        """Return the last lines of the program's output."""
        return commands.logs(self.job, lines).decode(errors="replace")

    def remove(self, *, check: bool = False) -> list[str]:
        """Cancel the Job and delete it with what belongs to it; return what there was."""
        return self.job.remove(self._notice, dry=check)

    def _described(self) -> commands.Described:
        return commands.Described.of(self.plan, self._placement, self._search)

    def _script(self, described: commands.Described) -> str:
        return yaml.safe_dump_all(manifests(described.workload, described.placement), sort_keys=False, width=1000)

    def _deploy(
        self, described: commands.Described, settings: RunSettings, results: Path, *, check: bool
    ) -> commands.Ran:
        return commands.deploy(
            described,
            self._cluster,
            self._notice,
            results=results,
            wait=settings.wait,
            timeout=settings.timeout,
            check=check,
        )


def _check(settings: RunSettings) -> None:
    """Raise InputError for what a Job of Kubernetes has not."""
    if settings.template not in (None, default_template()):
        raise InputError("a template of the job script is not supported by Kubernetes", key="template")
    if settings.follow:
        raise InputError("not supported by Kubernetes", key="follow", hint="kubectl logs --follow shows the output")
