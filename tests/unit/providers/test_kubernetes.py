"""Manifests of Kubernetes Jobs: golden ones, valid by the published schemas, and what cannot be had."""

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator
from typer.testing import CliRunner

import jobplans
from modak_deploy.cli import app
from modak_deploy.errors import InputError
from modak_deploy.manifest import manifest
from modak_deploy.model.kubernetes import Placement
from modak_deploy.model.plan import Plan
from modak_deploy.providers.kubernetes import Workload, job_name

HERE = Path(__file__).parent
CASES: dict[str, dict[str, Any]] = yaml.safe_load((HERE / "kubernetes_plans.yaml").read_text())
DIGEST = "sha256:" + "a" * 64
SCHEMAS = {path.stem: json.loads(path.read_text()) for path in sorted((HERE / "data").glob("kubernetes-1*.json"))}
KINDS = {"Job": "io.k8s.api.batch.v1.Job", "ConfigMap": "io.k8s.api.core.v1.ConfigMap"}


def made(case: dict[str, Any], folder: Path, **changes: Any) -> Plan:
    """Return the Plan of a case, with its files in ``folder``."""
    application = case.get("application", {})
    (folder / "train.py").write_text("print('trained')\n")
    sources = tuple(jobplans.source(path, folder / path) for path in application.get("inputs", []))
    gpus = case.get("gpus", 0)
    plan = jobplans.plan(case["argv"], Path("/unused"), sources=sources, job=case.get("job"), gpus=gpus, **application)
    image = {"reference": "docker://example.org/team/probe:1", "digest": DIGEST}
    chosen = {"runtime": "docker", "image": image, "preload": case.get("preload", []), **changes}
    data = plan.model_dump(mode="json", by_alias=True)
    data["chosen"] |= chosen
    return Plan.model_validate(data)


def documents(case: dict[str, Any], folder: Path, **changes: Any) -> list[dict[str, Any]]:
    placement = Placement.model_validate(case.get("placement", {}))
    return list(yaml.safe_load_all(manifest(made(case, folder, **changes), placement, [folder])))


def problems(document: dict[str, Any], version: str) -> list[str]:
    schema = {**SCHEMAS[version], "$ref": f"#/definitions/{KINDS[document['kind']]}"}
    return [f"{error.json_path}: {error.message}" for error in Draft202012Validator(schema).iter_errors(document)]


@pytest.mark.parametrize("name", CASES)
def test_golden(name: str, tmp_path: Path) -> None:
    golden = HERE / "data" / f"job-{name}.yaml"
    text = yaml.safe_dump_all(documents(CASES[name], tmp_path), sort_keys=False, width=110)
    if os.environ.get("MODAK_WRITE_GOLDEN"):
        golden.write_text(text)
    assert text == golden.read_text()


@pytest.mark.parametrize("version", SCHEMAS)
@pytest.mark.parametrize("name", CASES)
def test_golden_manifests_are_valid_by_the_published_schema(name: str, version: str) -> None:
    golden = list(yaml.safe_load_all((HERE / "data" / f"job-{name}.yaml").read_text()))
    assert [problems(document, version) for document in golden] == [[]] * len(golden)


@pytest.mark.parametrize("version", SCHEMAS)
def test_the_schema_sees_a_wrong_key_and_a_wrong_type(version: str) -> None:
    job = next(yaml.safe_load_all((HERE / "data" / "job-minimal.yaml").read_text()))
    assert problems({**job, "spec": {**job["spec"], "completionsMode": "Indexed"}}, version)
    assert problems({**job, "spec": {**job["spec"], "backoffLimit": "none"}}, version)


def test_kubernetes_expands_nothing_in_the_users_texts(tmp_path: Path) -> None:
    _, job = documents(CASES["files-and-results"], tmp_path)
    environment = {entry["name"]: entry["value"] for entry in job["spec"]["template"]["spec"]["containers"][0]["env"]}
    assert environment["COST"] == "$$(HOME)"
    (job,) = documents({"argv": ["echo", "$$(A) $B"]}, tmp_path)
    assert job["spec"]["template"]["spec"]["containers"][0]["command"] == ["echo", "$$$$(A) $$B"]


@pytest.mark.parametrize("shell", [["dash"], ["bash"], ["busybox", "sh"]])
def test_the_job_starts_with_its_files(shell: list[str], tmp_path: Path) -> None:
    """The start of the container, in a volume as the kubelet lays a ConfigMap out (its atomic writer)."""
    if shutil.which(shell[0]) is None:
        pytest.skip(f"{shell[0]} is not installed")
    case = {"argv": ["cat", "train.py", ".hidden", "a b/c"], "application": {"inputs": ["train.py"]}}
    _, job = documents(case, tmp_path)
    volume, work = tmp_path / "input", tmp_path / "work"
    for folder in (volume / "..2026_01_01" / "a b", work):
        folder.mkdir(parents=True)
    (volume / "..data").symlink_to("..2026_01_01")
    for path in ("train.py", ".hidden", "a b/c"):
        (volume / "..2026_01_01" / path).write_text(f"{path}\n")
    for path in ("train.py", ".hidden", "a b"):
        (volume / path).symlink_to(f"..data/{path}")
    _, option, script, *words = job["spec"]["template"]["spec"]["containers"][0]["command"]
    for inside, outside in (("/modak/input", volume), ("/modak/work", work)):
        script = script.replace(inside, str(outside))
    done = subprocess.run([*shell, option, script, *words], cwd=work, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "train.py\n.hidden\na b/c\n"), done.stderr
    assert sorted(path.name for path in work.iterdir()) == [".hidden", "a b", "train.py"]


