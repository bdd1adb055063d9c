"""What the launcher saw of the running model, in place of what a document could say of its workload.

A document names its workload; operations, weights, layers and batch are read from the model while it runs. They go
into the measurement, so that a time model can be fitted to jobs whose documents say nothing, and from measurements of
the same workload into the next prediction.
"""

from collections.abc import Iterable, Mapping
from typing import Any, get_args

from pydantic import ValidationError

from modak_deploy.model.application import Workload
from modak_deploy.model.job import Counted, JobResult
from modak_deploy.model.measurement import Measurement, Mix, Operator
from modak_deploy.performance.matching import Work
from modak_deploy.performance.series import Observation, record_in

MODEL = ("parameters", "layers", "flops_per_sample", "bytes_per_sample")
"""Keys of a workload that are properties of its model alone."""
UNIT = ("batch", "samples")
"""Keys that depend on what a unit is."""
_LARGEST: Mapping[str, float] = {
    "parameters": 1e15,
    "layers": 1e6,
    "flops_per_sample": 1e18,
    "bytes_per_sample": 1e18,
    "batch": 1e9,
    "ranks": 1e6,
}
"""Beyond which a value is none of a real model; the least is 1."""
_DIGITS = 2
"""Of operations and bytes: jobs whose sequences differ a little still do the same work."""
_SHARES = 0.01
"""By which the shares of operations may miss their sum of 1."""


def workload_of(job: JobResult, type_: str, workload: Workload) -> tuple[Workload, Mix | None]:
    """Return the workload with what was seen of it where the document says nothing, and its mix of operations.

    ``type_`` is the application's. What a target reports is not trusted: values that are impossible count as not seen.
    """
    counted = _main(job, type_)
    if counted is None:
        return workload, None
    features = counted.features
    seen = {name: number for name in (*MODEL, "batch") if (number := _number(features, name)) is not None}
    if "batch" in seen:  # of several ranks, each has a batch of its own
        seen["batch"] *= round(_number(features, "ranks") or 1)
    update = {name: number for name, number in seen.items() if getattr(workload, name) is None}
    batch = update.get("batch", workload.batch)
    if batch is not None and workload.samples is None and counted.units:
        update["samples"] = max(1, round(batch * counted.units / workload.units))
    try:
        complete = Workload.model_validate({**workload.model_dump(exclude_none=True), **update})
    except ValidationError:
        return workload, None
    return complete, _mix(features)


def _main(job: JobResult, type_: str) -> Counted | None:
    """Return the counter that tells most: in a training, calls for evaluation count only where nothing else does."""
    counters = [counter for counter in (job.tuning.counted if job.tuning is not None else ()) if counter.features]
    training = (
        [counter for counter in counters if not counter.name.startswith("inference: ")]
        if type_ == "ai_training"
        else []
    )
    return max(training or counters, key=lambda counter: counter.seconds, default=None)


def _number(features: Mapping[str, object], name: str) -> float | int | None:
    value = features.get(name)
    if not isinstance(value, int | float) or isinstance(value, bool) or not 1 <= value <= _LARGEST[name]:
        return None
    if name in ("flops_per_sample", "bytes_per_sample"):
        return float(f"{value:.{_DIGITS}g}")
    return value


def _mix(features: Mapping[str, object]) -> Mix | None:
    shares: dict[Operator, float] = {}
    for name in get_args(Operator):
        value = features.get(f"mix_{name}")
        if isinstance(value, int | float) and 0 < value <= 1:
            shares[name] = float(value)
    return shares if shares and abs(sum(shares.values()) - 1) < _SHARES else None


def completed(work: Work, records: Iterable[Observation]) -> tuple[Workload, Mix | None]:
    """Return the workload of ``work`` with what measurements of it saw of its model; see ``complete``."""
    of_jobs = [record for record in map(record_in, records) if isinstance(record, Measurement)]
    return complete(work.type, work.framework, work.workload, of_jobs)


def complete(
    type_: str, framework: str | None, ours: Workload, records: Iterable[Measurement]
) -> tuple[Workload, Mix | None]:
    """Return the workload with what measurements of it saw of its model, and its mix of operations; the latest counts.

    Measurements of another kind of application say nothing: a training does other operations than inference. The batch
    and the samples of a unit are those of records that count the same unit of the same data.
    """
    same = [record for record in records if (record.type, record.framework) == (type_, framework)]
    latest = sorted(same, key=lambda record: record.provenance.date, reverse=True)
    alike = [record for record in latest if _counts_alike(record.workload, ours)]
    update: dict[str, Any] = {}
    for name in (*MODEL, *UNIT):
        values = (getattr(record.workload, name) for record in (alike if name in UNIT else latest))
        latest_value = next((value for value in values if value is not None), None)
        if getattr(ours, name) is None and latest_value is not None:
            update[name] = latest_value
    mix = next((record.mix for record in latest if record.mix is not None), None)
    return ours.model_copy(update=update), mix


def _counts_alike(theirs: Workload, ours: Workload) -> bool:
    other_batch = None not in (theirs.batch, ours.batch) and theirs.batch != ours.batch
    return (theirs.unit, theirs.dataset) == (ours.unit, ours.dataset) and not other_batch
