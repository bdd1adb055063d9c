"""The manifest of a bundle: what its ONNX files are, what was checked and measured, and how the models are combined.

A bundle is a folder::

    manifest.json                 this document
    models/NAME/model.onnx        one folder for each model; its external data lie in the same folder
    ensemble.onnx                 all models and the combination rule as one graph; optional
    ensemble.data                 its external data, where it is larger than protobuf's 2 GiB

Nothing here imports onnx or a framework: ``modak_deploy.onnx.bundle`` reads, verifies and writes the files.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, StringConstraints, model_validator

from modak_deploy.model.base import Line, Model, Name, NonNegative, Positive, Sha256, Text, VersionText
from modak_deploy.model.measurement import Hardware

MANIFEST = "manifest.json"
ENSEMBLE = "ensemble.onnx"
LARGEST_MANIFEST = 16 * 1024**2
"""Bytes."""
LARGEST_GRAPH = 2 * 1024**3 - 1
"""Bytes of one protobuf message; more goes into external data."""
LARGEST_FILE = 2**44
"""Bytes of one file of external data: 16 TiB."""
MOST_MODELS = 256
MOST_FILES = 4096
"""Files of external data of one graph."""
MOST_TENSORS = 4096
MOST_DIMENSIONS = 64

# A part begins with neither a dot (no '..', nothing hidden) nor a hyphen, and holds nothing that a shell, Windows or a
# terminal acts upon. torch.onnx names external data after tensors, such as 'encoder.0.weight' or 'onnx__MatMul_1'.
_PART = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@+-]{0,254}", re.ASCII)
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


def check_path(path: str) -> str:
    """Return a relative path with ``/`` between its parts that cannot leave its folder; ValueError for any other."""
    if not path or len(path) > 1024:
        raise ValueError("a path has 1 to 1024 characters")
    if path.startswith("/") or "\\" in path or re.match(r"[A-Za-z]:", path):
        raise ValueError(f"{path[:200]!r} is not a path relative to the bundle")
    if ".." in path.split("/"):
        raise ValueError(f"{path[:200]!r} leaves the bundle")
    for part in path.split("/"):
        if not _PART.fullmatch(part):
            raise ValueError(f"{path[:200]!r} has the part {part[:80]!r}; letters, digits and '_.@+-' are permitted")
    return path


def _check_tensor_name(name: str) -> str:
    if _CONTROL.search(name):
        raise ValueError("a tensor's name holds no control characters")
    return name


RelativePath = Annotated[str, AfterValidator(check_path)]
TensorName = Annotated[str, StringConstraints(min_length=1, max_length=1024), AfterValidator(_check_tensor_name)]
DataType = Literal[
    "bool",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "float16",
    "bfloat16",
    "float32",
    "float64",
    "string",
]
"""NumPy's names; ``bfloat16`` is ml_dtypes', ``string`` is Unicode text."""
Dimension = (
    Annotated[int, Field(ge=0, le=2**40)] | Annotated[str, StringConstraints(min_length=1, max_length=256)] | None
)
"""A number, a symbol such as ``batch`` that is equal wherever it occurs, or null for any size."""
Number = Annotated[float, Field(allow_inf_nan=False)]
Difference = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]


class TensorSpec(Model):
    """One input or output of a graph."""

    name: TensorName
    dtype: DataType
    shape: Annotated[list[Dimension], Field(max_length=MOST_DIMENSIONS)]

    @property
    def batch(self) -> bool:
        """Whether the first axis takes any number of samples."""
        return bool(self.shape) and not isinstance(self.shape[0], int)

    def __str__(self) -> str:
        sizes = ", ".join("?" if size is None else str(size) for size in self.shape)
        return f"{self.name}: {self.dtype}[{sizes}]"


class FileEntry(Model):
    """One file of the bundle."""

    path: RelativePath
    """From the bundle's folder, with ``/``."""
    size: Annotated[int, Field(ge=0, le=LARGEST_FILE)]
    sha256: Sha256


class Graph(Model):
    """One ONNX file with its external data."""

    file: FileEntry
    data: Annotated[list[FileEntry], Field(max_length=MOST_FILES)] = []
    """External data; each lies in the folder of ``file`` or below."""
    ir_version: Positive
    opsets: Annotated[dict[str, Positive], Field(min_length=1, max_length=32)]
    """Version by operator domain; the default domain is ``ai.onnx``."""
    inputs: Annotated[list[TensorSpec], Field(min_length=1, max_length=MOST_TENSORS)]
    outputs: Annotated[list[TensorSpec], Field(min_length=1, max_length=MOST_TENSORS)]

    @model_validator(mode="after")
    def _fits(self) -> "Graph":
        if self.file.size > LARGEST_GRAPH:
            raise ValueError(f"{self.file.path}: an ONNX file is smaller than 2 GiB; the rest is external data")
        folder = self.file.path.rpartition("/")[0]
        for entry in self.data:
            if folder and not entry.path.startswith(f"{folder}/"):
                raise ValueError(f"{entry.path}: external data lie in the folder of {self.file.path}")
        for what, tensors in (("inputs", self.inputs), ("outputs", self.outputs)):
            names = [tensor.name for tensor in tensors]
            if twice := next((name for name in names if names.count(name) > 1), None):
                raise ValueError(f"{what}: '{twice}' is given twice")
        return self

    @property
    def files(self) -> list[FileEntry]:
        """All files, the ONNX file first."""
        return [self.file, *self.data]


