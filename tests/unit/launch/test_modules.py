"""The launcher's small parts: configuration, record, versions, levers, structures, import hooks, processes."""

import copy
import dataclasses
import json
import os
import subprocess
import sys
import zipfile
from collections import OrderedDict, namedtuple
from pathlib import Path

import pytest

from modak_deploy.catalogue import load_catalogue
from modak_deploy.launch import bundle, config, lever, names, processes, structures, versions
from modak_deploy.launch.estimate import Estimate
from modak_deploy.launch.hooks import ImportHooks
from modak_deploy.launch.progress import Progress
from modak_deploy.launch.record import EVENTS, Record, unfinished


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        ([], "the file: must be an object"),
        ({}, "version: None is not supported"),
        ({"version": 2}, "version: 2 is not supported; 1 is"),
        ({"version": 1, "lever": []}, "the key 'lever' is not supported"),
        ({"version": 1, "levers": "a"}, "levers: must be a list of names"),
        ({"version": 1, "levers": [1]}, "levers: must be a list of names"),
        ({"version": 1, "record": 3}, "record: must be a text"),
        ({"version": 1, "settings": []}, "settings: must be an object"),
        ({"version": 1, "trials": {"mode": "alive"}}, "trials.mode: 'alive' is not supported; use none or live"),
        ({"version": 1, "trials": {"share": 2}}, "share: must be a number from 0 to 1"),
        ({"version": 1, "trials": {"share": float("nan")}}, "share: must be a number"),
        ({"version": 1, "trials": {"units": True}}, "trials.units: must be a whole number from 1"),
        ({"version": 1, "trials": {"expected": {"a": {"gian": 2}}}}, "trials.expected.a: the key 'gian'"),
        ({"version": 1, "trials": {"foreseen": [2]}}, "trials.foreseen: must be an object"),
        ({"version": 1, "trials": {"foreseen": {"a": "2"}}}, "a: must be a number from 0 to 1e+06"),
        ({"version": 1, "trials": {"kept": "a"}}, "kept: must be a list of names"),
    ],
)
def test_a_faulty_configuration_is_refused_by_key(data, problem):
    with pytest.raises(config.ConfigError) as error:
        config.parse(data)
    assert problem in str(error.value)


def test_a_configuration_file_is_bounded_and_named_in_errors(tmp_path):
    file = tmp_path / "c.json"
    for text, problem in (("{", "Expecting"), ("[" * 100000, ""), (" " * (config.LARGEST + 1), "is larger than")):
        file.write_text(text)
        with pytest.raises(config.ConfigError, match=str(file)) as error:
            config.read(str(file))
        assert problem in str(error.value)
    with pytest.raises(config.ConfigError, match="cannot be read"):
        config.read(str(tmp_path / "none"))


def test_a_record_is_whole_at_any_moment_and_bounded(tmp_path, capsys):
    record = Record(str(tmp_path / "state" / "launch"))
    for number in range(EVENTS + 50):
        record.add("trial", number=number, value=float("nan"), text="x" * 100)
    record.state("counter", {"units": 3, "loss": float("inf")})
    record.add("more", text="y" * 100_000)
    record.write()
    lines = [json.loads(line) for line in Path(record.path).read_text().splitlines()]
    assert len(lines) == EVENTS + 2
    assert lines[-2] == {"event": "left_out", "entries": 51}
    assert lines[-1] == {"event": "state", "name": "counter", "units": 3, "loss": "inf"}
    assert [one.name for one in (tmp_path / "state" / "launch").iterdir()] == [Path(record.path).name]
    for _ in range(100):
        record.fallback("a lever", ValueError("no\nsuch\x1bthing"))
    assert capsys.readouterr().err.count("\n") == 20


def test_a_record_that_cannot_be_written_disturbs_nothing(tmp_path):
    (tmp_path / "file").write_text("")
    record = Record(str(tmp_path / "file" / "launch"))
    record.add("start")
    assert not record.empty


