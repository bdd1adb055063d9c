"""The controller, the shell of its step, or what that has started, killed with SIGKILL at a random moment."""

import time
from collections.abc import Collection
from random import Random

from controllers import Controller, descendants, is_of_job, is_shell, on_login
from sites_of_soak import Site

ROUNDS = {"machine": 300, "slurm": 100}


def one(site: Site, name: str, chance: Random) -> str:
    site.folder(name)
    deployed = site.request(name)
    first = Controller(site, deployed)
    time.sleep(chance.uniform(0, site.longest))
    what = chance.choice(["controller", "step", "child"])
    strike(site, first, name, what)
    again = Controller(site, deployed).end()
    fault = expect(site, name, again.state, again.error)
    return f"{what} killed: {fault}" if fault else ""


def strike(site: Site, controller: Controller, name: str, what: str, *, only: Collection[int] | None = None) -> None:
    """Kill the controller and, where ``what`` is step or child, the step's shell or all that belongs to the step.

    ``only`` names the shells on the login node that may be killed: nothing tells those of two controllers apart there.
    """
    if site.name == "machine":
        chosen = {"controller": lambda pid: False, "step": is_shell, "child": lambda pid: not is_of_job(pid)}[what]
        controller.shoot(chosen)
        return
    shells = [pid for pid in on_login(name) if only is None or pid in only] if what != "controller" else []
    below = [pid for shell in shells for pid in descendants(shell)] if what == "child" else []
    controller.kill([*shells, *below])
    controller.shoot(lambda pid: False)


def expect(site: Site, name: str, state: str, error: str, runs: int = 1) -> str:
    """Return what is not as it should be: the program ran once, and the last deployment says that it completed."""
    ran = site.runs(name)
    if (ran, state) == (runs, "completed"):
        return ""
    return f"the program ran {ran} times, and the deployment ended as {state or error}"
