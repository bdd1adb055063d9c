"""The Plan: the one contract between the optimiser and everything that acts on its decision."""

import json
import re
from datetime import UTC, datetime
from typing import Any, Literal

from pydantic import Field, model_validator

from modak_deploy.model.application import Application
from modak_deploy.model.base import Line, Model, Name, Positive, RuntimeName, SchedulerName, Sha256, Text, VariableName
from modak_deploy.model.cloud import Estimate, InstancePlan
from modak_deploy.model.deployment import Deployment
from modak_deploy.model.execution import Image, Launch, RankStart, Resources, Source
from modak_deploy.model.request import JobOptions, Request
from modak_deploy.model.target import Facts, Target
from modak_deploy.model.trials import RestartPlan
from modak_deploy.util.digest import sha256_of

__all__ = [
    "TIMED",
    "VERSION",
    "WRITTEN_TIME",
    "Basis",
    "Candidate",
    "Elsewhere",
    "Gain",
    "Image",
    "Launch",
    "Plan",
    "Prediction",
    "RankStart",
    "Ranked",
    "Rejected",
    "Resources",
    "Source",
    "Unplanned",
    "Versions",
    "sha256_of",
    "version_of",
]

VERSION = 2
"""Of the schema that this modak reads and writes."""
WRITTEN_TIME = "%Y-%m-%dT%H:%M:%SZ"
"""How ``created`` is written."""
Basis = Literal["measurement", "trial", "model", "modelled", "rule", "none"]
"""What a prediction rests on, best first: whole runs, units that were tried while a job ran, the time model, seconds
from other hardware that the catalogue's figures of both carry over, a ratio from elsewhere; ``none`` means that no time
can be told."""
TIMED: frozenset[Basis] = frozenset({"measurement", "trial", "model"})
"""Those whose seconds are meant as such."""


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

    @property
    def is_sure(self) -> bool:
        """Whether there are seconds that limits may be compared with: a ratio that was measured tells none."""
        return self.seconds is not None and self.basis in TIMED


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
    instance: Name | None = None
    """The instance type that would have been created there."""
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


def version_of(data: Any) -> int | None:
    """Return the version of the Plan that ``data`` was read from; None where it does not say."""
    schema = data.get("schema") if isinstance(data, dict) else None
    match = re.fullmatch(r"modak\.plan/(\d{1,9})", schema, re.ASCII) if isinstance(schema, str) else None
    return int(match[1]) if match else None


