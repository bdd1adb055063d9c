"""The time model as it is stored: one ONNX file for each phase, and what is known of them."""

import hashlib
import json
import math
import re
from collections.abc import Mapping
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import AliasChoices, Field, ValidationError, model_validator

from modak_deploy.errors import InputError
from modak_deploy.model.base import Line, Model, NonNegative, Positive, Sha256
from modak_deploy.performance.features import VERSION, Features, change, difference, of_phase, unknown, vector
from modak_deploy.performance.paths import MODEL_FILE
from modak_deploy.performance.statistics import Interval
from modak_deploy.util.files import locked, write_atomically

Phase = Literal["start", "compile", "steady"]
PHASES: tuple[Phase, ...] = ("start", "compile", "steady")
DESCRIPTION = MODEL_FILE
VERSION_OF_FILE: Literal["modak.model/6"] = "modak.model/6"
FLOORS: Mapping[Phase, float] = {"start": 0.1, "compile": 0.1, "steady": 0.0}
"""Seconds below which a phase is not told from nothing.

They are added before the logarithm is taken: whether a first unit took 1 or 100 ms longer than the others is noise,
which would count as much as whether compilation takes 1 or 100 s. A steady unit has none: there are many.
"""
_OURS = re.compile(rf"({'|'.join(PHASES)})(-[0-9a-f]{{16}})?\.onnx")
"""Names of the files of a model; those of earlier versions have no hash in it."""
LEAST = 1e-9
"""Seconds that anything takes."""

NO_GPU = "the model was fitted to too little work on GPUs"
ANY = "any"
"""The key of the interval of ratios whatever differs."""
Finite = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class Held(Model):
    """How one workload was predicted by a model that was fitted without it."""

    workload: Line
    units: Positive
    """Length of the runs: the measured one, or a longer one that its phases give."""
    records: Positive
    predicted: NonNegative = Field(validation_alias=AliasChoices("predicted", "told"))
    """Records among them that the model could predict at all; earlier versions wrote it as ``told``."""
    error: Finite | None = None
    """Mean absolute relative error of the whole time."""
    coverage: float | None = Field(default=None, ge=0, le=1)
    """Share of the times that lay inside their interval."""
    coverage_gain: float | None = Field(default=None, ge=0, le=1)
    """Share of the gains over the default that lay inside their interval."""
    regret: Finite | None = None
    """Time of what modak chose among them over that of the fastest, less 1; None without a choice."""
    regret_model: Finite | None = None
    """The same for the least predicted time."""
    regret_default: Finite | None = None
    """The same for the default."""


class PhaseModel(Model):
    """One phase."""

    kind: Literal["ridge", "boosting"]
    features: list[Line]
    ranges: dict[Line, tuple[float, float]]
    """Least and greatest value of each feature among the records that it was fitted with."""
    limits: tuple[float, float]
    """Between what logarithms of seconds a prediction lies."""
    together: list[tuple[Line, ...]]
    """What was on at once in those records."""
    sha256: Sha256
    """Of the ONNX file."""
    records: Positive
    error: Finite
    """Mean absolute error of the logarithm, each workload held out in turn."""
    error_other: Finite | None = None
    """The same for the kind that was not taken."""

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if missing := sorted({*self.features, "training"} - set(self.ranges)):
            raise ValueError(f"the ranges lack '{missing[0]}'")
        return self


class Fitted(Model):
    """What was fitted to the work on one kind of device: processors, or GPUs."""

    phases: dict[Phase, PhaseModel]
    half_width: Finite
    """Of the interval around the logarithm of the whole time."""
    half_width_ratio: dict[Line, Finite]
    """Of the interval around the logarithm of default / configuration, by what differs."""

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if ANY not in self.half_width_ratio:
            raise ValueError(f"half_width_ratio lacks '{ANY}'")
        return self


class Description(Fitted):
    """What is known of a fitted model; the phases of its own are those of work on processors."""

    schema_: Literal["modak.model/6"] = Field(default=VERSION_OF_FILE, alias="schema")
    features_version: NonNegative
    data: Sha256
    """Version of the measurements that it was fitted with."""
    measurements: NonNegative
    """How many these were."""
    origin: Sha256
    """Where they came from: while it is the same there, none was removed since."""
    catalogue: Sha256
    level: float = Field(gt=0, lt=1)
    """Share of the times that an interval is meant to hold."""
    gpu: Fitted | None = None
    """What was fitted to work on GPUs; None where too few workloads were measured on one."""
    held: list[Held] = []
    """What it is worth on workloads held out; empty where that was never tried."""
    held_with: NonNegative | None = None
    """How many measurements there were when that was tried."""

    @property
    def devices(self) -> list[Fitted]:
        """What was fitted, by kinds of devices: processors, and GPUs where there is such."""
        return [self, *([self.gpu] if self.gpu is not None else [])]

    @property
    def usable(self) -> bool:
        """Whether it tells steady times of anything."""
        return any("steady" in device.phases for device in self.devices)

    @property
    def files(self) -> set[str]:
        """The names of its files."""
        return {file_of(phase, part.sha256) for device in self.devices for phase, part in device.phases.items()}


