#!/usr/bin/env python3
"""Deploy from the cluster's client, kill the controller at a random moment, deploy again: one job, every time.

    tests/real/cluster.sh up
    python tests/soak/cluster_rounds.py --rounds 200

Each deployment is the whole playbook, over ssh, on a login node without Python. In every third round the user's
processes on the login node are killed at the same moment. Every line that is printed tells of one round.
Exit code 1 when a round ended with another number of jobs than one.
"""

import argparse
import json
import random
import sys
import time
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(TOP), str(TOP / "tests" / "support")]

from cluster import Cluster, control, is_up  # noqa: E402
from kills import KilledDeployment  # noqa: E402
from rig import CANNOT  # noqa: E402
from sites import ClusterSite, user_environment  # noqa: E402


def one_round(cluster: Cluster, site: ClusterSite, moment: float, *, login: bool) -> str:
    """Return what went wrong; nothing when all was well."""
    deployment = KilledDeployment(cluster, site)
    with site.start("deploy") as running:
        time.sleep(moment)
        deployment.kill(login=login)
        running.end(30)
    try:
        deployment.check()
    except AssertionError as error:
        return str(error)
    return ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--seed", type=int, default=None, help="repeat the moments of an earlier soak")
    parser.add_argument("--longest", type=float, default=None, help="latest moment, in seconds; measured when absent")
    arguments = parser.parse_args()
    seed = arguments.seed if arguments.seed is not None else random.randrange(2**32)
    random.seed(seed)
    was_up = is_up()
    try:
        cluster = Cluster(Path(control("up")))
    except pytest.skip.Exception as reason:
        print(reason)
        return CANNOT
    site = ClusterSite(cluster, user_environment(TOP / ".collections", TOP / ".build" / "ansible"))
    longest = arguments.longest
    if longest is None:
        began = time.monotonic()
        KilledDeployment(cluster, site).check()
        longest = time.monotonic() - began
    print(json.dumps({"seed": seed, "longest": round(longest, 2)}), flush=True)
    faults = 0
    for number in range(arguments.rounds):
        moment = random.uniform(0, longest)
        fault = one_round(cluster, site, moment, login=number % 3 == 2)
        faults += bool(fault)
        print(json.dumps({"round": number, "killed_after": round(moment, 3), "fault": fault or None}), flush=True)
    print(f"{arguments.rounds} rounds, {faults} with another number of jobs than one", file=sys.stderr)
    if not was_up:
        control("down")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
