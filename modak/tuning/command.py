"""``modak tune``: plan, search, and say what came of it."""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

from modak.catalogue.site import catalogue_for
from modak.documents import find_sources, read_description
from modak.errors import InputError, OptionError
from modak.jobrequest import job_request
from modak.jobs.control import Jobs
from modak.jobs.settings import Reporter
from modak.model.deployment import Deployment
from modak.model.plan import Plan
from modak.performance.places import data_folder, store_in_use
from modak.planning import plan_deployment, with_image
from modak.transport.base import Transport
from modak.transport.connect import connect
from modak.tuning.search import Options, Outcome, Say, Search


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
) -> tuple[Plan, Outcome]:
    """Search for the fastest configuration of a deployment on its one target; return its Plan and what was found."""
    if len(deployment.targets) != 1:
        raise InputError(
            "not supported by 'modak tune'", key="other_targets", hint="describe the one target to tune for"
        )
    plan = plan_deployment(deployment, transport, search=search, now=datetime.now(UTC), default_python=default_python)
    plan = with_image(plan, transport, search=search)
    catalogue = catalogue_for(deployment.request.catalogue, list(search))
    work = Search(
        plan,
        catalogue,
        Jobs(transport, reporter=reporter),
        find_sources(deployment.application, list(search)),
        folder=data_folder() / "tune",
        results=results,
        say=say,
        options=options,
        realise=_bringer(transport),
        store=store_in_use(),
    )
    return plan, work.run()


def _bringer(transport: Transport) -> Callable[[Plan, str], None]:
    def bring(plan: Plan, directory: str) -> None:
        from modak.images.store import realise

        realise(transport, job_request(plan), directory)

    return bring


def write_tuning(
    documents: Sequence[Path], *, search: Sequence[Path], config: Path | None, results: Path, options: Options
) -> None:
    """Tune what ``documents`` describe, and print what came of it."""
    description = read_description(*documents)
    deployment = description.parse()[0]
    folders = [*search, *(document.parent for document in reversed(documents)), Path()]
    paths = list(dict.fromkeys(folder.expanduser().absolute() for folder in folders))
    with ExitStack() as stack:
        try:
            plan, outcome = tune(
                deployment,
                connect(deployment.target, config, stack),
                search=paths,
                results=results,
                say=_print,
                options=options,
                default_python=sys.executable if deployment.target.host is None else None,
            )
        except OptionError as error:
            raise error.located(description.locate) from None
    for line in lines(plan, outcome):
        _print(line)


def _print(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def lines(plan: Plan, outcome: Outcome) -> Iterator[str]:
    """Yield what a search came to, for people."""
    for name, gain in outcome.ranking[:10]:
        yield f"  {gain:5.2f}  {name}"
    failed = f", {outcome.failed} of them failed" if outcome.failed else ""
    yield f"{outcome.tried + outcome.failed} candidates in {outcome.rounds} rounds{failed}: {outcome.reason}"
    if outcome.winner == outcome.default:
        yield f"{outcome.default} stays: nothing is reliably faster"
        return
    yield (
        f"{outcome.winner} is {outcome.gain:.2f} ({outcome.low:.2f} to {outcome.high:.2f}) times as fast as "
        f"{outcome.default}, in fresh runs"
    )
    if plan.application.workload.model is None:
        yield "the workload names no model, so that the next plan cannot know; name it, or use request.configuration"
    elif not outcome.recorded and outcome.changed:
        yield (
            "nothing is recorded: workload.units is 1 or is not what is counted; request.configuration.levers chooses "
            f"the winner: [{', '.join(outcome.levers)}]"
        )
