"""The Plan: the one contract between the optimiser and everything that acts on its decision."""

import hashlib
import json
from typing import Any, Literal

from pydantic import Field

from modak.model.application import Application
from modak.model.base import (
    Line,
    Model,
    Name,
    NonNegative,
    Positive,
    RuntimeName,
    SchedulerName,
    Sha256,
    Text,
    VariableName,
)
from modak.model.cloud import Estimate, InstancePlan
from modak.model.image import Architecture, Digest, ImageAccelerator, MpiFamily
from modak.model.request import JobOptions, Request
from modak.model.target import Facts, Target

Basis = Literal["measurement", "trial", "model", "rule", "none"]
"""What a prediction rests on, best first: whole runs, units that were tried while a job ran, the time model, a ratio
from elsewhere; ``none`` means that no time can be told."""
TIMED: frozenset[Basis] = frozenset({"measurement", "trial", "model"})
"""Those whose seconds are meant as such."""


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
    trials: Literal["none", "live"] = "none"
    """``live``: the candidates are tried while the program runs."""
    numerics: Literal["exact", "relaxed"] = "exact"
    """Whether levers that change results may be tried."""
    candidates: list[Name] = []
    """Levers to try, in their order."""
    units: Positive | None = None
    """Units of work in the whole program, as far as the workload tells what the launcher counts."""


class Candidate(Model):
    """One way to run the application."""

    name: Line
    runtime: RuntimeName = "native"
    image: Image | None = None
    engine: Name | None = None
    """The framework that does the work, where it is not the application's own."""
    compiler: Name | None = None
    levers: list[Name] = []
    environment: dict[VariableName, Text] = {}
    preload: list[Line] = []
    """Shared libraries for LD_PRELOAD, by soname."""
    launcher: Line | None = None
    """File name, below ``launchers/`` in the working directory, of a wrapper that starts the script."""
    launcher_text: Text | None = None
    """The wrapper's content, where a site's catalogue brought it; modak has the others."""
    launch: Launch | None = None
    """What travels into the application's interpreter; None for a program that is left to itself."""
    argv: list[Text] = []
    """The final command line, relative to the working directory."""
    resources: Resources = Resources()
    rank_start: RankStart | None = None
    """None for one rank, for ranks that do not use MPI, and for a program that starts its ranks itself."""


class Gain(Model):
    """Time of the default over time of a candidate: above 1 is faster."""

    ratio: float
    low: float
    high: float


class Prediction(Model):
    """Predicted seconds: start + compile + units x steady, with an interval for the sum."""

    seconds: float | None = Field(default=None, ge=0)
    low: float | None = Field(default=None, ge=0)
    high: float | None = Field(default=None, ge=0)
    start: float | None = Field(default=None, ge=0)
    compile: float | None = Field(default=None, ge=0)
    """What the first unit costs over a later one."""
    steady: float | None = Field(default=None, ge=0)
    """Seconds per unit."""
    units: Positive = 1
    gain: Gain | None = None
    """Against the default; known for some candidates whose seconds are not."""
    basis: Basis = "none"
    evidence: Text = ""
    """One sentence: which measurements, model or rule."""


class Ranked(Model):
    """A feasible candidate and its prediction."""

    candidate: Candidate
    prediction: Prediction


class Rejected(Model):
    """A candidate that cannot or may not be used, and why."""

    name: Line
    reason: Text


class Elsewhere(Model):
    """A target that was asked for and not taken, and why."""

    target: Target
    candidate: Candidate | None = None
    """What would have run there; nothing where the application cannot run there."""
    prediction: Prediction | None = None
    cost: Estimate | None = None
    """Predicted price there; absent where no time is known."""
    reason: Text
    """One clause: what the comparison came to, or why the application cannot run there."""
    inputs: Sha256
    """Hash of what was asked of this target."""