class TimeModel:
    """A fitted model that can predict."""

    def __init__(self, folder: Path) -> None:
        """Read the model in ``folder``; InputError when it is broken, tampered with, or of other features."""
        self.folder = folder
        text = _text(folder)
        self.description = _parsed(folder, text)
        self.version = hashlib.sha256(text.encode()).hexdigest()
        """SHA-256 of the description, which names the files' own."""
        self._devices = [_Device(folder, fitted) for fitted in self.description.devices]

    def _of(self, inputs: Features) -> "_Device":
        """Return what was fitted to the device of a case; ValueError where nothing was."""
        number = 1 if inputs["gpu"] else 0
        if number >= len(self._devices):
            raise ValueError(NO_GPU)
        return self._devices[number]

    def refusal(self, inputs: Features) -> str | None:
        """Return why nothing can be told of a case; None when it can."""
        if inputs["gpu"] and self.description.gpu is None:
            return NO_GPU
        return self._of(inputs).refusal(inputs)

    def records(self, inputs: Features) -> int:
        """Return how many records the steady times of such a case were learned from."""
        return self._of(inputs).fitted.phases["steady"].records

    def phases(self, inputs: Features) -> dict[Phase, float]:
        """Return the predicted seconds of start, compilation and one unit."""
        return self._of(inputs).phases(inputs)

    def total(self, inputs: Features, units: int) -> Interval:
        """Return the whole seconds of ``units`` units with their interval."""
        return around(whole(self.phases(inputs), units), self._of(inputs).fitted.half_width)

    def ratio(self, default: Features, other: Features, units: int) -> Interval:
        """Return the time of ``default``, over that of ``other``: what both have in common falls out."""
        value = self.total(default, units).value / self.total(other, units).value
        widths = self._of(other).fitted.half_width_ratio
        names = (difference(default, other), change(default, other), ANY)
        return around(value, next(widths[name] for name in names if name in widths))


class _Device:
    """What was fitted to one kind of device."""

    def __init__(self, folder: Path, fitted: Fitted) -> None:
        self.folder = folder
        self.fitted = fitted
        self._contents = {phase: self._checked(phase) for phase in fitted.phases}

    def _file(self, phase: Phase) -> Path:
        return self.folder / file_of(phase, self.fitted.phases[phase].sha256)

    def _checked(self, phase: Phase) -> bytes:
        path = self._file(phase)
        try:
            content = path.read_bytes()
        except OSError as error:
            raise InputError(f"{path}: cannot be read: {error.strerror}; fit the model anew") from None
        digest = hashlib.sha256(content).hexdigest()
        if digest != self.fitted.phases[phase].sha256:
            raise InputError(f"{path}: is not the file that was fitted: SHA-256 {digest}; fit the model anew")
        return content

    @cached_property
    def _sessions(self) -> Mapping[Phase, Any]:
        try:
            import onnxruntime
        except ModuleNotFoundError as error:
            raise InputError(
                f"{self.folder}: a time model was fitted, and {error.name}, which runs it, is not installed here: run"
                " pip install 'modak-deploy[models]', or remove the folder to plan without the model"
            ) from None

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 4
        sessions: dict[Phase, Any] = {}
        for phase, content in self._contents.items():
            path = self._file(phase)
            try:
                session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
            except Exception as error:  # what onnxruntime raises has no common base but this
                raise InputError(f"{path}: not a model that can be run: {str(error).splitlines()[0]}") from None
            width, wanted = session.get_inputs()[0].shape[1], len(self.fitted.phases[phase].features)
            if width != wanted:
                raise InputError(f"{path}: takes {width} features, and {DESCRIPTION} names {wanted}")
            sessions[phase] = session
        return sessions

    def refusal(self, inputs: Features) -> str | None:
        """Return why nothing can be told of a case; None when it can."""
        applying = self._applying(inputs)
        if "steady" not in applying:
            kind = "training" if inputs["training"] else "inference"
            return f"the model was fitted to no steady times of {kind}"
        for phase, part in applying.items():
            if reason := unknown(of_phase(inputs, phase), part.ranges, part.together):
                return reason
        return None

    def _applying(self, inputs: Features) -> Mapping[Phase, PhaseModel]:
        """Return the phases that a run has: a call of a trained network was never seen to have a start of its own."""
        phases = self.fitted.phases
        return {phase: part for phase, part in phases.items() if _applies(part, inputs)}

    def phases(self, inputs: Features) -> dict[Phase, float]:
        """Return the predicted seconds of start, compilation and one unit."""
        import numpy

        seconds: dict[Phase, float] = {}
        for phase in self._applying(inputs):
            session = self._sessions[phase]
            part = self.fitted.phases[phase]
            row = numpy.array([vector(inputs, part.features)], dtype=numpy.float32)
            (result,) = session.run(None, {session.get_inputs()[0].name: row})
            seconds[phase] = seconds_of(within(float(result.reshape(-1)[0]), part.limits), phase)
        return seconds


