"""The scale of a job: how many ranks, within what the user asked for, serve the objective."""

import math
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from modak_deploy.diagnostics import Key
from modak_deploy.errors import InfeasibleError, InputError
from modak_deploy.model.deployment import Deployment
from modak_deploy.model.measurement import Measurement, Ratio
from modak_deploy.model.plan import Basis, Resources
from modak_deploy.optimiser.evidence import location_differences
from modak_deploy.optimiser.limits import excess, keeping, over_limit
from modak_deploy.optimiser.options import LeverSet, Location, Option
from modak_deploy.optimiser.resources import has_memory
from modak_deploy.performance.matching import Work, differences, seconds_of_units
from modak_deploy.performance.scaling import Point, ScaleModel, amdahl, fit_scale
from modak_deploy.performance.series import Folded, Observation
from modak_deploy.performance.statistics import Interval


@dataclass(frozen=True)
class Scale:
    """The layout that was decided on, and why."""

    resources: Resources
    basis: Basis
    text: str
    seconds: Interval | None
    """Predicted for the layout; None where only relative times are known."""
    option: Option
    """What was measured at several layouts: ``seconds`` hold for no other option."""
    refusal: tuple[str, str] | None = None
    """Key of a limit, and the sentence that the option keeps to the limits at no layout."""


class Series:
    """The runs of one option of one work on one kind of node, which differ in layout and problem size alone.

    A law of scaling tells what ranks and threads bring. Over runs that differ in anything else it would take for the
    effect of ranks what levers, data sets, images, runtimes, accelerators or processors bring, so that other runs of
    the workload are counted, to be told, and not used.
    """

    def __init__(
        self, records: Sequence[Observation], work: Work, location: Location, levers: LeverSet, asked: Resources
    ) -> None:
        self.option = location.option(levers)
        self.asked = asked
        self.work = work
        measured = [run for run in records if not isinstance(run, Ratio) and _is_same_work(_of(run), work)]
        own = [run for run in measured if _is_of(_of(run), work, location, levers)]
        self.points = [point for run in own for point in _points(run, work)]
        self.unused = sum(map(_number, measured)) - sum(map(_number, own))
        """Measurements of the same work that differ in more than layout and size."""

    def unused_note(self) -> str:
        """Return the clause on the measurements that were not used; empty for none."""
        if not self.unused:
            return ""
        runs = f"{self.unused} measurement{'s' if self.unused > 1 else ''} of it"
        are = "are" if self.unused > 1 else "is"
        return (
            f"; {runs} with other levers, data, software, hardware, or in another image or runtime {are} not used, "
            "because more than the number of ranks differs"
        )


def _of(observation: Measurement | Folded) -> Measurement:
    return observation.record if isinstance(observation, Folded) else observation


def _number(observation: Measurement | Folded) -> int:
    return observation.moments.count if isinstance(observation, Folded) else 1


def _is_same_work(record: Measurement, work: Work) -> bool:
    ours, theirs = work.workload, record.workload
    return record.type == work.type and (theirs.model, theirs.unit) == (ours.model, ours.unit)


def _is_of(record: Measurement, work: Work, location: Location, levers: LeverSet) -> bool:
    """Return whether a record of the work differs from the option in layout and problem size alone."""
    if (
        record.framework not in (None, work.framework)
        or record.workload.dataset != work.workload.dataset
        or (record.hardware.accelerator, record.hardware.accelerators) != (work.accelerator, work.accelerators)
        or sorted(record.configuration.levers) != sorted(levers)
        or location_differences(record.configuration, location, work.framework) != frozenset()
    ):
        return False  # before what takes longer: most records are of other levers
    packages = {name: version for name in record.software if (version := location.version_of(name)) is not None}
    # Cores follow from ranks and threads, and length from the numbers of units and samples, which the laws know.
    others = differences(record, work, packages) - {"cores", "length"}
    processors = {record.hardware.microarchitecture, record.hardware.cpu_model, work.microarchitecture, work.cpu_model}
    if processors == {None}:  # a job model that describes no node: what is known of both is the same
        others -= {"processor"}
    return not others


