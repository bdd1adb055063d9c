"""Properties of TOSCA nodes become the sections of a deployment document."""

from pathlib import Path
from typing import Any

import pytest

from modak_deploy.errors import InputError
from modak_deploy.model.deployment import Deployment
from modak_deploy.tosca.translate import attributes, documents, named, scalar

APPLICATION = {
    "tosca_name": "digits",
    "type": "ai_training",
    "name": "",
    "script": "train.py",
    "executable": "",
    "arguments": ["--epochs", 12, "--shuffle", True, "--rate", 0.5],
    "inputs": [],
    "outputs": [],
    "metrics": "metrics.json",
    "environment": {"SEED": 1},
    "framework": {"name": "keras", "version": ">=3"},
    "model": "mnist-cnn",
    "dataset": "",
    "unit": "epoch",
    "units": 12,
    "samples": 1437,
    "batch": 128,
    "parameters": 0,
    "flops_per_sample": 0.0,
    "bytes_per_sample": 0.0,
    "layers": 0,
    "memory": 0,
}
TARGET = {
    "type": "slurm",
    "name": "",
    "hostname": "login",
    "user": "",
    "port": 0,
    "runtimes": [],
    "node": {},
    "polling": {},
}


def test_what_is_not_given_is_dropped() -> None:
    assert documents(APPLICATION, TARGET) == {
        "application": {
            "type": "ai_training",
            "name": "digits",
            "script": "train.py",
            "arguments": ["--epochs", "12", "--shuffle", "true", "--rate", "0.5"],
            "metrics": "metrics.json",
            "environment": {"SEED": "1"},
            "framework": {"name": "keras", "version": ">=3"},
            "workload": {"model": "mnist-cnn", "unit": "epoch", "units": 12, "samples": 1437, "batch": 128},
        },
        "target": {"name": "slurm", "type": "slurm", "host": "login"},
        "request": {},
        "job": {},
    }


def test_the_documents_satisfy_the_models() -> None:
    given = documents(
        APPLICATION,
        TARGET | {"node": {"cores": 64, "memory": "256 GiB", "accelerators": [{"model": "A100", "memory": "40 GB"}]}},
        {"numerics": "relaxed"},
        {"partition": "", "wall_time": "30 m", "memory": "4 GB", "gpus": 0, "nodes": 2},
    )
    deployment = Deployment.model_validate(given)
    assert deployment.job.wall_time == 1800
    assert deployment.job.memory == 4_000_000_000
    assert deployment.job.partition is None
    assert deployment.target.node is not None
    assert deployment.target.node.memory == 256 * 2**30
    assert deployment.target.node.accelerators[0].memory == 40 * 10**9


def test_a_name_of_its_own_goes_before_the_templates() -> None:
    given = documents(APPLICATION | {"name": "mnist"}, TARGET | {"name": "cluster"})
    assert given["application"]["name"] == "mnist"
    assert given["target"]["name"] == "cluster"


def test_an_unknown_property_is_kept_for_the_models_to_refuse() -> None:
    assert documents(APPLICATION, TARGET, {}, {"partitoin": "batch"})["job"] == {"partitoin": "batch"}


def test_a_version_given_as_a_number_is_not_made_text() -> None:
    given = documents(APPLICATION | {"framework": {"name": "keras", "version": 2.1}}, TARGET)
    assert given["application"]["framework"]["version"] == 2.1


@pytest.mark.parametrize(
    ("text", "kind", "amount"),
    [
        ("30 m", "time", 1800),
        ("2h", "time", 7200),
        ("1.5 d", "time", 129600),
        ("90 S", "time", 90),
        ("3000 ms", "time", 3),
        ("1 B", "size", 1),
        ("4 GB", "size", 4 * 10**9),
        ("4 gib", "size", 4 * 2**30),
        ("0.5 KiB", "size", 512),
    ],
)
def test_scalars_by_the_units_of_tosca(text: str, kind: str, amount: int) -> None:
    assert scalar(text, f"scalar-unit.{kind}", "x") == amount


