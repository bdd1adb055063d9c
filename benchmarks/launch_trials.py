"""Measure an unchanged program with and without live trials: launch_trials.py [OPTION ...] -- SCRIPT [ARGUMENT ...].

Each round runs the program as it is and under the launcher with exact and with relaxed numerics, one after another. The
table has the whole program's time, start included, its processor time, the steady time of a unit, and what was kept.
With OMP_NUM_THREADS=1 the processor time is what a neighbour's load changes least.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

MODES = ("none", "exact", "relaxed")
NAMES = {"none": "as it is", "exact": "live trials, exact", "relaxed": "live trials, relaxed"}


def once(mode: str, options: argparse.Namespace) -> dict[str, Any]:
    """Run the program once; return its time and what its record says."""
    with tempfile.TemporaryDirectory(prefix="modak-trials-") as folder:
        launcher = [
            sys.executable,
            "-m",
            "modak_deploy.launch",
            "--record",
            f"{folder}/record",
            "--share",
            str(options.share),
        ]
        launcher += ["--trials", "none"] if mode == "none" else ["--numerics", mode]
        launcher += ["--units", str(options.units)] if options.units else []
        environment = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parent.parent)}
        load, start, cpu = os.getloadavg()[0], time.perf_counter(), children_cpu()
        command = [*launcher, "--", sys.executable, *options.command]
        subprocess.run(command, check=True, cwd=folder, env=environment, stdout=subprocess.DEVNULL)
        seconds, cpu = time.perf_counter() - start, children_cpu() - cpu
        entries = [json.loads(line) for file in Path(folder, "record").glob("*.jsonl") for line in file.open()]
    units = [entry for entry in entries if entry.get("unit")]
    settled = [entry for entry in entries if entry["event"] == "settled"]
    trials = [entry for entry in entries if entry["event"] == "trial"]
    kept = [entry["variant"] for entry in trials if entry["kept"]]
    return {
        "mode": mode,
        "seconds": seconds,
        "cpu": cpu,
        "steady": units[0]["steady"] if units else None,
        "kept": settled[-1]["variant"] if settled else kept[-1] if kept else "default",
        "lost": max((entry["lost"] for entry in trials), default=0.0),
        "load": load,
        "trials": trials,
    }


def children_cpu() -> float:
    """Return the processor time of all programs that were run so far."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--units", type=int, help="units of the program, where trials are to know them")
    parser.add_argument("--share", type=float, default=0.03)
    parser.add_argument("--log", type=Path, help="file to which the runs are appended as JSON lines")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    words = [one for one in options.command if one != "--"]
    options.command = [str(Path(one).resolve()) if one.endswith(".py") else one for one in words]
    runs = []
    for _ in range(options.rounds):
        for mode in MODES:
            runs.append(once(mode, options))
            if options.log:
                with options.log.open("a", encoding="utf-8") as log:
                    log.write(json.dumps(runs[-1]) + "\n")
            print(".", end="", flush=True, file=sys.stderr)
    print(f"\n{'':22} {'total s':>16} {'processor s':>16} {'steady s':>9} {'load':>12}  kept")
    for mode in MODES:
        own = [run for run in runs if run["mode"] == mode]
        totals = " ".join(f"{run['seconds']:.1f}" for run in own)
        cpu = " ".join(f"{run['cpu']:.1f}" for run in own)
        steady = statistics.median(run["steady"] or 0.0 for run in own)
        loads = " ".join(f"{run['load']:.0f}" for run in own)
        kept = ", ".join(sorted({run["kept"] for run in own}))
        print(f"{NAMES[mode]:22} {totals:>16} {cpu:>16} {steady:9.3f} {loads:>12}  {kept}")


if __name__ == "__main__":
    main()
