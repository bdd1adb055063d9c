"""Documents without a fault, values of other libraries, and the files that a document names."""

import datetime
import hashlib
import os
from collections import OrderedDict
from pathlib import Path
from typing import Any

import pytest

from modak_deploy.documents import find_sources, load_deployment, parse_deployment, plain, read_outline
from modak_deploy.errors import InputError
from modak_deploy.model.application import Application


class TaggedText(str):
    """Stands for Ansible's tagged text."""


class TaggedNumber(int):
    """Stands for Ansible's tagged number."""


def test_a_document_and_the_same_variables_are_one_deployment(tmp_path: Path) -> None:
    document = tmp_path / "deploy.yml"
    document.write_text(
        "\ufeffapplication: &a\n  name: digits\n  script: train.py\n  environment: &e {A: b}\n"
        "job:\n  wall_time: 1:30:00\n  begin: 2026-11-20T10:00:00\n  environment: {<<: *e, C: d}\nforce: true\n"
    )
    loaded = load_deployment(document)
    assert loaded.job.wall_time == 5400
    assert loaded.job.begin == "2026-11-20T10:00:00"
    assert loaded.job.environment == {"A": "b", "C": "d"}
    assert loaded.target.name == "localhost"
    variables = {
        "application": {"name": TaggedText("digits"), "script": "train.py", "environment": OrderedDict(A="b")},
        "job": {
            "wall_time": TaggedNumber(5400),
            "begin": datetime.datetime(2026, 11, 20, 10),
            "environment": {"A": "b", "C": "d"},
        },
    }
    assert parse_deployment(variables, origin="variables") == loaded


def test_a_merged_key_is_found_where_it_is_written(tmp_path: Path) -> None:
    document = tmp_path / "deploy.yml"
    document.write_text("application:\n  name: a\n  script: b\njob:\n  <<: {nodes: 2.5}\n")
    with pytest.raises(InputError, match=r"deploy\.yml:5: job\.nodes"):
        load_deployment(document)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (TaggedText("x"), "x"),
        (TaggedNumber(3), 3),
        (True, True),
        (1.5, 1.5),
        (None, None),
        (("a", 1), ["a", 1]),
        (OrderedDict([(TaggedText("k"), (TaggedNumber(1),))]), {"k": [1]}),
        (datetime.date(2026, 1, 2), "2026-01-02"),
    ],
)
def test_plain(value: Any, expected: Any) -> None:
    result = plain(value)
    assert result == expected
    assert type(result) is type(expected)


def test_plain_of_ansible() -> None:
    tagging = pytest.importorskip("ansible.module_utils._internal._datatag")
    origin = pytest.importorskip("ansible._internal._datatag._tags").Origin(path="/x.yml", line_num=3)
    value = tagging.AnsibleTagHelper.tag({"a": tagging.AnsibleTagHelper.tag("b", origin)}, origin)
    result = plain(value)
    assert result == {"a": "b"}
    assert (type(result), type(result["a"])) == (dict, str)


def test_plain_of_ruamel() -> None:
    yaml = pytest.importorskip("ruamel.yaml").YAML()
    result = plain(yaml.load("a: 0x10\nb: &x true\nc: 1.50\nd: 'q'\ne: [*x]\n"))
    assert result == {"a": 16, "b": True, "c": 1.5, "d": "q", "e": [True]}
    assert {type(value) for value in result.values()} == {int, bool, float, str, list}


@pytest.mark.parametrize(
    ("value", "fault"),
    [
        ({"a": {1: 2}}, "a: the key 1 is not text; write it in quotes"),
        ({"a": [b"x"]}, "a[0]: a value of type bytes is not supported"),
        (object(), "a value of type object is not supported"),
    ],
)
def test_plain_refuses(value: Any, fault: str) -> None:
    with pytest.raises(InputError) as caught:
        plain(value)
    assert str(caught.value) == fault


def test_plain_refuses_a_circle() -> None:
    circle: list[Any] = []
    circle.append({"again": circle})
    with pytest.raises(InputError, match=r"^\[0\]\.again: the value contains itself$"):
        plain(circle)


def application(**fields: Any) -> Application:
    return Application(name="a", **fields)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "data" / "deep").mkdir(parents=True)
    (tmp_path / "data" / "__pycache__").mkdir()
    (tmp_path / "data" / "__pycache__" / "x.pyc").write_text("cache")
    (tmp_path / "data" / "b.csv").write_text("b")
    (tmp_path / "data" / "deep" / "c.csv").write_text("c")
    (tmp_path / "train.py").write_text("print()\n")
    (tmp_path / "run.sh").write_text("#!/bin/sh\n")
    (tmp_path / "run.sh").chmod(0o755)
    return tmp_path


def test_sources(folder: Path) -> None:
    found = find_sources(application(script="./train.py", inputs=["data", "run.sh", "data/b.csv"]), [folder])
    assert [str(f.source.path) for f in found] == ["data/b.csv", "data/deep/c.csv", "run.sh", "train.py"]
    assert [f.source.executable for f in found] == [False, False, True, False]
    assert found[3].source.sha256 == hashlib.sha256(b"print()\n").hexdigest()
    assert found[3].source.size == 8
    assert found[3].local == folder / "train.py"


