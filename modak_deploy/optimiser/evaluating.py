"""What a decision is worth where its workload was never measured: each workload is left out of everything once.

The model is fitted without it, down to the last penalty and interval, and the optimiser's own code then decides among
the configurations that were measured of it. Regret is how much slower than the fastest of them the chosen one is;
beside it stand that of the least predicted seconds, the model's bare word, and that of the default. The candidates are
those measured, not all that the catalogue has: of others nobody knows what they take.
"""

import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, replace
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory

from modak_deploy.catalogue.catalogue import Catalogue, Source, load_catalogue
from modak_deploy.errors import InputError, ModakError
from modak_deploy.launch.hardware import cores
from modak_deploy.model.application import Application
from modak_deploy.model.deployment import Deployment
from modak_deploy.model.measurement import Measurement, Ratio
from modak_deploy.model.plan import Prediction
from modak_deploy.model.target import Node
from modak_deploy.optimiser.candidates import Choice
from modak_deploy.optimiser.decision import Decision, decide
from modak_deploy.optimiser.evidence import Evidence
from modak_deploy.optimiser.knowledge import Knowledge
from modak_deploy.optimiser.modelled import Modelled
from modak_deploy.optimiser.options import Location, Option
from modak_deploy.performance.estimators import Row
from modak_deploy.performance.fitting import Fit, fit, missing_library, rows_of
from modak_deploy.performance.intervals import lengths
from modak_deploy.performance.matching import Work
from modak_deploy.performance.records import Measurements, Table, available_measurements
from modak_deploy.performance.timemodel import Held, TimeModel, write_model

_MANY = 8
"""Workloads from which on starting processes pays."""
_INTERVAL = 5.0
"""Seconds between two words about how far the evaluation is."""


def _untold(text: str) -> None:
    """Nobody wants to know how far it is."""


@dataclass(frozen=True)
class _Case:
    """One setting at one length: the seconds of each option, and what was decided without knowing them."""

    units: int
    measured: dict[Option, float]
    default: Option | None
    """None where none of the options is what would run without modak: then there is no decision to judge."""
    decision: Decision

    def regret(self, option: Option) -> float:
        return self.measured[option] / min(self.measured.values()) - 1

    @property
    def timed(self) -> dict[Option, Prediction]:
        """The predictions that tell seconds."""
        return {
            option: prediction
            for option, prediction in self.decision.predictions.items()
            if prediction.seconds is not None
        }

    @property
    def least(self) -> Option:
        """The option of the least predicted seconds; the default where none is told."""
        timed = self.timed
        return min(timed, key=lambda option: timed[option].seconds or 0.0) if timed else self.decision.chosen


def fit_now(*, judged: bool = True, tell: Callable[[str], None] = _untold) -> Fit:
    """Return the model of everything measured, and what it is worth where ``judged``; ``tell`` hears how far it is.

    InputError when a library that fitting needs is missing.
    """
    if (missing := missing_library()) is not None:
        raise InputError(f"fitting needs {missing}: run pip install 'modak-deploy[models]'")
    measurements, catalogue = available_measurements(), load_catalogue()
    tell(f"fitting to {measurements.count} measurements")
    fitted = fit(measurements, catalogue)
    held = evaluate(measurements, catalogue, tell) if judged else []
    worth = {"held": held, "held_with": fitted.description.measurements if judged else None}
    return replace(fitted, description=fitted.description.model_copy(update=worth))


def evaluate(measurements: Measurements, catalogue: Catalogue, tell: Callable[[str], None] = _untold) -> list[Held]:
    """Return how each workload is predicted and decided by what is known without it, at each length.

    ``tell`` hears every few seconds how many are judged.
    Many workloads are shared among processes, one for each processor: each takes a fit of its own, of some seconds.
    ModakError when one of these is ended from outside, as by a system that has no memory left.
    """
    records = measurements.all_records()
    workloads = sorted({row.workload for row in rows_of(records, catalogue)})
    number = min(cores(), len(workloads))
    if len(workloads) < _MANY or number == 1:
        alone = (_left_out(workload, records, catalogue.sources) for workload in workloads)
        return list(_followed(alone, len(workloads), tell))
    # Not forked: numerical libraries have threads, which a fork does not copy. What all of them need goes to them at
    # their start: Python 3.11.2 waits for ever for a process that was ended before it read a long task (gh-94777).
    try:
        with ProcessPoolExecutor(
            number, mp_context=get_context("spawn"), initializer=_begin, initargs=(records, catalogue.sources)
        ) as pool:
            return list(_followed(pool.map(_left_out_here, workloads), len(workloads), tell))
    except BrokenProcessPool:
        raise ModakError(
            "a process that judged the model was ended from outside",
            hint="where memory is short: 'modak model fit --no-evaluation' takes one process",
        ) from None


_shared: dict[str, tuple[Sequence[Measurement | Ratio], Sequence[Source]]] = {}
"""Of a process that judges: all records, and the catalogue's sources."""


def _begin(records: Sequence[Measurement | Ratio], sources: Sequence[Source]) -> None:
    _shared["known"] = records, sources


def _left_out_here(workload: str) -> list[Held]:
    return _left_out(workload, *_shared["known"])


def _followed(parts: Iterable[list[Held]], number: int, tell: Callable[[str], None]) -> Iterator[Held]:
    """Yield what the parts hold, and tell how many of them are done."""
    shown = time.monotonic()
    for done, part in enumerate(parts, start=1):
        yield from part
        if time.monotonic() - shown >= _INTERVAL:
            shown = time.monotonic()
            tell(f"judged by workloads that it does not know: {done} of {number}")