def test_a_child_writes_nothing_into_its_parents_record(tmp_path):
    record = Record(str(tmp_path))
    record.add("start")
    before = Path(record.path).read_text()
    child = os.fork()
    if not child:
        record.add("child")
        record.fallback("x", "y")
        os._exit(0)
    os.waitpid(child, 0)
    assert Path(record.path).read_text() == before


MAKING = {"event": "making", "of": "net", "lever": "c", "variant": "b + c"}


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        ([{"event": "trying", "lever": "a"}], ["a"]),
        ([{"event": "trying", "lever": "a"}, {"event": "trial"}], []),
        ([{"event": "trying", "lever": "a"}, {"event": "trial"}, {"event": "trying", "lever": "b"}], ["b"]),
        ([{"event": "trying", "lever": 3}, 7, "x"], []),
        ([MAKING], ["c"]),
        ([MAKING, {"event": "trying", "of": "net", "lever": "a"}], ["a", "c"]),
        (
            [MAKING, {"event": "trying", "of": "net", "lever": "a"}, {"event": "trial", "of": "net", "variant": "a"}],
            ["c"],
        ),
        ([MAKING, {"event": "made", "of": "other"}], ["c"]),
        ([MAKING, {"event": "made", "of": "net"}], []),
        ([MAKING, {"event": "not_tried", "of": "net", "lever": "a"}], ["c"]),
        ([MAKING, {"event": "not_tried", "of": "net", "lever": "c"}], []),
        ([MAKING, {"event": "trial", "of": "net", "variant": "b + c"}], []),
        ([MAKING, {"event": "settled", "of": "net", "variant": "b"}], []),
        ([MAKING, {"event": "end"}], []),
        ([{**MAKING, "lever": 3}], []),
    ],
)
def test_what_an_earlier_process_was_trying_when_it_crashed_is_seen(tmp_path, events, expected):
    (tmp_path / "host-1.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))
    (tmp_path / "host-2.jsonl").write_text("not json")
    assert unfinished(str(tmp_path)) == expected
    assert unfinished(str(tmp_path / "none")) == unfinished(None) == []


def test_what_a_process_that_still_runs_is_trying_counts_for_nothing(tmp_path):
    record = Record(str(tmp_path))
    record.add("trying", lever="a")
    assert unfinished(str(tmp_path)) == []
    Path(record.path).rename(Path(record.path).with_name(Path(record.path).name.replace("-", "-other-")))
    assert unfinished(str(tmp_path)) == ["a"]


@pytest.mark.parametrize(
    ("version", "conditions", "expected"),
    [
        ("2.13.0+cpu", ">=2.2", True),
        ("2.13.0+cpu", ">=2.2,<2.13", False),
        ("1.9", ">=1.10", False),
        ("2.0.0rc1", "==2", True),
        ("2.1", "!=2.1.0", False),
        ("unknown", ">=1", False),
        ("unknown", "", True),
    ],
)
def test_versions(version, conditions, expected):
    assert versions.satisfies(version, conditions) is expected


def test_a_faulty_version_condition_is_an_error():
    with pytest.raises(ValueError, match="is not a version condition"):
        versions.satisfies("1.0", "~=1.0")


def test_every_lever_declares_itself():
    table = lever.all_levers()
    names = [one.name for one in table]
    assert len(names) == len(set(names)) > 20
    for one in table:
        assert one.name.startswith(one.framework + "-"), one.name
        assert one.framework in lever.MODULES
        assert one.numerics in (lever.EXACT, lever.RELAXED)
        assert one.summary and one.changes, one.name
        assert one.versions, one.name
        versions.satisfies("1.0", one.versions)
        assert set(one.conflicts) <= set(names)


@pytest.mark.parametrize("what", ["ranks", "irreversible"])
def test_the_catalogue_says_which_levers_ranks_can_switch_together_and_what_nothing_undoes(what):
    shipped = {name: getattr(entry, what) for name, entry in load_catalogue().levers.items()}
    for one in lever.all_levers():
        assert getattr(one, what) == shipped.get(one.name, False), one.name


def test_levers_are_read_without_any_framework():
    code = (
        "import sys; from modak_deploy.launch import lever; lever.all_levers(); print(sorted(set(sys.modules) & {%r}))"
    )
    frameworks = "torch', 'keras', 'onnxruntime', 'jax', 'sklearn', 'numpy', 'modak_deploy.model"
    command = [sys.executable, "-c", code.replace("%r", "'" + frameworks + "'")]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "[]\n"


def test_the_bundle_is_the_same_as_folder_and_archive(tmp_path):
    bundle.write_folder(str(tmp_path / "folder"))
    bundle.write_archive(str(tmp_path / "a.zip"))
    bundle.write_archive(str(tmp_path / "b.zip"))
    assert (tmp_path / "a.zip").read_bytes() == (tmp_path / "b.zip").read_bytes()
    in_folder = {one.relative_to(tmp_path / "folder").as_posix() for one in (tmp_path / "folder").rglob("*.py")}
    assert set(zipfile.ZipFile(tmp_path / "a.zip").namelist()) == in_folder == set(bundle.files())
    assert "sitecustomize.py" in in_folder
    assert f"{bundle.PACKAGE}/start.py" in in_folder


def test_the_packages_files_import_the_standard_library_and_themselves_only():
    import ast

    allowed = set(sys.stdlib_module_names) | {bundle.PACKAGE}
    numpy_here = {"modak_launch/frameworks/onnxruntime/__init__.py"}  # in a function; ONNX Runtime needs NumPy itself
    for name, content in bundle.files().items():
        for node in ast.walk(ast.parse(content)):
            names = []
            if isinstance(node, ast.Import):
                names = [one.name for one in node.names]
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                names = [node.module or ""]
            outside = {one.split(".")[0] for one in names} - allowed
            assert outside <= ({"numpy"} if name in numpy_here else set()), name


Point = namedtuple("Point", "x y")


@dataclasses.dataclass
class Output:
    scores: object
    states: object = None


class Ordered(OrderedDict):
    """As Hugging Face's outputs are."""


@pytest.mark.parametrize(
    "value",
    [
        1.5,
        (1.5, [2.5, {"a": 3.5}]),
        Point(1.5, (2.5,)),
        Output(1.5, (2.5, None)),
        Ordered(a=1.5, b=(2.5, "text")),
    ],
)
def test_structures_are_copied_with_their_leaves_changed(value):
    def is_leaf(one):
        return isinstance(one, float)

    doubled = structures.replace(value, lambda one: 2 * one, is_leaf)
    assert type(doubled) is type(value)
    assert structures.leaves(doubled, is_leaf) == [2 * one for one in structures.leaves(value, is_leaf)]
    assert structures.shape(value, lambda one: 0, is_leaf) == structures.shape(doubled, lambda one: 0, is_leaf)
    assert structures.leaves(value, is_leaf)[0] == 1.5


def test_what_cannot_be_looked_into_is_refused():
    ring: list[object] = []
    ring.append(ring)
    for value in (object(), {1, 2}, ring, [lambda: 0]):
        with pytest.raises(structures.Unsupported):
            structures.leaves(value, lambda one: isinstance(one, float))


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (["python", "train.py"], False),
        (["python", "-m", "package.train"], False),
        (["/usr/bin/python", "/usr/bin/torchrun", "train.py"], False),
        (
            ["python", "-c", "from multiprocessing.spawn import spawn_main; spawn_main()", "--multiprocessing-fork"],
            True,
        ),
        (["python", "-c", "from multiprocessing.resource_tracker import main;main(5)"], True),
        (["python", "-c", "from multiprocessing.forkserver import main; main(5, 6, [])"], True),
        (["python", "-c", "from multiprocessing.pool import ThreadPool; import train"], False),
        (["python", "-m", "joblib.externals.loky.backend.popen_loky_posix"], True),
        (["python", "/x/site-packages/torch/_inductor/compile_worker/__main__.py", "--workers=2"], True),
        (["python", "-m", "pip", "install", "x"], True),
    ],
)
def test_helpers_are_told_from_programs(command, expected):
    assert processes.is_helper(command) is expected


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, (0, 1)),
        ({"WORLD_SIZE": "4", "RANK": "2"}, (2, 4)),
        ({"OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_RANK": "1"}, (1, 2)),
        ({"SLURM_NTASKS": "8", "SLURM_PROCID": "0"}, (0, 1)),  # sbatch's own shell
        ({"SLURM_NTASKS": "8", "SLURM_PROCID": "3", "SLURM_STEP_ID": "0"}, (3, 8)),
        ({"WORLD_SIZE": "x", "RANK": "2"}, (0, 1)),
    ],
)
def test_ranks(variables, expected):
    assert processes.rank(variables) == expected