def scale_of(deployment: Deployment, series: Series, price: float | None = None) -> Scale | None:
    """Return the layout for the objective, never more than asked for; None where nothing is known of how it scales.

    With objective ``time`` more ranks stay unless fewer are faster by more than the interval of the prediction; with
    ``cost`` the fewest node-seconds count; with ``efficiency`` the most ranks that keep the efficiency asked for. Of
    what a fitted law tells only layouts that keep to the request's limits count, at the ``price`` of a node; where none
    does, another option may, and the layout is the one for that.
    InfeasibleError when an efficiency cannot be told, or no layout keeps it; InputError when one is to be kept and not
    given.
    """
    asked, work = series.asked, series.work
    objective, least = deployment.request.objective, deployment.request.minimal_efficiency
    if objective == "efficiency" and least is None:
        raise InputError("efficiency needs 'minimal_efficiency', the least that is to be kept", key="request.objective")
    alone = deployment.application.type != "hpc" and asked.ranks == 1 and least is None
    fitted = None if alone else _model(deployment, series)
    if alone or asked.ranks * (asked.threads or 1) == 1:
        return _single_rank(fitted, series)
    if fitted is None:
        return _unknown(objective, least, series)
    model, basis = fitted
    fixed = deployment.request.configuration is not None
    every = [(_point(r, work), r) for r in ([asked] if fixed else _layouts(asked)) if has_memory(r, deployment)]
    layouts = every if basis == "rule" else _within_limits(every, model, deployment, price)
    if not layouts:
        return _beyond_limits(every, model, basis, deployment, price, series)
    within = " of those that keep to the limits" if len(layouts) < len(every) else ""
    if least is not None:
        return _efficient(layouts, model, basis, least, series, keeping(deployment)[1] if basis != "rule" else "")
    wanted = _point(asked, work)
    if fixed:
        point, chosen, text = wanted, asked, f"its seconds are predicted by {_law(model)}"
    elif objective == "cost":
        point, chosen = min(layouts, key=lambda pair: (pair[0].nodes * model.seconds(pair[0]), pair[0].ranks))
        text = f"{_ranks(chosen, asked)} cost the fewest node-seconds{within} by {_law(model)}"
    else:
        point, chosen = min(layouts, key=lambda pair: (model.seconds(pair[0]), pair[0].ranks))
        here, there = model.interval(point), model.interval(wanted)
        if basis != "rule" and here.high >= there.low and (wanted, asked) in layouts:
            point, chosen = wanted, asked
        text = f"{_ranks(chosen, asked)} are the fastest{within} by {_law(model)}"
    return Scale(chosen, basis, text, None if basis == "rule" else model.interval(point), series.option)


def _within_limits(
    layouts: Sequence[tuple[Point, Resources]], model: ScaleModel, deployment: Deployment, price: float | None
) -> list[tuple[Point, Resources]]:
    """Return the layouts that keep to the limits; of a measured one its own seconds count, as in the decision."""

    def keeps(point: Point) -> bool:
        return over_limit(model.expected(point), point.nodes, deployment, price) is None

    return [pair for pair in layouts if keeps(pair[0])]


def _beyond_limits(
    every: Sequence[tuple[Point, Resources]],
    model: ScaleModel,
    basis: Basis,
    deployment: Deployment,
    price: float | None,
    series: Series,
) -> Scale:
    """Return the layout for options that are faster than this one, which breaks a limit at every layout.

    An efficiency that is to be kept counts before how far beyond the limits a layout is.
    """
    asked, least = series.asked, deployment.request.minimal_efficiency
    key, limits = keeping(deployment)
    refusal = key, f"no layout up to {asked.ranks} ranks {limits} by {_law(model)}"
    if least is not None:
        return replace(_efficient(every, model, basis, least, series, ""), refusal=refusal)
    point, chosen = min(every, key=lambda pair: excess(model.expected(pair[0]), pair[0].nodes, deployment, price))
    text = f"{_ranks(chosen, asked)} come closest to the limits by {_law(model)}"
    return Scale(chosen, basis, text, model.interval(point), series.option, refusal)


def _single_rank(fitted: tuple[ScaleModel, Basis] | None, series: Series) -> Scale | None:
    """There is nothing to choose for one rank, but laws that were fitted to more of them tell how long it takes."""
    if fitted is None or fitted[1] == "rule":
        return None
    model, basis = fitted
    text = f"its seconds are predicted by {_law(model)}"
    return Scale(series.asked, basis, text, model.interval(_point(series.asked, series.work)), series.option)


