"""The TOSCA type library: where it lies, and the parts of it that are made from the models.

A generated part stands between ``# generated: PART`` and ``# end of generated``. ``python -m modak_deploy.tosca.library
FOLDER`` writes all of them anew; with ``--check`` it only says which are out of date.
"""

import argparse
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from modak_deploy.documents import read_document
from modak_deploy.errors import InputError, ModakError
from modak_deploy.extensions import RUNTIMES
from modak_deploy.model.application import Application, Workload
from modak_deploy.model.base import Model
from modak_deploy.model.descriptions import describe
from modak_deploy.model.request import JobOptions, Request
from modak_deploy.model.target import Target
from modak_deploy.tosca import sodalite_types as sodalite
from modak_deploy.tosca.fields import PREFIX, data_type_property, node_property, schema_of
from modak_deploy.util.files import write_atomically

NAME = "modak.yaml"
"""The file that a blueprint imports, below the library's folder."""
FOLDER = "modak"
"""Name of the library's folder beside a blueprint."""
RENAMED = {"host": "hostname"}
"""Fields whose property has another name: every target has a capability ``host``, and Puccini looks there first."""
_DESCRIPTIONS = {
    "name": "Name of it; when empty, the template's name, or for a target its type.",
    "script": "File name of a Python script among the artifacts, run by the target's Python.",
    "inputs": "File names of artifacts, files or folders, to copy beside the script.",
    "hostname": "Host name for SSH, or an alias of its configuration; the orchestrator's own machine when empty.",
    "private_key": "SSH private key file on the orchestrator's machine; as configured for SSH when empty.",
    "known_hosts": "File of known host keys on the orchestrator's machine, used instead of the user's own; a host "
    "that is not in it is refused.",
    "image_keys": "Files on the orchestrator's machine with public keys, PEM or PGP; if given, an image runs only if "
    "one of them signed it.",
}
_REGION = re.compile(
    r"^(?P<indent> *)# generated: (?P<part>[^\n]+)\n(?P<body>.*?)^(?P=indent)# end of generated$",
    re.MULTILINE | re.DOTALL,
)
_NUMBER = re.compile(r"[-+]?(0o[0-7]+|0x[\da-fA-F]+|(\.\d+|\d+(\.\d*)?)([eE][-+]?\d+)?)", re.ASCII)
"""A number of YAML 1.2, which Unfurl and Puccini read; to PyYAML, which knows 1.1, 1e-3 and 0o17 are text."""
_BREAKS = frozenset("\x85\u2028\u2029")
"""Line breaks of YAML 1.1, which PyYAML writes as they are, and with blanks after them, unless the text is quoted."""


class Dumper(yaml.SafeDumper):
    """Lists are indented below their key, as yamllint wants them, and every text reads back as what it was."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, False)

    def represent_str(self, data: str) -> yaml.ScalarNode:
        """Quote what PyYAML would not, and another reader would take for something else."""
        if _BREAKS & set(data):
            return self.represent_scalar("tag:yaml.org,2002:str", data, style='"')
        if _NUMBER.fullmatch(data):
            return self.represent_scalar("tag:yaml.org,2002:str", data, style="'")
        return super().represent_str(data)


Dumper.add_representer(str, Dumper.represent_str)


def folder() -> Path:
    """Return the folder of the type library that belongs to this package: in the wheel or in the checkout."""
    top = Path(__file__).resolve().parents[2]
    for base in (top / "ansible_collections" / "modak" / "deploy", top):
        if (base / "tosca" / "blueprints" / FOLDER / NAME).is_file():
            return base / "tosca" / "blueprints" / FOLDER
    raise InputError(
        f"the TOSCA type library is neither in {top}/ansible_collections/modak/deploy nor in {top}",
        hint="install modak-deploy again",
    )


def _properties(model: type[Model], *omitted: str) -> dict[str, Any]:
    describe(model)
    properties = {}
    for field, info in model.model_fields.items():
        if field in omitted:
            continue
        name = RENAMED.get(field, field)
        properties[name] = node_property(field, info)
        properties[name]["description"] = _DESCRIPTIONS.get(name, properties[name]["description"])
    return properties


def _unnamed(properties: dict[str, Any]) -> dict[str, Any]:
    """Let the template's name stand in for a name that is not given."""
    name = properties["name"]
    name.update(
        required=False, default="", constraints=[{"pattern": f"^({name['constraints'][0]['pattern'][1:-1]})?$"}]
    )
    return properties


