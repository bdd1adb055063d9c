"""Which process of a job this is: the program itself, one of its ranks, or a helper that does no work of its own."""

import os
import sys
from typing import Dict, List, Mapping, Optional, Tuple

from .files import open_file

HELPERS = (
    "--multiprocessing-fork",  # multiprocessing's spawn, CPython 3.8 to 3.14: multiprocessing/spawn.py
    "from multiprocessing.forkserver",  # python -c "from multiprocessing.forkserver import main; ..."
    "from multiprocessing.resource_tracker",
    "multiprocessing.resource_tracker",
    "joblib.externals.loky",  # python -m joblib.externals.loky.backend.popen_loky_posix
    "torch/_inductor/compile_worker",  # PyTorch 2.5 and later: python .../compile_worker/__main__.py
    "torch._inductor.compile_worker",
)
PACKAGING = ("pip", "conda", "venv", "ensurepip")
RANKS = (
    ("WORLD_SIZE", "RANK"),  # torchrun, accelerate launch
    ("OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"),  # Open MPI
    ("PMI_SIZE", "PMI_RANK"),  # MPICH, Intel MPI
    ("SLURM_NTASKS", "SLURM_PROCID"),  # srun; sbatch alone sets both for the script too, so it comes last
)


def arguments() -> List[str]:
    """Return the interpreter's whole command line; the site module runs before sys.argv is set."""
    original = getattr(sys, "orig_argv", None)  # Python 3.10 and later
    if original:
        return list(original)
    try:
        with open_file("/proc/self/cmdline", "rb") as file:
            return [part.decode(errors="replace") for part in file.read(65536).split(b"\0")[:-1]]
    except OSError:
        return list(getattr(sys, "argv", []))


def is_helper(command: List[str]) -> bool:
    """Tell whether a command line belongs to a worker or a tool, not to the program."""
    rest = command[1:]
    if any(mark in part for part in rest for mark in HELPERS):
        return True
    for flag, module in zip(rest, rest[1:]):
        if flag == "-m":
            return module.split(".")[0] in PACKAGING
    return False


def rank(environment: Optional[Mapping[str, str]] = None) -> Tuple[int, int]:
    """Return this process's rank and the number of ranks."""
    values: Dict[str, str] = dict(os.environ if environment is None else environment)
    for size, number in RANKS:
        if size == "SLURM_NTASKS" and "SLURM_STEP_ID" not in values:
            continue
        if values.get(size, "").isdigit() and values.get(number, "").isdigit():
            return int(values[number]), max(1, int(values[size]))
    return 0, 1