def test_import_hooks_call_back_once_and_leave_the_loader_as_it_is(tmp_path, monkeypatch):
    (tmp_path / "some_package").mkdir()
    (tmp_path / "some_package" / "__init__.py").write_text("from some_package import inner\nVALUE = 1\n")
    (tmp_path / "some_package" / "inner.py").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))
    hooks, seen = ImportHooks(), []
    hooks.when_imported("some_package", lambda module: seen.append(module.VALUE))
    try:
        import importlib

        module = importlib.import_module("some_package")
        assert seen == [1]
        assert type(module.__loader__).__name__ == "SourceFileLoader"
        assert module.__spec__.loader is module.__loader__
        assert importlib.reload(module).VALUE == 1
        hooks.when_imported("some_package", lambda module: seen.append(2))
        assert seen == [1, 2]
    finally:
        hooks.remove()
        sys.modules.pop("some_package")


def test_import_hooks_wait_for_the_import_where_the_program_asks_for_a_module_before(tmp_path, monkeypatch):
    (tmp_path / "some_module.py").write_text("VALUE = 1\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    hooks, seen = ImportHooks(), []
    hooks.when_imported("some_module", lambda module: seen.append(module.VALUE))
    try:
        import importlib.util

        spec = importlib.util.find_spec("some_module")
        assert spec.loader.get_filename("some_module") == str(tmp_path / "some_module.py")
        assert spec.loader.get_source("some_module") == "VALUE = 1\n"
        assert not hasattr(spec.loader, "no_such_attribute")
        assert copy.copy(spec.loader).is_package("some_module") is False
        assert not seen
        assert importlib.import_module("some_module").VALUE == 1
        assert seen == [1]
    finally:
        hooks.remove()
        sys.modules.pop("some_module", None)


def test_progress_tells_compilation_from_steady_work():
    progress = Progress("inference", "call", process_start=100.0)
    end = 110.0
    for seconds in [8.0, 4.0] + [0.5] * 40:
        end += seconds
        progress.add(end, seconds)
    state = progress.state()
    assert state["units"] == 42
    assert state["start"] == pytest.approx(10.0)
    assert state["compile"] == pytest.approx(11.0)
    assert state["steady"] == pytest.approx(0.5)


def test_an_estimate_is_not_moved_by_outliers():
    estimate = Estimate(skip=1)
    for seconds in (50.0, 1.0, 1.1, 0.9, 30.0, 1.0):
        estimate.add(seconds)
    assert estimate.median == 1.0
    assert estimate.noise < 0.2


def test_where_a_command_runs_may_be_gone(tmp_path, monkeypatch):
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    assert names._first(["python", "-c", "1"]) is None
    assert names._first(["python", "-"]) is None