class Tolerance(Model):
    """How far outputs may differ: ``|a - b| <= absolute + relative * |b|``."""

    absolute: Difference
    relative: Difference


class OutputComparison(Model):
    """One output of the original model against the converted one, over all samples of the test data."""

    name: TensorName
    max_absolute: Difference | None = None
    max_relative: Difference | None = None
    top1_agreement: Share | None = None
    """Share of samples with the same largest value along the last axis."""
    nan_original: NonNegative = 0
    nan_converted: NonNegative = 0
    tolerance: Tolerance | None = None
    statistic: Number | None = None
    """Of the named test, for ``distribution``."""
    p_value: Share | None = None
    power: Share | None = None
    passed: bool


class Validation(Model):
    """How the converted model was compared with its original."""

    status: Literal["passed", "failed", "skipped"]
    method: Literal["elementwise", "distribution"] | None = None
    test: Line | None = None
    """The statistical test's name, for ``distribution``."""
    reason: Text | None = None
    """Why it was skipped, or what failed."""
    samples: NonNegative = 0
    outputs: Annotated[list[OutputComparison], Field(max_length=MOST_TENSORS)] = []
    first_deviation: Line | None = None
    """The first operator that deviates, where the comparison failed."""
    warnings: Annotated[list[Text], Field(max_length=1000)] = []

    @model_validator(mode="after")
    def _has_what_it_says(self) -> "Validation":
        if self.status == "skipped" and not self.reason:
            raise ValueError("a validation that was skipped needs a 'reason'")
        if self.status == "passed" and (self.method is None or not self.samples):
            raise ValueError("a validation that passed needs a 'method' and 'samples'")
        if self.status == "passed" and (bad := next((o.name for o in self.outputs if not o.passed), None)):
            raise ValueError(f"the validation passed, and its output '{bad}' did not")
        return self


class Timing(Model):
    """Seconds of one call, measured where the bundle was made or used."""

    engine: Name = "onnxruntime"
    """``onnxruntime``, the framework's name, ``openvino``, ``tvm``."""
    provider: Name | None = None
    """ONNX Runtime's execution provider, such as ``CPUExecutionProvider``."""
    batch: Positive
    threads: Positive | None = None
    median: Annotated[float, Field(gt=0, allow_inf_nan=False)]
    low: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    high: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    """Ends of the interval of the median."""
    runs: Positive
    hardware: Hardware = Hardware()
    software: Annotated[dict[str, VersionText], Field(max_length=100)] = {}


class Optimisation(Model):
    """One sequence of passes that was tried on the converted graph."""

    passes: Annotated[list[Line], Field(max_length=100)]
    kept: bool
    reason: Text | None = None
    validation: Validation | None = None
    timings: Annotated[list[Timing], Field(max_length=1000)] = []


class Origin(Model):
    """Where a model comes from."""

    framework: Name
    source: Line
    """File name or import path, as the request gave it."""
    sha256: Sha256 | None = None
    """Of the source, where it is a file."""
    exporter: Line
    """Program and method, such as ``torch.onnx dynamo``."""
    software: Annotated[dict[str, VersionText], Field(max_length=200)] = {}
    """Versions by normalised package name."""
    date: Annotated[str, Field(pattern=r"^\d{4}-\d{2}-\d{2}$")] | None = None


class ModelEntry(Model):
    """One model of the ensemble."""

    name: Name
    graph: Graph
    origin: Origin
    licence: Line | None = None
    """SPDX expression or name."""
    validation: Validation
    timings: Annotated[list[Timing], Field(max_length=10_000)] = []
    optimisations: Annotated[list[Optimisation], Field(max_length=1000)] = []

    @model_validator(mode="after")
    def _has_its_own_folder(self) -> "ModelEntry":
        folder = f"models/{self.name}/"
        if outside := next((file.path for file in self.graph.files if not file.path.startswith(folder)), None):
            raise ValueError(f"{outside}: the files of the model '{self.name}' lie in {folder}")
        return self


Rule = Literal["single", "mean", "vote", "weighted", "stacking", "pipeline"]


