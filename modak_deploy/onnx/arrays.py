"""Arrays from files and from descriptions; nothing in a file is ever unpickled."""

import csv
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from modak_deploy.errors import InputError
from modak_deploy.onnx.packages import require

Array = npt.NDArray[Any]
Arrays = dict[str, Array]
_DAMAGED = (
    OSError, ValueError, EOFError, KeyError, SyntaxError, MemoryError,
    zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError,
)  # fmt: skip
"""What NumPy and zipfile raise for damaged, encrypted or unusually compressed files, and for shapes of any size."""
DEFAULT = "input"
"""Name of the input where a file has one array without a name."""


def read_arrays(path: Path, *, drop: tuple[str, ...] = (), columns: bool = False, dtype: str | None = None) -> Arrays:
    """Return the arrays of a ``.npz``, ``.npy``, ``.csv`` or ``.parquet`` file by name; all have as many samples."""
    reader = {".npz": _read_npz, ".npy": _read_npy}.get(path.suffix)
    if not path.is_file():
        raise InputError(f"{path}: file not found")
    if reader is not None:
        arrays = reader(path)
        if dtype is not None:
            arrays = {name: array.astype(dtype) for name, array in arrays.items()}
    elif path.suffix in (".csv", ".parquet"):
        table = _read_csv(path) if path.suffix == ".csv" else _read_parquet(path)
        arrays = _from_table(path, table, drop, columns, dtype or "float32")
    else:
        raise InputError(
            f"{path}: the suffix {path.suffix or 'none'} is not supported; use .npz, .npy, .csv or .parquet"
        )
    return _checked(path, arrays)


def write_npz(file: Path | IO[bytes], arrays: Mapping[str, Array]) -> None:
    """Write arrays of any names to a ``.npz`` file; nothing is pickled, and objects become text.

    ``numpy.savez`` refuses names of its own parameters, and older releases take ``allow_pickle`` for one of the arrays.
    """
    with zipfile.ZipFile(file, "w") as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                plain = array.astype(str) if array.dtype == object else array
                np.lib.format.write_array(member, np.asanyarray(plain), allow_pickle=False)


def read_outputs(path: Path) -> Arrays:
    """Return a model's outputs that ``write_npz`` has written; their first axes need not be the samples."""
    return _read_npz(path)


def _read_npz(path: Path) -> Arrays:
    try:
        with _loaded(path, np.lib.npyio.NpzFile) as file:
            return {str(name): file[name] for name in file.files}
    except _DAMAGED as error:
        raise InputError(f"{path}: cannot be read as .npz without unpickling: {error}") from None


def _read_npy(path: Path) -> Arrays:
    try:
        return {DEFAULT: _loaded(path, np.ndarray)}
    except _DAMAGED as error:
        raise InputError(f"{path}: cannot be read as .npy without unpickling: {error}") from None


def _loaded(path: Path, kind: type) -> Any:
    """Return what NumPy reads, which goes by the content and not by the name."""
    loaded = np.load(path, allow_pickle=False)
    if not isinstance(loaded, kind):
        raise ValueError("the content is that of the other format")
    return loaded


def _read_csv(path: Path) -> dict[str, list[Any]]:
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            rows = list(csv.reader(file))
    except (OSError, ValueError, csv.Error) as error:
        raise InputError(f"{path}: cannot be read as CSV: {error}") from None
    if len(rows) < 2:
        raise InputError(f"{path}: a table needs a line of column names and a line for each sample")
    for number, row in enumerate(rows, start=1):
        if len(row) != len(rows[0]):
            raise InputError(f"{path}:{number}: the line has {len(row)} values, and there are {len(rows[0])} columns")
    return {name: [row[index] for row in rows[1:]] for index, name in enumerate(rows[0])}


def _read_parquet(path: Path) -> dict[str, list[Any]]:
    parquet = require("pyarrow.parquet", "pyarrow", purpose=f"{path}: a .parquet file")
    try:
        return dict(parquet.read_table(path).to_pydict())
    except Exception as error:  # pyarrow has a dozen exception types without a common base
        raise InputError(f"{path}: cannot be read as parquet: {error}") from None


