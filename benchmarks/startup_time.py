"""Measure what a whole `modak plan` takes: startup_time.py [--rounds N] [--against FOLDER].

Processor time (of the command and of the discovery's script, which it starts) and wall time, in milliseconds. Another
checkout of modak is measured in the same rounds, interleaved, so that a busy machine slows both alike; for a scale
there is `ansible --version`.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent


def once(command: list[str], checkout: Path, data: Path) -> tuple[float, float]:
    """Run a command with the library of ``checkout``; return milliseconds of processor time and of wall time."""
    environment = {**os.environ, "PYTHONPATH": str(checkout), "XDG_DATA_HOME": str(data / "data")}
    environment |= {"PYTHONPYCACHEPREFIX": str(data / "compiled" / checkout.name), "MODAK_MEASUREMENTS": ""}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    began = time.perf_counter()
    process = subprocess.Popen(command, cwd=checkout, env=environment, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    wall = time.perf_counter() - began
    if status:
        sys.exit(f"{' '.join(command)} failed in {checkout}")
    return (used.ru_utime + used.ru_stime) * 1000, wall * 1000


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--against", type=Path, help="another checkout of modak")
    args = parser.parse_args()
    plan = [sys.executable, "-m", "modak_deploy.cli", "plan", "examples/digits/deploy.yml", "--json"]
    commands = {"modak plan": (plan, TOP)}
    if args.against:
        commands["modak plan, the other checkout"] = (plan, args.against.resolve())
    commands["ansible --version"] = ([str(Path(sys.executable).with_name("ansible")), "--version"], TOP)
    taken: dict[str, list[tuple[float, float]]] = {name: [] for name in commands}
    with tempfile.TemporaryDirectory() as folder:
        for number in range(args.rounds + 1):
            for name in sorted(commands, reverse=number % 2 == 1):
                figures = once(*commands[name], Path(folder))
                if number:  # the first compiles
                    taken[name].append(figures)
    for name, figures in taken.items():
        processor, wall = ([pair[column] for pair in figures] for column in (0, 1))
        print(
            f"{name:<32} processor {statistics.median(processor):6.0f} ms (least {min(processor):.0f}), "
            f"wall {statistics.median(wall):6.0f} ms (least {min(wall):.0f})"
        )
    if args.against:
        pairs = zip(taken["modak plan"], taken["modak plan, the other checkout"], strict=True)
        ratios = [(a[0] / b[0], a[1] / b[1]) for a, b in pairs]
        print(
            f"over the other checkout: processor {statistics.median(r[0] for r in ratios):.2f}, "
            f"wall {statistics.median(r[1] for r in ratios):.2f}"
        )


if __name__ == "__main__":
    main()
