"""What the optimisation section says of the application, by name: for levers, images and the site's scripts."""

from typing import Any

from modak_deploy.engines.registry import of_framework
from modak_deploy.errors import InputError, all_of
from modak_deploy.jobmodel.model import Hpc, JobBody, Optimisation, Training

HELD_BY_SITE = (
    "message_size",
    "core_subscription",
    "prefetch",
    "cache",
    "compiler",
)
"""What only a site's script can bring about: without one that asks for it, it is refused."""
NOTHING_TRIED = "nothing is tried: levers are tried while programs of PyTorch, ONNX Runtime, TensorFlow or Keras run"
_KINDS = {
    "ai_training": ("training", "app_type-ai_training"),
    "ai_inference": ("inference", "app_type-ai_inference"),
    "hpc": ("hpc", "app_type-hpc"),
    "big_data": ("big_data", "app_type-big_data"),
}


def check_sections(job: JobBody) -> None:
    """Raise InputError for a section that stands beside the one that ``app_type`` or ``config`` names, or lacks."""
    optimisation = job.optimisation
    if optimisation is None:
        return
    for kind, (attribute, key) in _KINDS.items():
        if kind != optimisation.app_type and getattr(optimisation, attribute) is not None:
            text = f"app_type is {optimisation.app_type}, so this section has no meaning"
            raise InputError(text, key=f"optimisation.{key}")
    if optimisation.app_type == "ai_training" and _section(optimisation) is None:
        raise InputError(f"the key '{_KINDS[optimisation.app_type][1]}' is required", key="optimisation")
    if optimisation.training is not None:
        _check_frameworks(optimisation.training)
    if optimisation.hpc is not None:
        _check_parallelisation(optimisation.hpc)
    _check_accelerator(job, optimisation)


def _section(optimisation: Optimisation) -> Any:
    return getattr(optimisation, _KINDS[optimisation.app_type][0])


def _check_frameworks(training: Training) -> None:
    framework = training.config.ai_framework
    backend = training.keras.backend if training.keras else None
    for name in ("keras", "tensorflow", "pytorch"):
        used = name == framework or (framework == "keras" and name == (backend or "tensorflow"))
        if getattr(training, name) is not None and not used:
            raise InputError(
                f"config.ai_framework is {framework}, so this section has no meaning",
                key=f"optimisation.app_type-ai_training.ai_framework-{name}",
            )
    if framework == "keras" and backend not in (None, "tensorflow", "pytorch"):
        raise InputError(
            f"no image has Keras on {backend}",
            key="optimisation.app_type-ai_training.ai_framework-keras.backend",
            hint="write tensorflow or pytorch",
        )


def _check_parallelisation(hpc: Hpc) -> None:
    kind = hpc.config.parallelisation
    for name in ("mpi", "openmp", "openacc", "opencc", "opencl"):
        same = {name, kind} <= {"openacc", "opencc"}
        if getattr(hpc, name) is not None and name != kind and not same and not (name == "openmp" and kind == "mpi"):
            raise InputError(
                f"config.parallelisation is {kind}, so this section has no meaning",
                key=f"optimisation.app_type-hpc.parallelisation-{name}",
            )
    if hpc.openacc is not None and hpc.opencc is not None:
        raise InputError(
            "parallelisation-openacc and parallelisation-opencc are the same", key="optimisation.app_type-hpc"
        )


def _check_accelerator(job: JobBody, optimisation: Optimisation) -> None:
    accelerator = optimisation.opt_build.acc_type if optimisation.enable_opt_build else None
    key = "optimisation.opt_build.acc_type"
    if accelerator == "fpga":
        raise InputError("images for FPGAs are not available", key=key, hint="write nvidia, amd or nothing")
    offload = offload_of(job)
    gpus = job.job_options.request_gpus
    if offload and offload.number_of_acc and gpus is not None and offload.number_of_acc != gpus:
        kind = optimisation.hpc.config.parallelisation if optimisation.hpc else ""
        raise InputError(
            f"it is {offload.number_of_acc}, and job_options.request_gpus is {gpus}",
            key=f"optimisation.app_type-hpc.parallelisation-{kind}.number_of_acc",
        )


