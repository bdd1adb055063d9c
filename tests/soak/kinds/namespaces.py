"""Two to four controllers at once, each in a PID namespace of its own and all with the same host name."""

import time
from functools import partial
from random import Random

from controllers import Controller
from sites_of_soak import Apart, Site, SlurmOverSsh

from kinds.kills import expect

ROUNDS = {"machine": 100, "slurm": 30}


def one(site: Site, name: str, chance: Random) -> str:
    site.folder(name)
    deployed = site.request(name)
    controllers = []
    for _ in range(chance.randint(2, 4)):
        if isinstance(site, SlurmOverSsh):  # its steps are what must be apart
            controllers.append(Controller(site, deployed, transport=partial(Apart, site)))
        else:
            controllers.append(Controller(site, deployed, apart=True))
        time.sleep(chance.choice([0, 0, chance.uniform(0, 0.3)]))
    outcomes = [controller.end() for controller in controllers]
    # A plain machine's job is a process of one of the namespaces, which no other can see: the records must do.
    faults = {fault for outcome in outcomes if (fault := expect(site, name, outcome.state, outcome.error))}
    return f"{len(controllers)} controllers: {'; '.join(sorted(faults))}" if faults else ""
