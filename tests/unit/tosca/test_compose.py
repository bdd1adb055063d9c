"""From a deployment to TOSCA and back is the identity, through tosca-parser and through our own reading."""

import math
import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from toscaparser.tosca_template import ToscaTemplate

from examples import examples
from modak_deploy.documents import load_deployment
from modak_deploy.errors import InputError
from modak_deploy.model.application import Application, Workload
from modak_deploy.model.base import Model
from modak_deploy.model.deployment import Deployment
from modak_deploy.model.request import JobOptions, Request
from modak_deploy.model.target import Target
from modak_deploy.tosca import library
from modak_deploy.tosca.compose import JOB, TARGET, as_yaml, compose, properties_of, write_blueprint
from modak_deploy.tosca.deployments import document_of, jobs, other_targets
from modak_deploy.tosca.fields import Schema, schema_of
from modak_deploy.tosca.library import RENAMED, application_properties, target_properties
from modak_deploy.tosca.service import load
from modak_deploy.tosca.translate import documents
from modak_deploy.tosca.validate import validate

EXAMPLES = Path(__file__).parents[3] / "examples"
LINES = st.text(st.characters(exclude_categories=("Cs", "Cc", "Zl", "Zp")), min_size=1, max_size=20)
TEXTS = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"), min_size=1, max_size=20)
OF_PATTERN = {
    r"^[A-Za-z][A-Za-z0-9_.-]{0,62}$": st.from_regex(r"\A[A-Za-z][A-Za-z0-9_.-]{0,8}\Z"),
    r"^[A-Za-z_][A-Za-z0-9_]*$": st.from_regex(r"\A[A-Za-z_][A-Za-z0-9_]{1,8}\Z"),
    r"^[A-Za-z0-9_:][A-Za-z0-9_.:%-]*$": st.sampled_from(["login", "login.example.org", "fe80::1%eth0"]),
    r"^[A-Za-z0-9_][A-Za-z0-9_.@+-]*$": st.sampled_from(["alice", "alice@EXAMPLE.ORG"]),
    r"^[^\x00\r\n]*$": LINES,
    r"^[^\x00]*$": TEXTS,
}
OF_FIELD: dict[str, st.SearchStrategy[Any]] = {
    "version": st.sampled_from(["2", "2.1", ">=2.1,<3", "!=2.10"]),
    "driver": st.sampled_from(["535", "550.54.15"]),
    "gpu_spelling": st.sampled_from(["gres=gpu:a100:{count}", "gpus={count}"]),
    "scratch": st.sampled_from(["/local", "$TMPDIR", "/a b"]),
    "array": st.sampled_from(["1", "0-9", "1,3-7:2%4"]),
    "dependency": st.lists(st.sampled_from(["afterok:12", "after:3[]:4.host"]), min_size=1, max_size=2),
    "secret_environment": st.dictionaries(
        st.sampled_from(["SECRET_A", "SECRET_B"]),
        st.sampled_from([{"variable": "token"}, {"file": "~/.token"}, {"command": ["pass", "show", "token"]}]),
        min_size=1,
    ),
    "kubernetes": st.sampled_from(
        [
            {"namespace": "team-a", "gpu": "amd"},
            {"claims": {"data": "/data"}, "node_selector": {"example.org/zone": "a"}},
        ]
    ),
    "service": st.sampled_from(
        [
            {"port": 8080},
            {"port": 80, "address": "0.0.0.0", "health": "/ready", "drain": 5, "further_ports": ["grpc"]},  # noqa: S104
        ]
    ),
    "objects": st.sampled_from(
        [
            {"inputs": {"data/a": "s3://bucket/a", "b": "swift://container/x/b"}, "limit": 1024},
            {"inputs": {"data/a": "s3://bucket/a"}, "profile": "lab", "region": "RegionOne"},
        ]
    ),
    "image": st.sampled_from(["docker://keras:3", "library://a/b:1"]),
    "catalogue": st.lists(st.sampled_from(["site", "/etc/modak", "https://example.org/levers.yaml"]), min_size=1),
}


def values(schema: Schema) -> st.SearchStrategy[Any]:
    """Return a strategy for values of a field's schema."""
    limits = dict(schema.constraints)
    if schema.model is not None:
        return models(schema.model)
    if schema.key is not None and schema.entry is not None:
        return st.dictionaries(values(schema.key), values(schema.entry), min_size=1, max_size=2)
    if schema.entry is not None:
        return st.lists(values(schema.entry), min_size=1, max_size=2)
    if "valid_values" in limits:
        return st.sampled_from(limits["valid_values"])
    low = limits.get("greater_than", limits.get("greater_or_equal", 0))
    match schema.type:
        case "boolean":
            return st.booleans()
        case "integer":
            return st.integers(low + ("greater_than" in limits), limits.get("less_or_equal", 10**9))
        case "float":
            return st.floats(max(low, 1e-9), limits.get("less_or_equal", 1e12), exclude_min=True)
        case "scalar-unit.time" | "scalar-unit.size":
            return st.integers(1, 10**12)
    return OF_PATTERN[limits.get("pattern", r"^[^\x00\r\n]*$")]