def _unknown(objective: str, least: float | None, series: Series) -> Scale | None:
    """An efficiency that nobody can tell is no promise to make."""
    asked = series.asked
    if least is not None:
        cores = asked.ranks * (asked.threads or 1)
        note = f", or import measurements of at least four layouts{series.unused_note()}"
        raise InfeasibleError(
            f"{least:g} cannot be promised on {cores} cores, for nothing is known of how the application scales",
            key="request.minimal_efficiency",
            hint=("give ", Key("workload.parallel_share"), note),
        )
    if objective == "cost":
        text = f"the layout stays as asked for: nothing is known of how the application scales{series.unused_note()}"
        return Scale(asked, "none", text, None, series.option)
    return None


def _efficient(
    layouts: Sequence[tuple[Point, Resources]],
    model: ScaleModel,
    basis: Basis,
    least: float,
    series: Series,
    limits: str,
) -> Scale:
    asked = series.asked
    keeping = [pair for pair in layouts if model.efficiency(pair[0]) >= least - 1e-12]
    if not keeping:
        within = f" and {limits}" if limits else ""
        raise InfeasibleError(f"no layout keeps {least:g}{within} by {_law(model)}", key="request.minimal_efficiency")
    point, chosen = max(keeping, key=lambda pair: (pair[0].workers, pair[0].ranks))
    efficiency = model.efficiency(point)
    text = (
        f"{_ranks(chosen, asked)} keep a parallel efficiency of {efficiency:.3g}, {least:g} or more, by {_law(model)}"
    )
    return Scale(chosen, basis, text, None if basis == "rule" else model.interval(point), series.option)


def _ranks(chosen: Resources, asked: Resources) -> str:
    threads = f" of {chosen.threads} threads" if chosen.threads and chosen.threads > 1 else ""
    ranks = f"{chosen.ranks} rank{'s' if chosen.ranks > 1 else ''}{threads}"
    return f"{ranks} on {chosen.nodes} node{'s' if chosen.nodes > 1 else ''}, of {asked.ranks} asked for,"


def _law(model: ScaleModel) -> str:
    if model.points == 0:
        return "Amdahl's law with the parallel share that the workload gives"
    law = f"the law {model.law}" if len(model.laws) == 1 else f"the mean of the laws {model.law}"
    return f"{law}, fitted to {model.points} runs with an error of {model.error:.0%}"


def _layouts(asked: Resources) -> Iterator[Resources]:
    """Yield the layouts up to what is asked for: on one node any number of ranks, on several full nodes.

    A scheduler reserves whole nodes, and ranks of which some nodes have fewer wait for the others. Threads are halved
    as long as that goes.
    """
    per_node, threads = asked.ranks_per_node, {asked.threads}
    while (fewer := min(t or 1 for t in threads)) > 1:
        threads.add(fewer // 2)
    several = range(2 * per_node, asked.ranks + 1, per_node)
    for ranks in sorted({*range(1, min(per_node, asked.ranks) + 1), *several, asked.ranks}):
        nodes = math.ceil(ranks / per_node)
        layout = {"ranks": ranks, "nodes": nodes, "ranks_per_node": math.ceil(ranks / nodes)}
        for count in sorted(threads, key=lambda t: t or 1):
            yield asked.model_copy(update={**layout, "threads": count})


def _point(resources: Resources, work: Work) -> Point:
    return Point(
        nodes=resources.nodes,
        ranks=resources.ranks,
        threads=resources.threads or 1,
        size=float(work.workload.samples or 1),
    )


def _model(deployment: Deployment, series: Series) -> tuple[ScaleModel, Basis] | None:
    """Return the law of this option of the work on this hardware, or the one that the user gives."""
    model = fit_scale(series.points)
    if model is not None:
        return model, "model"
    share = deployment.application.workload.parallel_share
    size = _point(series.asked, series.work).size
    return (amdahl(share, size), "rule") if share is not None else None


def _points(observation: Measurement | Folded, work: Work) -> Iterator[Point]:
    """Yield the record's time for the work's number of units; of a series those of its newest runs."""
    record = _of(observation)
    ours, theirs = work.workload, record.workload
    totals = [seconds_of_units(run, record, ours.units) for run in record.runs if run.total is not None]
    if record.summary is not None:
        totals = [record.summary.mean * ours.units / theirs.units]
    elif totals and not isinstance(observation, Folded):
        totals = [statistics.median(totals)]
    c = record.configuration
    for seconds in totals:
        size = float(theirs.samples or ours.samples or 1)
        yield Point(c.nodes, c.ranks, c.threads or 1, seconds, size)
