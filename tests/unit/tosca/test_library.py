"""The type library says what the models say, describes everything, and is read by tosca-parser."""

import re
import runpy
from pathlib import Path
from typing import Any

import pytest
import yaml
from toscaparser.tosca_template import ToscaTemplate

from modak_deploy.errors import InputError
from modak_deploy.extensions import RUNTIMES
from modak_deploy.model.application import Application, Framework, Workload
from modak_deploy.model.request import JobOptions, Request
from modak_deploy.model.target import Accelerator, Node, Partition, Polling, Target
from modak_deploy.tosca import library

TYPES = library.folder() / "types"
BLUEPRINTS = sorted(library.folder().parent.glob("*.yaml"))


def load(name: str) -> dict[str, Any]:
    return yaml.safe_load((TYPES / name).read_text())


def test_generated_parts_are_up_to_date() -> None:
    stale = [path.name for path, _ in library.outdated(library.folder())]
    assert not stale, "run: python -m modak_deploy.tosca.library tosca/blueprints/modak"


def test_a_part_out_of_date_is_named_and_written_anew(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "types").mkdir()
    stale = tmp_path / "types" / "data.yaml"
    stale.write_text("data_types:\n  # generated: data types\n  old: {}\n  # end of generated\n")
    assert library.main([str(tmp_path), "--check"]) == 1
    assert capsys.readouterr().out == f"{stale}: out of date\n"
    assert library.main([str(tmp_path)]) == 0
    assert "modak.datatypes.JobOptions:" in stale.read_text()
    assert library.main([str(tmp_path), "--check"]) == 0


def test_an_unknown_part_is_refused() -> None:
    with pytest.raises(InputError, match=r"^x.yaml: generated part 'colours' not found, only data types, "):
        library.generate("# generated: colours\n# end of generated\n", "x.yaml")


@pytest.mark.parametrize("model", [Framework, Accelerator, Node, Partition, Polling, Request, JobOptions])
def test_a_data_type_has_the_fields_of_its_model(model: Any) -> None:
    definition = load("data.yaml")["data_types"][f"modak.datatypes.{model.__name__}"]
    assert list(definition["properties"]) == list(model.model_fields)
    for name, field in model.model_fields.items():
        given = definition["properties"][name]
        assert given.get("required", True) == field.is_required() or model is Framework, name
        if isinstance(field.default, str | int | float | bool):
            assert given["default"] == field.default, name


def test_a_target_has_the_fields_of_its_model() -> None:
    given = set(load("targets.yaml")["node_types"]["modak.nodes.Target"]["properties"])
    assert given == set(Target.model_fields) - {"host"} | {"hostname"}


def test_a_job_has_the_fields_of_application_and_workload() -> None:
    given = set(load("applications.yaml")["node_types"]["modak.nodes.Job"]["properties"])
    described = set(Application.model_fields) - {"workload"} | set(Workload.model_fields)
    assert given == described | {"request", "job", "input_folders", "results", "wait", "timeout"}


def test_an_image_has_the_options_of_its_module() -> None:
    module = runpy.run_path(str(library.folder().parents[2] / "plugins" / "modules" / "image.py"))
    options = yaml.safe_load(module["DOCUMENTATION"])["options"]
    given = load("images.yaml")["node_types"]["modak.nodes.ContainerImage"]["properties"]
    elsewhere = {"plan", "name", "digest", "target", "state", "keys", "search_paths", "logs"}
    assert set(given) == set(options) - elsewhere | {"image", "remove", "results"}
    (constraint,) = given["compression"]["constraints"]
    assert [value for value in constraint["valid_values"] if value] == options["compression"]["choices"]
    (constraint,) = given["runtime"]["constraints"]
    assert constraint["valid_values"] == list(RUNTIMES.builtin)
    described = " ".join(options["runtime"]["description"])
    assert all(f"V({name})" in described for name in RUNTIMES.builtin)


@pytest.mark.parametrize("kind", ["Machine", "SlurmCluster", "TorqueCluster", "PBSCluster"])
def test_a_kind_of_target_fixes_its_type(kind: str) -> None:
    fixed = load("targets.yaml")["node_types"][f"modak.nodes.target.{kind}"]["properties"]["type"]
    assert fixed["constraints"] == [{"equal": fixed["default"]}]
    assert Target(name="t", type=fixed["default"]).type == fixed["default"]


@pytest.mark.parametrize("kind", ["AITraining", "AIInference", "BigDataAnalytics", "HPC"])
def test_a_kind_of_application_fixes_its_type(kind: str) -> None:
    fixed = load("applications.yaml")["node_types"][f"modak.nodes.application.{kind}"]["properties"]["type"]
    assert fixed["constraints"] == [{"equal": fixed["default"]}]
    assert Application(name="a", type=fixed["default"], executable="/bin/true").type == fixed["default"]


@pytest.mark.parametrize("path", sorted(TYPES.glob("*.yaml")), ids=lambda p: p.name)
def test_everything_is_described(path: Path) -> None:
    missing = []

    def walk(place: str, value: Any) -> None:
        if not isinstance(value, dict):
            return
        is_definition = isinstance(value.get("type"), str) and not place.endswith((".default", "_schema"))
        if (is_definition or "derived_from" in value) and not value.get("description"):
            missing.append(place)
        for key, inner in value.items():
            walk(f"{place}.{key}", inner)

    for section, types in load(path.name).items():
        if section.endswith("_types"):
            walk(section, types)
    assert [place for place in missing if not re.search(r"\.interfaces\.\w+$", place)] == []


@pytest.mark.parametrize("path", BLUEPRINTS, ids=lambda p: p.name)
def test_tosca_parser_reads_it(path: Path) -> None:
    template = ToscaTemplate(str(path))
    roots = [node.type_definition.parent_type for node in template.nodetemplates]
    execution = "sodalite.nodes.batch.Container.BatchExecution"
    assert {root.type for root in roots} <= {"modak.nodes.Job", "modak.nodes.Target", "tosca.nodes.Root", execution}


def test_tosca_parser_reads_the_library_alone() -> None:
    assert ToscaTemplate(str(library.folder() / library.NAME)).version == "tosca_simple_yaml_1_3"


@pytest.mark.parametrize("path", sorted(TYPES.glob("*.yaml")), ids=lambda p: p.name)
def test_every_playbook_is_there(path: Path) -> None:
    for name, definition in load(path.name).get("node_types", {}).items():
        for interface in definition.get("interfaces", {}).values():
            for operation in interface["operations"].values():
                assert (TYPES / operation["implementation"]["primary"]).is_file(), name


@pytest.mark.parametrize("path", BLUEPRINTS, ids=lambda p: p.name)
def test_every_artifact_is_there_and_no_link(path: Path) -> None:
    """Orchestrators refuse symbolic links and files from outside the blueprint's folder."""
    for template in yaml.safe_load(path.read_text())["topology_template"]["node_templates"].values():
        for artifact in template.get("artifacts", {}).values():
            file = path.parent / artifact["file"]
            assert file.exists()
            assert not file.is_symlink()
            assert file.resolve().is_relative_to(path.parent.resolve())
