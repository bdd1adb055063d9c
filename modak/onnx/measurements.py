"""What was timed while models were converted, as measurements: a Plan for such a model decides by them."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from modak import __version__
from modak.model.application import Workload
from modak.model.measurement import Configuration, Measurement, Provenance, Run
from modak.onnx.assemble import Converted, timing

METHOD = "Single calls, all engines in every round one after the other, after one call that was not counted."


def records(models: Sequence[Converted]) -> Iterator[Measurement]:
    """Yield a measurement for each model, engine and batch size that was timed."""
    for model in models:
        for entry in (*model.outcome.timings, *model.timings):
            timed = timing(entry, model)
            framework = model.request.framework
            yield Measurement(
                type="ai_inference",
                framework=framework,
                workload=Workload(
                    model=model.request.name, unit="call", units=1, samples=timed.batch, batch=timed.batch
                ),
                software=timed.software,
                hardware=timed.hardware,
                configuration=Configuration(
                    framework=timed.engine if timed.engine != framework else None, threads=timed.threads
                ),
                runs=[Run(later=entry["seconds"])],
                provenance=Provenance(
                    source=f"modak convert {__version__}", date=datetime.now(UTC).date().isoformat(), method=METHOD
                ),
            )


def add_to_store(models: Sequence[Converted]) -> tuple[int, str]:
    """Add what was timed to the user's measurements; return how many were new, and the store's name."""
    from modak.performance.store import Store

    store = Store()
    try:
        return store.add(records(models))[0], store.name
    finally:
        store.close()
