"""``modak status``, ``logs``, ``cancel``, ``results`` and ``why``: what became of a run."""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

from modak_deploy.deploy.cluster import ClusterRun, is_on_cluster
from modak_deploy.deploy.progress import not_fetched
from modak_deploy.deploy.running import write_reports
from modak_deploy.deploy.screen import Screen
from modak_deploy.deploy.selection import Arguments, Connections, Selected, kept_runs, results_folder, select
from modak_deploy.deploy.service import ServiceRun, is_service
from modak_deploy.deploy.statustable import Row, render_rows
from modak_deploy.documents import parse_options
from modak_deploy.errors import InputError, JobError, ModakError
from modak_deploy.jobrequest import job_request
from modak_deploy.jobs.control import Jobs, Present
from modak_deploy.jobs.job import Job
from modak_deploy.jobs.logs import explanation
from modak_deploy.jobs.output import output_file, tail
from modak_deploy.jobs.results import FetchedResults
from modak_deploy.model.job import ENDS
from modak_deploy.model.plan import Plan
from modak_deploy.optimiser.table import render
from modak_deploy.terminal import visible
from modak_deploy.util.files import exists


class _Run:
    """A run on its target, with its job there."""

    def __init__(self, arguments: Arguments, screen: Screen, stack: ExitStack) -> None:
        self.selected: Selected = select(arguments)
        connections = Connections(arguments.config, stack)
        self.plan: Plan = self.selected.deployed(connections, screen.progress)
        self.transport = connections.to(self.plan.target)
        self.jobs = Jobs(self.transport, reporter=screen.reporter)

    def job(self) -> Job:
        """Return the job; JobError where it was never submitted, or is undeployed."""
        job = self.jobs.find(job_request(self.plan))
        if job is None:
            raise JobError(
                f"{self.plan.name} has no job on {self.plan.target.name}",
                hint="deploy its document to submit it",
            )
        return job


def status(arguments: Arguments, screen: Screen) -> int:
    """Show the state of the named runs, or of all whose Plans lie in the results folder."""
    options = parse_options(arguments.options)
    if arguments.names:
        groups: Sequence[Sequence[str]] = (
            [arguments.names] if _are_documents(arguments.names) else [[name] for name in arguments.names]
        )
    else:
        groups = [[name] for name in kept_runs(options)]
        if not groups:
            screen.line(f"no runs in {results_folder(options)}; 'modak deploy FILE' makes one")
    with ExitStack() as stack, screen.alive("asking for the state"):
        connections = Connections(arguments.config, stack)
        rows = [_row(replace(arguments, names=names), connections, screen) for names in groups]
    if rows and not screen.json:
        screen.write(render_rows(rows))
    screen.value([row.as_dict() for row in rows])
    return max((row.error.exit_code for row in rows if row.error is not None), default=0)


def _are_documents(names: Sequence[str]) -> bool:
    return all(exists(Path(name)) for name in names)


def _row(arguments: Arguments, connections: Connections, screen: Screen) -> Row:
    """Return the state of one run; what goes wrong with it does not hide the others."""
    plan: Plan | None = None
    try:
        selected = select(arguments)
        plan = selected.deployed(connections, screen.progress)
        if is_on_cluster(plan):
            result = ClusterRun(plan, selected.search, screen.progress).see()
        elif is_service(plan):
            jobs = Jobs(connections.to(plan.target), reporter=screen.reporter)
            there = ServiceRun(plan, connections.to(plan.target), jobs).see()
            return Row(plan.name, plan, service=there)
        else:
            jobs = Jobs(connections.to(plan.target), reporter=screen.reporter)
            job = jobs.find(job_request(plan))
            result = None if job is None else jobs.see(job)
        folder = selected.results / plan.name
        return Row(plan.name, plan, result, folder if (folder / "job.json").is_file() else None)
    except ModakError as error:
        return Row(" ".join(arguments.names) if plan is None else plan.name, plan, error=error)


def logs(
    arguments: Arguments, screen: Screen, *, follow: bool, lines: int, error: bool = False, task: int | None = None
) -> int:
    """Show the end of a job's output, and with ``follow`` what it writes until it has ended."""
    with ExitStack() as stack:
        run = _Run(arguments, screen, stack)
        if is_on_cluster(run.plan):
            return _logs_of_cluster(run, screen, lines, unsupported=follow or error or task is not None)
        if is_service(run.plan):
            return _logs_of_service(run, screen, lines, unsupported=follow or error or task is not None)
        job = run.job()
        file = output_file(job, error=error, task=task)
        end = tail(run.transport, file, lines)
        if end is not None and end.text and not screen.json:
            screen.reporter.output(job, end.text)
        if follow:
            job = replace(job, spec=replace(job.spec, output=file))
            start = 1 if end is None else end.size + 1
            (result,) = run.jobs.wait([Present(job, script="", made=False)], follow=start)
            screen.progress(f"job {job.id} has ended: {result.state}")
        elif end is None:
            result = run.jobs.see(job)
            screen.progress(f"{file} does not exist yet: job {job.id} is {result.state}")
        screen.value(
            {"name": run.plan.name, "job": job.id, "file": file, "text": "" if end is None else visible(end.text)}
        )
    return 0


