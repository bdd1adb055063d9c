"""Measure workloads under sets of levers and write the records: measure.py [options] TABLE.yaml OUTPUT.jsonl.

In each round every set runs once on every workload, in random order, as a whole process, so that a neighbour's load
falls on all of them alike. One run before the first round fills the page cache and is not kept. What a lever sets is
read from the catalogue. The scripts take --output FILE and write first_epoch_seconds and later_epoch_seconds there.

With --clock cpu each process is held on one core and its processor time is taken, which is what it would take on an
otherwise idle core: for machines that are never idle. The scripts then take --clock cpu, too.
"""

import argparse
import json
import os
import platform
import random
import resource
import subprocess
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml
from archspec.cpu import host

from modak_deploy.catalogue.catalogue import Catalogue, load_catalogue
from modak_deploy.model.application import Workload
from modak_deploy.model.measurement import Configuration, Hardware, Measurement, Provenance, Run
from modak_deploy.performance.records import to_line

TOP = Path(__file__).resolve().parent.parent
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
    parser.add_argument("table", type=Path, help="workloads and lever sets, such as benchmarks/digits.yaml")
    parser.add_argument("output", type=Path, help="records are written here after each run")
    parser.add_argument("--python", default="python3", help="Python with Keras and its backends")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--clock", choices=("wall", "cpu"), default="wall")
    parser.add_argument("--seed", type=int, default=1, help="of the order")
    return parser.parse_args()


def run_once(
    args: argparse.Namespace, job: dict[str, Any], levers: list[str], catalogue: Catalogue, folder: Path
) -> Run:
    """Run a workload once and return its phases."""
    environment = {key: os.environ[key] for key in ("PATH", "HOME", "LANG") if key in os.environ}
    cpu = args.clock == "cpu"
    start = ["taskset", "--cpu-list", "0", args.python] if cpu else [args.python]
    for lever in (catalogue.levers[name] for name in levers):
        environment.update(lever.variables())
        if lever.preload:
            environment["LD_PRELOAD"] = lever.preload
        if lever.launcher:
            start.append(str(catalogue.launchers[lever.launcher]))
    metrics = folder / "metrics.json"
    command = [*start, str(TOP / job["script"]), *job["arguments"], "--output", str(metrics)]
    command += ["--clock", "cpu"] if cpu else []
    load, when, begin = os.getloadavg()[0], time.time(), clock(cpu)
    subprocess.run(command, env=environment, check=True, capture_output=True)
    total = clock(cpu) - begin
    told = json.loads(metrics.read_text())
    return Run(
        total=round(total, 4),
        first=told["first_epoch_seconds"],
        later=told["later_epoch_seconds"],
        load=round(load, 2),
        time=int(when),
        accuracy=told.get("accuracy"),
    )


def clock(cpu: bool) -> float:
    """Return the seconds of the wall clock, or the processor seconds of all children that have ended."""
    if not cpu:
        return time.perf_counter()
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def hardware(cores: int | None) -> Hardware:
    """Return this machine, the processor named as lscpu names it."""
    environment = {**os.environ, "LC_ALL": "C"}
    text = subprocess.run(["lscpu"], env=environment, capture_output=True, text=True, check=True).stdout
    model = next(line.partition(":")[2].strip() for line in text.splitlines() if line.startswith("Model name:"))
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return Hardware(microarchitecture=host().name, cpu_model=model, cores=cores, memory=memory)


Runs = dict[tuple[int, int], list[Run]]
"""By the numbers of workload and lever set."""


def measure(args: argparse.Namespace, table: dict[str, Any]) -> Iterator[Runs]:
    """Yield all runs so far after each one."""
    catalogue = load_catalogue()
    jobs, sets = table["workloads"], table["sets"]
    shuffle = random.Random(args.seed)  # noqa: S311 - an order, not a secret
    pairs = [(job, levers) for job in range(len(jobs)) for levers in range(len(sets))]
    runs: Runs = {pair: [] for pair in pairs}
    with tempfile.TemporaryDirectory() as name:
        run_once(args, jobs[0], sets[0], catalogue, Path(name))
        for block in range(args.rounds):
            for job, levers in shuffle.sample(pairs, len(pairs)):
                run = run_once(args, jobs[job], sets[levers], catalogue, Path(name))
                runs[job, levers].append(run.model_copy(update={"block": block}))
                what = f"{jobs[job]['workload']['model']} {'+'.join(sets[levers])}"
                print(f"round {block + 1}/{args.rounds}  {run.total:8.2f} s  {what}", flush=True)
                yield runs


def records(
    args: argparse.Namespace, table: dict[str, Any], runs: Runs, software: dict[str, str]
) -> Iterator[Measurement]:
    """Yield the records of what has run."""
    cpu = args.clock == "cpu"
    machine, today = hardware(1 if cpu else os.cpu_count()), datetime.now(UTC).date().isoformat()
    system = f"{platform.system()} {platform.release().partition('-')[0]}"
    what = "processor time on one core that it was held on, beside other work (see load)" if cpu else "wall time"
    for (job, levers), values in runs.items():
        if not values:
            continue
        method = (
            f"{table['workloads'][job]['script']} as a whole process, {what}; {len(values)} rounds, in each of which "
            f"every configuration ran once in random order, on {system}."
        )
        yield Measurement(
            type="ai_training",
            framework="keras",
            workload=Workload.model_validate(table["workloads"][job]["workload"]),
            software=software,
            hardware=machine,
            configuration=Configuration(levers=table["sets"][levers]),
            runs=values,
            provenance=Provenance(source=f"benchmarks/measure.py {args.table.name}", date=today, method=method),
        )


def main() -> None:
    args = parse_arguments()
    table = yaml.safe_load(args.table.read_text())
    ask = [args.python, "-c", ASK_VERSIONS, json.dumps(PACKAGES)]
    software = json.loads(subprocess.run(ask, capture_output=True, text=True, check=True).stdout)
    for runs in measure(args, table):
        lines = sorted(to_line(record) for record in records(args, table, runs, software))
        args.output.write_text("".join(lines))


if __name__ == "__main__":
    main()
