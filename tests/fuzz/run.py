"""Fuzz the trust boundary: what jobs, targets and schedulers say is random, and nothing bad may come of it.

    python tests/fuzz/run.py --cases 2000 --seed 7 --only metrics

Each module that ``MODULES`` names has a table ``CASES`` of functions ``case(random, folder)``: one case in an empty
folder, that raises AssertionError where a promise is broken; any other exception is a finding too. A case depends on
seed, name and number alone, which are printed with a finding.
"""

import argparse
import shutil
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from random import Random

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "support"), str(HERE.parent.parent)]

MODULES = ("results", "target")
LIMIT = 300
"""Seconds after which a case is taken for a loop."""
Case = Callable[[Random, Path], None]


def load() -> dict[str, Case]:
    """Return all functions that make a case, by name."""
    return {name: case for module in MODULES for name, case in import_module(module).CASES.items()}


def run(name: str, case: Case, cases: int, seed: int, *, first: int = 0) -> list[str]:
    """Run some cases of one kind; return the findings as text."""
    findings = []
    for number in range(first, first + cases):
        folder = Path(tempfile.mkdtemp(prefix="modak-fuzz-"))
        signal.signal(signal.SIGALRM, _too_long)
        signal.alarm(LIMIT)
        try:
            case(Random(f"{seed}:{name}:{number}"), folder)
        except Exception:
            findings.append(f"--only '{name}' --seed {seed} --first {number} --cases 1\n{traceback.format_exc()}")
        finally:
            signal.alarm(0)
            shutil.rmtree(folder, ignore_errors=True)
    return findings


def _too_long(number: int, frame: object) -> None:
    raise TimeoutError(f"a case takes longer than {LIMIT} s: a loop")


def main() -> int:
    """Run the cases that the command line asks for; the exit code is 1 where there is a finding."""
    parser = argparse.ArgumentParser(description="Fuzz the trust boundary.")
    parser.add_argument("--cases", type=int, default=2000, help="of each kind (2000)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--only", help="one kind of cases")
    options = parser.parse_args()
    count = 0
    for name, case in load().items():
        if options.only in (None, name):
            findings = run(name, case, options.cases, options.seed, first=options.first)
            print(f"{name}: {options.cases} cases, {len(findings)} findings", flush=True)
            print("\n".join(findings[:5]))
            count += len(findings)
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
