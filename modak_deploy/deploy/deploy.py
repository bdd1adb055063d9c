"""``modak deploy`` and ``modak undeploy``."""

from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from modak_deploy.deploy.cluster import ClusterRun, is_on_cluster
from modak_deploy.deploy.image import ensure_image, open_images
from modak_deploy.deploy.progress import not_fetched
from modak_deploy.deploy.running import Deployer, Outcome, Previewed, RunSettings
from modak_deploy.deploy.screen import Screen
from modak_deploy.deploy.selection import Arguments, Connections, Selected, select
from modak_deploy.deploy.service import ServiceRun, described, is_service
from modak_deploy.errors import InputError, JobError
from modak_deploy.jobrequest import job_request
from modak_deploy.jobs.control import Jobs, Present
from modak_deploy.jobs.job import Job
from modak_deploy.kept import keep_plan
from modak_deploy.model.plan import Plan
from modak_deploy.optimiser.table import render
from modak_deploy.shell import quote
from modak_deploy.terminal import visible

INTERRUPTED = 130
"""Exit code after Ctrl-C: 128 and the number of SIGINT."""


@dataclass(frozen=True)
class Mode:
    """How a change is made."""

    check: bool = False
    """Whether nothing is changed, and only shown what would be."""
    diff: bool = False
    """Whether the job script is shown where it is new."""
    follow: bool = False
    """Whether the job's output is shown while it is waited for."""


class Interrupted(JobError):
    """The user has stopped the command; the job goes on where it was submitted."""

    exit_code = INTERRUPTED
    code = "interrupted"


def deploy(arguments: Arguments, mode: Mode, screen: Screen) -> int:
    """Plan and run what is described, and fetch its results; return the exit code, which tells how the job ended."""
    selected = select(arguments)
    if selected.deployment is None:
        raise InputError(f"'{selected.name}' is a run, and not a document", hint="name the document that describes it")
    with ExitStack() as stack:
        work = _Deployment(selected, mode, screen, Connections(arguments.config, stack))
        try:
            with screen.alive(f"{selected.name}: planning"):
                return work.run()
        except KeyboardInterrupt:
            raise work.interrupted() from None


class _Deployment:
    """One call of ``modak deploy``."""

    def __init__(self, selected: Selected, mode: Mode, screen: Screen, connections: Connections) -> None:
        self._selected, self._mode, self._screen, self._connections = selected, mode, screen, connections
        self._submitted: Job | None = None
        self._on_cluster: str | None = None

    def run(self) -> int:
        plan, changed = self._decide()
        if is_on_cluster(plan):
            return self._run_on_cluster(plan, changed)
        options, reporter = self._selected.options, self._screen.reporter
        transport = self._connections.to(plan.target)
        jobs = Jobs(transport, reporter=reporter)
        deployer = Deployer(
            transport, jobs, search=self._selected.search, secrets=self._selected.reader, reporter=reporter
        )
        settings = RunSettings(
            wait=options.wait,
            timeout=options.timeout_seconds or None,
            restarted=options.force,
            follow=self._mode.follow,
            record=options.record,
        )
        changed |= self._ensure_image(plan, jobs)
        if is_service(plan):
            return self._run_service(plan, ServiceRun(plan, transport, jobs), deployer, settings, changed)
        if self._mode.check:
            return self._preview(plan, deployer, settings, changed)
        self._screen.status(f"{plan.name}: submitting")
        present = deployer.submit(plan, settings)
        self._submitted = present.job
        if self._mode.diff and present.made:
            self._screen.line(visible(present.script))
        return self._finished(plan, deployer, present, settings, changed)

    def _run_on_cluster(self, plan: Plan, changed: bool) -> int:
        run = ClusterRun(plan, self._selected.search, self._screen.progress)
        options = self._selected.options
        settings = RunSettings(
            wait=options.wait,
            timeout=options.timeout_seconds or None,
            restarted=options.force,
            follow=self._mode.follow,
            record=options.record,
        )
        if self._mode.check:
            return self._previewed(plan, run.preview(settings, self._selected.results), changed)
        self._on_cluster = run.job.name
        outcome = run.run(settings, self._selected.results)
        if self._mode.diff and outcome.submitted:
            self._screen.line(visible(outcome.script))
        return self._report(plan, outcome, changed)

    def _run_service(
        self, plan: Plan, run: ServiceRun, deployer: Deployer, settings: RunSettings, changed: bool
    ) -> int:
        if self._mode.check:
            preview = run.preview(settings)
            for sentence in preview.sentences or ["the service is as it is described"]:
                self._screen.line(f"{plan.name}: {sentence}")
            service = None if preview.service is None else preview.service.model_dump(mode="json")
            would_change = changed or bool(preview.sentences)
            self._screen.value(_value(plan, would_change) | {"service": service, "check": True})
            return 0
        self._screen.status(f"{plan.name}: starting")
        outcome = run.run(deployer, settings)
        changed |= outcome.changed
        self._screen.value(_value(plan, changed) | {"service": outcome.service.model_dump(mode="json")})
        self._screen.line(f"{plan.name}: {described(outcome.service)}{'' if changed else ' (unchanged)'}")
        return 0

    def _decide(self) -> tuple[Plan, bool]:
        """Return the Plan, and whether it is another one than before; it is kept before anything is submitted."""
        selected = self._selected
        kept = None if selected.options.force else selected.kept(self._screen.progress)
        if kept is not None and kept.own is False:
            self._screen.progress(
                f"{kept.path}: the file was changed after modak wrote it; it is not used, and the plan is made again"
            )
        plan = selected.plan(self._connections, kept)
        self._screen.line(visible(render(plan)).rstrip("\n"))
        if self._mode.check:
            return plan, kept is None or plan != kept.plan
        return plan, keep_plan(plan, selected.results)

    def _ensure_image(self, plan: Plan, jobs: Jobs) -> bool:
        if plan.chosen.image is None:
            return False
        self._screen.status(f"{plan.name}: image {plan.chosen.image.reference}")
        images = open_images(
            self._connections.to(plan.target),
            jobs,
            plan.target,
            job=plan.job,
            locations=plan.request.catalogue,
            search=self._selected.search,
            logs=self._selected.results,
            notice=self._screen.progress,
        )
        return ensure_image(plan, images, check=self._mode.check)

    def _preview(self, plan: Plan, deployer: Deployer, settings: RunSettings, changed: bool) -> int:
        preview = deployer.preview(deployer.completed(plan), settings, self._selected.results)
        return self._previewed(plan, preview, changed)

    def _previewed(self, plan: Plan, preview: Previewed, changed: bool) -> int:
        if self._mode.diff and preview.submits:
            self._screen.line(visible(preview.script))
        if preview.submits:
            self._screen.line(f"{plan.name}: the job would be submitted to {plan.target.name}")
        elif preview.job is not None:
            self._screen.line(f"{plan.name}: job {preview.job.id} is {preview.job.state}: nothing to submit")
        self._screen.value(
            _value(plan, preview.changes or changed)
            | {
                "job": None if preview.job is None else preview.job.model_dump(mode="json"),
                "script": visible(preview.script),
                "check": True,
            }
        )
        return 0

    def _finished(self, plan: Plan, deployer: Deployer, present: Present, settings: RunSettings, changed: bool) -> int:
        return self._report(plan, deployer.finish(plan, present, settings, self._selected.results), changed)

    def _report(self, plan: Plan, outcome: Outcome, changed: bool) -> int:
        for sentence in not_fetched([outcome.job]):
            self._screen.progress(sentence)
        changed |= outcome.changed
        self._screen.value(_value(plan, changed) | _outcome(outcome))
        if outcome.problem:
            if self._screen.json:
                return JobError.exit_code
            raise JobError(outcome.problem)
        self._screen.line(self._end(plan, outcome, changed))
        return 0

    def _end(self, plan: Plan, outcome: Outcome, changed: bool) -> str:
        job = outcome.job
        state = f"{plan.name}: job {job.id} {'completed' if job.state == 'completed' else f'is {job.state}'}"
        parts = [state, *([f"in {job.seconds:.1f} s"] if job.seconds is not None else [])]
        where = f"; results in {job.results}" if job.results else ""
        further = "" if self._selected.options.wait else f"\n{self._further()}"
        return f"{' '.join(parts)}{where}{'' if changed else ' (unchanged)'}{further}"

    def _further(self) -> str:
        """Return how to go on with a job that nobody waits for."""
        results = self._selected.options.results
        name = quote(self._selected.name) + ("" if results == "results" else f" --results {quote(results)}")
        return (
            f"modak deploy {self._selected.documents} follows it and fetches its results; modak logs -f {name} shows "
            f"its output, modak cancel {name} cancels it"
        )

    def interrupted(self) -> Interrupted:
        """Return what to tell the user who has pressed Ctrl-C."""
        if self._on_cluster is not None:
            return Interrupted(f"stopped; the Job {self._on_cluster} goes on", hint=self._further())
        if self._submitted is None:
            documents = self._selected.documents
            return Interrupted("stopped", hint=f"modak deploy {documents} goes on; no job is submitted twice")
        return Interrupted(f"stopped; job {self._submitted.id} goes on", hint=self._further())


