"""The job model's document, with its own names; blank texts count as absent."""

from collections.abc import Callable
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, StringConstraints, model_validator

from modak_deploy.diagnostics import Location
from modak_deploy.model.base import Duration, Line, Memory, Model, Name, Positive, Specifier, Text
from modak_deploy.model.site import StorageClass

Efficiency = Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)]
Parallelisation = Literal["mpi", "openmp", "openacc", "opencc", "opencl"]
Token = Annotated[str, StringConstraints(pattern=r"^[^\x00\r\n]*$", min_length=1)]


class JobSection(Model):
    """``job_options``: what the scheduler is asked for."""

    job_name: Name | None = None
    account: Line | None = None
    qos: Line | None = None
    queue: Line | None = None
    partition: Line | None = None
    wall_time_limit: Duration | None = None
    node_count: Positive | None = None
    core_count: Positive | None = None
    process_count_per_node: Positive | None = None
    core_count_per_process: Positive | None = None
    memory_limit: Memory | None = None
    minimum_memory_per_processor: Memory | None = None
    request_gpus: Annotated[int, Field(ge=0)] | None = None
    request_specific_nodes: Line | None = None
    job_array: Line | None = None
    job_dependency: Line | None = None
    standard_output_file: Line | None = None
    standard_error_file: Line | None = None
    combine_stdout_stderr: bool | None = None
    architecture_constraint: Line | None = None
    copy_environment: bool | None = None
    copy_environment_variable: Line | None = None
    request_event_notification: Line | None = None
    email_address: Line | None = None
    defer_job: Line | None = None
    node_exclusive: bool | None = None


class Build(Model):
    """``application.build``: how the application is made, once."""

    src: Line
    build_command: Text
    build_parallelism: Positive = 1


class ApplicationSection(Model):
    """``application``: what is run."""

    app_tag: Name | None = None
    app_type: Literal["mpi", "hpc", "python"] | None = None
    executable: Text
    arguments: Text | None = None
    container_runtime: Line | None = None
    mpi_ranks: Positive | None = None
    threads: Positive | None = None
    minimal_efficiency: Efficiency | None = None
    storage_class_pref: StorageClass | None = None
    pre_execution: Text | None = Field(default=None, alias="pre-execution")
    post_execution: Text | None = Field(default=None, alias="post-execution")
    build: Build | None = None


class TargetSection(Model):
    """``target``: where it is run."""

    name: Name | None = None
    job_scheduler_type: Literal["slurm", "torque", "none"] | None = None
    queue_type: Literal["slurm", "torque", "none"] | None = None

    @model_validator(mode="after")
    def _single_scheduler(self) -> "TargetSection":
        first, other = self.job_scheduler_type, self.queue_type
        if first is not None and other is not None and first != other:
            raise ValueError(f"'job_scheduler_type' is '{first}' and 'queue_type' is '{other}': give one of them")
        return self

    @property
    def scheduler(self) -> str | None:
        """The scheduler that is named."""
        return self.job_scheduler_type or self.queue_type


def _no_accelerator(value: Any) -> Any:
    """Older documents write ``none`` where no accelerator is meant."""
    return None if value == "none" else value


class OptBuild(Model):
    """``opt_build``: what images are compiled for."""

    cpu_type: Literal["x86", "arm", "amd", "power"] | None = None
    acc_type: Annotated[Literal["nvidia", "amd", "fpga"] | None, BeforeValidator(_no_accelerator)] = None


class Autotuning(Model):
    """``autotuning``: another program's input."""

    tuner: Line | None = None
    input: Text | None = None


class Etl(Model):
    """How the data is read."""

    prefetch: bool | Annotated[int, Field(ge=0)] | None = None
    cache: bool | Annotated[int, Field(ge=0)] | None = None


class Data(Model):
    """The application's data."""

    location: Line | None = None
    basedata: Line | None = None
    size: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    count: Positive | None = None
    etl: Etl = Etl()


class TrainingConfig(Model):
    """What is trained."""

    ai_framework: Literal["tensorflow", "pytorch", "keras", "cntk", "mxnet"]
    type: (
        Literal[
            "image_classification",
            "object_detection",
            "translation",
            "recommendation",
            "reinforcement_learning",
            "reinforncement_learning",
        ]
        | None
    ) = None
    distributed_training: bool | None = None
    layers: Positive | None = None
    parameters: Positive | None = None

    @model_validator(mode="before")
    @classmethod
    def _config_type(cls, data: Any) -> Any:
        """TOSCA's maps call it ``config_type``: ``type`` is a word of TOSCA's own."""
        if isinstance(data, dict) and "config_type" in data and "type" not in data:
            return {"type" if key == "config_type" else key: value for key, value in data.items()}
        return data


class Keras(Model):
    """``ai_framework-keras``."""

    version: Specifier | None = None
    backend: Literal["tensorflow", "pytorch", "cntk", "mxnet", "keras"] | None = None