@pytest.mark.parametrize(
    ("value", "kind", "message"),
    [
        ("30 min", "time", "job.x: '30 min' is not an amount with one of the units d, h, m, s, ms, us, ns"),
        (30, "time", "job.x: '30' is not an amount with one of the units"),
        ("1500 ms", "time", "job.x: '1500 ms' is not a whole number of seconds above zero"),
        ("0 s", "time", "job.x: '0 s' is not a whole number of seconds above zero"),
        ("-4 GB", "size", "job.x: '-4 GB' is not an amount with one of the units kB, KiB, MB"),
        ("0.3 B", "size", "job.x: '0.3 B' is not a whole number of bytes above zero"),
    ],
)
def test_scalars_that_have_no_meaning(value: Any, kind: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        scalar(value, f"scalar-unit.{kind}", "job.x")
    assert str(caught.value).startswith(message)


PLAN: dict[str, Any] = {
    "application": {"name": "digits", "script": "train.py"},
    "target": {"name": "slurm", "python": None},
    "facts": {"python": "/usr/bin/python3"},
    "chosen": {"name": "keras-tensorflow", "runtime": "native", "image": None},
    "prediction": {"seconds": 12.5},
}
JOB = {"id": 17, "state": "completed", "seconds": 11.0, "results": "/r/digits", "metrics": {"accuracy": 0.98, "n": 1}}


def test_attributes_of_a_plan() -> None:
    assert attributes(PLAN) == {
        "plan": PLAN,
        "target": "slurm",
        "chosen": "keras-tensorflow",
        "runtime": "native",
        "image": "",
        "interpreter": "/usr/bin/python3",
        "predicted_seconds": 12.5,
        "unplanned": {},
        "refusal": "",
    }


def test_attributes_of_a_job() -> None:
    told = attributes(PLAN, JOB)
    assert {k: told[k] for k in ("job_id", "job_state", "measured_seconds", "accuracy", "results_path")} == {
        "job_id": "17",
        "job_state": "completed",
        "measured_seconds": 11.0,
        "accuracy": 0.98,
        "results_path": "/r/digits",
    }


def test_attributes_of_a_job_that_runs() -> None:
    told = attributes(PLAN, {"id": "17", "state": "running", "metrics": None, "results": None})
    assert (told["accuracy"], told["measured_seconds"], told["metric_values"], told["results_path"]) == (
        None,
        None,
        {},
        "",
    )


def test_a_container_uses_an_image_and_no_interpreter_of_the_target() -> None:
    chosen = {"name": "c", "runtime": "apptainer", "image": {"reference": "docker://keras:3"}}
    told = attributes(PLAN | {"chosen": chosen})
    assert (told["image"], told["interpreter"]) == ("docker://keras:3", "")


def test_a_program_uses_no_interpreter() -> None:
    assert attributes(PLAN | {"application": {"name": "x", "executable": "/bin/true"}})["interpreter"] == ""


def test_the_node_names_the_deployment_of_an_instance(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A site says what the cloud is, and stays the one to say it; a name of the user's own is kept."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    (tmp_path / "modak").mkdir()
    (tmp_path / "modak" / "sites.yaml").write_text(
        "version: 1\nsites: {lab: {target: {type: cloud, user: admin, cloud: {provider: aws, region: here}}}}\n"
    )
    asked = {"target": {"name": "place", "site": "lab"}, "job": {}}
    assert named(asked, "") == asked
    target = named(asked, "place-1")["target"]
    assert (target["user"], target["cloud"]) == (
        "admin",
        {"provider": "aws", "region": "here", "deployment": "place-1"},
    )
    own = {"target": {"type": "cloud", "cloud": {"provider": "aws", "deployment": "mine"}}}
    assert named(own, "place-1") == own
