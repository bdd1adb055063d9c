"""The rows that a store keeps of a record, beside its document: by these it is found, and SQL can ask for times."""

from collections.abc import Iterator

from modak_deploy.model.measurement import Measurement, Ratio


def columns_of(record: Measurement | Ratio, digest: str, line: str, now: str) -> dict[str, object]:
    """Return the row of a record, whose document is ``line``."""
    hardware, configuration = record.hardware, record.configuration
    return {
        "digest": digest,
        "kind": record.schema_,
        "workload": record.workload.model,
        "type": record.type,
        "framework": configuration.framework or record.framework,
        "dataset": record.workload.dataset,
        "microarchitecture": hardware.microarchitecture,
        "cpu_model": hardware.cpu_model,
        "cores": hardware.cores,
        "accelerator": hardware.accelerator,
        "runtime": configuration.runtime,
        "image": configuration.image,
        "compiler": configuration.compiler,
        "levers": "+".join(configuration.levers),
        "nodes": configuration.nodes,
        "ranks": configuration.ranks,
        "threads": configuration.threads,
        "source": record.provenance.source,
        "date": record.provenance.date,
        "added": now,
        "document": line.rstrip("\n"),
    }


def values_of(record: Measurement | Ratio, key: int) -> Iterator[dict[str, object]]:
    """Yield the rows of its times, for the record whose row is ``key``."""
    for number, run in enumerate(record.runs if isinstance(record, Measurement) else []):
        phases = [("total", 0, run.total), ("start", 0, run.start), ("first", 0, run.first)]
        phases += [("later", position, seconds) for position, seconds in enumerate(run.later)]
        for phase, position, seconds in phases:
            if seconds is not None:
                yield {
                    "measurement": key,
                    "run": number,
                    "phase": phase,
                    "number": position,
                    "seconds": seconds,
                    "load": run.load,
                    "time": run.time,
                }