@cache
def application_properties() -> Mapping[str, Any]:
    """Return the properties that every application has: the application's own and those of its workload."""
    return _unnamed(_properties(Application, "type", "workload")) | _properties(Workload)


@cache
def target_properties() -> Mapping[str, Any]:
    """Return the properties that every target has."""
    return _unnamed(_properties(Target, "type"))


def data_types() -> dict[str, Any]:
    """Return the data types of all models that are values of properties, each after those that it uses."""
    matches: dict[str, Any] = {}
    for model in (Application, Target):
        for field in model.model_fields.values():
            schema = schema_of(field.annotation, field.metadata)
            if schema.model is not Workload:
                _collect(schema.model or (schema.entry.model if schema.entry else None), matches, schema.optional)
    _collect(Request, matches, False)
    _collect(JobOptions, matches, False)
    return matches


def _collect(model: type[Model] | None, matches: dict[str, Any], optional: bool) -> None:
    if model is None or PREFIX + model.__name__ in matches:
        return
    describe(model)
    for field in model.model_fields.values():
        schema = schema_of(field.annotation, field.metadata)
        _collect(schema.model or (schema.entry.model if schema.entry else None), matches, False)
    # tosca-parser 2.15 fills the defaults into a property that is not given, and what is required would be missing.
    defaults = not optional or not any(field.is_required() for field in model.model_fields.values())
    matches[PREFIX + model.__name__] = {
        "derived_from": "tosca.datatypes.Root",
        "description": " ".join((model.__doc__ or "").split()),
        # A property that may be left out is {} then, which must be a legal value.
        "properties": {
            name: data_type_property(name, field, required=False if optional else None, defaults=defaults)
            for name, field in model.model_fields.items()
        },
    }


def _inputs(properties: Mapping[str, Any], of: str) -> dict[str, Any]:
    names = {shown: field for field, shown in RENAMED.items()}
    return {names.get(name, name): {"get_property": [of, name]} for name in properties}


def application_inputs() -> dict[str, Any]:
    """Return what an operation is told of its node: each property by its field's name, and the template's name."""
    return {
        "tosca_name": {"get_attribute": ["SELF", "tosca_name"]},
        "type": {"get_property": ["SELF", "type"]},
    } | _inputs(application_properties(), "SELF")


def target_inputs(of: str = "HOST") -> dict[str, Any]:
    """Return what an operation is told of a target: the one that hosts its node, or its relationship's ``TARGET``."""
    return {"type": {"get_property": [of, "type"]}} | _inputs(target_properties(), of)


def image_runtime() -> dict[str, Any]:
    """Return the property with the container runtime that an image is for; ``native`` runs none."""
    return {
        "runtime": {
            "type": "string",
            "description": "Container runtime that it is for.",
            "required": False,
            "default": "apptainer",
            "constraints": [{"valid_values": RUNTIMES.names()}],
        }
    }


def job_attributes() -> dict[str, Any]:
    """Return the attributes of ``modak.nodes.Job``, for other types that stand for a job."""
    document = read_document(folder() / "types" / "applications.yaml")
    matches: dict[str, Any] = document.data["node_types"]["modak.nodes.Job"]["attributes"]
    return matches