@st.composite
def models(draw: st.DrawFn, model: type[Model]) -> Any:
    """Return a model's values as plain data; most of what may be left out is left out."""
    chosen: dict[str, Any] = {}
    for name, field in model.model_fields.items():
        if field.is_required() or draw(st.integers(0, 3)) == 0:
            schema = schema_of(field.annotation, field.metadata)
            chosen[name] = draw(OF_FIELD[name] if name in OF_FIELD else values(schema))
    return chosen


@st.composite
def deployments(draw: st.DrawFn) -> Deployment:
    """Return a deployment of which every field may be set."""
    data = {
        "application": draw(models(Application)),
        "target": draw(models(Target)),
        "other_targets": draw(st.lists(models(Target), max_size=2)),
        "request": draw(models(Request)),
        "job": draw(models(JobOptions)),
    }
    if draw(st.booleans()):
        data["application"].pop("executable", None)
        data["application"].setdefault("script", "train.py")
    else:
        data["application"].pop("script", None)
        data["application"].setdefault("executable", "/bin/true")
    try:
        return Deployment.model_validate(data)
    except ValidationError:
        assume(False)
        raise


@pytest.fixture(scope="module")
def folder() -> Any:
    """A folder with the library."""
    with tempfile.TemporaryDirectory() as name:
        shutil.copytree(library.folder(), Path(name) / "modak")
        yield Path(name)


def as_tosca_parser_reads_it(path: Path) -> dict[str, Any]:
    """Return the deployment document that tosca-parser's view of the node templates stands for."""
    told: dict[str, dict[str, Any]] = {}
    for node in ToscaTemplate(str(path)).nodetemplates:
        told[node.name] = {prop.name: prop.value for prop in node.get_properties_objects()}
    job = told[JOB]
    fields = {shown: field for field, shown in RENAMED.items()}
    application = {k: job[k] for k in ("type", *application_properties())} | {"tosca_name": JOB}

    def sections(name: str) -> dict[str, Any]:
        target = {fields.get(k, k): told[name][k] for k in ("type", *target_properties())}
        return documents(application, target, job["request"], job["job"])

    others = [sections(name)["target"] for name in sorted(told) if name.startswith(f"{TARGET}_")]
    return {**sections(TARGET), "other_targets": others}


@pytest.mark.parametrize("budget", [90, "5%"])
def test_restart_trials_are_a_text(budget: int | str) -> None:
    request = Request.model_validate({"trials": {"budget": budget}})
    told = properties_of(request)
    assert told["trials"] == (budget if isinstance(budget, str) else f"{budget} s")
    assert Request.model_validate(told) == request


def test_restart_trials_without_live_ones_have_no_form() -> None:
    with pytest.raises(InputError, match=r"trials\.live: TOSCA has no form"):
        properties_of(Request.model_validate({"trials": {"budget": 60, "live": False}}))


@settings(
    max_examples=examples(50), deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much]
)
@given(deployment=deployments())
def test_round_trip(folder: Path, deployment: Deployment) -> None:
    path = folder / "blueprint.yaml"
    try:
        path.write_text(as_yaml(compose(deployment)))
    except InputError:
        assume(False)
    assert Deployment.model_validate(as_tosca_parser_reads_it(path)) == deployment
    service = load(path)
    ((template, target),) = jobs(service)
    document = document_of(service, {}, template, target)
    others = [document_of(service, {}, template, other)["target"] for _, other in other_targets(service, template)]
    assert Deployment.model_validate({**document, "other_targets": others}) == deployment


@pytest.mark.parametrize("text", ["\x85", "a\x85b", "\u2028", "a\r\nb", " a\n", "{{ a }}", "#SBATCH", "\x1b\ufeff"])
def test_odd_text_comes_back(folder: Path, text: str) -> None:
    data = {"application": {"name": "a", "executable": "x"}, "job": {"post_execution": text}}
    deployment = Deployment.model_validate(data)
    (folder / "odd.yaml").write_text(as_yaml(compose(deployment)))
    assert Deployment.model_validate(as_tosca_parser_reads_it(folder / "odd.yaml")) == deployment


def test_workload_is_whole(folder: Path) -> None:
    """Every field of the workload has its property, and each value comes back."""
    given_workload = Workload(
        model="m", dataset="d", unit="step", units=2, samples=3, batch=4, parameters=5,
        flops_per_sample=6.5, bytes_per_sample=7.5, layers=8, memory=9,
    )  # fmt: skip
    deployment = Deployment(application=Application(name="a", executable="x", workload=given_workload))
    (folder / "w.yaml").write_text(as_yaml(compose(deployment)))
    assert Deployment.model_validate(as_tosca_parser_reads_it(folder / "w.yaml")) == deployment
    assert not any(isinstance(v, float) and math.isnan(v) for v in given_workload.model_dump().values())


