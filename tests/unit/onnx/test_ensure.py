"""A bundle as a state: made once, left alone, made again when something has changed or is damaged."""

import shutil
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from modak_deploy.errors import InputError
from modak_deploy.onnx import ensure
from modak_deploy.onnx.convert import digest
from modak_deploy.onnx.ensure import ensure_bundle, fingerprint, remove_bundle, request_of
from modak_deploy.onnx.task import Outcome
from onnxparts import bundle, linear

REQUEST = {
    "name": "line",
    "models": [
        {
            "name": "line",
            "framework": "pytorch",
            "file": "line.pt",
            "class": "nets:Line",
            "code": "nets.py",
            "example": "x.npz",
            "test": {"file": "x.npz"},
        }
    ],
}


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    """Two folders with what the request names."""
    folders = [tmp_path / "artifacts", tmp_path / "results"]
    for folder in folders:
        folder.mkdir()
    (folders[0] / "nets.py").write_text("class Line: ...")
    (folders[1] / "line.pt").write_bytes(b"weights")
    np.savez(folders[1] / "x.npz", x=np.ones((2, 2), np.float32))
    return folders


@pytest.fixture(autouse=True)
def conversions(monkeypatch):
    """Count conversions; each writes the same bundle. The real one takes seconds, and has tests of its own."""
    made = []

    def convert(request, output, *, base, replace, jobs, report):
        made.append(output)
        output.with_name(f".{output.name}.convert").mkdir(exist_ok=True)
        if replace:
            shutil.rmtree(output)
        return bundle(output, {"line": linear([[1.0]])})

    monkeypatch.setattr(ensure, "convert", convert)
    return made


def test_it_is_made_once(files, tmp_path, conversions):
    folder = tmp_path / "out" / "line.bundle"
    request = request_of(REQUEST, files)
    assert ensure_bundle(request, folder, check_mode=True).changed
    assert not folder.exists()
    assert ensure_bundle(request, folder).changed
    again = ensure_bundle(request, folder)
    assert (again.changed, again.reason, len(conversions)) == (False, "", 1)
    assert ensure_bundle(request, folder, force=True).changed


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("artifacts/nets.py", "the request or one of its files has changed"),
        ("results/line.pt", "the request or one of its files has changed"),
        ("out/line.bundle/models/line/model.onnx", "it is damaged"),
        ("out/.line.bundle.convert/ensured", "the record of how it was made was not found"),
    ],
)
def test_it_is_made_again(files, tmp_path, path, reason):
    folder = tmp_path / "out" / "line.bundle"
    ensure_bundle(request_of(REQUEST, files), folder)
    (tmp_path / path).write_bytes(b"changed")
    checked = ensure_bundle(request_of(REQUEST, files), folder, check_mode=True)
    assert checked.changed
    assert reason in checked.reason
    assert ensure_bundle(request_of(REQUEST, files), folder).changed
    assert not ensure_bundle(request_of(REQUEST, files), folder).changed


def test_where_files_lie_does_not_matter(files, tmp_path):
    before = fingerprint(request_of(REQUEST, files))
    files[1].rename(tmp_path / "elsewhere")
    assert fingerprint(request_of(REQUEST, [files[0], tmp_path / "elsewhere"])) == before


def test_a_missing_file_is_named_with_the_folders(files):
    with pytest.raises(InputError, match=r"line: code: 'nets\.py': not found in .*results"):
        request_of(REQUEST, files[1:])


def test_what_is_no_bundle_is_neither_replaced_nor_removed(files, tmp_path):
    (tmp_path / "mine").mkdir()
    with pytest.raises(InputError, match="is not a bundle; it is not replaced"):
        ensure_bundle(request_of(REQUEST, files), tmp_path / "mine")
    with pytest.raises(InputError, match="is not a bundle; it is not removed"):
        remove_bundle(tmp_path / "mine")


def test_it_is_removed(files, tmp_path):
    folder = tmp_path / "out" / "line.bundle"
    ensure_bundle(request_of(REQUEST, files), folder)
    assert remove_bundle(folder, check_mode=True)
    assert folder.exists()
    assert remove_bundle(folder)
    assert list(folder.parent.iterdir()) == []
    assert not remove_bundle(folder)


def test_it_is_made_again_when_an_installed_package_of_a_model_has_changed(files, tmp_path):
    folder, package = tmp_path / "out" / "line.bundle", tmp_path / "package.py"
    package.write_text("first")
    ensure_bundle(request_of(REQUEST, files), folder)
    state = tmp_path / "out" / ".line.bundle.convert" / "line"
    state.mkdir()
    Outcome(sources={str(package): digest(package)}).write(state / "outcome.json")
    assert not ensure_bundle(request_of(REQUEST, files), folder).changed
    package.write_text("second")
    assert ensure_bundle(request_of(REQUEST, files), folder, check_mode=True).reason == f"{package} has changed"


def test_hosts_of_one_play_convert_once(files, tmp_path, monkeypatch):
    made = []

    def convert(request, output, *, base, replace, jobs, report):
        made.append(replace)
        time.sleep(0.3)
        return bundle(output, {"line": linear([[1.0]])})

    monkeypatch.setattr(ensure, "convert", convert)
    folder, request = tmp_path / "out" / "line.bundle", request_of(REQUEST, files)
    with ThreadPoolExecutor(3) as pool:
        outcomes = list(pool.map(lambda _: ensure_bundle(request, folder).changed, range(3)))
    assert made == [False]
    assert sorted(outcomes) == [False, False, True]
