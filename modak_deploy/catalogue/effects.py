"""What a lever does to a run. Each kind of effect is one class, registered in the group ``modak.lever_effects``.

In a catalogue's file a kind is a key below a lever's ``effects``, and what follows it is the effect's value, which the
class types. ``applied`` is the one function by which effects change a run.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Annotated, Any, ClassVar, Generic, Literal, TypeVar

from pydantic import Field, StringConstraints, TypeAdapter, ValidationError

from modak_deploy.extensions import LEVER_EFFECTS
from modak_deploy.model.base import Line, Positive, Text, VariableName
from modak_deploy.model.execution import Option
from modak_deploy.model.image import Packing as PackingName
from modak_deploy.util.text import nearest

FileName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]*$")]
PLACEHOLDER = re.compile(r"\{([^{}]*)\}")
"""What an environment value may refer to: ``{threads}``, the lever's own number."""
ThreadCount = Positive | Literal["all", "half", "physical"]
"""Threads per rank: a number, or a part of the cores that a rank has."""
Value = TypeVar("Value")
_OptionName = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z_]{0,60}$")]
_Strings = Annotated[list[Text], Field(min_length=1)]


@dataclass(frozen=True)
class Cores:
    """The cores that a rank can use, by which numbers of threads are meant; None is not known."""

    count: int | None = None
    threads_per_core: int | None = None
    """How many of them share a physical core."""

    def threads(self, wanted: int | str) -> int | None:
        """Return a number of threads: ``all``, ``physical`` or ``half`` of the cores, or the number itself."""
        if isinstance(wanted, int):
            return wanted
        if self.count is None:
            return None
        if wanted == "physical":
            return max(1, self.count // self.threads_per_core) if self.threads_per_core else None
        return max(1, self.count // 2) if wanted == "half" else self.count


@dataclass
class Run:
    """How a program is run, as far as levers change it."""

    environment: dict[str, str] = field(default_factory=dict)
    preload: list[str] = field(default_factory=list)
    """Shared libraries for LD_PRELOAD, by soname."""
    launcher: str | None = None
    """File of the catalogue's launchers folder that starts the script."""
    launch: Literal["live", "start", "either"] | None = None
    """Whether the launcher inside the interpreter has a lever of this name, and when it can be switched on."""
    threads: int | None = None
    """Threads per rank; None where no lever says."""
    prefix: list[str] = field(default_factory=list)
    """Program and arguments that start the application's command line."""
    arguments: list[str] = field(default_factory=list)
    """What follows the application's own arguments."""
    packing: PackingName | None = None
    """How the image file is compressed that is made on the target; None where no lever says."""
    session: dict[str, Option] = field(default_factory=dict)
    """Options of ONNX Runtime's sessions, by their names in its Python interface."""
    cores: Cores = Cores()
    """What the job gives a rank."""


@dataclass(frozen=True)
class Use:
    """What an effect may need to be used: facts of the application, the job and the place where it runs."""

    is_script: bool = True
    """Whether the application is a Python script."""
    ranks: int = 1
    launch_fault: str | None = None
    """Why the launcher cannot work inside the application's interpreter."""
    framework: str | None = None
    packings: Sequence[PackingName] = ()
    """How an image file can be compressed that is made on the target for this location; empty where none is made."""
    cores: Cores = Cores()
    """What the job gives a rank."""
    threads: int | None = None
    """Threads that the job's own options ask for."""


class Effect(ABC, Generic[Value]):
    """One thing that a lever does."""

    name: ClassVar[str]
    form: ClassVar[Any]
    """The type of the value in a catalogue's file, as pydantic understands it."""

    def __init__(self, value: Value) -> None:
        """``value`` has been checked."""
        self.value = value

    @abstractmethod
    def apply(self, run: Run) -> None:
        """Change the run."""

    def fault(self, use: Use) -> str | None:
        """Return why the effect cannot be used, as one clause that begins with ``it``; None where it can."""
        return None


class Threads(Effect[int | str]):
    """Threads per rank, a number or ``all``, ``half`` or ``physical`` of the cores that a rank has.

    Applied first, so that ``{threads}`` in the lever's environment refers to it.
    """

    name = "threads"
    form = ThreadCount

    def apply(self, run: Run) -> None:
        """See ``Effect.apply``."""
        run.threads = run.cores.threads(self.value)

    def fault(self, use: Use) -> str | None:
        """See ``Effect.fault``."""
        count, threads = use.cores.count, use.cores.threads(self.value)
        if use.threads is not None and use.threads != threads:
            return f"it sets the number of threads, which is {use.threads} by job.threads"
        if threads is None:
            return f"it needs the number of {'physical ' if self.value == 'physical' else ''}cores, which is not known"
        if count is not None and threads > count:
            return f"it uses {threads} threads, and the job has {count} cores for each rank"
        return "it changes nothing, since the job has one core for each rank" if count == 1 else None


class Environment(Effect[dict[str, str]]):
    """Environment variables."""

    name = "environment"
    form = dict[VariableName, Text]

    def apply(self, run: Run) -> None:
        """See ``Effect.apply``."""
        run.environment |= {name: value.replace("{threads}", str(run.threads)) for name, value in self.value.items()}


class Preload(Effect[str]):
    """Soname for LD_PRELOAD."""

    name = "preload"
    form = Line

    def apply(self, run: Run) -> None:
        """See ``Effect.apply``."""
        run.preload.append(self.value)


class Launcher(Effect[str]):
    """A file of the catalogue's launchers folder that starts the script."""

    name = "launcher"
    form = FileName

    def apply(self, run: Run) -> None:
        """See ``Effect.apply``."""
        run.launcher = self.value

    def fault(self, use: Use) -> str | None:
        """See ``Effect.fault``."""
        return None if use.is_script else "it starts a Python script, and the application is an executable"


class Launch(Effect[Literal["live", "start", "either"]]):
    """Switched on by ``modak_deploy/launch`` in an application's interpreter, which has a lever of this name."""

    name = "launch"
    form = Literal["live", "start", "either"]

    def apply(self, run: Run) -> None:
        """See ``Effect.apply``."""
        run.launch = self.value

    def fault(self, use: Use) -> str | None:
        """See ``Effect.fault``."""
        return use.launch_fault


class Prefix(Effect[list[str]]):
    """Program and arguments that start the application's command line, such as ``numactl --interleave=all``."""

    name = "prefix"
    form = _Strings

    def apply(self, run: Run) -> None:
        """See ``Effect.apply``."""
        run.prefix += self.value

    def fault(self, use: Use) -> str | None:
        """See ``Effect.fault``: the MPI library is looked up in the program that the command line names first."""
        return None if use.ranks == 1 else "it starts the program by another one, which is not supported for MPI ranks"


class Arguments(Effect[list[str]]):
    """Arguments that follow the application's own."""

    name = "arguments"
    form = _Strings

    def apply(self, run: Run) -> None:
        """See ``Effect.apply``."""
        run.arguments += self.value


class Packing(Effect[PackingName]):
    """How the image file is compressed that is made on the target: its size against the time to start."""

    name = "packing"
    form = PackingName

    def apply(self, run: Run) -> None:
        """See ``Effect.apply``."""
        run.packing = self.value

    def fault(self, use: Use) -> str | None:
        """See ``Effect.fault``."""
        if self.value in use.packings:
            return None
        return f"it packs an image by {self.value}, and no image file is made here that can be packed so"


class SessionOptions(Effect[dict[str, Option]]):
    """Options of ONNX Runtime's sessions, set by the launcher where the program makes one."""

    name = "session"
    form = Annotated[dict[_OptionName, Option], Field(min_length=1)]

    def apply(self, run: Run) -> None:
        """See ``Effect.apply``."""
        run.session |= self.value

    def fault(self, use: Use) -> str | None:
        """See ``Effect.fault``."""
        if use.framework != "onnxruntime":
            return f"it sets options of ONNX Runtime's sessions, and the program runs {use.framework or 'without it'}"
        return use.launch_fault


def effects_of(checked: Mapping[str, Any], values: Mapping[str, Any]) -> list[Effect[Any]]:
    """Return the effects by their kinds and values, in the order in which they apply.

    Those of ``checked`` are built in, and their values have been checked. ValueError for a kind in ``values`` that is
    not registered, or a value that its class refuses.
    """
    effects: list[Effect[Any]] = [_class(kind)(value) for kind, value in checked.items()]
    for kind in values:
        if kind not in LEVER_EFFECTS:
            raise ValueError(f"effects: the kind '{kind}' not found{nearest(kind, LEVER_EFFECTS.names())}")
        try:
            effects.append(_class(kind)(_reader(kind).validate_python(values[kind], strict=True)))
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(map(str, ("effects", kind, *first["loc"])))
            raise ValueError(f"{where}: {first['msg'].lower()}") from None
    return effects


def applied(levers: Iterable[Iterable[Effect[Any]]], cores: Cores = Cores()) -> Run:
    """Return what the effects of levers make of a run with these cores; the one place where they are applied."""
    run = Run(cores=cores)
    for effects in levers:
        for effect in effects:
            effect.apply(run)
    return run


@cache
def _class(kind: str) -> type[Effect[Any]]:
    loaded: type[Effect[Any]] = LEVER_EFFECTS.load(kind, Effect)
    return loaded


@cache
def _reader(kind: str) -> TypeAdapter[Any]:
    return TypeAdapter(_class(kind).form)