def _left_out(workload: str, records: Sequence[Measurement | Ratio], sources: Sequence[Source]) -> list[Held]:
    """Return how one workload is predicted and decided by the other ones' records; ``sources`` are the catalogue's."""
    catalogue = Catalogue(sources)
    rows = [row for row in rows_of(records, catalogue) if row.workload == workload]
    others = [record for record in records if record.workload.model != workload]
    return judge(workload, rows, others, catalogue)


def judge(workload: str, rows: Sequence[Row], store: Sequence[Measurement | Ratio], catalogue: Catalogue) -> list[Held]:
    """Return how the rows of one workload are predicted and decided by what is in ``store``, at each length."""
    others = Table(store)
    with TemporaryDirectory(prefix="modak-") as folder:
        model = _fitted(others, catalogue, Path(folder))
        cases = [_case(group, units, others, model, catalogue) for group, units in _groups(rows)]
    return [
        _judged(workload, units, [case for case in cases if case.units == units])
        for units in sorted({case.units for case in cases})
    ]


def _fitted(measurements: Table, catalogue: Catalogue, folder: Path) -> TimeModel | None:
    """Return the model of ``measurements``, None where they are too few for one that tells whole times."""
    try:
        model = fit(measurements, catalogue)
    except InputError:
        return None
    write_model(folder, model.description, model.contents)
    return TimeModel(folder) if model.description.usable else None


def _groups(rows: Sequence[Row]) -> list[tuple[list[Row], int]]:
    """Return what could be chosen among: the rows of a setting, with each length that they can be judged at."""
    groups: dict[tuple[str, int], list[Row]] = {}
    for row in rows:
        for units in lengths(row):
            groups.setdefault((row.setting, units), []).append(row)
    return [(groups[key], key[1]) for key in sorted(groups)]


def _case(rows: Sequence[Row], units: int, others: Table, model: TimeModel | None, catalogue: Catalogue) -> _Case:
    """Decide among what ``rows`` measured at ``units``; of several rows of one option the median counts."""
    ordered = sorted(rows, key=lambda row: not row.default)
    seconds: dict[Option, list[float]] = {}
    locations: dict[Option, Location] = {}
    for row in ordered:
        location = location_of_row(row, catalogue)
        locations.setdefault(location.option(()), location)
        seconds.setdefault(location.option(tuple(row.case.configuration.levers)), []).append(row.at(units))
    options = list(seconds)
    work = work_of_row(ordered[0], units)
    evidence = Evidence(others.of_workload(str(work.workload.model)), work, list(locations.values()))
    modelled = Modelled(model, work, locations, catalogue, mix=ordered[0].case.mix) if model else None
    choice = Choice(options[0], options[0], options)
    application = Application(name="held-out", executable="true", workload=work.workload)
    decision = decide(choice, Knowledge(evidence, modelled), Deployment(application=application))
    measured = {option: statistics.median(values) for option, values in seconds.items()}
    return _Case(units, measured, options[0] if ordered[0].default else None, decision)


def work_of_row(row: Row, units: int) -> Work:
    """Return what a row measured, as work of another length."""
    hardware = row.case.hardware
    return Work(
        type=row.case.type,
        framework=row.case.framework,
        workload=row.case.workload.model_copy(update={"units": units}),
        microarchitecture=hardware.microarchitecture,
        cpu_model=hardware.cpu_model,
        bf16=hardware.bf16,
        cores=hardware.cores,
        accelerator=hardware.accelerator,
        accelerators=hardware.accelerators,
        nodes=row.case.configuration.nodes,
        ranks=row.case.configuration.ranks,
    )


def location_of_row(row: Row, catalogue: Catalogue) -> Location:
    """Return where a row was measured, of which only what a model asks for is known."""
    configuration = row.case.configuration
    return Location(
        type=row.case.type,
        framework=configuration.framework or row.case.framework,
        node=Node(),
        glibc=None,
        libraries=[],
        packages={},
        gpus=row.case.hardware.accelerators,
        python=None,
        runtime=configuration.runtime,
        image=catalogue.images.get(configuration.image or ""),
        engine=None if configuration.framework in (None, row.case.framework) else configuration.framework,
    )


def _judged(workload: str, units: int, cases: Sequence[_Case]) -> Held:
    timed = [(prediction, case.measured[option]) for case in cases for option, prediction in case.timed.items()]
    gains = [
        (prediction, case.measured[case.default] / case.measured[option])
        for case in cases
        if case.default is not None
        for option, prediction in case.decision.predictions.items()
        if prediction.gain is not None
    ]
    compared = [case for case in cases if case.default is not None and len(case.measured) > 1]

    def regret(choose: Callable[[_Case], Option | None]) -> float | None:
        """Return the mean over settings; None where there was nothing to choose."""
        return _mean([case.regret(option) for case in compared if (option := choose(case)) is not None])

    return Held(
        workload=workload,
        units=units,
        records=sum(len(case.measured) for case in cases),
        predicted=len(timed),
        error=_mean([abs((prediction.seconds or 0.0) / seconds - 1) for prediction, seconds in timed]),
        coverage=_mean([float((f.low or 0.0) <= seconds <= (f.high or 0.0)) for f, seconds in timed]),
        coverage_gain=_mean([float(f.gain.low <= ratio <= f.gain.high) for f, ratio in gains if f.gain is not None]),
        regret=regret(lambda case: case.decision.chosen),
        regret_model=regret(lambda case: case.least),
        regret_default=regret(lambda case: case.default),
    )


def _mean(values: Sequence[float]) -> float | None:
    return statistics.fmean(values) if values else None
