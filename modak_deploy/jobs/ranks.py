"""The start of several ranks: which interface their MPI library needs, and whether their launcher offers it.

A rank whose library finds no process manager need not fail: it runs alone, as rank 0 of 1, and the program "completes"
as many times as there are ranks. MPICH 4.0 does so under ``srun`` without ``--mpi=pmi2`` (Slurm's MpiDefault is
``none``), and either library under the other's ``mpirun``; Open MPI 4.1 gives up under ``srun`` without PMIx. The
launcher gives each rank the variables of what it offers, so that a rank that would be alone is known before the program
starts.
"""

from collections.abc import Mapping, Sequence

from modak_deploy import shell
from modak_deploy.model.execution import RankStart
from modak_deploy.model.image import MpiFamily
from modak_deploy.model.jobrequest import JobRequest
from modak_deploy.util.scripts import script_text

KIND = "@modak-mpi-kind@"
"""Stands for the kind of library in a quoted command line: only the running job knows it."""
_KINDS: Mapping[MpiFamily, str] = {
    "mpich": "mpich",
    "mvapich": "mpich",
    "intelmpi": "intelmpi",
    "openmpi": "openmpi",
}


def prepare(request: JobRequest) -> str:
    """Return shell lines that set ``modak_mpi``, the kind of the program's library, and ``modak_mpi_type`` for srun.

    Both are empty where nothing is known. They run where the program does, after modules and ``pre_execution``, which
    may bring or build it. In an image nothing is looked up: the optimiser knows its library.
    """
    start = request.rank_start
    if start is None:
        return ""
    family = _KINDS[start.family] if start.family else ""
    lines = ["modak_mpi="]
    if request.runtime == "native":
        lines = [_text("mpi_library").rstrip(), f"modak_mpi=$(modak_mpi_library {shell.join(request.argv)})"]
    if family and (start.required or request.runtime != "native"):
        lines.append(f"modak_mpi=${{modak_mpi:-{family}}}")
    if start.types:
        lines += _choice(start, family)
    return "\n".join(lines)


def _choice(start: RankStart, family: str) -> list[str]:
    """Return the lines that choose what ``srun --mpi`` is given."""
    mpich, openmpi = start.types.get("mpich"), start.types.get("openmpi")
    unknown = {"mpich": mpich, "intelmpi": mpich, "openmpi": openmpi}.get(family) or ""
    lines = ["case $modak_mpi in"]
    # MPICH can be built with PMIx in place of its own interface.
    for pattern, chosen, name in (
        ("openmpi* | mpich-pmix", openmpi, "PMIx"),
        ("mpich* | intelmpi*", mpich, "PMI-2"),
    ):
        why = shell.quote(f"the program needs {name} to bring its ranks together, and srun has none")
        lines.append(f"  {pattern}) {f'modak_mpi_type={chosen}' if chosen else f'modak_fail {why}'} ;;")
    if not unknown and start.required and len(set(start.types.values())) > 1:
        why = (
            "which MPI library the program uses cannot be seen, and srun --mpi must be chosen by it: "
            "give job.mpi (mpich, openmpi, mvapich, intelmpi, or none where the ranks do not use MPI)"
        )
        lines.append(f"  *) modak_fail {shell.quote(why)} ;;")
    else:
        lines.append(f"  *) modak_mpi_type={unknown} ;;")
    return [*lines, "esac"]


def checked(request: JobRequest, argv: Sequence[str]) -> list[str]:
    """Return the command line of one rank, which first looks whether its launcher offers what its library needs."""
    if request.rank_start is None:
        return list(argv)
    return ["sh", "-c", _text("mpi_rank"), "modak-rank", KIND, str(request.resources.ranks), *argv]


def _text(name: str) -> str:
    return script_text(__package__, "sh", f"{name}.sh")