def tries_live(framework: str | None) -> bool:
    """Tell whether levers can be tried while a program of the framework runs."""
    engine = of_framework(framework)
    return engine is not None and engine.tries_live


def preferences_of(job: JobBody, *, travels: bool = False) -> list[str]:
    """Return what the optimisation section prefers and the job does without, in sentences.

    ``travels`` tells that modak starts the job itself, and so can try levers while it runs.
    """
    optimisation = job.optimisation
    if optimisation is None:
        return []
    names = []
    accelerator = optimisation.opt_build.acc_type if optimisation.enable_opt_build else None
    if accelerator is not None and not job.job_options.request_gpus:
        names.append(
            f"optimisation.opt_build.acc_type: {accelerator} is a preference: request_gpus asks for no GPU, "
            "so none is reserved"
        )
    offload = offload_of(job)
    if offload and offload.number_of_acc and job.job_options.request_gpus is None:
        names.append(
            f"optimisation.app_type-hpc: number_of_acc {offload.number_of_acc} is a preference: request_gpus asks for "
            "no GPU, so none is reserved"
        )
    if optimisation.enable_autotuning:
        tuner = optimisation.autotuning.tuner
        named = f"the tuner '{tuner}' is not started" if tuner else "no tuner is started"
        tried = "levers are tried while the job runs" if travels else "a script that stands alone tries no levers"
        if travels and not tries_live(optimisation.training.config.ai_framework if optimisation.training else None):
            tried = NOTHING_TRIED
        names.append(f"optimisation.enable_autotuning: {named}; {tried}")
    for key in ("app_name", "arch_build", "app_build"):
        if getattr(optimisation, key) is not None:
            names.append(f"optimisation.{key}: it is of an older job model, and not used")
    return names


def offload_of(job: JobBody) -> Any:
    """Return the section of OpenACC or OpenCL; None where there is none."""
    hpc = job.optimisation.hpc if job.optimisation else None
    return (hpc.openacc or hpc.opencc or hpc.opencl) if hpc else None


def names_of(job: JobBody) -> list[str]:
    """Return the names by which conditions of scripts know the application."""
    optimisation = job.optimisation
    names: list[str | None] = [job.application.app_tag, job.application.app_type]
    if optimisation is not None:
        names.append(optimisation.app_type)
        names += [optimisation.training.config.ai_framework] if optimisation.training else []
        names += [optimisation.hpc.config.parallelisation] if optimisation.hpc else []
    return [name for name in names if name is not None]


def features_of(job: JobBody) -> dict[str, Any]:
    """Return the fields of the section that ``app_type`` names, by their own names, without what is absent."""
    optimisation = job.optimisation
    section = _section(optimisation) if optimisation is not None else None
    return {} if section is None else dict(_leaves(section.model_dump(by_alias=True, exclude_none=True)))


def _leaves(data: dict[str, Any]) -> list[tuple[str, Any]]:
    names: list[tuple[str, Any]] = []
    for key, value in data.items():
        names += _leaves(value) if isinstance(value, dict) else [(key, value)]
    return names


def check_honoured(job: JobBody, features: dict[str, Any], used: set[str], *, described: bool = True) -> list[str]:
    """Return notes of what nothing provides where no site is ``described``; where one is, raise InputError."""
    unheld: list[tuple[str, Any]] = []
    for name in HELD_BY_SITE:
        value = features.get(name)
        harmless = value is None or value is False or value == 0 or (name == "core_subscription" and value == 1)
        if name not in used and not harmless:
            unheld.append((name, value))
    if offload_of(job) and "version" in features and "version" not in used:
        unheld.append(("version", features["version"]))
    location = features.get("location")
    if location is not None and "://" in location and "location" not in used:
        unheld.append(("location", location))
    if unheld and described:
        raise InputError(all_of(_unheld(name, value) for name, value in unheld))
    return [f"optimisation: {name} '{value}' has no effect: only a site's script can use it" for name, value in unheld]


def _unheld(name: str, value: Any) -> InputError:
    return InputError(
        f"nothing provides {name} '{value}': only a script of the site with the condition feature.{name} can",
        key="optimisation",
        hint="name such a site or leave it out",
    )
