"""Measure how long a decision takes: decision_speed.py [--images N ...] [--measurements N ...] [--rounds N].

Printed are medians in milliseconds, of wall time and of this process's processor time, which other work on the machine
disturbs less: of a warm decision (catalogue and measurements in memory, or measurements in a
SQLite store) as the catalogue and the measurements grow, and of `modak plan` as a whole process.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from modak_deploy.catalogue.catalogue import Catalogue, load_catalogue
from modak_deploy.model.deployment import Deployment
from modak_deploy.model.image import ImageEntry
from modak_deploy.model.measurement import Measurement
from modak_deploy.model.target import Facts
from modak_deploy.optimiser import make_plan
from modak_deploy.performance.records import Measurements, Table, Together, load_measurements, to_line
from modak_deploy.performance.sqlitefile import SqliteFile
from modak_deploy.performance.store import Store

TOP = Path(__file__).resolve().parent.parent
MOST_IN_MEMORY = 1_000
"""Records of one workload beyond which only a store is of use."""
NOW = datetime(2026, 1, 1, tzinfo=UTC)
NODE = {"cores": 10, "memory": "125G", "microarchitecture": "broadwell", "cpu_model": "Intel(R) Xeon(R) CPU E5-2630 v4"}
DEPLOYMENT = Deployment.model_validate(
    {
        "application": {
            "name": "mnist",
            "script": "mnist.py",
            "framework": {"name": "tensorflow", "version": "2.1"},
            "workload": {"model": "mnist-cnn", "dataset": "mnist", "units": 12, "samples": 60000, "batch": 128},
        },
        "target": {"name": "here"},
    }
)
FACTS = Facts.model_validate({"hostname": "here", "runtimes": {"singularity": "3.4.1"}, "node": NODE})
MEASURED = Deployment.model_validate(
    {
        "application": {
            "name": "digits",
            "script": "train.py",
            "framework": {"name": "keras"},
            "workload": {"model": "mnist-cnn", "dataset": "uci-digits", "units": 12, "samples": 1437, "batch": 128},
        },
        "target": {"name": "here"},
        "request": {"numerics": "relaxed"},
    }
)
"""A job of which every configuration was measured, on the machine of the shipped measurements."""
THERE = Facts.model_validate(
    {
        "hostname": "here",
        "glibc": "2.36",
        "python": "/usr/bin/python3",
        "packages": {"keras": "3.15.1", "tensorflow-cpu": "2.21.0", "jax": "0.10.2"},
        "node": {
            "cores": 2,
            "cpu_model": "AMD EPYC",
            "microarchitecture": "x86_64_v4",
            "cpu_features": ["avx512_bf16"],
        },
    }
)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--images", type=int, nargs="*", default=[10, 1_000, 100_000])
    parser.add_argument("--measurements", type=int, nargs="*", default=[100, 10_000, 100_000])
    parser.add_argument("--jobs", type=int, nargs="*", default=[0, 1_000, 100_000], help="records of the very workload")
    parser.add_argument("--rounds", type=int, default=51)
    parser.add_argument("--processes", type=int, default=11, help="whole processes; 0 for none")
    return parser.parse_args()


def catalogue_of(count: int) -> Catalogue:
    """Return the shipped catalogue with ``count`` images in all, the further ones of many frameworks and versions."""
    shipped = load_catalogue()
    catalogue = Catalogue(shipped.sources)
    images = dict(list(shipped.images.items())[:count]) if count < len(shipped.images) else dict(shipped.images)
    frameworks = ("tensorflow", "pytorch", "jax", "mxnet", "onnxruntime")
    sources = ("hub", "pip", "opt-build")
    for number in range(len(images), count):
        images[f"image-{number}"] = ImageEntry(
            name=f"image-{number}",
            source=sources[number % 3],
            framework=frameworks[number % 5],
            version=f"{1 + number % 3}.{number % 30}.{number % 7}",
            reference=f"docker://example.org/image:{number}",
            base="ubuntu18.04-cpu",
            microarchitecture=("x86_64_v2", "broadwell", "zen3", "skylake_avx512")[number % 4],
        )
    vars(catalogue)["images"] = images
    return catalogue


def measurements_of(count: int) -> list[Measurement]:
    """Return ``count`` measurements like the shipped ones, of as many workloads as that takes at a hundred each."""
    records = [record for record in load_measurements().all_records() if isinstance(record, Measurement)]
    found = []
    for number in range(count):
        record = records[number % len(records)]
        workload = record.workload.model_copy(update={"model": f"workload-{number // 100}", "batch": 1 + number % 100})
        found.append(record.model_copy(update={"workload": workload}))
    return found


def jobs_of(count: int) -> list[Measurement]:
    """Return what ``count`` deployed jobs of the measured workload would have recorded."""
    shipped = load_measurements().of_workload("mnist-cnn")
    records = [record for record in shipped if isinstance(record, Measurement) and record.framework == "keras"]
    found = []
    for number in range(count):
        record = records[number % len(records)]
        provenance = record.provenance.model_copy(update={"source": f"job {number} of digits on here"})
        run = record.runs[number % len(record.runs)].model_copy(update={"block": None, "time": 1_700_000_000 + number})
        found.append(record.model_copy(update={"provenance": provenance, "runs": [run]}))
    return found


def median(function: Callable[[], object], rounds: int) -> tuple[float, float]:
    """Return the median milliseconds of ``function``, wall and processor, after one call that does not count."""
    function()
    wall, processor = [], []
    for _ in range(rounds):
        begin, used = time.perf_counter(), time.process_time()
        function()
        wall.append(time.perf_counter() - begin)
        processor.append(time.process_time() - used)
    return statistics.median(wall) * 1000, statistics.median(processor) * 1000


def decide(catalogue: Catalogue, measurements: Measurements) -> object:
    """Make the Plan."""
    return make_plan(DEPLOYMENT, FACTS, [], now=NOW, catalogue=catalogue, measurements=measurements)


def report(what: str, milliseconds: tuple[float, float], *, child: bool = False) -> None:
    """Print one line; the processor time is that of this process, and says nothing of a ``child``."""
    wall, processor = milliseconds
    own = "" if child else f"{processor:9.2f} ms of processor time"
    print(f"{what:<38} {wall:9.2f} ms {own}".rstrip(), flush=True)


def main() -> None:
    args = parse_arguments()
    shipped = load_measurements()
    for count in args.images:
        catalogue = catalogue_of(count)
        report(f"{count} images", median(partial(decide, catalogue, shipped), args.rounds))
    catalogue = load_catalogue()
    for count in args.measurements:
        records = [*shipped.all_records(), *measurements_of(count)]
        table = Table(records)
        report(f"{count} measurements", median(partial(decide, catalogue, table), args.rounds))
        with tempfile.TemporaryDirectory() as folder:
            store = Store(f"sqlite:///{folder}/store.sqlite")
            store.add(records)
            report(f"{count} measurements in SQLite", median(partial(decide, catalogue, store), args.rounds))
            store.close()
    for count in args.jobs:
        records = jobs_of(count)
        job = partial(make_plan, MEASURED, THERE, [], now=NOW, catalogue=catalogue)
        if count <= MOST_IN_MEMORY:
            table = Table([*shipped.all_records(), *records])
            report(f"a measured job, {count} records more", median(partial(job, measurements=table), args.rounds))
        with tempfile.TemporaryDirectory() as folder:
            address = f"sqlite:///{folder}/store.sqlite"
            store = Store(address)
            for start in range(0, count, 10_000):
                store.add(records[start : start + 10_000])
            store.close()
            both = Together([shipped, SqliteFile(address)])
            report(f"the same, {count} records in SQLite", median(partial(job, measurements=both), args.rounds))
    if args.processes:
        whole_processes(args.processes)


def whole_processes(rounds: int) -> None:
    """Report `modak plan` as a user meets it: at first, with measurements of one's own, and with a fitted model."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "XDG_DATA_HOME": folder, "MODAK_MEASUREMENTS": ""}
        modak = partial(subprocess.run, check=True, capture_output=True, cwd=TOP, env=environment)
        words = [sys.executable, "-m", "modak_deploy.cli"]
        plan = partial(modak, [*words, "plan", str(TOP / "examples" / "digits" / "deploy.yml"), "--json"])
        report("modak plan, a whole process", median(plan, rounds), child=True)
        (Path(folder) / "own.jsonl").write_text("".join(to_line(record) for record in measurements_of(100)))
        modak([*words, "measurements", "import", f"{folder}/own.jsonl"])
        report("the same with 100 records of one's own", median(plan, rounds), child=True)
        modak([*words, "model", "fit"])
        report("the same with a fitted model, too", median(plan, rounds), child=True)


if __name__ == "__main__":
    main()
