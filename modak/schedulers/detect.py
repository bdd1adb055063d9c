"""Which scheduler answers on a login node, told from what its commands say of themselves."""

import re
from dataclasses import dataclass
from typing import Literal

_GRID_ENGINE = re.compile(r"^(?:[A-Z]{2,3}/)?[A-Z]?GE +([0-9][\w.]*)", re.MULTILINE | re.ASCII)
"""The first line of ``qsub -help``: SGE 8.1.9, UGE 8.6.18, GE 6.2u5, OGS/GE 2011.11, AGE 2023.1.1."""


@dataclass(frozen=True)
class Recognised:
    """A scheduler and its version; ``wrapped`` where Torque's commands are Slurm's wrappers."""

    name: Literal["slurm", "torque", "openpbs", "gridengine"]
    version: str | None
    wrapped: bool = False


def recognise(sbatch: str = "", qsub: str = "", qsub_help: str = "", *, expected: str = "") -> Recognised | None:
    """Return the scheduler that ``sbatch --version`` and ``qsub --version`` come from; None where both say nothing.

    ``qsub_help`` is what ``qsub -help`` prints: Grid Engine has no ``--version`` and begins its help with its name.
    Each text is all that the command printed, on both streams; empty where there is no such command. Slurm comes first,
    because its wrappers for Torque's commands are no Torque: they are driven as Slurm; but there are none of Grid
    Engine's, so where that is ``expected`` and answers, an sbatch beside it does not count.
    """
    if expected == "gridengine" and (match := _GRID_ENGINE.search(qsub_help)):
        return Recognised("gridengine", match[1])
    if found := re.search(r"^slurm\S* +(\d+\.\d+\S*)", sbatch, re.MULTILINE):
        return Recognised("slurm", found[1], wrapped=_is_wrapper(qsub))
    if re.search(r"^sbatch: (error|fatal):", sbatch, re.MULTILINE):
        return Recognised("slurm", None, wrapped=_is_wrapper(qsub))
    if found := re.search(r"^pbs_version *= *(\S+)", qsub, re.MULTILINE):
        return Recognised("openpbs", found[1])
    if found := re.search(r"^Version: *(\d\S*)", qsub, re.MULTILINE):
        return Recognised("torque", found[1])
    if found := _GRID_ENGINE.search(qsub_help):
        return Recognised("gridengine", found[1])
    if _is_wrapper(qsub):
        return Recognised("slurm", None, wrapped=True)
    return None


def _is_wrapper(qsub: str) -> bool:
    return "[-a start_time]" in qsub and "[-P wckey]" in qsub
