"""What runs, and with what: the parts that a Plan and a JobRequest have in common."""

from typing import Annotated, Literal

from pydantic import Field, StrictBool, StrictInt, StrictStr

from modak_deploy.model.base import Line, Model, Name, NonNegative, Positive, Sha256, Text
from modak_deploy.model.image import Architecture, Digest, ImageAccelerator, MpiFamily, Packing

_Number = Annotated[StrictInt, Field(ge=0, le=65536)]
_Constant = Annotated[StrictStr, Field(pattern=r"^[A-Z][A-Z_]{0,60}$")]
Option = StrictBool | _Number | _Constant
"""An option of a session: a truth value, a number, or the name of a value of an enumeration (``ORT_PARALLEL``)."""


class Source(Model):
    """One file of the user's that travels to the target."""

    path: Line
    """Where it lies below the job's working directory."""
    sha256: Sha256
    size: NonNegative
    executable: bool = False


class Image(Model):
    """A container image, pinned."""

    reference: Line
    """``docker://``, ``oras://``, ``library://``, a file's path, or ``build://`` and a catalogue entry's name."""
    digest: Digest | None = None
    """Of the manifest, of the file, or of the definition and its inputs for ``build://``."""
    entry: Name | None = None
    """The catalogue's name for it."""
    architecture: Architecture = "amd64"
    accelerator: ImageAccelerator | None = None
    """Whose GPUs its software uses; the runtime then shows it the node's."""
    labels: dict[str, Text] = {}
    """Labels that it must carry to be run."""
    packing: Packing | None = None
    """How the file is compressed that is made of it on the target; what the runtime surely reads when absent."""


class Resources(Model):
    """What is reserved, and therefore launched: ranks x threads on nodes."""

    nodes: Positive = 1
    ranks: Positive = 1
    ranks_per_node: Positive = 1
    threads: Positive | None = None
    """Cores per rank; the scheduler's default when absent."""
    gpus: NonNegative = 0
    """GPUs per node."""


class RankStart(Model):
    """How several ranks are started so that their MPI library brings them together."""

    family: MpiFamily | None = None
    """The library, as far as it is known before the job's start: there it is looked up in the program itself."""
    required: bool = False
    """Ranks that their launcher does not bring together fail, even where the program does not show its library."""
    types: dict[Literal["mpich", "openmpi"], Name] = {}
    """What ``srun --mpi`` is given for either kind of library; empty where ``target.mpi_type`` says it."""


class Launch(Model):
    """What works inside the application's Python interpreter; see docs/launch.md."""

    levers: list[Name] = []
    """The chosen candidate's levers that are switched on there, from the start."""
    counts: bool = True
    """Whether units of work are counted, which takes 2 microseconds of each."""
    compiled: bool = False
    """Whether what the framework compiles is kept for later jobs, whatever levers are on."""
    trials: Literal["none", "live", "survey"] = "none"
    """``live``: the candidates are tried while the program runs; ``survey``: they and their combinations are measured
    in turns, whatever that costs."""
    numerics: Literal["exact", "relaxed"] = "exact"
    """Whether levers that change results may be tried."""
    candidates: list[Name] = []
    """Levers to try, in their order."""
    kept: list[Name] = []
    """Those of them that are tried only where an earlier job has kept what makes them ready: units were faster with
    them, and the job is too short to make that."""
    relaxed: list[Name] = []
    """Those of them that change results beyond the order of additions."""
    gain: float = Field(default=1.0, ge=1.0, le=1e6)
    """How many times as fast as the default the ``levers`` were measured to be, at the least."""
    share: float = Field(default=0.03, gt=0.0, le=0.12)
    """Largest part of the time that trials may lose; more after earlier jobs, whose shares were not needed."""
    expected: dict[Name, Annotated[float, Field(ge=1.0, le=1e6)]] = {}
    """How many times as fast three of four other workloads were at the least with candidates that are made ready at a
    cost: where that pays for it, a job may lose up to 20 % of its time on one."""
    foreseen: dict[Name, Annotated[float, Field(ge=1.0, le=1e6)]] = {}
    """How many times as fast other workloads usually were with candidates, by which the end of the job is foretold
    before they have been tried."""
    units: Positive | None = None
    """Units of work in the whole program, as far as the workload tells what the launcher counts."""
    session: dict[Name, Option] = {}
    """Options of ONNX Runtime's sessions that the chosen levers set."""
