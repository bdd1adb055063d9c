"""What is to be run: the application and its workload."""

from typing import Literal

from pydantic import Field, model_validator

from modak_deploy.model.base import Line, Model, Name, Positive, Specifier, Text, VariableName
from modak_deploy.model.objects import Objects
from modak_deploy.model.progress import ProgressPattern
from modak_deploy.model.service import Service

ApplicationType = Literal["ai_training", "ai_inference", "big_data", "hpc"]


class Framework(Model):
    """The framework that the application is written for."""

    name: Name
    """Lower-case name: keras, tensorflow, pytorch, jax, onnxruntime, mxnet, cntk, ..."""
    version: Specifier | None = None
    """Versions that the application works with; any when absent."""


class Engine(Model):
    """Another framework that the application itself can do its work with, such as ONNX Runtime in place of PyTorch."""

    version: Specifier | None = None
    """Versions that the application works with; any when absent."""
    arguments: list[Text] = []
    """Arguments added for this engine."""
    environment: dict[VariableName, Text] = {}
    """Environment variables for this engine."""


class Workload(Model):
    """What determines how long the work takes; all of it is optional, and each field makes predictions better."""

    model: Name | None = None
    """Stable name of the network or kernel, such as mnist-cnn or resnet50; measurements are matched by it."""
    dataset: Name | None = None
    """Stable name of the data, such as mnist or imagenet."""
    unit: Literal["epoch", "step", "batch", "call", "iteration", "run"] = "epoch"
    """What ``units`` counts."""
    units: Positive = 1
    """Number of units that the job does."""
    samples: Positive | None = None
    """Samples per unit."""
    batch: Positive | None = None
    """Samples per step."""
    parameters: Positive | None = None
    """Number of trainable parameters."""
    flops_per_sample: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    """Floating-point operations per sample, including the backward pass in training."""
    bytes_per_sample: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    """Bytes moved between memory and processor per sample."""
    layers: Positive | None = None
    """Number of layers of the network."""
    parallel_share: float | None = Field(default=None, gt=0, le=1)
    """Parallel fraction of the work, above 0 and up to 1; used where scaling has not been measured."""
    memory: Positive | None = None
    """Memory that the job needs on each node, in bytes."""


class Secret(Model):
    """Where the value of a secret environment variable comes from; exactly one of the keys is given."""

    variable: VariableName | None = None
    """Ansible variable that holds the value, such as one in a vault."""
    file: Line | None = None
    """File on the controller that holds the value and that only its owner can read, relative to the document."""
    command: list[Text] = []
    """Program and arguments that print the value; run on the controller, and only if the user permits it."""

    @model_validator(mode="after")
    def _single_source(self) -> "Secret":
        if sum((self.variable is not None, self.file is not None, bool(self.command))) != 1:
            raise ValueError("exactly one of 'variable', 'file' and 'command' must be given")
        return self


class Application(Model):
    """One application: the user's own code, untouched."""

    name: Name
    """Name of the application."""
    type: ApplicationType = "ai_training"
    """Kind of workload; it decides which levers are considered."""
    script: Line | None = None
    """Python script, relative to the document, run by the target's Python."""
    executable: Line | None = None
    """Program on the target or in the image, in place of ``script``."""
    arguments: list[Text] = []
    """Arguments of the script or program, one entry each."""
    inputs: list[Line] = []
    """Files and folders that are copied beside the script, relative to the document."""
    outputs: list[Line] = []
    """Files to fetch after the job, relative to its working directory; ``metrics`` is always fetched."""
    objects: Objects | None = None
    """Objects of S3 or Swift that are inputs, or that outputs are stored as."""
    metrics: Line | None = None
    """JSON file that the application writes; it is shown, and kept with the results."""
    progress: ProgressPattern | None = None
    """Regular expression for the program's output: its first group captures the number of the unit of work just
    completed, as in ``step (\\d+)``, and an optional second group a result, such as the loss, by which trials are
    compared."""
    trial: list[Text] | None = None
    """Arguments that replace ``arguments`` in a short run, which trials can time from start to end."""
    environment: dict[VariableName, Text] = {}
    """Environment variables of the application, by name."""
    secret_environment: dict[VariableName, Secret] = {}
    """Environment variables whose values are read on the controller and appear in no Plan, log or command line."""
    framework: Framework | None = None
    """The framework that it is written for."""
    engines: dict[Name, Engine] = {}
    """Other frameworks that it can use, by name; the optimiser decides which is the fastest."""
    image: Line | None = None
    """Image that it is known to run in, a name of the catalogue or a reference; when given, it is the default."""
    workload: Workload = Workload()
    """What determines how long the work takes."""
    service: Service | None = None
    """For an application that does not end: the port to which clients connect, and how replicas are watched and
    replaced."""

    @model_validator(mode="after")
    def _no_results_of_a_service(self) -> "Application":
        if self.service is None:
            return self
        for key in ("outputs", "metrics", "progress", "trial", "engines"):
            if getattr(self, key):
                raise ValueError(f"'{key}' is not supported for a service, which does not end: leave it out")
        names = sorted({*self.environment, *self.secret_environment})
        if taken := [name for name in names if name == "PORT" or name.startswith("PORT_")]:
            raise ValueError(f"'{taken[0]}' cannot be set: modak sets that variable for each replica of a service")
        return self

    @model_validator(mode="after")
    def _single_program(self) -> "Application":
        if twice := sorted(self.environment.keys() & self.secret_environment.keys()):
            raise ValueError(f"'{twice[0]}' is in 'environment' and in 'secret_environment': give it once")
        if self.objects is not None:
            if strange := next(
                (path for path in self.objects.outputs if path not in (*self.outputs, self.metrics)), None
            ):
                raise ValueError(f"'{strange}' of 'objects' is not among 'outputs': name it there, or as 'metrics'")
            if twice := sorted(self.objects.inputs.keys() & {*self.inputs, self.script}):
                raise ValueError(f"'{twice[0]}' is a file of the controller's and an object: give it once")
        if (self.script is None) == (self.executable is None):
            raise ValueError("exactly one of 'script' and 'executable' must be given")
        if self.engines and self.framework is None:
            raise ValueError("'engines' need the 'framework' that they stand in for")
        if self.framework is not None and self.framework.name in self.engines:
            raise ValueError(f"the framework '{self.framework.name}' is not an engine")
        return self
