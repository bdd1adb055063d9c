"""Measure the digits job under sets of levers and write the records: digits_table.py [options] OUTPUT.jsonl.

In each round every set runs once, in random order, as a whole process, so that a neighbour's load falls on all of
them alike. One run before the first round fills the page cache and is not kept. What a lever sets is read from the
catalogue.
"""

import argparse
import json
import os
import platform
import random
import subprocess
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

import yaml
from archspec.cpu import host

from modak.catalogue.catalogue import Catalogue, load_catalogue
from modak.model.application import Workload
from modak.model.measurement import Configuration, Hardware, Measurement, Provenance, Run
from modak.performance.records import to_line

TOP = Path(__file__).resolve().parent.parent
SCRIPT = TOP / "examples" / "digits" / "train.py"
PACKAGES = {
    "keras": "keras",
    "tensorflow": "tensorflow-cpu",
    "jax": "jax",
    "jaxlib": "jaxlib",
    "torch": "torch",
    "numpy": "numpy",
    "scikit-learn": "scikit-learn",
}
"""Distribution by the name that the catalogue's conditions use."""
ASK_VERSIONS = """
import importlib.metadata as m, json, platform, sys
found = {"python": platform.python_version(), "glibc": platform.libc_ver()[1]}
for name, distribution in json.loads(sys.argv[1]).items():
    try:
        found[name] = m.version(distribution)
    except m.PackageNotFoundError:
        pass
print(json.dumps(found))
"""


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("output", type=Path, help="records are written here when all rounds are done")
    parser.add_argument("--python", default="python3", help="Python with Keras and its backends")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--seed", type=int, default=1, help="of the order")
    parser.add_argument("--sets", type=Path, default=TOP / "benchmarks" / "digits_sets.yaml")
    return parser.parse_args()


def run_once(python: str, levers: list[str], catalogue: Catalogue, epochs: int, folder: Path) -> tuple[Run, dict]:
    """Run the job once and return its phases and its own metrics."""
    environment = {key: os.environ[key] for key in ("PATH", "HOME", "LANG") if key in os.environ}
    start = [python]
    for lever in (catalogue.levers[name] for name in levers):
        environment.update(lever.variables())
        if lever.preload:
            environment["LD_PRELOAD"] = lever.preload
        if lever.launcher:
            start.append(str(catalogue.launchers[lever.launcher]))
    metrics = folder / "metrics.json"
    command = [*start, str(SCRIPT), "--epochs", str(epochs), "--output", str(metrics)]
    load, when, begin = os.getloadavg()[0], time.time(), time.perf_counter()
    subprocess.run(command, env=environment, check=True, capture_output=True)
    total = time.perf_counter() - begin
    told = json.loads(metrics.read_text())
    run = Run(
        total=round(total, 4),
        first=told["first_epoch_seconds"],
        later=told["later_epoch_seconds"],
        load=round(load, 2),
        time=int(when),
        accuracy=told["accuracy"],
    )
    return run, told


def hardware() -> Hardware:
    """Return this machine, the processor named as lscpu names it."""
    text = subprocess.run(
        ["lscpu"], env={"LC_ALL": "C", **os.environ}, capture_output=True, text=True, check=True
    ).stdout
    model = next(line.partition(":")[2].strip() for line in text.splitlines() if line.startswith("Model name:"))
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return Hardware(microarchitecture=host().name, cpu_model=model, cores=os.cpu_count(), memory=memory)


def main() -> None:
    args = parse_arguments()
    catalogue = load_catalogue()
    sets = yaml.safe_load(args.sets.read_text())
    shuffle = random.Random(args.seed)  # noqa: S311 - an order, not a secret
    runs: dict[tuple[str, ...], list[Run]] = {tuple(levers): [] for levers in sets}
    with tempfile.TemporaryDirectory() as name:
        _, told = run_once(args.python, sets[0], catalogue, 1, Path(name))
        for block in range(args.rounds):
            for levers in shuffle.sample(sets, len(sets)):
                run, told = run_once(args.python, levers, catalogue, args.epochs, Path(name))
                runs[tuple(levers)].append(run.model_copy(update={"block": block}))
                print(f"round {block + 1}/{args.rounds}  {run.total:8.2f} s  {'+'.join(levers)}", flush=True)
    ask = [args.python, "-c", ASK_VERSIONS, json.dumps(PACKAGES)]
    software = json.loads(subprocess.run(ask, capture_output=True, text=True, check=True).stdout)
    workload = Workload(
        model="mnist-cnn",
        dataset="uci-digits",
        units=args.epochs,
        samples=told["train_images"],
        batch=128,
        parameters=told["parameters"],
    )
    provenance = Provenance(
        source="benchmarks/digits_table.py",
        date=datetime.now(UTC).date().isoformat(),
        method=f"examples/digits/train.py with {args.epochs} epochs as a whole process, wall time; {args.rounds} "
        "rounds, in each of which every configuration ran once in random order, "
        f"on {platform.system()} {platform.release()}.",
    )
    records = [
        Measurement(
            type="ai_training",
            framework="keras",
            workload=workload,
            software=software,
            hardware=hardware(),
            configuration=Configuration(levers=list(levers)),
            runs=values,
            provenance=provenance,
        )
        for levers, values in runs.items()
    ]
    args.output.write_text("".join(to_line(record) for record in records))


if __name__ == "__main__":
    main()
