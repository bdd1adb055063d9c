"""``modak tune``: plan, search, and say what came of it."""

import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

from modak_deploy.answers import answer
from modak_deploy.catalogue.site import catalogue_for
from modak_deploy.documents import find_sources, folders
from modak_deploy.documents.extra import read_described
from modak_deploy.errors import InfeasibleError, InputError, TargetError
from modak_deploy.jobrequest import job_request
from modak_deploy.jobs.control import Jobs
from modak_deploy.jobs.settings import Reporter
from modak_deploy.jobs.shown import JobLines, to_stderr
from modak_deploy.model.deployment import Deployment
from modak_deploy.model.plan import Plan
from modak_deploy.paths import expanded
from modak_deploy.performance.paths import data_folder, store_in_use
from modak_deploy.planning import plan_deployment, with_image
from modak_deploy.transport.base import Transport
from modak_deploy.transport.connect import check_reachable, connect
from modak_deploy.tuning.search import Options, Outcome, Say, Search, WouldSubmit
from modak_deploy.util.text import plural


def tune(
    deployment: Deployment,
    transport: Transport,
    *,
    search: Sequence[Path],
    results: Path,
    say: Say,
    options: Options,
    reporter: Reporter | None = None,
    default_python: str | None = None,
    record: bool = True,
    dry: bool = False,
    host: str = "",
) -> tuple[Plan, Outcome | None]:
    """Search for the fastest configuration of a deployment on its one target; return its Plan and what was found.

    Without ``record`` no measurement is kept. With ``dry`` nothing is submitted or kept, and None is returned where the
    search has not come to its end.
    ``host`` keeps the searches of hosts apart whose descriptions are the same.
    """
    if len(deployment.targets) != 1:
        raise InputError(
            "not supported by 'modak tune'", key="other_targets", hint="describe the one target to tune for"
        )
    check_reachable(deployment.target, "'modak tune'")
    plan = plan_deployment(deployment, transport, search=search, now=datetime.now(UTC), default_python=default_python)
    plan = with_image(plan, transport, search=search)
    catalogue = catalogue_for(deployment.request.catalogue, list(search))
    folder = data_folder() / "tune" / host
    with ExitStack() as stack:
        if dry:
            copy = Path(stack.enter_context(TemporaryDirectory(prefix="modak-tune-")))
            results, folder = copy / "results", _copied(folder, plan, copy / "tune")
        work = Search(
            plan,
            catalogue,
            Jobs(transport, reporter=reporter),
            find_sources(deployment.application, list(search)),
            folder=folder,
            results=results,
            say=say,
            options=options,
            realise=_realiser(transport),
            store=store_in_use(),
            record=record,
            dry=dry,
        )
        try:
            outcome = work.run()
        except WouldSubmit:
            return plan, None
    if outcome.recorded:
        from modak_deploy.performance.refitting import keep_current

        keep_current(say)
    return plan, outcome


def _copied(folder: Path, plan: Plan, copy: Path) -> Path:
    """Return a folder with copies of what is kept of the searches for what a Plan was asked for."""
    copy.mkdir()
    for file in folder.glob(f"{plan.inputs[:16]}-*"):
        if file.is_file() and file.suffix in (".json", ".journal"):
            shutil.copy(file, copy)
    return copy


def _realiser(transport: Transport) -> Callable[[Plan, str], None]:
    def realise_image(plan: Plan, directory: str) -> None:
        from modak_deploy.images.store import realise

        realise(transport, job_request(plan), directory)

    return realise_image


def write_tuning(
    documents: Sequence[Path],
    *,
    search: Sequence[Path],
    config: Path | None,
    results: Path | None,
    options: Options,
    extra: Sequence[str] = (),
) -> None:
    """Tune what ``documents`` and ``extra`` describe, and print what came of it."""
    description, deployment, documented = read_described(documents, extra)
    paths = folders([*search, *map(Path, documented.search_paths)], documents)
    with ExitStack() as stack:
        try:
            plan, outcome = tune(
                deployment,
                connect(deployment.target, config, stack),
                search=paths,
                results=results or expanded(documented.results),
                say=to_stderr,
                options=options,
                reporter=JobLines(to_stderr),
                default_python=sys.executable if deployment.target.host is None else None,
                record=documented.record is not False,
            )
        except (InputError, InfeasibleError, TargetError) as error:
            raise error.located(description.locate) from None
    text = "\n".join(lines(plan, outcome)) if outcome is not None else ""
    answer({"name": plan.name, "target": plan.target.name, "outcome": outcome}, text)


def lines(plan: Plan, outcome: Outcome) -> Iterator[str]:
    """Yield what a search came to, for people."""
    for name, gain in outcome.ranking[:10]:
        yield f"  {gain:5.2f}  {name}"
    failed = f", {outcome.failed} of them failed" if outcome.failed else ""
    candidates = plural(outcome.tried + outcome.failed, "candidate")
    yield f"{candidates} in {plural(outcome.rounds, 'round')}{failed}: {outcome.reason}"
    if outcome.winner == outcome.default:
        yield f"{outcome.default} stays: nothing is reliably faster"
        return
    yield (
        f"{outcome.winner} is {outcome.gain:.2f} ({outcome.low:.2f} to {outcome.high:.2f}) times as fast as "
        f"{outcome.default}, in fresh runs"
    )
    if plan.application.workload.model is None:
        yield "the workload names no model, so that the next plan cannot know; name it, or use request.configuration"
    elif outcome.unrecorded and outcome.changed:
        yield (
            f"nothing is recorded: {outcome.unrecorded}; request.configuration.levers chooses the winner: "
            f"[{', '.join(outcome.levers)}]"
        )