@pytest.mark.parametrize(
    ("application", "message"),
    [
        ({"environment": {"token": "x"}}, r"^environment: TOSCA takes a mapping with 'token' alone for a call"),
        ({"environment": {"join": "x", "B": "y"}}, None),
    ],
)
def test_what_tosca_cannot_express(application: dict[str, Any], message: str | None) -> None:
    deployment = Deployment(application=Application(name="a", executable="x", **application))
    if message is None:
        assert compose(deployment)
        return
    with pytest.raises(InputError, match=message):
        compose(deployment)


def test_an_empty_list_is_not_the_same_as_none_and_cannot_be_told() -> None:
    target = Target(name="t", runtimes=[])
    with pytest.raises(InputError, match=r"^runtimes: TOSCA cannot tell an empty value from one that is not given"):
        compose(Deployment(application=Application(name="a", executable="x"), target=target))


def test_a_document_becomes_a_blueprint_with_its_files(tmp_path: Path) -> None:
    (tmp_path / "src" / "data").mkdir(parents=True)
    (tmp_path / "src" / "train.py").write_text("print()\n")
    (tmp_path / "src" / "data" / "x.csv").write_text("1\n")
    document = {
        "application": {"name": "demo", "script": "src/train.py", "inputs": ["src/data"]},
        "target": {"name": "cluster", "type": "slurm", "host": "login"},
        "job": {"wall_time": "2h", "memory": "4G"},
    }
    (tmp_path / "deploy.yml").write_text(yaml.safe_dump(document))
    blueprint = write_blueprint(tmp_path / "deploy.yml", tmp_path / "project")
    assert blueprint == tmp_path / "project" / "demo.yaml"
    assert validate(blueprint) == []
    assert (tmp_path / "project" / "train.py").read_text() == "print()\n"
    assert (tmp_path / "project" / "data" / "x.csv").is_file()
    job = yaml.safe_load(blueprint.read_text())["topology_template"]["node_templates"][JOB]
    assert job["properties"]["job"] == {"wall_time": "7200 s", "memory": f"{4 * 2**30} B"}
    with pytest.raises(InputError, match=r"project: the folder already exists; name a new one$"):
        write_blueprint(tmp_path / "deploy.yml", tmp_path / "project")


@pytest.mark.parametrize("name", ["digits-machine", "digits-slurm"])
def test_the_digits_blueprints_say_what_the_example_says(name: str) -> None:
    service = load(library.folder().parent / f"{name}.yaml")
    ((template, target),) = jobs(service)
    shipped = Deployment.model_validate(document_of(service, {}, template, target))
    example = load_deployment(EXAMPLES / "digits" / "deploy.yml")
    assert shipped.application == example.application
    assert shipped.request == example.request
    assert shipped.job == example.job


def test_what_a_document_says_of_its_run_is_in_the_blueprint(tmp_path: Path) -> None:
    document = {"application": {"name": "demo", "script": "train.py"}, "wait": False, "timeout_seconds": 60}
    (tmp_path / "scripts").mkdir()
    (tmp_path / "scripts" / "train.py").write_text("print()\n")
    given = {**document, "results": "~/out", "search_paths": [str(tmp_path / "scripts")]}
    (tmp_path / "deploy.yml").write_text(yaml.safe_dump(given))
    blueprint = write_blueprint(tmp_path / "deploy.yml", tmp_path / "project")
    assert validate(blueprint) == []
    job = yaml.safe_load(blueprint.read_text())["topology_template"]["node_templates"][JOB]["properties"]
    assert (job["wait"], job["timeout"], job["results"]) == (False, 60, "~/out")


@pytest.mark.parametrize(
    ("option", "fault"),
    [
        ("force: true", "force: TOSCA has no form for it; leave it out"),
        ("record: false", "record: TOSCA has no form for it; leave it out"),
        ("results: out", "results: a blueprint takes no relative path here; write an absolute one, or one below '~/'"),
    ],
)
def test_what_a_blueprint_cannot_say_of_a_run(tmp_path: Path, option: str, fault: str) -> None:
    (tmp_path / "deploy.yml").write_text(f"application: {{name: demo, executable: 'true'}}\n{option}\n")
    with pytest.raises(InputError) as caught:
        write_blueprint(tmp_path / "deploy.yml", tmp_path / "project")
    assert str(caught.value) == f"{tmp_path / 'deploy.yml'}:2: {fault}"


@pytest.mark.parametrize("text", ["1e-3", "0o17", "1E5", "1e+3", "-1e3", "0x1f", ".5", "12", "1."])
def test_what_yaml_1_2_takes_for_a_number_stays_text(text: str) -> None:
    """Unfurl and Puccini read YAML 1.2, in which 0o17 is 15."""
    assert yaml.dump([text], Dumper=library.Dumper) == f"- '{text}'\n"


@pytest.mark.parametrize("character", ["\x85", "\u2028", "\u2029"])
def test_no_reader_takes_a_character_of_a_text_for_a_line_break(character: str) -> None:
    (line,) = yaml.dump([f"a{character}b"], Dumper=library.Dumper, allow_unicode=True).split("\n")[:-1]
    assert character not in line
    assert yaml.safe_load(line) == [f"a{character}b"]