class Combination(Model):
    """How the models' outputs become the ensemble's.

    ``single``: one model. ``mean``, ``weighted``: the (weighted) mean of one output of each model. ``vote``: the class
    that most models choose, the lowest of those with equally many votes. ``stacking``: the outputs, joined along the
    last axis in the order of the models, are the input of ``meta``. ``pipeline``: outputs of a model are inputs of the
    next.
    """

    rule: Rule
    inputs: Annotated[dict[Name, dict[TensorName, TensorName]], Field(max_length=MOST_MODELS)] = {}
    """By model, the ensemble's input by the model's; those of one name, or at one position, are one when absent."""
    outputs: Annotated[dict[Name, TensorName], Field(max_length=MOST_MODELS)] = {}
    """The output that is combined, by model; required where a model has several."""
    weights: Annotated[dict[Name, Number], Field(max_length=MOST_MODELS)] = {}
    """By model, for ``weighted``; also ``vote``, where each counts 1 when absent."""
    meta: Name | None = None
    """The model that joins the others, for ``stacking``."""
    connect: Annotated[list[dict[TensorName, TensorName]], Field(max_length=MOST_MODELS)] = []
    """For ``pipeline``, by step: input of the next model by output of this one; one to one by position when absent."""


class Manifest(Model):
    """A bundle: one or more converted models, and how they are combined."""

    schema_: Literal["modak.onnx-bundle/1"] = Field(default="modak.onnx-bundle/1", alias="schema")
    name: Name
    models: Annotated[list[ModelEntry], Field(min_length=1, max_length=MOST_MODELS)]
    combination: Combination
    ensemble: Graph | None = None
    """All of it as one graph; absent where the models run one by one."""
    ensemble_validation: Validation | None = None
    """The one graph against the models run one by one and combined."""
    timings: Annotated[list[Timing], Field(max_length=10_000)] = []
    """Of the ensemble."""
    target: Line | None = None
    """The target that it was made for."""
    licence: Line | None = None
    made_by: Line
    """Program and version."""

    @model_validator(mode="after")
    def _fits_together(self) -> "Manifest":
        names = [model.name for model in self.models]
        lower = [name.lower() for name in names]
        if twice := next((name for name in lower if lower.count(name) > 1), None):
            raise ValueError(f"models: '{twice}' is given twice")
        # The ensemble may share external data with the models; on some file systems, case does not tell files apart.
        entries: dict[str, FileEntry] = {}
        for file in self.files:
            if entries.setdefault(file.path.lower(), file) != file:
                raise ValueError(f"the file '{file.path}' is given twice, with different content")
        if self.ensemble is not None and self.ensemble.file.path != ENSEMBLE:
            raise ValueError(f"ensemble: its file is {ENSEMBLE}, not {self.ensemble.file.path}")
        _check_combination(self.combination, {model.name: model for model in self.models})
        return self

    @property
    def files(self) -> Iterator[FileEntry]:
        """All files that the bundle has besides its manifest; those that graphs share are repeated."""
        for graph in (*(model.graph for model in self.models), self.ensemble):
            yield from graph.files if graph is not None else ()

    def model(self, name: str) -> ModelEntry:
        """Return the model of that name; KeyError where there is none."""
        return {model.name: model for model in self.models}[name]

    def to_json(self) -> str:
        """Return the text of manifest.json, the same for the same manifest."""
        return self.model_dump_json(indent=2, by_alias=True) + "\n"


def _check_combination(combination: Combination, models: dict[str, ModelEntry]) -> None:
    """Raise ValueError where the rule does not fit the models."""
    rule, order = combination.rule, list(models)
    if (rule == "single") != (len(order) == 1):
        raise ValueError(f"combination: 'single' is for one model, and the rule is '{rule}' with {len(order)}")
    keyed: dict[str, Iterable[str]] = {
        "inputs": combination.inputs,
        "outputs": combination.outputs,
        "weights": combination.weights,
    }
    for key, named in keyed.items():
        if unknown := next((name for name in named if name not in models), None):
            raise ValueError(f"combination.{key}: model '{unknown}' not found")
    for name, renamed in combination.inputs.items():
        if unknown := next(
            (n for n in renamed if n not in {tensor.name for tensor in models[name].graph.inputs}), None
        ):
            raise ValueError(f"combination.inputs: the model '{name}' has no input '{unknown}'")
    for name, output in combination.outputs.items():
        if output not in {tensor.name for tensor in models[name].graph.outputs}:
            raise ValueError(f"combination.outputs: the model '{name}' has no output '{output}'")
    if rule == "weighted" and set(combination.weights) != set(order):
        raise ValueError("combination.weights: 'weighted' needs one weight for each model")
    if combination.weights and rule not in ("weighted", "vote"):
        raise ValueError(f"combination.weights: not supported by '{rule}'")
    if any(weight < 0 for weight in combination.weights.values()) or (
        combination.weights and not sum(combination.weights.values())
    ):
        raise ValueError("combination.weights: a weight is 0 or more, and one at least is more")
    if (combination.meta is not None) != (rule == "stacking"):
        raise ValueError("combination.meta: 'stacking' needs it, and no other rule")
    if combination.meta is not None and combination.meta not in models:
        raise ValueError(f"combination.meta: model '{combination.meta}' not found")
    if combination.connect and (rule != "pipeline" or len(combination.connect) != len(order) - 1):
        raise ValueError("combination.connect: for 'pipeline', one mapping between each model and the next")