class Plan(Model):
    """A decision with everything needed to understand, repeat and carry it out."""

    schema_: Literal["modak.plan/2"] = Field(default="modak.plan/2", alias="schema")
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
    restart: RestartPlan | None = None
    """Candidates that are tried in the first part of the job, each in a new process."""
    alternatives: list[Ranked] = []
    """All feasible candidates but the chosen, best first."""
    rejected: list[Rejected] = []
    cost: Estimate | None = None
    """Predicted price, where the target was compared with others and a time is known."""
    other_targets: list[Elsewhere] = []
    """The targets that were asked for besides, and why the application does not run there."""
    instance: InstancePlan | None = None
    """The instance that is created for it, on a target of type cloud."""
    versions: Versions
    inputs: Sha256
    """Hash of what was asked of this target: application, target, request, job, sources."""
    secrets: dict[VariableName, Sha256] = {}
    """Keyed hash of each value of the application's ``secret_environment``: another value makes another job."""

    @model_validator(mode="before")
    @classmethod
    def _version(cls, data: Any) -> Any:
        version = version_of(data)
        if version is not None and version != VERSION:
            hint = "plan again" if version < VERSION else "upgrade modak, or plan again"
            raise ValueError(
                f"version {version} of the Plan is not supported by this modak, which reads version {VERSION}; {hint}"
            )
        return data

    @model_validator(mode="after")
    def _launch_follows_from_the_rest(self) -> "Plan":
        """The launcher's part of the chosen candidate is no part of the fingerprint, so that it must follow from it."""
        launch = self.chosen.launch
        if launch is None:
            return self
        if strange := sorted(set(launch.levers) - set(self.chosen.levers)):
            raise ValueError(f"chosen.launch.levers: '{strange[0]}' is not one of chosen.levers; plan again")
        if self.request.numerics == "exact" and (launch.numerics != "exact" or launch.relaxed):
            raise ValueError("chosen.launch.numerics: 'relaxed' is not permitted by request.numerics; plan again")
        if launch.candidates and (not self.request.tries_live or self.request.configuration is not None):
            raise ValueError("chosen.launch.candidates: the request permits no trials while it runs; plan again")
        if launch.candidates and (launch.trials == "survey") != self.request.surveys:
            raise ValueError(f"chosen.launch.trials: '{launch.trials}' is not what the request asks for; plan again")
        for key in ("relaxed", "kept"):
            if unknown := sorted(set(getattr(launch, key)) - set(launch.candidates)):
                raise ValueError(f"chosen.launch.{key}: '{unknown[0]}' is not one of the candidates; plan again")
        if forbidden := sorted({*launch.levers, *launch.candidates} & set(self.request.forbid_levers)):
            raise ValueError(f"chosen.launch: the lever '{forbidden[0]}' is forbidden by the request; plan again")
        return self

    @property
    def surveys(self) -> bool:
        """Whether the job measures all sets of levers, and so is no run of its configuration."""
        return self.chosen.launch is not None and self.chosen.launch.trials == "survey"

    @property
    def asked(self) -> Deployment:
        """What was asked, of its own target alone."""
        return Deployment(application=self.application, target=self.target, request=self.request, job=self.job)

    @property
    def created_at(self) -> datetime:
        """When it was made."""
        return datetime.strptime(self.created, WRITTEN_TIME).replace(tzinfo=UTC)

    def questions(self) -> frozenset[str]:
        """Return the hashes of what was asked of all targets."""
        return frozenset([self.inputs, *(other.inputs for other in self.other_targets)])

    def fingerprint(self) -> str:
        """Return the SHA-256 of what the job does: two Plans with the same one would run the same job."""
        what: dict[str, Any] = {
            "name": self.name,
            "scheduler": self.scheduler,
            "application": self.application.model_dump(mode="json"),
            "target": self.target.identity(),
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
        del what["application"]["objects"]  # of inputs the content counts, and where results are stored changes no job
        for key in ("progress", "trial"):
            if what["application"][key] is None:
                del what["application"][key]
        # How replicas are watched and replaced changes nothing of them.
        del what["application"]["service"]
        if self.application.service is not None and self.application.service.further_ports:
            what["further_ports"] = self.application.service.further_ports
        if self.chosen.image is not None and self.chosen.image.packing is None:
            del what["chosen"]["image"]["packing"]
        if self.chosen.launch is not None and self.chosen.launch.session:
            what["session"] = dict(self.chosen.launch.session)
        if self.secrets:
            what["secrets"] = dict(self.secrets)
        if self.restart is not None and self.restart.only:
            what["restart"] = self.restart.model_dump(mode="json")
        # Trials of exact levers leave the results as they are: that job is the same with and without them.
        launch = self.chosen.launch
        if launch is not None and launch.trials != "none" and launch.relaxed:
            what["trials"] = sorted(launch.relaxed)
        if self.surveys:  # which is what the job is for
            what["survey"] = True
        return sha256_of(what)

    def tag(self) -> str:
        """Return the mark that the job carries in the scheduler and on disk: ``modak-`` and 16 hex digits."""
        return f"modak-{self.fingerprint()[:16]}"

    def to_json(self) -> str:
        """Return the canonical JSON text of the Plan."""
        return json.dumps(self.model_dump(mode="json", by_alias=True), indent=2, sort_keys=True) + "\n"