def _applies(part: PhaseModel, inputs: Features) -> bool:
    low, high = part.ranges["training"]
    return low <= inputs["training"] <= high


def logarithm_of(seconds: float, phase: Phase) -> float:
    """Return what is learned of a phase of so many seconds."""
    return math.log(max(seconds, LEAST) + FLOORS[phase])


def within(logarithm: float, limits: tuple[float, float]) -> float:
    """Return a prediction within the limits of its phase: a linear one has none of its own, and is then raised to e."""
    return min(max(logarithm, limits[0]), limits[1])


def seconds_of(logarithm: float, phase: Phase) -> float:
    """Return the seconds of a phase, of which this was learned."""
    return max(0.0, math.exp(logarithm) - FLOORS[phase])


def whole(parts: Mapping[Phase, float], units: int) -> float:
    """Return the seconds of a run of ``units`` by its phases."""
    return max(parts.get("start", 0.0) + parts.get("compile", 0.0) + units * parts["steady"], LEAST)


def around(value: float, half_width: float) -> Interval:
    """Return ``value`` with an interval that reaches ``half_width`` either way in the logarithm."""
    return Interval(value, value * math.exp(-half_width), value * math.exp(half_width))


def file_of(phase: Phase, sha256: str) -> str:
    """Return the name of a phase's file: another content has another name, so that a reader finds what it looks for."""
    return f"{phase}-{sha256[:16]}.onnx"


def read_description(folder: Path) -> Description:
    """Return what is known of the model in ``folder``; InputError when there is none or it is of another version."""
    return _parsed(folder, _text(folder))


def _text(folder: Path) -> str:
    path = folder / DESCRIPTION
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise InputError(f"{path}: fitted model not found; run 'modak model fit'") from None
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read: {error}") from None


def _parsed(folder: Path, text: str) -> Description:
    path = folder / DESCRIPTION
    _check_version(path, text)
    try:
        description = Description.model_validate_json(text)
    except ValidationError as error:
        from modak_deploy.documents.validation import diagnostics_of

        raise InputError(diagnostics_of(error, Description, origin=str(path))) from None
    if description.features_version != VERSION:
        raise InputError(f"{path}: was fitted with features of version {description.features_version}, not {VERSION}")
    return description


def _check_version(path: Path, text: str) -> None:
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: is not JSON: {error}; fit the model anew") from None
    version = data.get("schema", "of no version") if isinstance(data, dict) else "no mapping"
    if version != VERSION_OF_FILE:
        raise InputError(f"{path}: it is {version}, and this modak reads {VERSION_OF_FILE}: run 'modak model fit'")


def write_model(folder: Path, description: Description, contents: Mapping[str, bytes]) -> None:
    """Write a model so that a reader meets the old or the new one, never parts of both, whoever else writes one.

    ``contents`` are those of its files, by their names.

    The files of the model before stay for those who have just read its description.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with locked(folder):
            wanted = description.files
            with suppress(InputError):
                wanted |= read_description(folder).files
            for name, content in contents.items():
                write_atomically(folder / name, content)
            text = json.dumps(description.model_dump(mode="json", by_alias=True), indent=2, sort_keys=True) + "\n"
            write_atomically(folder / DESCRIPTION, text)
            for path in folder.glob("*.onnx"):
                if path.name not in wanted and _OURS.fullmatch(path.name):
                    path.unlink(missing_ok=True)
    except OSError as error:
        raise InputError(f"{folder}: the model cannot be written: {error.strerror}") from None
