"""Packages of blueprints, and folders to start from."""

import os
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from toscaparser.tosca_template import ToscaTemplate

from modak_deploy.errors import InputError
from modak_deploy.tosca.package import META, shipped, start_from, write_csar
from modak_deploy.tosca.validate import validate


def test_a_package_holds_what_the_blueprint_needs_and_nothing_else(base: Path) -> None:
    names = write_csar(base, base.parent / "b.csar")
    files = {p.relative_to(base.parent).as_posix() for p in (base.parent / "modak").rglob("*.y*ml")}
    sodalite = {f"modak/types/sodalite{part}.yaml" for part in ("", "-older", "-tasks")}
    others = {"modak/sodalite.yaml", *sodalite, "modak/playbooks/tell.yml", "modak/playbooks/model_create.yml"}
    library = files - others - {"modak/unfurl/decorators.yaml"}
    assert set(names) == library | {META, "base.yaml", "check.yml", "train.py"}
    with zipfile.ZipFile(base.parent / "b.csar") as archive:
        assert archive.namelist() == names
        assert archive.read("base.yaml") == base.read_bytes()
        assert "Entry-Definitions: base.yaml\n" in archive.read(META).decode()


def test_the_same_blueprint_gives_the_same_package(base: Path) -> None:
    for name in ("a.csar", "b.csar"):
        write_csar(base, base.parent / name)
    assert (base.parent / "a.csar").read_bytes() == (base.parent / "b.csar").read_bytes()


def test_tosca_parser_takes_a_package(base: Path) -> None:
    package = base.parent / "b.csar"
    write_csar(base, package)
    assert [node.name for node in ToscaTemplate(str(package)).nodetemplates] == ["cluster", "checked", "train"]


def test_a_folder_is_packed_with_all_that_is_in_it(base: Path) -> None:
    (base.parent / "data" / "deep").mkdir(parents=True)
    (base.parent / "data" / "deep" / "x.csv").write_text("1\n")
    text = base.read_text().replace(
        "          file: train.py\n",
        "          file: train.py\n        data:\n          type: modak.artifacts.Input\n          file: data\n",
    )
    base.write_text(text)
    assert "data/deep/x.csv" in write_csar(base, base.parent / "b.csar")


def test_nothing_from_outside_the_folder_is_packed(base: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    secret = tmp_path_factory.mktemp("outside") / "secret"
    secret.write_text("1\n")
    (base.parent / "data").mkdir()
    (base.parent / "data" / "link").symlink_to(secret)
    text = base.read_text().replace("modak.artifacts.PythonScript\n          file: train.py", "FOLDER", 1)
    (base.parent / "b.yaml").write_text(text.replace("FOLDER", "tosca.artifacts.File\n          file: data"))
    with pytest.raises(InputError, match=r"'data' holds the symbolic link .*/data/link, which xOpera does not take"):
        write_csar(base.parent / "b.yaml", base.parent / "b.csar")
    (base.parent / "modak").rename(secret.parent / "modak")
    (base.parent / "modak").symlink_to(secret.parent / "modak")
    with pytest.raises(InputError, match=r"leads by a symbolic link to .*, outside the blueprint's folder"):
        write_csar(base, base.parent / "b.csar")


def test_a_faulty_blueprint_is_not_packed(base: Path) -> None:
    base.write_text(base.read_text().replace("metrics:", "metric:"))
    with pytest.raises(InputError, match=r"unknown property; did you mean 'metrics'\?$"):
        write_csar(base, base.parent / "b.csar")
    assert not (base.parent / "b.csar").exists()


def test_a_package_that_cannot_be_written_leaves_nothing(base: Path) -> None:
    with pytest.raises(InputError, match=r"no/b.csar: cannot be written: No such file or directory$"):
        write_csar(base, base.parent / "no" / "b.csar")
    assert not [path for path in base.parent.iterdir() if path.name.startswith(".")]


@pytest.mark.parametrize("name", shipped())
def test_a_shipped_blueprint_is_right_wherever_it_is_copied(tmp_path: Path, name: str) -> None:
    blueprint = start_from(name, tmp_path / "new" / "folder")
    assert validate(blueprint) == []
    assert start_from(name, tmp_path / "new" / "folder") == blueprint, "a second time nothing is in the way"


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / "digits-machine.yaml").write_text("mine\n")
    with pytest.raises(InputError, match=r"digits-machine.yaml: there is another file of this name"):
        start_from("digits-machine", tmp_path)


@pytest.mark.parametrize("make", [os.mkdir, os.mkfifo])
def test_what_is_no_file_is_in_the_way(tmp_path: Path, make: Callable[[Path], None]) -> None:
    make(tmp_path / "digits-machine.yaml")
    with pytest.raises(InputError, match=r"digits-machine.yaml: there is another file of this name"):
        start_from("digits-machine", tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["digits-machine.yaml"]


def test_a_blueprint_that_is_not_shipped(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"^blueprint 'digit' not found: there are .*digits-machine"):
        start_from("digit", tmp_path)


def test_files_of_types_and_of_relationship_templates_are_packed(base: Path) -> None:
    of_type = "    artifacts:\n      tool:\n        type: tosca.artifacts.File\n        file: more/train.py\n"
    of_relationship = (
        "  relationship_templates:\n    link:\n      type: tosca.relationships.DependsOn\n      interfaces:\n"
        "        Configure:\n          operations:\n            pre_configure_source:\n"
        "              implementation: more/start.yml\n"
    )
    text = base.read_text().replace(
        "    requirements:\n      - checks:\n", f"{of_type}    requirements:\n      - checks:\n"
    )
    text = text.replace("  node_templates:\n", f"{of_relationship}  node_templates:\n", 1)
    base.write_text(text)
    assert {"more/train.py", "more/start.yml"} <= set(write_csar(base, base.parent / "b.csar"))
    base.write_text(text.replace("file: more/train.py", "file: more/gone.py").replace("start.yml", "gone.yml"))
    gone = [str(fault).partition(" not found")[0].partition(": ")[2] for fault in validate(base)]
    assert gone == [
        "node_types.example.Checked.artifacts.tool.file: 'more/gone.py'",
        "relationship_templates.link.interfaces.Configure.operations.pre_configure_source.implementation: "
        "the playbook 'more/gone.yml'",
    ]


def test_an_artifact_of_the_type_is_one_of_the_node(base: Path) -> None:
    own = "  example.Train:\n    derived_from: modak.nodes.application.AITraining\n    artifacts:\n"
    own += "      script:\n        type: modak.artifacts.PythonScript\n        file: train.py\n"
    text = base.read_text().replace("policy_types:\n", f"{own}\npolicy_types:\n", 1)
    text = text.replace(
        "type: modak.nodes.application.AITraining\n      properties", "type: example.Train\n      properties"
    )
    given = (
        "      artifacts:\n        script:\n          type: modak.artifacts.PythonScript\n          file: train.py\n"
    )
    assert given in text
    base.write_text(text.replace(given, ""))
    assert validate(base) == []