def _from_table(path: Path, table: Mapping[str, list[Any]], drop: tuple[str, ...], columns: bool, dtype: str) -> Arrays:
    if missing := next((name for name in drop if name not in table), None):
        raise InputError(f"{path}: column '{missing}' not found, so it cannot be dropped")
    kept = {name: values for name, values in table.items() if name not in drop}
    if columns:
        return {name: _column(values, dtype).reshape(-1, 1) for name, values in kept.items()}
    for name, values in kept.items():
        for number, value in enumerate(values, start=2):
            try:
                float(value)
            except (TypeError, ValueError):
                hint = "drop the column, or read each column as an input of its own with 'columns: true'"
                raise InputError(f"{path}:{number}: column '{name}': {value!r} is not a number; {hint}") from None
    return {DEFAULT: np.array([[float(v) for v in values] for values in kept.values()]).T.astype(dtype)}


def _column(values: list[Any], dtype: str) -> Array:
    try:
        return np.array([float(value) for value in values]).astype(dtype)
    except (TypeError, ValueError):
        return np.array([str(value) for value in values], dtype=object)


def _checked(path: Path, arrays: Arrays) -> Arrays:
    if not arrays:
        raise InputError(f"{path}: the file holds no array")
    if scalar := next((name for name, array in arrays.items() if not array.ndim), None):
        raise InputError(f"{path}: '{scalar}' is a single value; the first axis must be the samples")
    counts = {name: len(array) for name, array in arrays.items()}
    if len(set(counts.values())) > 1:
        lengths = ", ".join(f"'{name}' {count}" for name, count in counts.items())
        raise InputError(f"{path}: the arrays have different numbers of samples: {lengths}")
    if not min(counts.values()):
        raise InputError(f"{path}: the file holds no sample")
    return arrays


def generate(shapes: Mapping[str, Mapping[str, Any]], *, samples: int | None = None, seed: int = 0) -> Arrays:
    """Return arrays of ``shapes``, their first axis replaced by ``samples``, the same for the same seed."""
    generator = np.random.default_rng(seed)
    arrays = {}
    for name, given in shapes.items():
        shape = [samples or given["shape"][0], *given["shape"][1:]]
        dtype = np.dtype(given["dtype"])
        if dtype.kind == "f":
            arrays[name] = generator.standard_normal(shape).astype(dtype)
        else:
            arrays[name] = generator.integers(given["low"], given["high"], shape).astype(dtype)
    return arrays


def like(example: Arrays, *, samples: int, seed: int) -> Arrays:
    """Return ``samples`` rows, drawn from the example's with noise for floating-point numbers."""
    generator = np.random.default_rng(seed)
    arrays = {}
    for name, array in example.items():
        rows = array[generator.integers(0, len(array), samples)]
        if array.dtype.kind == "f":
            rows = (rows + generator.standard_normal(rows.shape) * (array.std() or 1.0)).astype(array.dtype)
        arrays[name] = rows
    return arrays


def batches(arrays: Arrays, size: int) -> Iterator[Arrays]:
    """Yield the samples in batches of at most ``size``."""
    count = len(next(iter(arrays.values())))
    for start in range(0, count, size):
        yield {name: array[start : start + size] for name, array in arrays.items()}


def join(parts: list[Arrays]) -> Arrays:
    """Return the outputs of batches as those of all samples; of a single number, one for each batch."""
    return {name: _joined([np.atleast_1d(part[name]) for part in parts]) for name in parts[0]}


def _joined(arrays: list[Array]) -> Array:
    """Return one output's arrays as one, along the first axis or along the only one whose size differs.

    A recurrent network gives its state as [layers, batch, size], and a smaller batch is the last one. Where several
    sizes differ, as with sequences as long as the longest of their batch, only the values in their order are left.
    """
    shapes = [array.shape for array in arrays]
    if len({len(shape) for shape in shapes}) == 1:
        other = [axis for axis, sizes in enumerate(zip(*shapes, strict=True)) if axis and len(set(sizes)) > 1]
        if not other:
            return np.concatenate(arrays)
        if len(other) == 1 and len({shape[0] for shape in shapes}) == 1:
            return np.concatenate([np.moveaxis(array, other[0], 0) for array in arrays])
    return np.concatenate([array.reshape(-1) for array in arrays])
