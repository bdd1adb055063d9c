"""The rows of the table of unchanged programs: which program, with which arguments, in the order of their value."""

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

PROGRAMS = Path(__file__).resolve().parent / "programs"
OPEN_MPI_AS_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
"""Without these two, its mpirun refuses to start anything for root."""


@dataclass(frozen=True)
class Peer:
    """What users do in place of modak: switch something on themselves, or start the program by a launcher."""

    name: str
    frameworks: tuple[str, ...]
    levers: tuple[str, ...] = ()
    """What is the same as one of modak's levers is switched on by it."""
    starter: tuple[str, ...] = ()
    """Arguments of the interpreter that stand before the script."""
    on: tuple[str, ...] = ("cpu", "gpu")


# The other tools' defaults are the programs' own: ONNX Runtime's and Keras's backend are in the column of the default.
PEERS = (
    Peer("torch.compile", ("pytorch",), levers=("pytorch-compile",)),
    Peer("torch.backends.xeon", ("pytorch",), starter=("-m", "torch.backends.xeon.run_cpu"), on=("cpu",)),
    Peer("TF32", ("pytorch",), levers=("pytorch-tf32",), on=("gpu",)),
    Peer("autocast", ("pytorch",), levers=("pytorch-autocast-bf16",), on=("gpu",)),
    Peer("OpenVINO", ("onnxruntime",), levers=("onnxruntime-openvino",)),
    Peer("XLA", ("keras",), levers=("keras-tensorflow", "tf-xla-auto")),
    Peer("XLA", ("tensorflow",), levers=("tf-xla-auto",)),
)


@dataclass(frozen=True)
class Row:
    """One program with its arguments."""

    name: str
    folder: str
    kind: str
    """What the aims distinguish: ``inference``, ``training``, ``other``."""
    few: int
    """Units of a short run, from which the units of the real ones follow."""
    batch: int | None = None
    multiple: int = 1
    """The program does its units in groups of so many."""
    build: tuple[str, ...] = ()
    """Compiler and flags; the source is the folder's one C file."""
    gpus: int = 0
    size: int | None = None
    """Height and width of images, where they are not the program's own."""
    network: str | None = None
    """Which of the program's networks, where it has several."""

    @property
    def peers(self) -> list[Peer]:
        """Return what users of the program's framework do."""
        place, framework = "gpu" if self.gpus else "cpu", self.folder.partition("-")[0]
        return [peer for peer in PEERS if framework in peer.frameworks and place in peer.on]

    def document(self, units: int, starter: Sequence[str] = ()) -> dict[str, Any]:
        """Return the program's deployment document, for so many units; a starter stands before its script."""
        values: dict[str, Any] = yaml.safe_load((PROGRAMS / self.folder / "deploy.yml").read_text(encoding="utf-8"))
        application = values["application"]
        arguments = [str(argument) for argument in application["arguments"]]
        arguments[1 if arguments[0] == "--units" else 0] = str(units)
        application["workload"]["units"] = units
        if self.batch is not None:
            arguments[arguments.index("--batch") + 1] = str(self.batch)
            application["workload"]["batch"] = self.batch
        if self.size is not None:
            arguments += ["--size", str(self.size)]
        application["arguments"] = arguments
        if self.network is not None:
            arguments[arguments.index("--network") + 1] = self.network
            application["workload"]["model"] = self.name
            if self.kind == "training":
                arguments.append("--train")
                application["type"], application["workload"]["unit"] = "ai_training", "step"
        if self.gpus:
            values["job"]["gpus"] = self.gpus
        elif self.folder.startswith("pytorch-"):  # which take a GPU where there is one
            values["job"]["environment"] = {"CUDA_VISIBLE_DEVICES": ""}
        if self.build[:1] == ("mpicc",) and os.geteuid() == 0:
            values["job"]["environment"] = OPEN_MPI_AS_ROOT
        if starter:
            script = application.pop("script")
            application["executable"], application["inputs"] = sys.executable, [script]
            application["arguments"] = [*starter, script, *arguments]
        return values

    def units(self, seconds: float, steady: float) -> int:
        """Return how many units take about so many seconds."""
        groups = max(1, round(seconds / max(steady, 1e-6) / self.multiple))
        return max(groups * self.multiple, 3 * self.multiple)


def _inference(network: str, batch: int, few: int) -> Row:
    return Row(f"{network}-b{batch}", f"pytorch-{network}", "inference", few, batch)


ROWS = (
    _inference("resnet50", 16, 4),
    Row("mnist-cnn", "pytorch-mnist-cnn", "training", 20),
    _inference("bert", 1, 8),
    Row("keras-fit", "keras-fit", "training", 60, multiple=20),
    _inference("squeezenet", 1, 20),
    Row("openmp-heat", "openmp-heat", "other", 20, build=("cc", "-O3", "-march=native", "-fopenmp")),
    Row("resnet50-training", "pytorch-resnet50-training", "training", 4),
    _inference("alexnet", 16, 6),
    Row("onnxruntime", "onnxruntime-inference", "inference", 20),
    Row("keras-predict", "keras-predict", "inference", 30, multiple=10),
    Row("gpt", "pytorch-gpt", "training", 5),
    Row("tensorflow-loop", "tensorflow-loop", "training", 30),
    Row("jax", "jax-training", "training", 40),
    Row("sklearn", "sklearn-boosting", "other", 4),
    Row("mpi-ring", "mpi-ring", "other", 20, build=("mpicc", "-O3", "-march=native")),
    Row("lstm", "pytorch-lstm", "training", 10),
    _inference("bert", 16, 3),
    _inference("squeezenet", 16, 6),
    _inference("alexnet", 1, 20),
    _inference("resnet50", 1, 10),
    _inference("generation", 1, 20),
)

MORE = tuple(
    Row(name, "pytorch-more", kind, 20, batch, network=network)
    for name, kind, network, batch in (
        ("vgg-b4", "inference", "large-vgg", 4),
        ("mobile-b8", "inference", "mobile", 8),
        ("patches-b2", "inference", "patches", 2),
        ("gru-b32", "inference", "gru", 32),
        ("perceptron-training", "training", "perceptron", 128),
        ("small-vgg-training", "training", "vgg", 32),
        ("residual-training", "training", "residual", 32),
        ("encoder-training", "training", "encoder", 16),
    )
)
"""Programs of which measurements are shipped and which the tables leave out: each a network of its own."""

GPU_ROWS = (
    Row("gpu-resnet50-b1", "pytorch-resnet50", "inference", 20, 1, gpus=1),
    Row("gpu-bert-b16", "pytorch-bert", "inference", 20, 16, gpus=1),
    Row("gpu-resnet50-training", "pytorch-resnet50-training", "training", 10, 96, gpus=1, size=224),
    Row("gpu-gpt", "pytorch-gpt", "training", 20, 8, gpus=1),
    Row("gpu-bert-b1", "pytorch-bert", "inference", 20, 1, gpus=1),
    Row("gpu-resnet50-b96", "pytorch-resnet50", "inference", 20, 96, gpus=1),
)
"""Programs on one GPU; ResNet50 with 96 images as in the MODAK paper."""

PAIRS = (
    "squeezenet-b1", "mnist-cnn", "onnxruntime", "bert-b1", "alexnet-b16", "lstm", "openmp-heat", "keras-fit",
    "resnet50-b1", "tensorflow-loop", "sklearn", "mpi-ring", "jax", "alexnet-b1",
)  # fmt: skip
"""Programs of the short comparison: of each framework and kind those whose units are short."""
