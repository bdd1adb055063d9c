"""A target whose clock jumps, forward and back, by up to days, while its controller or step is killed.

The scheduler takes a moment, so that what was killed may be on its way yet.
"""

import time
from random import Random

from controllers import Controller
from sites_of_soak import Prefixed, Site

from kinds.kills import expect, strike
from kinds.slow import slowed
from modak_deploy.schedulers.process import Process
from modak_deploy.schedulers.slurm import Slurm
from modak_deploy.transport.base import Transport

ROUNDS = {"machine": 80, "slurm": 20}
# Each call sees another jump of the list.
_DATE = """#!/bin/sh
n=$(cat "$0.count" 2>/dev/null || echo 0)
echo $((n + 1)) >"$0.count" 2>/dev/null
set -- "$1" {jumps}
shift $(((n % ({count})) + 1))
exec /bin/date -d "@$(($(/bin/date +%s) + $1))" "{format}"
"""


def one(site: Site, name: str, chance: Random) -> str:
    folder = site.folder(name)
    jumps = [chance.choice([0, 5, 3600, -3600, 86400, -86400, -5]) for _ in range(7)]
    date = folder / "date"
    script = _DATE.format(jumps=" ".join(map(str, jumps)), count=len(jumps), format="$format")
    date.write_text(script.replace("set -- ", "format=${1:-+%s}\nset -- ", 1))
    date.chmod(0o755)
    site.owned(date)

    def transport() -> Transport:
        return Prefixed(site.transport(), f'PATH="{folder}:$PATH"; export PATH')

    deployed = site.request(name)
    before = chance.uniform(0, 3)
    scheduler = slowed(Slurm if site.scheduler == "slurm" else Process, before, 0)
    over = time.monotonic() + before + 2 * site.longest
    first = Controller(site, deployed, transport=transport, scheduler=scheduler)
    time.sleep(chance.uniform(0, before + site.longest))
    second = Controller(site, deployed, transport=transport) if chance.random() < 0.5 else None
    strike(site, first, name, chance.choice(["controller", "step"]))
    outcomes = [*([second.end()] if second else []), Controller(site, deployed, transport=transport).end()]
    time.sleep(max(0.0, over - time.monotonic()))  # what a killed step has started may submit until then
    faults = {fault for outcome in outcomes if (fault := expect(site, name, outcome.state, outcome.error))}
    return f"jumps {jumps}: {'; '.join(sorted(faults))}" if faults else ""
