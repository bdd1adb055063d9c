"""What ``modak convert`` is asked to do: the models of an ensemble, their data, and how the bundle is made of them."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints, ValidationError, model_validator

from modak_deploy.diagnostics import Diagnostic
from modak_deploy.documents import read_document
from modak_deploy.documents.validation import diagnostics_of
from modak_deploy.engines.registry import running_onnx, with_converter
from modak_deploy.errors import InputError
from modak_deploy.extensions import ENGINES
from modak_deploy.model.base import Duration, Line, Memory, Model, Name, Positive, Registered, Text
from modak_deploy.model.target import Target
from modak_deploy.onnx.engines import OnnxRuntime
from modak_deploy.onnx.manifest import MOST_MODELS, Combination, DataType, Difference, Share, TensorName

PASS_NAMES = (
    "simplify",
    "graph-basic",
    "graph-extended",
    "graph-all",
    "quantise-dynamic",
    "quantise-static",
    "float16",
    "bfloat16",
)
FrameworkName = Annotated[str, Registered(ENGINES, only=with_converter)]
PassName = Annotated[str, Registered(ENGINES, also=PASS_NAMES, only=running_onnx, without=OnnxRuntime.name)]
"""A pass, or an engine whose time is compared with ONNX Runtime's."""
Reference = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][\w.]*:[A-Za-z_][\w.]*$")]
"""``module:attribute``."""
INEXACT = frozenset({"quantise-dynamic", "quantise-static", "float16", "bfloat16"})
"""Passes that change results beyond the order of additions."""


class TensorShape(Model):
    """An input that is generated: normally distributed numbers, or whole numbers from ``low`` to below ``high``."""

    shape: Annotated[list[Positive], Field(min_length=1, max_length=16)]
    """The first axis is the batch."""
    dtype: DataType = "float32"
    low: int = 0
    high: int = 2

    @model_validator(mode="after")
    def _can_be_generated(self) -> "TensorShape":
        if self.low >= self.high:
            raise ValueError(f"'low' is {self.low}, and must be below 'high', {self.high}")
        if self.dtype in ("string", "bfloat16"):
            raise ValueError(f"data of type {self.dtype} cannot be generated; give a file")
        return self


class DataFile(Model):
    """Arrays in a file; the first axis is the samples."""

    file: Line
    """``.npz``: one array for each input; ``.npy``: one input; ``.csv``, ``.parquet``: a table, a row a sample."""
    drop: list[Line] = []
    """Columns of a table that are no input, such as the label."""
    columns: bool = False
    """Each column of a table is an input of its own, as pipelines for data frames want it."""
    dtype: DataType | None = None
    """Type that numbers of a table or an array are converted to; float32 for a table when absent."""


class Generated(Model):
    """Test data like the example, from a fixed seed."""

    samples: Positive = 32
    seed: int = 0


class ModelRequest(Model):
    """One trained model."""

    name: Name
    framework: FrameworkName
    file: Line | None = None
    """Weights or the whole model, from the request's folder: ``.safetensors``, ``.pt``, ``.pt2``, ``.keras``, a
    SavedModel, ``.skops``, ``.joblib``, ``.json``, ``.ubj``, ``.txt``, ``.npz``."""
    class_: Reference | None = Field(default=None, alias="class")
    """``module:attribute`` that makes the model: a class or a function, in ``code`` or installed."""
    arguments: dict[Line, Any] = {}
    """Arguments for ``class``."""
    code: Line | None = None
    """Folder, or one file, with the user's own module; nothing else is put on Python's path."""
    trust: bool = False
    """The file is the user's own or of somebody they trust: reading it may run code (pickle, joblib, torch.export
    archives, Lambda layers)."""
    example: Line | DataFile | dict[TensorName, TensorShape]
    """The input that the model is traced with: a file, or shapes by name."""
    test: Line | DataFile | Generated
    """Data that the original and the converted model are compared with."""
    axes: dict[TensorName, dict[Annotated[str, StringConstraints(pattern=r"^\d{1,2}$")], Name]] = {}
    """Other axes of any size by input: number of the axis, in quotes, and its name."""
    batch: bool = True
    """The first axis takes any number of samples."""
    method: Literal["predict", "predict_proba", "transform", "decision_function"] | None = None
    """scikit-learn: what the model is to do, where it can do several things."""
    outputs: list[TensorName] = []
    """Names for the outputs."""
    tolerance: dict[DataType, "ToleranceRequest"] = {}
    """Permitted difference by type; see docs/onnx.md for the defaults."""
    stochastic: bool = False
    """The same input does not always give the same output: distributions are compared."""
    skip_validation: Text | None = None
    """Why the original and the converted model are not compared; the manifest repeats it."""
    frozen_branches: Literal["refuse", "accept"] = "refuse"
    """What becomes of a model whose control flow depends on its data, when only one branch can be converted."""
    opset: Positive | None = None
    """The highest that converter and runtime share when absent."""
    python: Line | None = None
    """Interpreter with this model's packages, where they conflict with those of others."""
    timeout: Duration = 3600
    """Longest time for the conversion, in seconds."""
    licence: Line | None = None

    @model_validator(mode="after")
    def _has_a_source(self) -> "ModelRequest":
        if self.file is None and self.class_ is None:
            raise ValueError("the model needs a 'file' or a 'class'")
        if self.stochastic and self.skip_validation:
            raise ValueError("'stochastic' compares distributions, and 'skip_validation' compares nothing: give one")
        if self.method and self.framework != "sklearn":
            raise ValueError(f"'method' is for sklearn, not {self.framework}")
        return self


