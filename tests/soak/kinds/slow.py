"""A scheduler that takes long to answer, while the step's shell or its controller is killed and another comes."""

import time
from dataclasses import replace
from random import Random
from typing import Any

from controllers import Controller, on_login
from sites_of_soak import Site

from kinds.kills import expect, strike
from modak_deploy.schedulers.base import JobSpec
from modak_deploy.schedulers.process import Process
from modak_deploy.schedulers.slurm import Slurm

ROUNDS = {"machine": 90, "slurm": 40}
REAL = (1, 12, 35, 70, 130)
"""Seconds that the scheduler takes in the rounds at real length, which the first few of each site are."""


def slowed(kind: type[Any], before: float, after: float) -> Any:
    """Return the scheduler, whose command waits before it submits, and before it answers."""

    class Slowed(kind):  # type: ignore[misc]
        def submit_command(self, job: JobSpec) -> str:
            return f"sleep {before:g}\n{super().submit_command(job)}\ncode=$?\nsleep {after:g}\nexit $code"

    return Slowed()


def one(site: Site, name: str, chance: Random) -> str:
    site.folder(name)
    number = int(name.rsplit("-", 1)[-1])
    if number < len(REAL):
        longest, timeouts = float(REAL[number]), replace(site.timeouts, submission=600.0)
    else:  # the same with all limits in proportion: the scheduler is given up in some of these rounds
        longest = chance.choice([0.3, 1.0, 2.0, 4.0])
        timeouts = replace(site.timeouts, accept=3.0, lock=30.0, submission=60.0)
    before = (0.9 if number < len(REAL) else chance.choice([0.0, 1.0, chance.random()])) * longest
    scheduler = slowed(Slurm if site.scheduler == "slurm" else Process, before, longest - before)
    deployed = site.request(name)
    over = time.monotonic() + longest + 2 * site.longest
    first = Controller(site, deployed, scheduler=scheduler, timeouts=timeouts)
    time.sleep(chance.uniform(0, min(longest + site.longest, 20)))
    shells = set(on_login(name))  # of the first alone: one that loses its own step has to end with an error
    second = Controller(site, deployed, timeouts=timeouts)
    time.sleep(chance.uniform(0, 0.5))
    strike(site, first, name, chance.choice(["controller", "step"]), only=shells)
    outcomes = [second.end(600), Controller(site, deployed, timeouts=timeouts).end(600)]
    time.sleep(max(0.0, over - time.monotonic()))  # what a killed step has started may submit until then
    faults = {fault for outcome in outcomes if (fault := expect(site, name, outcome.state, outcome.error))}
    return f"{before:.1f} + {longest - before:.1f} s: {'; '.join(sorted(faults))}" if faults else ""
