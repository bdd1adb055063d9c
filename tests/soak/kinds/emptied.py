"""Every pair of a job's state files emptied, cut short, or removed, after it has ended or while it runs."""

from itertools import combinations
from pathlib import Path
from random import Random

from controllers import Controller
from sites_of_soak import Site

from kinds.kills import expect

ROUNDS = {"machine": 120, "slurm": 30}
FILES = ("tag", "intent", "id", "start", "exit", "run")
PAIRS = list(combinations(FILES, 2))
DAMAGE = ("emptied", "cut short", "removed")


def damage(file: Path, how: str) -> None:
    """Do to the file what a power loss, or a user, may do to it."""
    if not file.exists():
        return
    if how == "removed":
        file.unlink()
    else:
        text = file.read_bytes()
        file.write_bytes(text[: len(text.strip()) // 2] if how == "cut short" else b"")


def one(site: Site, name: str, chance: Random) -> str:
    site.folder(name)
    number = int(name.rsplit("-", 1)[-1])
    pair, how = PAIRS[number % len(PAIRS)], DAMAGE[number // len(PAIRS) % len(DAMAGE)]
    deployed = site.request(name)
    first = Controller(site, deployed).end()
    if fault := expect(site, name, first.state, first.error):
        return fault
    folder = site.jobs_folder(deployed)
    assert folder is not None
    for file in pair:
        damage(folder / "state" / file, how)
    again = Controller(site, deployed).end()
    fault = ""
    if site.runs(name) != 1 or again.error.startswith("raised"):
        fault = f"the program ran {site.runs(name)} times, and the deployment ended as {again.state or again.error}"
    elif "exit" not in pair:
        fault = expect(site, name, again.state, again.error)
    return f"{' and '.join(pair)} {how}: {fault}" if fault else ""
