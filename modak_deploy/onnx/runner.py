"""Inference with a bundle: one session for the whole ensemble, inputs checked, any number of samples."""

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import numpy.typing as npt

from modak_deploy.errors import InputError
from modak_deploy.launch.hardware import cores
from modak_deploy.onnx.bundle import Bundle
from modak_deploy.onnx.combine import LARGEST_INLINE, combine, inline_bytes, load_models
from modak_deploy.onnx.graphs import inputs_of, outputs_of
from modak_deploy.onnx.hardware import Choice, choose, runtime, this_machine
from modak_deploy.onnx.manifest import Dimension, Graph, TensorSpec, Timing
from modak_deploy.terminal import excerpt
from modak_deploy.util.text import nearest, plural

Array = npt.NDArray[Any]
Arrays = dict[str, Array]
Report = Callable[[str], None]
_EXTERNAL_FOLDER = "session.model_external_initializers_file_folder_path"
"""onnxruntime_session_options_config_keys.h: where external data lie when the model comes from memory."""


class Runner:
    """A bundle that is ready for inference. Its files were verified, and the bytes that were verified are what runs."""

    def __init__(
        self,
        bundle: Bundle,
        *,
        provider: str = "auto",
        threads: int | None = None,
        batch: int = 1,
        report: Report | None = None,
    ) -> None:
        """``batch`` is the usual number of samples of a call, for which the provider is chosen."""
        self.bundle = bundle
        data, folder, self.inputs, self.outputs = _graph(bundle)
        timings = bundle.manifest.timings if bundle.manifest.ensemble else bundle.manifest.models[0].timings
        self.choice = choose(provider, timings, batch=batch, hardware=this_machine())
        self._session = _session(data, folder, self.choice, threads, report or (lambda line: None))
        self.providers: list[str] = self._session.get_providers()
        self._specs = {spec.name: spec for spec in self.inputs}

    @property
    def batched(self) -> bool:
        """Whether all inputs and outputs have samples of any number along their first axis."""
        return all(spec.batch for spec in (*self.inputs, *self.outputs))

    def check(self, inputs: Mapping[str, Array], *, origin: str = "input") -> int:
        """Return the number of samples; InputError where a name, type or shape is not what the graph takes."""
        for name in inputs:
            if name not in self._specs:
                raise InputError(f"{origin}: input '{excerpt(name, 80)}' not found{nearest(name, self._specs)}")
        if absent := next((name for name in self._specs if name not in inputs), None):
            raise InputError(f"{origin}: '{absent}': is required; the model takes {self._specs[absent]}")
        symbols: dict[str, tuple[int, str]] = {}
        for name, spec in self._specs.items():
            check_array(inputs[name], spec, origin)
            for size, symbol in zip(inputs[name].shape, spec.shape, strict=True):
                if isinstance(symbol, str) and symbols.setdefault(symbol, (size, name))[0] != size:
                    other, before = symbols[symbol]
                    raise InputError(f"{origin}: '{name}': has {size} of '{symbol}', and '{before}' has {other}")
        first = inputs[self.inputs[0].name]
        return int(first.shape[0]) if first.ndim else 1

    def run(self, inputs: Mapping[str, Array], *, batch: int | None = None, origin: str = "input") -> Arrays:
        """Return the outputs by name; of at most ``batch`` samples at a time where that is given."""
        count = self.check(inputs, origin=origin)
        if batch is None or count <= batch:
            return self.run_checked(inputs)
        if not self.batched:
            raise InputError(f"{origin}: batches are not possible: the model takes a fixed number of samples")
        parts = [
            self.run_checked({name: array[start : start + batch] for name, array in inputs.items()})
            for start in range(0, count, batch)
        ]
        return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}

    def run_checked(self, inputs: Mapping[str, Array]) -> Arrays:
        """Return the outputs for inputs that ``check`` has passed; InputError where a shape does not fit inside."""
        feed = {
            name: array.astype(object) if self._specs[name].dtype == "string" else array
            for name, array in inputs.items()
        }
        try:
            results = self._session.run(None, feed)
        except Exception as error:  # onnxruntime's classes have no common base below Exception
            raise InputError(f"the model cannot take this input: {_sentence(error)}") from None
        return dict(zip((spec.name for spec in self.outputs), results, strict=True))

    def time(self, inputs: Mapping[str, Array], *, seconds: float = 2.0, most: int = 200) -> Timing:
        """Return the time of a call with these inputs, the median of what fits into ``seconds``."""
        count = self.check(inputs)
        self.run_checked(inputs)
        taken: list[float] = []
        began = time.perf_counter()
        while len(taken) < 3 or (len(taken) < most and time.perf_counter() - began < seconds):
            start = time.perf_counter()
            self.run_checked(inputs)
            taken.append(time.perf_counter() - start)
        taken.sort()
        return Timing(
            provider=self.providers[0],
            batch=max(1, count),
            median=taken[len(taken) // 2],
            low=taken[len(taken) // 4],
            high=taken[len(taken) * 3 // 4],
            runs=len(taken),
            hardware=this_machine(),
            software={"onnxruntime": runtime().__version__},
        )


def check_array(array: Array, spec: TensorSpec, origin: str) -> None:
    """Raise InputError where an array is not what ``spec`` says."""
    where = f"{origin}: '{spec.name}'"
    if dtype_name(array) != spec.dtype:
        hint = "" if spec.dtype == "string" else f"; convert it with astype('{spec.dtype}'), or use --cast"
        raise InputError(f"{where}: has the type {dtype_name(array)}, the model takes {spec.dtype}{hint}")
    if array.ndim != len(spec.shape):
        raise InputError(
            f"{where}: has the shape {_shape(array.shape)} of {plural(array.ndim, 'dimension')}, the model takes {spec}"
        )
    for axis, (size, asked) in enumerate(zip(array.shape, spec.shape, strict=True)):
        if isinstance(asked, int) and size != asked:
            raise InputError(
                f"{where}: has the shape {_shape(array.shape)}, the model takes {spec}: "
                f"axis {axis} is {size}, not {asked}"
            )
        if axis == 0 and size == 0:
            raise InputError(f"{where}: has no samples")


def cast(inputs: Mapping[str, Array], specs: Sequence[TensorSpec], origin: str) -> Arrays:
    """Return the arrays as the types of the graph's inputs; InputError where that changes more than precision."""
    by_name, result = {spec.name: spec for spec in specs}, {}
    for name, array in inputs.items():
        spec = by_name.get(name)
        wanted = None if spec is None or spec.dtype in ("string", "bfloat16") else np.dtype(spec.dtype)
        if wanted is None or wanted == array.dtype:
            result[name] = array
            continue
        if array.dtype.kind not in "biuf":
            raise InputError(f"{origin}: '{name}': {dtype_name(array)} cannot be converted to {wanted}")
        with np.errstate(all="ignore"):
            converted = array.astype(wanted)
        exact = np.array_equal(converted.astype(array.dtype), array, equal_nan=array.dtype.kind == "f")
        # Between floating-point types precision is lost, and nothing else may be.
        overflow = wanted.kind == "f" and bool((np.isinf(converted) & ~np.isinf(array)).any())
        if overflow or not (exact or (wanted.kind == "f" and array.dtype.kind == "f")):
            raise InputError(f"{origin}: '{name}': some values of {dtype_name(array)} are no {wanted}")
        result[name] = converted
    return result


def dtype_name(array: Array) -> str:
    """Return the manifest's name of an array's type."""
    return "string" if array.dtype.kind in "USO" else str(array.dtype)


def _graph(bundle: Bundle) -> tuple[bytes, Path, list[TensorSpec], list[TensorSpec]]:
    """Return the verified bytes of the graph that is run, the folder of its external data, its inputs and outputs."""
    manifest = bundle.manifest
    single = manifest.models[0].graph if manifest.combination.rule == "single" else None
    if graph := manifest.ensemble or single:
        return bundle.read_graph(graph), _folder_of(bundle, graph), graph.inputs, graph.outputs
    bundle.verify()
    merged = combine(load_models(bundle.folder, manifest.models), manifest.combination, str(bundle.folder))
    if inline_bytes(merged) > LARGEST_INLINE:
        raise InputError(
            f"{bundle.folder}: the models together are larger than 2 GiB; convert them again, with an ensemble graph"
        )
    data = merged.SerializeToString()
    return data, bundle.folder, inputs_of(merged, "ensemble"), outputs_of(merged, "ensemble")


def _folder_of(bundle: Bundle, graph: Graph) -> Path:
    return bundle.folder / PurePosixPath(graph.file.path).parent


def _session(data: bytes, folder: Path, choice: Choice, threads: int | None, report: Report) -> Any:
    ort = runtime()
    options = ort.SessionOptions()
    options.log_severity_level = 3  # errors: what matters of warnings is told below
    options.intra_op_num_threads = threads or cores()
    options.add_session_config_entry(_EXTERNAL_FOLDER, str(folder.resolve()))
    try:
        session = ort.InferenceSession(data, options, providers=choice.runtime_names)
    except Exception as error:  # onnxruntime's classes have no common base below Exception
        raise InputError(f"the graph cannot be loaded by onnxruntime {ort.__version__}: {_sentence(error)}") from None
    first = choice.providers[0]
    # onnxruntime goes on with the next provider when one's libraries or driver cannot be used.
    if session.get_providers()[0] != first.runtime:
        problem = f"execution provider '{first.name}': its libraries or driver cannot be used on this machine"
        if choice.required:
            raise InputError(f"{problem}; see the messages above, or use --provider cpu")
        report(f"{problem}; {session.get_providers()[0]} is used")
    return session


def _sentence(error: Exception) -> str:
    """Return the first line of an exception of onnxruntime, without its codes."""
    return excerpt(str(error).strip().splitlines()[0].rpartition("] : ")[2] or type(error).__name__, 300)


def _shape(sizes: Sequence[Dimension]) -> str:
    return f"[{', '.join(map(str, sizes))}]"