def _value(plan: Plan, changed: bool) -> dict[str, Any]:
    return {
        "changed": changed,
        "name": plan.name,
        "tag": plan.tag(),
        "plan": plan.model_dump(mode="json", by_alias=True),
    }


def _outcome(outcome: Outcome) -> dict[str, Any]:
    return {
        "job": outcome.job.model_dump(mode="json"),
        "submitted": outcome.submitted,
        "previous": None if outcome.previous is None else outcome.previous.model_dump(mode="json"),
        "recorded": outcome.recorded,
        "message": outcome.problem,
    }


def _removed(
    plan: Plan, selected: Selected, mode: Mode, screen: Screen, connections: Connections
) -> tuple[list[str], bool]:
    """Return what was removed, as far as that is asked for, and whether anything was."""
    if is_on_cluster(plan):
        doomed = ClusterRun(plan, selected.search, screen.progress).remove(check=mode.check)
        return doomed, bool(doomed)
    jobs = Jobs(connections.to(plan.target), reporter=screen.reporter)
    if is_service(plan):
        doomed = ServiceRun(plan, connections.to(plan.target), jobs).remove(check=mode.check)
        return doomed, bool(doomed)
    request = job_request(plan)
    doomed = jobs.doomed(request) if mode.check or mode.diff else []
    return doomed, bool(doomed) if mode.check else jobs.absent(request)


def undeploy(arguments: Arguments, mode: Mode, screen: Screen) -> int:
    """Cancel the job and remove its folder on the target; the results on this machine stay."""
    selected = select(arguments)
    with ExitStack() as stack, screen.alive(f"{selected.name}: undeploying"):
        connections = Connections(arguments.config, stack)
        plan = selected.deployed(connections, screen.progress)
        doomed, changed = _removed(plan, selected, mode, screen, connections)
    for thing in doomed:
        screen.line(f"- {visible(thing)}")
    verb = "would be removed" if mode.check else "removed"
    screen.line(f"{plan.name}: {verb} from {plan.target.name}" if changed else f"{plan.name}: nothing to remove")
    screen.value({"changed": changed, "name": plan.name, "tag": plan.tag(), "removed": doomed, "check": mode.check})
    return 0