def test_names_are_short_valid_and_the_plans() -> None:
    first = Workload(run="A_very.long-run" * 9, tag="modak-1", image="i", argv=["x"])
    assert len(job_name(first.run, first.tag)) <= 47
    assert job_name(first.run, first.tag) == job_name(first.run, first.tag)
    assert job_name(first.run, first.tag) != job_name(first.run, "modak-2")
    assert job_name("___", "t").startswith("modak-job-")


@pytest.mark.parametrize(
    ("case", "changes", "expected"),
    [
        ({}, {"runtime": "native", "image": None}, "chosen.image: .*runs in no image"),
        ({}, {"image": {"reference": "/images/a.sif"}}, "cannot be pulled by Kubernetes"),
        ({}, {"image": {"reference": "docker://example.org/a:1"}}, "no digest"),
        ({}, {"resources": {"nodes": 2, "ranks": 2}}, "2 ranks on 2 nodes are not supported"),
        ({"application": {"outputs": ["x"]}}, {}, "'x' would be lost with the pod; name a PersistentVolumeClaim"),
        ({"application": {"secret_environment": {"T": {"variable": "T"}}}}, {}, "needs the secret variable T"),
        ({"job": {"array": "1-10"}}, {}, "array '1-10' is not supported by Kubernetes; an indexed Job counts from 0"),
        ({"job": {"pre_execution": "date"}}, {}, "job.pre_execution: not supported by Kubernetes"),
        ({"job": {"exclusive": True}}, {}, "job.exclusive: not supported by Kubernetes"),
        ({"job": {"partition": "fast"}}, {}, "job.partition: not supported by Kubernetes"),
        ({"job": {"mail_events": ["end"]}}, {}, "job.mail_events: not supported by Kubernetes"),
    ],
)
def test_what_cannot_be_had_is_refused(
    case: dict[str, Any], changes: dict[str, Any], expected: str, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=expected):
        documents({"argv": ["true"], **case}, tmp_path, **changes)


def test_a_file_that_was_changed_or_is_too_large_is_refused(tmp_path: Path) -> None:
    case = {"argv": ["true"], "application": {"inputs": ["train.py"]}}
    plan = made(case, tmp_path)
    (tmp_path / "train.py").write_text("changed\n")
    with pytest.raises(InputError, match="differs from the Plan's; plan again"):
        manifest(plan, Placement(), [tmp_path])
    (tmp_path / "large.bin").write_bytes(bytes(900_000))
    with pytest.raises(InputError, match="a ConfigMap takes 900000; put them into the image"):
        documents({"argv": ["true"], "application": {"inputs": ["large.bin"]}}, tmp_path)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--claim", "data"], "'data' is not of the form NAME=VALUE"),
        (["--claim", "a=/modak/work"], "cannot be mounted at '/modak/work'"),
        (["--claim", "a=/x", "--claim", "b=/x/"], "two claims are mounted at '/x'"),
        (["--namespace", "Not_One"], "namespace"),
        (["--gpu", "voodoo"], "gpu"),
        (["--claim", "a=/x", "--claim", "a=/y"], "given twice"),
    ],
)
def test_the_command_refuses_odd_options(arguments: list[str], expected: str, tmp_path: Path) -> None:
    (tmp_path / "plan.json").write_text(made({"argv": ["true"]}, tmp_path).to_json())
    done = CliRunner().invoke(app, ["manifest", str(tmp_path / "plan.json"), *arguments])
    assert done.exit_code != 0
    assert expected in f"{done.exception} {done.output}"


def test_the_command_prints_what_kubectl_applies(tmp_path: Path) -> None:
    (tmp_path / "plan.json").write_text(made({"argv": ["true"]}, tmp_path).to_json())
    done = CliRunner().invoke(app, ["manifest", str(tmp_path / "plan.json"), "--queue", "q"])
    assert done.exit_code == 0, done.output
    (job,) = yaml.safe_load_all(done.output)
    assert job["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "q"
    assert job["spec"]["suspend"] is True
    written = CliRunner().invoke(app, ["manifest", str(tmp_path / "plan.json"), "-o", str(tmp_path / "job.yaml")])
    assert written.exit_code == 0
    assert yaml.safe_load((tmp_path / "job.yaml").read_text())["spec"]["backoffLimit"] == 0


def test_the_wall_time_of_an_array_is_each_tasks_own(tmp_path: Path) -> None:
    """The Job's activeDeadlineSeconds counts from its start for all tasks together, also for those that wait."""
    (job,) = documents({"argv": ["true"], "job": {"array": "0-99%10", "wall_time": 3600}}, tmp_path)
    assert "activeDeadlineSeconds" not in job["spec"]
    assert job["spec"]["template"]["spec"]["activeDeadlineSeconds"] == 3600
    assert problems(job, next(iter(SCHEMAS))) == []