class TensorFlow(Model):
    """``ai_framework-tensorflow``."""

    version: Specifier | None = None
    xla: bool | None = None


class PyTorch(Model):
    """``ai_framework-pytorch``."""

    version: Specifier | None = None
    glow: bool | None = None


class Training(Model):
    """``app_type-ai_training``."""

    config: TrainingConfig
    data: Data = Data()
    keras: Keras | None = Field(default=None, alias="ai_framework-keras")
    tensorflow: TensorFlow | None = Field(default=None, alias="ai_framework-tensorflow")
    pytorch: PyTorch | None = Field(default=None, alias="ai_framework-pytorch")


class HpcConfig(Model):
    """How it is made parallel."""

    parallelisation: Parallelisation


class Mpi(Model):
    """``parallelisation-mpi``."""

    library: Literal["mpich", "openmpi", "mvapich"] | None = None
    version: Specifier | None = None
    scaling_efficiency: Efficiency | None = None
    core_subscription: Positive | None = None
    message_size: Literal["small", "medium", "large"] | None = None


class OpenMp(Model):
    """``parallelisation-openmp``."""

    number_of_threads: Positive | None = None
    scaling_efficiency: Efficiency | None = None
    affinity: Literal["block", "simple"] | None = None


class Offload(Model):
    """``parallelisation-openacc`` and ``parallelisation-opencl``."""

    compiler: Token | None = None
    version: Specifier | None = None
    number_of_acc: Positive | None = None


class Hpc(Model):
    """``app_type-hpc``."""

    config: HpcConfig
    data: Data = Data()
    mpi: Mpi | None = Field(default=None, alias="parallelisation-mpi")
    openmp: OpenMp | None = Field(default=None, alias="parallelisation-openmp")
    openacc: Offload | None = Field(default=None, alias="parallelisation-openacc")
    opencc: Offload | None = Field(default=None, alias="parallelisation-opencc")
    opencl: Offload | None = Field(default=None, alias="parallelisation-opencl")


class Other(Model):
    """A kind of application that has no options."""


class Optimisation(Model):
    """``optimisation``: what is known of the application."""

    enable_opt_build: bool = False
    enable_autotuning: bool = False
    app_type: Literal["ai_training", "ai_inference", "hpc", "big_data"]
    opt_build: OptBuild = OptBuild()
    autotuning: Autotuning = Autotuning()
    training: Training | None = Field(default=None, alias="app_type-ai_training")
    inference: Other | None = Field(default=None, alias="app_type-ai_inference")
    hpc: Hpc | None = Field(default=None, alias="app_type-hpc")
    big_data: Other | None = Field(default=None, alias="app_type-big_data")
    app_name: Any = None
    """Of an older job model, as the two below: accepted, and reported as not used."""
    arch_build: Any = None
    app_build: Any = None

    @model_validator(mode="before")
    @classmethod
    def _app_type(cls, data: Any) -> Any:
        """Take the kind from the one section that is there; without any it is the job model's plainest."""
        if not isinstance(data, dict) or "app_type" in data:
            return data
        kinds = [key.removeprefix("app_type-") for key in data if str(key).startswith("app_type-")]
        return {**data, "app_type": kinds[0] if len(kinds) == 1 else "big_data"} if len(kinds) < 2 else data


class JobBody(Model):
    """What stands below ``job``; the last four are an earlier answer's, and are made anew."""

    job_options: JobSection = JobSection()
    application: ApplicationSection
    target: TargetSection = TargetSection()
    optimisation: Optimisation | None = None
    job_script: Text | None = None
    job_content: Text | None = None
    build_script: Text | None = None
    build_content: Text | None = None

    @model_validator(mode="before")
    @classmethod
    def _empty_optimisation(cls, data: Any) -> Any:
        """An empty section means the same as none: clients write it where nothing is to be optimised."""
        if isinstance(data, dict) and data.get("optimisation") == {}:
            return {key: value for key, value in data.items() if key != "optimisation"}
        return data


class JobDocument(Model):
    """The whole document."""

    job: JobBody


def without_blanks(value: Any) -> Any:
    """Return a document without texts that are blank and without nulls: clients write them for what is not given.

    Blanks around other texts go as well.
    """
    if isinstance(value, dict):
        pairs = ((key, without_blanks(item)) for key, item in value.items())
        return {key: item for key, item in pairs if item is not None and item != ""}
    if isinstance(value, list):
        return [without_blanks(item) for item in value]
    return value.strip() if isinstance(value, str) else value


def with_versions_as_text(data: Any, written: Callable[[Location], str | None]) -> Any:
    """Return a document whose versions are text where ``written`` knows how a number was written."""

    def walk(value: Any, location: Location) -> Any:
        if isinstance(value, dict):
            return {key: walk(item, (*location, key)) for key, item in value.items()}
        if location[-1:] == ("version",) and isinstance(value, int | float) and not isinstance(value, bool):
            return written(location) or value
        return value

    return walk(data, ())
