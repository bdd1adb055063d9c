#!/usr/bin/env python3
"""Deploy to the cloud, kill the controller at a random moment, then deploy again or undeploy: one instance, or none.

    tests/real/cloud.sh up
    python tests/soak/cloud_rounds.py --rounds 100
    python tests/soak/cloud_rounds.py --seed 7 --longest 30 --first 40 --rounds 60    # goes on with an earlier soak
    python tests/soak/cloud_rounds.py --seed 7 --longest 30 --only 41

Each round is whole playbooks with the real collection amazon.aws on moto, and a real sshd as the instance. In every
other round the deployment is made again and must end with the one instance and the job run once; in the others it is
undeployed at once. After each round nothing may be left. In every fourth round the controller has lost its state
besides. In every third one it is killed when the provider has done a call that it has no answer to yet, in the others
after some seconds. What a round does follows from the seed and its number.

A round is some forty starts of an interpreter, a dozen of which load boto3's description of EC2: rounds are carried out
at the same time, each worker with a provider in a network namespace of its own. Exit code 1 when any round went wrong.
"""

import argparse
import multiprocessing
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from queue import Empty
from typing import Any

import pytest

TOP = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(TOP), str(TOP / "tests" / "support")]

import cloud as clouds  # noqa: E402
from rig import CANNOT  # noqa: E402

CALLS = 37
"""Of a deployment from nothing."""
LATER = 1.3
"""A deployment among others takes longer than the one that was measured alone."""


@dataclass(frozen=True)
class Round:
    number: int
    moment: float
    """Seconds after the start; 0 where it is a call."""
    call: int | None

    @classmethod
    def of(cls, number: int, seed: int, longest: float) -> "Round":
        chance = random.Random(f"{seed} {number}")
        moment, call = chance.uniform(0, LATER * longest), chance.randrange(CALLS)
        return cls(number, 0.0, call) if number % 3 == 0 else cls(number, moment, None)

    @property
    def again(self) -> bool:
        return self.number % 2 == 0

    @property
    def lost(self) -> bool:
        return self.number % 4 >= 2

    @property
    def text(self) -> str:
        when = f"{self.moment:.1f} s" if self.call is None else f"call {self.call}"
        return f"{self.number} {when} {'again' if self.again else 'undeploy'}{' lost' if self.lost else ''}"


def killed(cloud: clouds.Cloud, controller: clouds.Controller, item: Round) -> bool:
    """Start a deployment and kill all of its processes at the round's moment; return whether it still ran."""
    process = controller.started("deploy")
    if item.call is not None:
        cloud.interrupt = (item.call, lambda: os.killpg(process.pid, signal.SIGKILL))
    try:
        code = process.wait(item.moment if item.call is None else 600)
        return code == -signal.SIGKILL
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return True
    finally:
        cloud.interrupt = None


def one_round(cloud: clouds.Cloud, controller: clouds.Controller, item: Round) -> tuple[str, bool]:
    """Return what went wrong, nothing when all was well; and whether the controller was killed before its end."""
    shutil.rmtree(controller.folder / "results", ignore_errors=True)
    cloud.calls.clear()
    cloud.launched.clear()
    ran = killed(cloud, controller, item)
    time.sleep(1)  # an answer that is on its way still changes the provider's state
    if item.lost:
        shutil.rmtree(controller.folder / "state", ignore_errors=True)
        shutil.rmtree(controller.folder / "results", ignore_errors=True)
    return outcome(cloud, controller, item), ran


def outcome(cloud: clouds.Cloud, controller: clouds.Controller, item: Round) -> str:
    """Deploy again where the round says so, undeploy, and return what went wrong."""
    if item.again:
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
    return ""


@contextmanager
def provider(top: Path) -> Iterator[tuple[clouds.Cloud, clouds.Controller]]:
    """Start a provider in a network namespace of its own; yield it and its user."""
    folder = Path(tempfile.mkdtemp(dir=top))
    with clouds.own_network(), clouds.running(folder) as cloud:
        controller = clouds.Controller(folder / "user")
        controller.folder.mkdir()
        document = clouds.document(controller.folder)
        document["target"]["workspace"] = str(cloud.folder / "work" / "modak")
        controller.write(document)
        yield cloud, controller


def measured(top: Path) -> float:
    """Return the seconds of one deployment that nobody disturbs."""
    with provider(top) as (_, controller):
        begin = time.monotonic()
        if (done := controller.run("deploy")).returncode != 0:
            sys.exit(f"a deployment that nobody disturbs fails: {done.stdout[-3000:]}")
        return time.monotonic() - begin


def work(top: Path, todo: Any, done: Any) -> None:
    """Carry rounds out; after one that went wrong with a new provider, so that no round meets what another left."""
    item = todo.get()
    while item is not None:
        with provider(top) as (cloud, controller):
            fault = ""
            while item is not None and not fault:
                began = time.monotonic()
                try:
                    fault, ran = one_round(cloud, controller, item)
                except Exception as error:
                    fault, ran = f"the round itself raised {type(error).__name__}: {error}", True
                done.put((item, fault, ran, time.monotonic() - began))
                item = todo.get()


def soak(top: Path, rounds: list[Round], workers: int, minutes: float | None) -> int:
    """Carry the rounds out, and print a line for each."""
    fork = multiprocessing.get_context("fork")
    todo, done = fork.Queue(), fork.Queue()
    processes = [fork.Process(target=work, args=(top, todo, done)) for _ in range(workers)]
    for process in processes:
        process.start()
    end = float("inf") if minutes is None else time.monotonic() + minutes * 60
    waiting = list(reversed(rounds))
    sent = count = wrong = late = 0
    while waiting or count < sent:
        while waiting and sent - count < workers and time.monotonic() < end:
            todo.put(waiting.pop())
            sent += 1
        if count == sent:
            break
        try:
            item, fault, ran, seconds = done.get(timeout=30)
        except Empty:
            if not any(process.is_alive() for process in processes):
                print("all workers ended", flush=True)
                return 1
            continue
        count += 1
        wrong += bool(fault)
        late += not ran
        print(f"{item.text}: {fault or ('ok' if ran else 'ok, was done before')} ({seconds:.0f} s)", flush=True)
    for _ in processes:
        todo.put(None)
    for process in processes:
        process.join()
    print(f"{count} rounds, {wrong} wrong; {count - late} controllers were killed, {late} were done before")
    return int(wrong > 0)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--first", type=int, default=0, help="number of the first round")
    parser.add_argument("--only", type=int, action="append", help="the number of one round")
    parser.add_argument("--seed", type=int, default=None, help="repeat the rounds of an earlier soak")
    parser.add_argument("--longest", type=float, default=None, help="seconds of a deployment; measured when absent")
    parser.add_argument("--minutes", type=float, default=None, help="start no round after this time")
    parser.add_argument("--workers", type=int, default=(os.cpu_count() or 1) + 1, help="rounds at the same time")
    arguments = parser.parse_args()
    seed = arguments.seed if arguments.seed is not None else random.randrange(2**32)
    top = Path(tempfile.mkdtemp(prefix="modak-cloud-rounds."))
    try:
        clouds.needs_cloud()
        longest = round(arguments.longest or measured(top), 1)
        print(f"--seed {seed} --longest {longest}", flush=True)
        numbers = arguments.only or range(arguments.first, arguments.first + arguments.rounds)
        rounds = [Round.of(number, seed, longest) for number in numbers]
        return soak(top, rounds, min(arguments.workers, len(rounds)), arguments.minutes)
    except pytest.skip.Exception as reason:
        print(reason)
        return CANNOT
    finally:
        shutil.rmtree(top, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
