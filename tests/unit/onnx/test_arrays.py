"""Arrays from files: nothing is unpickled, and a table's faults are named with their line."""

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from modak_deploy.errors import InputError
from modak_deploy.onnx.arrays import batches, generate, join, like, read_arrays, write_npz


class Harmful:
    """Makes a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return Path.touch, (self.path,)


def test_reads_npz_and_npy(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=np.ones((3, 2)), y=np.zeros(3))
    np.save(tmp_path / "a.npy", np.ones((3, 2), "float32"))
    assert {name: array.shape for name, array in read_arrays(tmp_path / "a.npz").items()} == {"x": (3, 2), "y": (3,)}
    assert read_arrays(tmp_path / "a.npy")["input"].dtype == np.float32


def test_a_file_has_arrays_of_any_names_and_no_others(tmp_path: Path) -> None:
    arrays = {"file": np.ones((2, 3), np.float32), "allow_pickle": np.arange(2), "a/b": np.array(["x", "yz"], object)}
    write_npz(tmp_path / "a.npz", arrays)
    read = read_arrays(tmp_path / "a.npz")
    assert {name: array.tolist() for name, array in read.items()} == {n: a.tolist() for n, a in arrays.items()}
    assert read["file"].dtype == np.float32
    with np.load(tmp_path / "a.npz") as loaded:
        assert loaded.files == list(arrays)


@pytest.mark.parametrize("suffix", ["npy", "npz"])
def test_does_not_unpickle(tmp_path: Path, suffix: str) -> None:
    harmful = np.array([Harmful(tmp_path / "ran")], dtype=object)
    file = tmp_path / f"a.{suffix}"
    (np.save if suffix == "npy" else np.savez)(file, harmful, allow_pickle=True)
    with pytest.raises(InputError, match="without unpickling"):
        read_arrays(file)
    (tmp_path / "raw.npy").write_bytes(pickle.dumps(Harmful(tmp_path / "ran")))
    with pytest.raises(InputError, match="without unpickling"):
        read_arrays(tmp_path / "raw.npy")
    assert not (tmp_path / "ran").exists()


def test_reads_a_table(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a,b,label\n1,2,x\n3,4,y\n")
    assert read_arrays(tmp_path / "t.csv", drop=("label",))["input"].tolist() == [[1, 2], [3, 4]]
    columns = read_arrays(tmp_path / "t.csv", columns=True)
    assert columns["a"].shape == (2, 1)
    assert columns["label"].tolist() == [["x"], ["y"]]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b\n1,x\n", ":2: column 'b': 'x' is not a number; drop the column"),
        ("a,b\n1\n", ":2: the line has 1 values, and there are 2 columns"),
        ("a,b\n", "a line of column names and a line for each sample"),
    ],
)
def test_names_a_fault_of_a_table(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "t.csv").write_text(text)
    with pytest.raises(InputError) as caught:
        read_arrays(tmp_path / "t.csv")
    assert message in str(caught.value)


def test_refuses_different_numbers_of_samples(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=np.ones((3, 2)), y=np.zeros(2))
    with pytest.raises(InputError, match="'x' 3, 'y' 2"):
        read_arrays(tmp_path / "a.npz")


def test_generates_the_same_for_the_same_seed() -> None:
    shapes = {
        "x": {"shape": [1, 4], "dtype": "float32", "low": 0, "high": 2},
        "ids": {"shape": [1, 3], "dtype": "int64", "low": 5, "high": 9},
    }
    first, second = generate(shapes, samples=6, seed=1), generate(shapes, samples=6, seed=1)
    assert first["x"].shape == (6, 4)
    assert (first["x"] == second["x"]).all()
    assert 5 <= first["ids"].min() <= first["ids"].max() < 9
    assert like(first, samples=3, seed=0)["ids"].shape == (3, 3)


def test_batches_and_joins() -> None:
    arrays = {"x": np.arange(10).reshape(5, 2)}
    assert [len(part["x"]) for part in batches(arrays, 2)] == [2, 2, 1]
    assert (join(list(batches(arrays, 2)))["x"] == arrays["x"]).all()
    assert join([{"mean": np.array(value)} for value in (1, 2)])["mean"].tolist() == [1, 2]


def test_outputs_whose_first_axis_is_not_the_samples_are_joined() -> None:
    state = np.arange(30.0).reshape(2, 5, 3)  # layers, batch, size
    joined = join([{"h": state[:, :4]}, {"h": state[:, 4:]}])["h"]
    assert (joined == np.moveaxis(state, 1, 0)).all()
    ragged = [np.zeros((4, 7)), np.ones((1, 5))]  # sequences, as long as the longest of each batch
    assert join([{"y": part} for part in ragged])["y"].tolist() == [0.0] * 28 + [1.0] * 5


@pytest.mark.parametrize(("written", "named"), [("npz", "npy"), ("npy", "npz")])
def test_refuses_the_other_format(tmp_path: Path, written: str, named: str) -> None:
    with (tmp_path / f"x.{named}").open("wb") as file:
        (np.savez if written == "npz" else np.save)(file, np.ones((2, 3)))
    with pytest.raises(InputError, match="the content is that of the other format"):
        read_arrays(tmp_path / f"x.{named}")


def test_a_header_that_promises_more_than_memory(tmp_path: Path) -> None:
    header = b"{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000000,), }".ljust(117) + b"\n"
    (tmp_path / "x.npy").write_bytes(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + b"\0" * 64)
    with pytest.raises(InputError, match="cannot be read"):
        read_arrays(tmp_path / "x.npy")