class Unplanned(Model):
    """What was asked of a target that cannot do it, so that another target can be asked the same."""

    application: Application
    target: Target
    request: Request
    job: JobOptions
    sources: list[Source] = []
    inputs: Sha256
    """Hash of all this."""
    reason: Text
    """Why the target cannot do it."""
    other_targets: list[Elsewhere] = []
    """Other targets that cannot do it either."""


class Versions(Model):
    """What decided."""

    modak: str
    catalogue: Sha256
    measurements: Sha256
    model: Sha256 | None = None


class Plan(Model):
    """A decision with everything needed to understand, repeat and carry it out."""

    schema_: Literal["modak.plan/1"] = Field(default="modak.plan/1", alias="schema")
    created: str
    """UTC, ISO 8601; the only field that differs between two runs on the same input."""
    name: Name
    """The run's name."""
    scheduler: SchedulerName
    application: Application
    target: Target
    request: Request
    job: JobOptions
    facts: Facts
    sources: list[Source] = []
    chosen: Candidate
    prediction: Prediction
    default: Line
    """Name of the candidate that would run without modak."""
    gain: Gain | None = None
    reason: Text
    """One sentence: why the chosen one."""
    alternatives: list[Ranked] = []
    """All feasible candidates but the chosen, best first."""
    rejected: list[Rejected] = []
    other_targets: list[Elsewhere] = []
    """The targets that were asked for besides, and why the application does not run there."""
    instance: InstancePlan | None = None
    """The instance that is created for it, on a target of type cloud."""
    versions: Versions
    inputs: Sha256
    """Hash of what was asked of this target: application, target, request, job, sources."""
    secrets: dict[VariableName, Sha256] = {}
    """Keyed hash of each value of the application's ``secret_environment``: another value makes another job."""

    def questions(self) -> frozenset[str]:
        """Return the hashes of what was asked of all targets."""
        return frozenset([self.inputs, *(other.inputs for other in self.other_targets)])

    def fingerprint(self) -> str:
        """Return the SHA-256 of what the job does: two Plans with the same one would run the same job."""
        what: dict[str, Any] = {
            "name": self.name,
            "scheduler": self.scheduler,
            "application": self.application.model_dump(mode="json"),
            "target": self.target.model_dump(
                mode="json", exclude={"polling", "node", "partitions", "private_key", "known_hosts"}
            ),
            "job": self.job.model_dump(mode="json", exclude={"retry"}),
            "sources": [s.model_dump(mode="json") for s in self.sources],
            # How ranks are started follows from the rest and from what the target has installed; of the launcher the
            # levers that are on stand in the candidate's own.
            "chosen": self.chosen.model_dump(mode="json", exclude={"rank_start", "launch"}),
        }
        if self.target.cloud is None:
            del what["target"]["cloud"]
        else:  # who may connect, and for how long, changes nothing of the job
            what["target"]["cloud"] = {"provider": self.target.cloud.provider, "region": self.target.cloud.region}
        # Left out where there is none, so that a job without secrets keeps the fingerprint that it had before them.
        if not self.application.secret_environment:
            del what["application"]["secret_environment"]
        if self.secrets:
            what["secrets"] = dict(self.secrets)
        # Trials of exact levers leave the results as they are: that job is the same with and without them.
        launch = self.chosen.launch
        if launch is not None and launch.trials != "none" and launch.numerics == "relaxed":
            what["trials"] = "relaxed"
        return sha256_of(what)

    def tag(self) -> str:
        """Return the mark that the job carries in the scheduler and on disk: ``modak-`` and 16 hex digits."""
        return f"modak-{self.fingerprint()[:16]}"

    def to_json(self) -> str:
        """Return the canonical JSON text of the Plan."""
        return json.dumps(self.model_dump(mode="json", by_alias=True), indent=2, sort_keys=True) + "\n"


def sha256_of(value: Any) -> str:
    """Return the SHA-256 of a JSON value in its canonical form."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()
