"""Does a lever's condition hold? Each answer is None or the reason why not, as one clause."""

import re
from collections.abc import Sequence
from functools import lru_cache

from packaging.version import Version

from modak_deploy.catalogue.lever import When
from modak_deploy.model.base import specifier_set
from modak_deploy.optimiser.options import Location

LAUNCH_PYTHON = ">=3.8"
"""Versions of Python that ``modak_deploy/launch`` works in."""


@lru_cache(maxsize=4096)
def satisfies(version: str, specifier: str) -> bool:
    """Tell whether ``version`` lies within ``specifier``; pre-releases count."""
    return specifier_set(specifier).contains(Version(version), prereleases=True)


def unmet(when: When, location: Location) -> str | None:
    """Return why ``when`` does not hold, levers and compiler apart; None when it does."""
    return (
        _application(when, location) or _packages(when, location) or _system(when, location) or _device(when, location)
    )


def no_launch(location: Location) -> str | None:
    """Return why nothing can be switched on inside the application's interpreter at ``location``; None when it can."""
    version = location.version_of("python")
    if version is not None and not satisfies(version, LAUNCH_PYTHON):
        return f"it works inside Python {LAUNCH_PYTHON}, and {location.what} is Python {version}"
    return None


def _application(when: When, location: Location) -> str | None:
    if when.type is not None and location.type not in when.type:
        return f"it is for {_any(when.type)}, and the application is of type {location.type}"
    if when.framework is not None:
        wanted = [when.framework] if isinstance(when.framework, str) else when.framework
        if location.framework not in wanted:
            return (
                f"it is for {_any(wanted)}, and the application is written for {location.framework or 'no framework'}"
            )
    if location.framework in when.without_runs:
        return f"it has no effect on {location.framework}"
    if when.runtimes is not None and location.runtime not in when.runtimes:
        return f"it works with runtime {_any(when.runtimes)}, not with {location.runtime}"
    return None


def _packages(when: When, location: Location) -> str | None:
    for package, specifier in when.packages.items():
        version = location.version_of(package)
        if version is None:
            return f"it needs {package} {specifier}, which {location.what} does not have"
        if not satisfies(version, specifier):
            return f"it needs {package} {specifier}, and {location.what} has {version}"
    for package in when.without_packages:
        if location.version_of(package) is not None:
            return f"it does not work beside {package}, which {location.what} has"
    return None


def _system(when: When, location: Location) -> str | None:
    if when.glibc is not None:
        if location.glibc is None:
            return f"it needs glibc {when.glibc}, and that of {location.host} is not known"
        if not satisfies(location.glibc, when.glibc):
            return f"it needs glibc {when.glibc}, and {location.host} has {location.glibc}"
    if when.library is not None and when.library not in location.libraries:
        return f"it needs the library {when.library}, which {location.host} does not have"
    return None


def _device(when: When, location: Location) -> str | None:
    node = location.node
    if when.cores is not None:
        if node.cores is None:
            return f"it needs {_range(when.cores)} cores, and the node's number of cores is not known"
        if not satisfies(str(node.cores), when.cores):
            return f"it needs {_range(when.cores)} cores, and the node has {node.cores}"
    if missing := [feature for feature in when.cpu_features if feature not in node.cpu_features]:
        return f"it needs the processor feature {missing[0]}, which the node does not show"
    if when.cpu_features_any and not set(when.cpu_features_any) & set(node.cpu_features):
        return f"it needs a processor with {_any(when.cpu_features_any)}, and the node shows none of them"
    if when.microarchitecture is not None and (reason := below(node.microarchitecture, when.microarchitecture)):
        return reason
    if when.accelerator is not None:
        vendor = node.accelerators[0].vendor if location.gpus and node.accelerators else "none"
        if vendor != when.accelerator:
            return f"it is for accelerator {when.accelerator}, and the job uses {vendor}"
    return None


def _range(cores: str) -> str:
    """Return ``>=4,<=32`` as people write it; a condition of another form as it is."""
    match = re.fullmatch(r">=(\d+)(?:,<=(\d+))?", cores)
    if match is None:
        return cores
    return f"{match[1]} to {match[2]}" if match[2] else f"at least {match[1]}"


def below(have: str | None, floor: str) -> str | None:
    """Return why a node of microarchitecture ``have`` cannot run code for ``floor``; None when it can."""
    if have is None:
        return f"it needs a processor of at least {floor}, and the node's microarchitecture is not known"
    if not _at_least(have, floor):
        return f"it needs a processor of at least {floor}, and the node's is {have}"
    return None


@lru_cache(maxsize=4096)
def _at_least(have: str, floor: str) -> bool:
    if have == floor:
        return True
    from archspec.cpu import TARGETS

    return have in TARGETS and floor in TARGETS and bool(TARGETS[have] >= TARGETS[floor])


def _any(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"
