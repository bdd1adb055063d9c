#!/usr/bin/env python3
"""Deploy to the cloud, kill the controller at a random moment, then deploy again or undeploy: one instance, or none.

    tests/real/cloud.sh up
    python tests/soak/cloud_rounds.py --rounds 100

Each round is whole playbooks with the real collection amazon.aws on moto, and a real sshd as the instance. In every
other round the deployment is made again and must end with the one instance and the job run once; in the others it is
undeployed at once. After each round nothing may be left. In every fourth round the controller has lost its state
besides. Every line that is printed tells of one round. Exit code 1 when any round went wrong.
"""

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(TOP), str(TOP / "tests" / "support")]

import cloud as clouds  # noqa: E402
from rig import CANNOT  # noqa: E402


def killed(controller: clouds.Controller, moment: float) -> bool:
    """Start a deployment and kill all of its processes after ``moment`` seconds; return whether it still ran."""
    process = subprocess.Popen(
        controller.command("deploy"),
        cwd=controller.folder,
        env=controller.environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        process.wait(moment)
        return False
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return True


def one_round(cloud: clouds.Cloud, controller: clouds.Controller, moment: float, *, again: bool, lost: bool) -> str:
    """Return what went wrong; nothing when all was well."""
    ran = killed(controller, moment)
    time.sleep(1)  # an answer that is on its way still changes the provider's state
    if lost:
        shutil.rmtree(controller.folder / "state", ignore_errors=True)
        shutil.rmtree(controller.folder / "results", ignore_errors=True)
    if again:
        done = controller.run("deploy")
        if done.returncode != 0:
            return f"the second deployment failed: {done.stdout[-1500:]}"
        if len(cloud.live()) != 1:
            return f"{len(cloud.live())} instances after the second deployment"
        text = (controller.folder / "results" / "probe" / "out.txt").read_text()
        if text != "ran\n":
            return f"the job wrote {text!r}"
    if len(cloud.launched) > 1:
        return f"{len(cloud.launched)} instances were created"
    done = controller.run("undeploy")
    if done.returncode != 0:
        return f"undeploy failed: {done.stdout[-1500:]}"
    if cloud.live() or cloud.groups():
        return f"left: {cloud.live()} {cloud.groups()}"
    return "" if ran else "-"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--seed", type=int, default=None, help="repeat the moments of an earlier soak")
    parser.add_argument("--longest", type=float, default=None, help="latest moment, in seconds; measured when absent")
    parser.add_argument("--minutes", type=float, default=None, help="start no round after this time")
    arguments = parser.parse_args()
    seed = arguments.seed if arguments.seed is not None else random.randrange(2**32)
    random.seed(seed)
    folder = Path(tempfile.mkdtemp(prefix="modak-cloud-rounds."))
    started = time.monotonic()
    wrong = count = 0
    try:
        clouds.needs_cloud()
        with clouds.own_network(), clouds.running(folder) as cloud:
            controller = clouds.Controller(folder / "user")
            controller.folder.mkdir()
            document = clouds.document(controller.folder)
            document["target"]["workspace"] = str(cloud.folder / "work" / "modak")
            controller.write(document)
            longest = arguments.longest
            if longest is None:
                begin = time.monotonic()
                controller.run("deploy")
                longest = time.monotonic() - begin
                controller.run("undeploy")
            print(f"seed {seed}, moments up to {longest:.1f} s", flush=True)
            for number in range(arguments.rounds):
                if arguments.minutes is not None and time.monotonic() - started > arguments.minutes * 60:
                    break
                shutil.rmtree(controller.folder / "results", ignore_errors=True)
                cloud.calls.clear()
                cloud.launched.clear()
                moment = random.uniform(0, longest)
                again, lost = number % 2 == 0, number % 4 >= 2
                fault = one_round(cloud, controller, moment, again=again, lost=lost)
                count += 1
                wrong += fault not in ("", "-")
                what = "again" if again else "undeploy"
                print(f"{number} {moment:.1f}s {what}{' lost' if lost else ''}: {fault or 'ok'}", flush=True)
    except pytest.skip.Exception as reason:
        print(reason)
        return CANNOT
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(f"{count} rounds, {wrong} wrong")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