def manager_inputs() -> dict[str, Any]:
    """Return what an operation is told of the workload manager that hosts its node."""
    own = {name: {"get_property": ["HOST", name]} for name in sodalite.MANAGER}
    attributes = {key: {"get_attribute": ["HOST", name]} for name, key in sodalite.MANAGER_ATTRIBUTES.items()}
    general = {k: v for k, v in target_inputs().items() if k != "type"}
    return {"public_address": {"get_attribute": ["HOST", "public_address"]}} | own | attributes | general


def target_type() -> dict[str, Any]:
    """Return the property that holds a target's type; empty where a site tells it, as for modak.nodes.target.Site.

    A derived type may only narrow constraints: Puccini 0.21 applies those of the parent beside its own.
    """
    definition = node_property("type", Target.model_fields["type"])
    (constraint,) = definition["constraints"]
    return {"type": {**definition, "constraints": [{"valid_values": ["", *constraint["valid_values"]]}]}}


PARTS: dict[str, Callable[[], Mapping[str, Any]]] = {
    "data types": data_types,
    "properties of an application": application_properties,
    "runtime of an image": image_runtime,
    "type of a target": target_type,
    "properties of a target": target_properties,
    "inputs from an application": application_inputs,
    "inputs from a target": target_inputs,
    "inputs from another target": lambda: (
        {"tosca_name": {"get_attribute": ["TARGET", "tosca_name"]}} | target_inputs("TARGET")
    ),
    "inputs from the target itself": lambda: (
        {"tosca_name": {"get_attribute": ["SELF", "tosca_name"]}} | target_inputs("SELF")
    ),
    "attributes of a job": job_attributes,
    "outputs of a job": lambda: {name: ["SOURCE", name] for name in job_attributes()},
    "inputs from a SODALITE application": lambda: sodalite.inputs(*sodalite.APPLICATION),
    "inputs from a SODALITE runtime": lambda: sodalite.inputs(*sodalite.RUNTIME),
    "inputs from a SODALITE execution": lambda: sodalite.inputs(*sodalite.EXECUTION),
    "inputs from a SODALITE workload manager": manager_inputs,
}


def generate(text: str, origin: str) -> str:
    """Return ``text`` with every generated part made anew; InputError names a part that is not known."""

    def body(match: re.Match[str]) -> str:
        part = match["part"]
        if part not in PARTS:
            raise InputError(f"generated part '{part}' not found, only {', '.join(PARTS)}", source=origin)
        dumped = yaml.dump(PARTS[part](), Dumper=Dumper, sort_keys=False, width=110, allow_unicode=True)
        lines = "".join(match["indent"] + line if line.strip() else line for line in dumped.splitlines(keepends=True))
        return f"{match['indent']}# generated: {part}\n{lines}{match['indent']}# end of generated"

    return _REGION.sub(body, text)


def outdated(library: Path) -> Iterator[tuple[Path, str]]:
    """Yield each file of the library whose generated parts differ from the models, with its right text."""
    for path in sorted((library / "types").glob("*.yaml")):
        text = path.read_text()
        right = generate(text, str(path))
        if right != text:
            yield path, right


def write(library: Path) -> list[Path]:
    """Write the generated parts of a library that are out of date, and return the files."""
    changed = []
    for path, text in outdated(library):
        write_atomically(path, text)
        changed.append(path)
    return changed


def main(arguments: list[str] | None = None) -> int:
    """Write the generated parts, or with ``--check`` name the files that are out of date."""
    parser = argparse.ArgumentParser(prog="python -m modak_deploy.tosca.library", description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="the library's folder, with types/ in it")
    parser.add_argument("--check", action="store_true", help="write nothing; fail when something is out of date")
    options = parser.parse_args(arguments)
    try:
        wrong = [path for path, _ in outdated(options.folder)] if options.check else write(options.folder)
    except ModakError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    for path in wrong:
        print(f"{path}: {'out of date' if options.check else 'written'}")
    return int(bool(wrong) and options.check)


if __name__ == "__main__":
    sys.exit(main())