def test_sources_are_looked_for_in_order(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    other = tmp_path_factory.mktemp("other")
    (other / "train.py").write_text("other")
    assert find_sources(application(script="train.py"), [other, folder])[0].local == other / "train.py"
    assert find_sources(application(script="data/b.csv"), [other, folder])[0].local == folder / "data/b.csv"


def test_sources_outside_are_placed_by_their_name(folder: Path) -> None:
    inside = folder / "data" / "deep"
    found = find_sources(application(script="../../train.py", inputs=[str(folder / "data" / "deep")]), [inside])
    assert [f.source.path for f in found] == ["deep/c.csv", "train.py"]


def test_an_executable_is_no_source(folder: Path) -> None:
    assert find_sources(application(executable="/bin/true"), [folder]) == []


def test_a_link_inside_the_folder_is_followed(folder: Path) -> None:
    (folder / "data" / "latest").symlink_to("deep")
    found = find_sources(application(script="train.py", inputs=["data"]), [folder])
    assert [f.source.path for f in found] == ["data/b.csv", "data/deep/c.csv", "data/latest/c.csv", "train.py"]


def prepare_empty(folder: Path) -> None:
    (folder / "empty").mkdir()


def prepare_link_out(folder: Path) -> None:
    (folder / "data" / "out").symlink_to("/etc/passwd")


def prepare_circle(folder: Path) -> None:
    (folder / "data" / "deep" / "up").symlink_to("..")


def prepare_dangling(folder: Path) -> None:
    (folder / "data" / "gone").symlink_to("nowhere")


def prepare_dangling_input(folder: Path) -> None:
    (folder / "gone").symlink_to("nowhere")


def prepare_pipe(folder: Path) -> None:
    os.mkfifo(folder / "pipe")


def prepare_name(folder: Path) -> None:
    (folder / "data" / "a\nb").write_text("x")


def prepare_other_deep(folder: Path) -> None:
    (folder / "b.csv").write_text("another")


def as_it_is(folder: Path) -> None:
    """The folder is as it is."""


@pytest.mark.parametrize(
    ("prepare", "fields", "fault"),
    [
        (
            as_it_is,
            {"script": "trian.py"},
            "application.script: 'trian.py' not found; searched in {0}, {0}/data",
        ),
        (as_it_is, {"script": "/no/train.py"}, "application.script: '/no/train.py' not found; searched in /no"),
        (as_it_is, {"script": "data"}, "application.script: {0}/data is a folder, not a script"),
        (as_it_is, {"inputs": ["."]}, "application.inputs[0]: '.' is the whole folder"),
        (as_it_is, {"inputs": ["launchers/x"]}, "application.inputs[0]: 'launchers/x' is in the folder 'launchers'"),
        (prepare_empty, {"inputs": ["data", "empty"]}, "application.inputs[1]: the folder {0}/empty contains no file"),
        (prepare_link_out, {"inputs": ["data"]}, "{0}/data/out is a link that leads out of the folder"),
        (prepare_circle, {"inputs": ["data"]}, "the link {0}/data/deep/up leads back to a folder that contains it"),
        (prepare_dangling, {"inputs": ["data"]}, "{0}/data/gone is a link to nowhere, which does not exist"),
        (prepare_dangling_input, {"inputs": ["gone"]}, "{0}/gone is a link to nowhere, which does not exist"),
        (prepare_pipe, {"inputs": ["pipe"]}, "{0}/pipe is neither a file nor a folder"),
        (prepare_name, {"inputs": ["data"]}, "the file's name is not one line of UTF-8 text; rename it"),
        (
            prepare_other_deep,
            {"inputs": ["b.csv", "../{1}/data/b.csv"]},
            "application.inputs[1]: {0}/b.csv and {0}/../{1}/data/b.csv would both become b.csv",
        ),
    ],
)
def test_sources_refused(prepare: Any, fields: dict[str, Any], fault: str, folder: Path) -> None:
    prepare(folder)
    fields = {"script": "train.py", **fields}
    fields["inputs"] = [path.format(folder, folder.name) for path in fields.get("inputs", [])]
    with pytest.raises(InputError) as caught:
        find_sources(application(**fields), [folder, folder / "data"])
    assert fault.format(folder, folder.name) in str(caught.value)


def test_outline_of_a_file_with_anybodys_tags(tmp_path: Path) -> None:
    path = tmp_path / "vars.yml"
    path.write_text("other: 010\napplication:\n  name: !unsafe '{{ x }}'\njob:\n  wall_time: 90:00\n  nodes: 1\n")
    outline = read_outline(path)
    assert outline is not None
    assert str(outline.locate(("application", "name"))) == f"{path}:3"
    assert set(outline.sections()) == {"other", "application", "job"}
    fault = "90:00 is the number 5400 in YAML; write that number, or '90:00' in quotes"
    assert list(map(str, outline.diagnostics(["job", "target"]))) == [f"{path}:5: {fault}"]
    assert len(outline.diagnostics()) == 2


@pytest.mark.parametrize("text", ["", "a: [", "a: &x [*y]", "\x07"])
def test_outline_of_what_is_no_document(text: str, tmp_path: Path) -> None:
    path = tmp_path / "vars.yml"
    path.write_text(text)
    assert read_outline(path) is None
    assert read_outline(tmp_path / "absent") is None


def test_outline_of_a_list(tmp_path: Path) -> None:
    path = tmp_path / "vars.yml"
    path.write_text("- 1\n")
    outline = read_outline(path)
    assert outline is not None
    assert outline.sections() == {}