def _logs_of_cluster(run: _Run, screen: Screen, lines: int, *, unsupported: bool) -> int:
    if unsupported:
        raise InputError(
            "Kubernetes has one log of a Job, which is shown as it is now",
            hint="kubectl logs --follow shows it as it grows",
        )
    cluster = ClusterRun(run.plan, run.selected.search, screen.progress)
    text = cluster.logs(lines)
    if not screen.json:
        screen.write(visible(text))
    screen.value({"name": run.plan.name, "job": cluster.job.name, "file": None, "text": visible(text)})
    return 0


def _logs_of_service(run: _Run, screen: Screen, lines: int, *, unsupported: bool) -> int:
    if unsupported:
        raise InputError("each replica of a service has one log, which is shown as it is now", hint="leave options out")
    text = ServiceRun(run.plan, run.transport, run.jobs).logs(lines)
    if not screen.json:
        screen.write(visible(text))
    screen.value({"name": run.plan.name, "job": None, "file": None, "text": visible(text)})
    return 0


def cancel(arguments: Arguments, screen: Screen, *, check: bool) -> int:
    """Cancel the job of a run; its folder stays."""
    with ExitStack() as stack, screen.alive("cancelling"):
        run = _Run(arguments, screen, stack)
        if is_on_cluster(run.plan):
            raise InputError("a Job of Kubernetes is cancelled with all that belongs to it", hint="modak undeploy")
        if check:
            job = run.jobs.find(job_request(run.plan))
            cancelled = [job.id] if job is not None and run.jobs.is_alive(job) else []
        else:
            cancelled = run.jobs.cancel(job_request(run.plan))
    verb = "would be cancelled" if check else "cancelled"
    what = f"job {', '.join(cancelled)} {verb}" if cancelled else "no job to cancel"
    screen.line(f"{run.plan.name}: {what}")
    screen.value({"changed": bool(cancelled), "name": run.plan.name, "cancelled": cancelled, "check": check})
    return 0


def results(arguments: Arguments, screen: Screen) -> int:
    """Fetch the results of a job that has ended; the exit code tells how it ended, as that of ``modak deploy``."""
    with ExitStack() as stack, screen.alive("fetching results"):
        run = _Run(arguments, screen, stack)
        if is_on_cluster(run.plan):
            cluster = ClusterRun(run.plan, run.selected.search, screen.progress)
            return _fetched(run.plan, FetchedResults(*cluster.fetch(run.selected.results)), screen)
        job = run.job()
        result = run.jobs.see(job)
        if result.state not in ENDS:
            raise JobError(
                f"job {job.id} of {run.plan.name} is {result.state}",
                hint=f"modak logs -f {run.selected.documents} shows its output until it has ended",
            )
        fetched = run.jobs.fetch_results(job, result, run.selected.results)
        write_reports(run.jobs, [fetched.result])
    return _fetched(run.plan, fetched, screen)


def _fetched(plan: Plan, fetched: FetchedResults, screen: Screen) -> int:
    for sentence in not_fetched([fetched.result]):
        screen.progress(sentence)
    screen.value({"changed": fetched.changed, "name": plan.name, "job": fetched.result.model_dump(mode="json")})
    problem = "" if fetched.result.state == "completed" else explanation(job_request(plan), fetched.result)
    screen.line(f"results: {fetched.result.results}{'' if fetched.changed else ' (unchanged)'}")
    if problem and not screen.json:
        raise JobError(problem)
    return JobError.exit_code if problem else 0


def why(arguments: Arguments, screen: Screen) -> int:
    """Show the decision behind a run: every candidate, what it rests on, and why it was not taken."""
    selected = select(arguments)
    with ExitStack() as stack:
        kept = selected.kept(screen.progress)
        plan = selected.plan(Connections(arguments.config, stack), None) if kept is None else kept.plan
    if kept is not None and kept.own is not True:
        changed = "was changed after modak wrote it" if kept.own is False else "was not written by this controller"
        screen.progress(f"{kept.path}: the file {changed}")
    screen.line(visible(render(plan, explain=True)).rstrip("\n"))
    screen.value(_value(plan))
    return 0


def _value(plan: Plan) -> Any:
    return plan.model_dump(mode="json", by_alias=True)
