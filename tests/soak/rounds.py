#!/usr/bin/env python3
"""Deploy under faults of every kind, and count how often the program ran: once, every time.

    python tests/soak/rounds.py                          # about 1,000 rounds, on this machine and on Slurm over ssh
    python tests/soak/rounds.py --kind killed --rounds 20 --site machine
    python tests/soak/rounds.py --kind disk --seed 7 --only disk-machine-3

The program counts its runs itself, in a file outside of the job's folder. A round that is repeated with the same seed
and name meets the same fault at the same moment, as far as the machine allows. The kinds are the modules of ``kinds``.
It takes root, for namespaces and small disks, and what tests/real/slurm.sh takes. Exit code 1 when a round went wrong.
"""

import argparse
import multiprocessing
import os
import random
import shutil
import sys
import time
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(TOP), str(TOP / "tests" / "support"), str(TOP / "tests" / "soak")]

from kinds import KINDS  # noqa: E402
from sites_of_soak import Machine, Site, SlurmOverSsh  # noqa: E402

from rig import CANNOT, Rig, ask  # noqa: E402


@dataclass(frozen=True)
class Round:
    kind: str
    site: str
    number: int

    @property
    def name(self) -> str:
        return f"{self.kind.replace(' ', '-')}-{self.site}-{self.number}"


def carry_out(site: Site, item: Round, seed: int) -> tuple[str, float]:
    """Return what went wrong, and the seconds that it took."""
    began = time.monotonic()
    try:
        fault = KINDS[item.kind].one(site, item.name, random.Random(f"{seed} {item.name}"))
    except Exception as error:
        fault = f"the round itself raised {type(error).__name__}: {error}"
    if not fault:
        site.clean(item.name)
    return fault, time.monotonic() - began


def work(sites, todo, done, seed) -> None:  # type: ignore[no-untyped-def]
    for item in iter(todo.get, None):
        done.put((item, *carry_out(sites[item.site], item, seed)))


def chosen(arguments: argparse.Namespace) -> list[Round]:
    rounds = []
    for kind, module in KINDS.items():
        for site, number in module.ROUNDS.items():
            count = number if arguments.rounds is None else arguments.rounds
            rounds += [Round(kind, site, index) for index in range(count)]
    if arguments.only:
        rounds = [item for item in rounds if item.name in arguments.only]
    rounds = [
        item
        for item in rounds
        if (not arguments.kind or item.kind in arguments.kind) and (not arguments.site or item.site in arguments.site)
    ]
    # Those at real length go first, and the rest evenly mixed: so the load is the same throughout.
    shuffled = random.Random(arguments.seed).sample(rounds, len(rounds))
    return sorted(shuffled, key=lambda item: not (item.kind == "slow scheduler" and item.number < 5))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, help="rounds of each kind on each site")
    parser.add_argument("--kind", action="append", choices=list(KINDS))
    parser.add_argument("--site", action="append", choices=["machine", "slurm"])
    parser.add_argument("--only", action="append", help="the name of one round")
    parser.add_argument(
        "--seed", type=int, default=random.randrange(2**32), help="repeat the rounds of an earlier soak"
    )
    parser.add_argument("--workers", type=int, default=2 * (os.cpu_count() or 1) + 2, help="rounds at the same time")
    arguments = parser.parse_args()
    rounds = chosen(arguments)
    if os.geteuid() != 0:
        print("the soak takes root, for namespaces and small disks", file=sys.stderr)
        return CANNOT
    print(f"seed {arguments.seed}, {len(rounds)} rounds", flush=True)
    sites: dict[str, Site] = {}
    was_up = True
    try:
        if any(item.site == "machine" for item in rounds):
            sites["machine"] = Machine()
        if any(item.site == "slurm" for item in rounds):
            try:
                was_up = not ask("status").startswith("down")
            except pytest.fail.Exception:
                was_up = False
            try:
                sites["slurm"] = SlurmOverSsh(Rig(Path(ask("up"))))
            except pytest.skip.Exception as reason:
                print(reason, file=sys.stderr)
                return CANNOT
        return soak(rounds, sites, arguments)
    finally:
        for site in sites.values():
            shutil.rmtree(site.top, ignore_errors=True)
        if not was_up:
            ask("down")


def soak(rounds: list[Round], sites: dict[str, Site], arguments: argparse.Namespace) -> int:
    """Carry the rounds out, and print a table of them."""
    fork = multiprocessing.get_context("fork")
    todo, done = fork.Queue(), fork.Queue()
    workers = [fork.Process(target=work, args=(sites, todo, done, arguments.seed)) for _ in range(arguments.workers)]
    for item in [*rounds, *(None for _ in workers)]:
        todo.put(item)
    for worker in workers:
        worker.start()
    began = time.monotonic()
    seconds: dict[tuple[str, str], list[float]] = defaultdict(list)
    faults: dict[tuple[str, str], int] = defaultdict(int)
    for count in range(1, len(rounds) + 1):
        item, fault, spent = done.get()
        key = (item.kind, item.site)
        seconds[key].append(spent)
        if fault:
            faults[key] += 1
            print(f"WRONG {item.name}: {fault}", flush=True)
        if count % 50 == 0 or count == len(rounds):
            print(
                f"{count} of {len(rounds)} rounds, {sum(faults.values())} wrong, {time.monotonic() - began:.0f} s",
                flush=True,
            )
    for worker in workers:
        worker.join()
    print(f"{'kind':<18}{'site':<10}{'rounds':>7}{'wrong':>7}{'mean s':>8}{'max s':>8}")
    for (kind, site), spent in sorted(seconds.items()):
        mean = sum(spent) / len(spent)
        print(f"{kind:<18}{site:<10}{len(spent):>7}{faults[kind, site]:>7}{mean:>8.1f}{max(spent):>8.1f}")
    wrong = sum(faults.values())
    print(f"{len(rounds)} rounds in {time.monotonic() - began:.0f} s, {wrong} wrong, seed {arguments.seed}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