class ToleranceRequest(Model):
    """How far outputs may differ: ``|a - b| <= absolute + relative * |b|``."""

    absolute: Difference = 0.0
    relative: Difference = 0.0


class OptimiseRequest(Model):
    """How the converted graphs are made faster."""

    enabled: bool = True
    passes: list[PassName] = []
    """Passes to try; all that ``numerics`` permits and this machine has when empty."""
    budget: Duration = 60
    """Seconds for each model."""
    batches: Annotated[list[Positive], Field(min_length=1, max_length=16)] = [1, 16]
    """Batch sizes that are timed; the first decides."""
    accuracy_loss: Share = 0.01
    """Highest share of samples whose largest output may become another, for passes of relaxed numerics."""
    minimal_gain: Annotated[float, Field(ge=0, le=1)] = 0.02
    """Share of time that a sequence of passes has to save to be kept."""
    tuning_trials: Annotated[int, Field(ge=0, le=100_000)] = 0
    """Programs that TVM measures on this machine for each batch size; it only fuses operators when 0."""
    longest: Annotated[int, Field(ge=1, le=4)] = 3
    """Passes in a sequence."""


class ConversionRequest(Model):
    """The document of ``modak convert``."""

    name: Name
    hardware: Literal["cpu", "openvino", "cuda", "tensorrt", "rocm", "migraphx"] | None = None
    """What the bundle will run on; of ``target``, or cpu, when absent."""
    target: Target | None = None
    """A modak target, as in a deployment document."""
    runtime: Annotated[str, StringConstraints(pattern=r"^\d+\.\d+(\.\d+)?$")] | None = None
    """Version of ONNX Runtime on the target; the installed one when absent."""
    numerics: Literal["exact", "relaxed"] = "exact"
    """``relaxed`` permits quantisation, float16 and bfloat16."""
    external_data: Memory = 2**31 - 1
    """Bytes from which on a model's weights are written beside its ONNX file."""
    combine: Combination | None = None
    """How the models' outputs become the ensemble's."""
    optimise: OptimiseRequest = OptimiseRequest()
    licence: Line | None = None
    models: Annotated[list[ModelRequest], Field(min_length=1, max_length=MOST_MODELS)]

    @model_validator(mode="after")
    def _fits_together(self) -> "ConversionRequest":
        names = [model.name.lower() for model in self.models]
        if twice := next((name for name in names if names.count(name) > 1), None):
            raise ValueError(f"models: the name '{twice}' is given twice")
        if self.combine is None and len(names) > 1:
            raise ValueError(f"there are {len(names)} models: 'combine' says how their outputs are combined")
        if self.numerics == "exact" and (inexact := INEXACT & set(self.optimise.passes)):
            raise ValueError(f"optimise.passes: '{min(inexact)}' changes results; it needs 'numerics: relaxed'")
        return self

    @property
    def engine(self) -> str:
        """Return the hardware that the bundle is made for."""
        if self.hardware is not None:
            return self.hardware
        nodes = [part.node for part in self.target.partitions] if self.target else []
        nodes += [self.target.node] if self.target and self.target.node else []
        vendors = {accelerator.vendor for node in nodes for accelerator in node.accelerators}
        return "cuda" if "nvidia" in vendors else "migraphx" if "amd" in vendors else "cpu"


def load_request(path: Path) -> ConversionRequest:
    """Return the request of a YAML file; InputError has one diagnostic for every problem."""
    document = read_document(path)
    if not isinstance(document.data, dict):
        text = "the document must be a mapping with the keys 'name' and 'models'"
        raise InputError(text, source=path, code="wrong-type")
    try:
        return ConversionRequest.model_validate(document.data)
    except ValidationError as error:
        problems = diagnostics_of(error, ConversionRequest, origin=str(path), locate=document.locate)
        raise InputError(list(dict.fromkeys(map(_without_branches, problems)))) from None


_BRANCH = re.compile(r"constrained-str|DataFile|Generated|dict\[.*\]")


def _without_branches(diagnostic: Diagnostic) -> Diagnostic:
    """Leave the names of a union's branches out of the path."""
    return replace(diagnostic, path=tuple(part for part in diagnostic.path if not _BRANCH.fullmatch(str(part))))
