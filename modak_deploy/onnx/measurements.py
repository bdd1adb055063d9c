"""What was timed while models were converted, as measurements: a Plan for such a model decides by them."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from modak_deploy import __version__
from modak_deploy.model.application import Workload
from modak_deploy.model.measurement import Configuration, Measurement, Provenance, Run
from modak_deploy.onnx.assemble import Converted, timing

METHOD = (
    "Single calls, all engines in every round one after the other, after one call that was not counted; the start is "
    "the time to load the model."
)


def records(models: Sequence[Converted]) -> Iterator[Measurement]:
    """Yield a measurement for each model, engine and batch size that was timed.

    All of a model have the versions of all its engines, so that they are one table, in which engines are compared.
    """
    for model in models:
        entries = (*model.outcome.timings, *model.timings)
        software = {name: version for entry in entries for name, version in timing(entry, model).software.items()}
        for entry in entries:
            timed = timing(entry, model)
            framework = model.request.framework
            yield Measurement(
                type="ai_inference",
                framework=framework,
                workload=Workload(
                    model=model.request.name, unit="call", units=1, samples=timed.batch, batch=timed.batch
                ),
                software=software,
                hardware=timed.hardware,
                configuration=Configuration(
                    framework=timed.engine if timed.engine != framework else None, threads=timed.threads
                ),
                runs=[_run(seconds, float(entry.get("loading", 0.0))) for seconds in entry["seconds"]],
                provenance=Provenance(
                    source=f"modak convert {__version__}", date=datetime.now(UTC).date().isoformat(), method=METHOD
                ),
            )


def _run(seconds: float, loading: float) -> Run:
    """Return one call as a run by phases, which scales to any number of calls: nothing is slow in the first one."""
    return Run(total=loading + 2 * seconds * (1 + 1e-12) + 1e-9, first=seconds, later=[seconds])


def add_to_store(models: Sequence[Converted]) -> tuple[int, str]:
    """Add what was timed to the user's measurements; return how many were new, and the store's name."""
    from modak_deploy.performance.paths import store_in_use
    from modak_deploy.performance.store import Store

    store = Store(store_in_use())
    try:
        return store.add(records(models))[0], store.name
    finally:
        store.close()
