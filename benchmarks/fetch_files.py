"""Measure how long fetching many result files over ssh takes, on the real Slurm of tests/real/slurm.sh.

    python benchmarks/fetch_files.py --files 500 4000 20000

Each job writes that many files of 100 bytes, 1,000 to a folder. It has ended when two more plays are timed: one that
finds its results removed here and fetches them, and one that finds them all. The difference is what fetching costs.
"""

import argparse
import secrets
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

TOP = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TOP), str(TOP / "tests" / "support")]

from rig import Rig, ask  # noqa: E402
from sites import Site, user_environment  # noqa: E402

WRITE = (
    'i=0; while [ $i -lt "$1" ]; do [ $((i % 1000)) -ne 0 ] || { folder=out/$i; mkdir -p $folder; };'
    ' printf "%99d\\n" $i >$folder/$i; i=$((i + 1)); done'
)


def document(files: int) -> dict[str, Any]:
    return {
        "application": {
            "name": f"files-{secrets.token_hex(4)}",
            "type": "hpc",
            "executable": "sh",
            "arguments": ["-c", WRITE, "sh", str(files)],
            "outputs": ["out"],
        },
        "target": {
            "name": "rig",
            "type": "slurm",
            "host": "slurm-login",
            "python": "/usr/bin/python3",
            "polling": {"first": 0.5, "maximum": 2.0},
        },
        "job": {"wall_time": "10m"},
    }


def deploy(site: Site) -> float:
    """Return the seconds that a whole play took."""
    began = time.monotonic()
    ended = site.play("deploy", timeout=900)
    if ended.code:
        sys.exit(ended.text)
    return time.monotonic() - began


def measure(rig: Rig, files: int, folder: Path) -> tuple[float, float]:
    """Return the seconds of a play that fetches everything, and of one that has nothing to fetch."""
    environment = user_environment(TOP / ".collections", folder / "ansible")
    environment["XDG_STATE_HOME"] = str(folder / "state")
    site = Site(folder, environment, rig.inventory)
    site.write(document(files))
    deploy(site)
    shutil.rmtree(next(path for path in site.results.rglob("out") if path.is_dir()))
    fetching = deploy(site)
    there = sum(1 for path in site.results.rglob("*") if path.is_file() and "out" in path.parts)
    if there != files:
        sys.exit(f"{there} of {files} files were fetched")
    return fetching, deploy(site)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, nargs="+", default=[500, 4000, 20000])
    was_up = subprocess.run([TOP / "tests" / "real" / "slurm.sh", "status"], capture_output=True).returncode == 0
    rig = Rig(Path(ask("up")))
    try:
        print(f"{'files':>7} {'fetching':>9} {'nothing to fetch':>17}  (seconds of a whole play)", flush=True)
        for files in parser.parse_args().files:
            with tempfile.TemporaryDirectory() as folder:
                fetching, nothing = measure(rig, files, Path(folder))
            print(f"{files:7} {fetching:9.1f} {nothing:17.1f}", flush=True)
    finally:
        if not was_up:
            ask("down")


if __name__ == "__main__":
    main()
