"""What is installed: C library, shared libraries, container runtimes, Python packages."""

import re
from collections.abc import Collection
from functools import lru_cache
from typing import Literal

from packaging.version import Version

from modak_deploy.containers import registry
from modak_deploy.discovery.probe import Answer
from modak_deploy.model.base import RuntimeName
from modak_deploy.model.image import MpiLibrary

_MPI: dict[Literal["openmpi", "intelmpi", "mvapich", "mpich"], str] = {
    "openmpi": r"^mpi\w+ \(Open MPI\) (\d+(?:\.\d+)*)",
    "intelmpi": r"^Intel\(R\) MPI Library .*Version (\d+(?:\.\d+)*)",
    "mvapich": r"^MVAPICH2? Version:?\s+(\d+(?:\.\d+)*)",
    "mpich": r"^(?:MPICH Version|HYDRA build details:\s+Version):?\s+(\d+(?:\.\d+)*)",
}


def parse_glibc(answer: Answer) -> str | None:
    """Return glibc's version from ``getconf GNU_LIBC_VERSION`` or ``ldd --version``; None for another C library."""
    if result := re.search(r"^glibc (\d+(?:\.\d+)+)", answer["glibc"], re.MULTILINE):
        return result[1]
    first = answer.line("ldd") or ""
    result = re.search(r"^ldd \(.*\) (\d+(?:\.\d+)+)$", first)
    return result[1] if result else None


def parse_libraries(text: str, wanted: Collection[str] | None = None) -> list[str]:
    """Return the sonames in ``ldconfig -p``, sorted; only those ``wanted`` when given."""
    names = set(re.findall(r"^\s+(\S+) \(.*\) => ", text, re.MULTILINE))
    return sorted(names if wanted is None else names & set(wanted))


def parse_runtimes(answer: Answer) -> dict[RuntimeName, str]:
    """Return the container runtimes that answered, with their versions."""
    result: dict[RuntimeName, str] = {}
    for name in registry.asked_for(answer.parts):
        said = re.search(registry.get(name).version_line, answer[registry.part_of(name)].strip(), re.MULTILINE)
        if said and (version := _version(said[1])):
            result[name] = version
    return result


def _version(text: str) -> str | None:
    """Return the leading part of ``text`` that is a version: 3.8.7 of 3.8.7-1.el8."""
    result = re.match(r"v?(\d+(?:\.\d+)*)", text)
    return result[1] if result else None


def parse_mpi(answer: Answer) -> list[MpiLibrary]:
    """Return the MPI libraries that ``mpirun --version`` and ``mpichversion`` tell of."""
    text = f"{answer['mpirun']}\n{answer['mpichversion']}"
    result = ((family, re.search(pattern, text, re.MULTILINE)) for family, pattern in _MPI.items())
    return [MpiLibrary(family=family, version=said[1]) for family, said in result if said]


def parse_mpi_types(text: str) -> list[str]:
    """Return what ``srun --mpi=list`` offers, sorted: types, and the versions of pmix, which may be asked for too."""
    result: set[str] = set()
    for line in text.splitlines():
        said = line.removeprefix("srun:").strip()
        if versions := re.fullmatch(r"specific \w+ plugin versions available:(.*)", said):
            result.update(version.strip() for version in versions[1].split(",") if version.strip())
        elif re.fullmatch(r"[a-z][\w-]*", said):
            result.add(said)
    # Without its first line it is an error that srun tells.
    return sorted(result) if re.search(r"MPI (?:plugin )?types are", text) else []


def parse_packages(listing: str) -> dict[str, str]:
    """Return versions by normalised name from the names of ``*.dist-info`` and ``*.egg-info``.

    The first on Python's path counts. What has no version in its name, or one that is no version, is nothing that a
    decision could rest on.
    """
    return dict(_packages_in(listing))


@lru_cache(maxsize=2)  # the hosts of a cluster often have the same; two at most, for a listing may be long
def _packages_in(listing: str) -> tuple[tuple[str, str], ...]:
    result: dict[str, str] = {}
    for line in listing.splitlines():
        named = re.fullmatch(r"([A-Za-z0-9][\w.-]*?)-(\d[^-]*)(?:-py\d\S*)?\.(?:dist|egg)-info", line.strip())
        if named is None:
            continue
        try:
            Version(named[2])
        except ValueError:  # InvalidVersion, and parts of 4300 digits
            continue
        result.setdefault(re.sub(r"[-_.]+", "-", named[1]).lower(), named[2])
    return tuple(sorted(result.items()))
