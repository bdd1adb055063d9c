"""What the process that converts one model is given and what it gives back, as JSON.

These modules need no pydantic, so that they run in an interpreter that has the model's framework and little else.
"""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from modak_deploy.util.files import write_atomically

PROGRESS = "modak: "
"""Start of a line of standard output that says what is being done."""


@dataclass
class Data:
    """Where arrays come from: a file, shapes, or the example."""

    file: str | None = None
    drop: list[str] = field(default_factory=list)
    columns: bool = False
    dtype: str | None = None
    shapes: dict[str, dict[str, Any]] = field(default_factory=dict)
    samples: int = 0
    seed: int = 0


@dataclass
class Task:
    """One model to convert; all paths are absolute."""

    name: str
    framework: str
    example: Data
    test: Data
    folder: str
    """Where ``model.onnx`` is written."""
    file: str | None = None
    reference: str | None = None
    arguments: dict[str, Any] = field(default_factory=dict)
    code: str | None = None
    trust: bool = False
    axes: dict[str, dict[str, str]] = field(default_factory=dict)
    batch: bool = True
    method: str | None = None
    outputs: list[str] = field(default_factory=list)
    tolerance: dict[str, list[float]] = field(default_factory=dict)
    stochastic: bool = False
    skip_validation: str | None = None
    frozen_branches: str = "refuse"
    opset: int | None = None
    runtime: str | None = None
    external_data: int = 2**31 - 1
    batches: list[int] = field(default_factory=list)
    """Batch sizes for which the original is timed beside the converted model."""
    digests: dict[str, str] = field(default_factory=dict)
    """SHA-256 of the files that the result depends on."""

    def to_json(self) -> str:
        """Return the task as JSON, the same for the same task."""
        return json.dumps(asdict(self), sort_keys=True, indent=1)

    @staticmethod
    def from_json(text: str) -> "Task":
        """Return the task of ``to_json``."""
        data = json.loads(text)
        return Task(**{**data, "example": Data(**data["example"]), "test": Data(**data["test"])})


@dataclass
class Outcome:
    """How the conversion of one model ended."""

    error: str | None = None
    exporter: str = ""
    software: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    """What the user should know: a fallback, a frozen branch."""
    validation: dict[str, Any] = field(default_factory=dict)
    """As the manifest's ``Validation``."""
    timings: list[dict[str, Any]] = field(default_factory=list)
    """As the manifest's ``Timing``, of the framework itself."""
    seconds: dict[str, float] = field(default_factory=dict)
    """Of each step."""
    sources: dict[str, str] = field(default_factory=dict)
    """SHA-256 of the files of an installed package that has the model's class."""

    def write(self, path: Path) -> None:
        """Write the outcome as JSON, whole or not at all."""
        write_atomically(path, json.dumps(asdict(self), sort_keys=True, indent=1))

    @staticmethod
    def read(path: Path) -> "Outcome":
        """Return the outcome of a file; ValueError where it is none."""
        data = json.loads(path.read_text())
        if not isinstance(data, dict):
            raise ValueError("no mapping")
        try:
            return Outcome(**data)
        except TypeError as error:
            raise ValueError(str(error)) from None
