"""What the launcher saw of the running model, in place of what a document could say of its workload.

A document names its workload; operations, weights, layers and batch are read from the model while it runs. They go
into the measurement, so that a time model can be fitted to jobs whose documents say nothing, and from measurements of
the same workload into the next prediction.
"""

from collections.abc import Iterable, Mapping
from typing import Any, get_args

from pydantic import ValidationError

from modak_deploy.model.application import Workload
from modak_deploy.model.job import JobResult
from modak_deploy.model.measurement import Measurement, Mix, Operator, Ratio
from modak_deploy.performance.series import Observation, record_in

MODEL = ("parameters", "layers", "flops_per_sample", "bytes_per_sample")
"""Keys of a workload that are properties of its model alone."""
_LARGEST = 1e30
_SHARES = 0.01
"""By which the shares of operations may miss their sum of 1."""


def workload_of(job: JobResult, workload: Workload) -> tuple[Workload, Mix | None]:
    """Return the workload with what was seen of it where the document says nothing, and its mix of operations.

    What a target reports is not trusted: values that are impossible count as not seen.
    """
    counted = max(job.tuning.counted if job.tuning is not None else (), key=lambda one: one.seconds, default=None)
    if counted is None or not counted.features:
        return workload, None
    features = counted.features
    update: dict[str, Any] = {
        name: features[name]
        for name in (*MODEL, "batch")
        if getattr(workload, name) is None and _is_positive(features.get(name))
    }
    batch = update.get("batch", workload.batch)
    if batch is not None and workload.samples is None and counted.units:
        update["samples"] = max(1, round(batch * counted.units / workload.units))
    try:
        seen = Workload.model_validate({**workload.model_dump(exclude_none=True), **update})
    except ValidationError:
        return workload, None
    return seen, _mix(features)


def _is_positive(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < _LARGEST


def _mix(features: Mapping[str, object]) -> Mix | None:
    shares: dict[Operator, float] = {}
    for name in get_args(Operator):
        value = features.get(f"mix_{name}")
        if isinstance(value, int | float) and 0 < value <= 1:
            shares[name] = float(value)
    return shares if shares and abs(sum(shares.values()) - 1) < _SHARES else None


def completed(workload: Workload, records: Iterable[Observation | Ratio]) -> tuple[Workload, Mix | None]:
    """Return the workload with what measurements of it saw of its model, and its mix of operations; the latest counts.

    A record of another batch tells of the same model: each figure is that of one sample.
    """
    of_jobs = [record for record in map(record_in, records) if isinstance(record, Measurement)]
    latest = sorted(of_jobs, key=lambda record: record.provenance.date, reverse=True)
    update = {}
    for name in MODEL:
        values = (getattr(record.workload, name) for record in latest)
        known = next((value for value in values if value is not None), None)
        if getattr(workload, name) is None and known is not None:
            update[name] = known
    mix = next((record.mix for record in latest if record.mix is not None), None)
    return workload.model_copy(update=update), mix
