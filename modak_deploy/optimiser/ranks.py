"""How the ranks of an MPI program are started: what ``srun --mpi`` takes that their library understands, or why not."""

from collections.abc import Mapping, Sequence
from typing import Literal

from modak_deploy.model.deployment import Deployment
from modak_deploy.model.image import ImageEntry, MpiFamily
from modak_deploy.model.plan import RankStart
from modak_deploy.model.target import Facts, usual_scheduler
from modak_deploy.schedulers import registry

Kind = Literal["mpich", "openmpi"]
KINDS: Mapping[MpiFamily, Kind] = {"mpich": "mpich", "mvapich": "mpich", "intelmpi": "mpich", "openmpi": "openmpi"}
"""Which libraries need the same of their launcher."""
_TYPES: Mapping[Kind, Sequence[str]] = {
    "mpich": ("pmi2", "cray_shasta", "pmix"),
    "openmpi": ("pmix", "pmi2"),
}
"""The types of ``srun --mpi`` for each kind, the usual one first; the others need a library that was built for them."""


def rank_start(deployment: Deployment, facts: Facts, entry: ImageEntry | None, ranks: int) -> RankStart | str | None:
    """Return how ``ranks`` ranks are started natively or in an image; a clause says why they would not join.

    None where there is nothing to bring together.
    """
    job, target = deployment.job, deployment.target
    if ranks == 1 or job.mpi_launcher == "none" or job.mpi == "none":
        return None
    family = _family(deployment, facts, entry)
    required = job.mpi is not None or deployment.application.type == "hpc"
    srun = registry.get(facts.scheduler or usual_scheduler(target.type)).rank_launcher == "srun"
    if not srun or job.mpi_launcher not in (None, "srun"):
        return RankStart(family=family, required=required)
    offered = facts.mpi_types
    if target.mpi_type is not None:
        if offered and target.mpi_type not in offered:
            return f"target.mpi_type is {target.mpi_type}, and srun of {target.name} knows {_listed(offered)}"
        if target.mpi_type == "none" and required and family is not None:
            return _alone(family, ranks, "target.mpi_type is none")
        return RankStart(family=family, required=required)
    types = {kind: name for kind in _TYPES if (name := _first(kind, offered)) is not None}
    if offered and required and (not types if family is None else KINDS[family] not in types):
        return _alone(family, ranks, f"srun of {target.name} offers {_listed(offered)} only")
    return RankStart(family=family, required=required, types=types)


def _family(deployment: Deployment, facts: Facts, entry: ImageEntry | None) -> MpiFamily | None:
    """Return the family that the user names, the image's, or the only one of its kind on the target."""
    if deployment.job.mpi is not None and deployment.job.mpi != "none":
        return deployment.job.mpi
    if entry is not None and entry.mpi is not None:
        return entry.mpi.family
    families = [library.family for library in facts.mpi]
    return families[0] if len({KINDS[family] for family in families}) == 1 else None


def _first(kind: Kind, offered: Sequence[str]) -> str | None:
    """Return the type for a kind of library; where only a release of PMIx is named, the latest."""
    for name in _TYPES[kind]:
        if name in offered:
            return name
        if releases := [other for other in offered if name == "pmix" and other.startswith("pmix_v")]:
            return max(releases, key=lambda other: (len(other), other))
    return None


def _alone(family: MpiFamily | None, ranks: int, why: str) -> str:
    needed = _TYPES[KINDS[family]] if family else ("pmi2", "pmix")
    return (
        f"{why}, and {family or 'an MPI library'} needs {' or '.join(needed)}: each of the {ranks} ranks would run "
        "alone; set job.mpi_launcher to mpirun, or job.mpi to none where the ranks do not use MPI"
    )


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names) or "none"
