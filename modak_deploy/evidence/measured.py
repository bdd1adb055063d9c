"""The report on a store of measurements."""

from collections.abc import Iterator, Sequence

from modak_deploy.catalogue.catalogue import load_catalogue
from modak_deploy.errors import InputError
from modak_deploy.evidence import values
from modak_deploy.evidence.comparing import Comparison, comparisons, name_of
from modak_deploy.evidence.marks import Mark
from modak_deploy.evidence.view import Figure, Report, Row, Section, Table, Value
from modak_deploy.evidence.view import Intervals as IntervalTable
from modak_deploy.evidence.workloads import comparison_values, scaling_sections, workload_section
from modak_deploy.model.measurement import Measurement, Ratio
from modak_deploy.performance.paths import model_folder
from modak_deploy.performance.records import load_measurements
from modak_deploy.performance.timemodel import read_description
from modak_deploy.util.text import plural


def measured_report(store: str | None, *, workload: str | None, shipped: bool, notes: Sequence[str]) -> Report:
    """Return the report on a store, on what modak ships, or on one workload of either."""
    records, name = _records(store, shipped=shipped)
    if workload is not None:
        records = [record for record in records if record.workload.model == workload]
    if not records:
        what = f"of the workload '{workload}' " if workload else ""
        raise InputError(f"nothing was measured {what}in {name}; 'modak measurements list' shows what was")
    catalogue = load_catalogue()
    comparable = [comparison for comparison in comparisons(records, catalogue) if comparison.others]
    sections: list[Section] = []
    numbers: list[Value] = []
    for section, more in _regret(comparable):
        sections.append(section)
        numbers += more
    if workload is None:
        sections += list(_held_out())
    sections += [workload_section(comparison) for comparison in comparable]
    numbers += [value for comparison in comparable for value in comparison_values(comparison)]
    for section, more in scaling_sections(records):
        sections.append(section)
        numbers += more
    sections += list(_published(records))
    if not sections:
        raise InputError(f"{name}: nothing there can be compared: each workload was measured in one way only")
    count = len({record.workload.model for record in records})
    title = f"Measurements of {workload}" if workload else f"Measurements of {plural(count, 'workload')}"
    summary = f"{len(records)} records from {name}; {len(comparable)} groups of configurations can be compared."
    return Report(title, summary, sections, numbers, notes)


def _records(store: str | None, *, shipped: bool) -> tuple[list[Measurement | Ratio], str]:
    if shipped:
        return list(load_measurements().all_records()), "what modak ships"
    from modak_deploy.performance.store import Store

    opened = Store(store, make=False)
    try:
        return list(opened.all_records()), opened.name
    finally:
        opened.close()


def _regret(comparable: Sequence[Comparison]) -> Iterator[tuple[Section, list[Value]]]:
    """Yield what modak's rule chooses where these measurements are known, and what that is worth."""
    rows, numbers, ours, theirs = [], [], [], []
    for comparison in comparable:
        chosen, ratio = comparison.choice()
        ours.append(comparison.best / ratio - 1)
        theirs.append(comparison.best - 1)
        label, name = f"{comparison.title} on {comparison.hardware}", name_of(chosen.configuration)
        rows.append([label, name, values.percent(ours[-1]), values.percent(theirs[-1])])
        numbers += [
            Value(label, name, "regret of the choice", ours[-1], basis="measurement"),
            Value(label, name_of(comparison.baseline.configuration), "regret of the baseline", theirs[-1]),
        ]
    if len(rows) < 2:
        return
    mean_ours, mean_theirs = sum(ours) / len(ours), sum(theirs) / len(theirs)
    heads = ["Workload", "Choice", "Regret of the choice", "Regret of the baseline"]
    summary = "The fastest whose gain is certain, else the baseline, as modak chooses when all this is known."
    yield (
        Section(
            "Regret",
            f"With these measurements known, modak's choice takes {values.percent(mean_ours)} longer than the fastest "
            f"on average, and the baseline {values.percent(mean_theirs)}.",
            [
                Figure("Regret of the choice", values.percent(mean_ours), "mean over workloads",
                       "good" if mean_ours < mean_theirs else ""),
                Figure("Regret of the baseline", values.percent(mean_theirs), "mean over workloads"),
                Figure("Worst choice", values.percent(max(ours)), "longer than the fastest"),
            ],
            [Table("Each workload", summary, heads, rows)],
        ),
        numbers,
    )  # fmt: skip


def _held_out() -> Iterator[Section]:
    """Yield how the fitted model predicts and decides on workloads that it does not know."""
    try:
        description = read_description(model_folder())
    except InputError:
        return
    held = description.held
    if not held:
        return
    then = f" There were {description.held_with} measurements then."
    since = then if description.held_with != description.measurements else ""
    rows = [
        [f"{entry.workload}, {entry.units} units", _share(entry.error), _share(entry.coverage), _share(entry.regret),
         _share(entry.regret_default)]
        for entry in held
    ]  # fmt: skip
    heads = ["Workload", "Mean error", "Inside the interval", "Regret of the choice", "Regret of the default"]
    ours = [entry.regret for entry in held if entry.regret is not None]
    text = f"its choice takes {values.percent(sum(ours) / len(ours))} longer than the fastest" if ours else "see below"
    yield Section(
        "Workloads that the model does not know",
        f"Each workload was left out of everything once; on average {text}.",
        (),
        [Table("Held out", f"'modak model evaluate' repeats this.{since}", heads, rows)],
    )


def _share(value: float | None) -> str:
    return "-" if value is None else values.percent(value)


def _published(records: Sequence[Measurement | Ratio]) -> Iterator[Section]:
    """Yield the ratios that publications give without seconds."""
    ratios = [record for record in records if isinstance(record, Ratio)]
    if not ratios:
        return
    rows = [
        Row(
            f"{ratio.workload.model}: {name_of(ratio.configuration)}",
            values.times((ratio.low * ratio.high) ** 0.5),
            values.between(ratio.low, ratio.high),
            f"over {name_of(ratio.baseline)}; {ratio.provenance.source[:120]}",
            Mark((ratio.low * ratio.high) ** 0.5, ratio.low, ratio.high),
        )
        for ratio in ratios
    ]
    yield Section(
        "Published ratios",
        f"{len(ratios)} comparisons that publications give in words; the intervals are the readings they allow.",
        (),
        [IntervalTable("Ratios", "Time of the baseline over time of the configuration.",
                       ("Configuration", "Gain", "Readings", "Source"), rows, reference=1.0, logarithmic=True)],
    )  # fmt: skip
