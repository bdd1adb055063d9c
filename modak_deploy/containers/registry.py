"""The container runtimes by name, in order of preference, and how a target is asked which it has."""

from collections.abc import Iterable, Sequence
from functools import cache

from modak_deploy import shell
from modak_deploy.containers.base import Runtime
from modak_deploy.extensions import RUNTIMES
from modak_deploy.model.base import RuntimeName

_OTHER = "runtime-"
"""How the parts of the probe's answer begin that belong to runtimes of other distributions."""


@cache
def get(name: RuntimeName) -> Runtime:
    """Return the runtime; InputError where there is none of that name, or its distribution is faulty."""
    runtime: Runtime = RUNTIMES.make(name, Runtime)
    return runtime


def preference(name: RuntimeName) -> tuple[bool, int]:
    """Return the sort key by which the preferred runtime is the first: those made for clusters come first."""
    builtin = list(RUNTIMES.builtin)
    return not get(name).for_clusters, builtin.index(name) if name in builtin else len(builtin)


def by_preference(names: Iterable[RuntimeName]) -> list[RuntimeName]:
    """Return container runtimes in the order in which they are preferred where nothing else decides."""
    return sorted(sorted(set(names) - {"native"}), key=preference)


def probe_script(others: Sequence[RuntimeName]) -> str:
    """Return the shell function ``probe_runtimes``, which asks for the built-in runtimes and ``others``."""
    lines = [
        f"  ask_aside {part_of(name)} {shell.join(get(name).version_command)}\n"
        for name in (*RUNTIMES.builtin, *(name for name in others if name not in RUNTIMES.builtin))
    ]
    return f"probe_runtimes() {{\n{''.join(lines)}}}\n"


def part_of(name: RuntimeName) -> str:
    """Return the part of the probe's answer that has a runtime's version."""
    return name if name in RUNTIMES.builtin else f"{_OTHER}{name}"


def asked_for(parts: Iterable[str]) -> list[RuntimeName]:
    """Return the runtimes that the parts of an answer can tell of."""
    others = (part.removeprefix(_OTHER) for part in parts if part.startswith(_OTHER))
    return [*RUNTIMES.builtin, *(name for name in others if name in RUNTIMES)]
