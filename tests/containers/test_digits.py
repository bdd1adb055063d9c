"""The digits job in each container runtime, from the description to its metrics: planned, built, checked, run."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from containers import Containers, UserTransport
from endings import assert_unchanged
from modak_deploy.containers.location import locate
from modak_deploy.documents import find_sources, parse_deployment
from modak_deploy.images.ensure import Images, Wish
from modak_deploy.images.store import ImageStore, realise
from modak_deploy.jobrequest import job_request
from modak_deploy.jobs.control import Jobs
from modak_deploy.jobs.settings import Timeouts
from modak_deploy.model.job import JobResult
from modak_deploy.model.plan import Plan
from modak_deploy.planning import catalogue_for, plan_deployment, with_image
from rig import TOP, Rig
from sites import Site

DIGITS = TOP / "examples" / "digits"
KERAS = "keras-3.15-pip-cpu"
EPOCHS = 2


@pytest.fixture(scope="session")
def digits(
    parts: Containers, site: Path, tmp_path_factory: pytest.TempPathFactory
) -> Callable[..., tuple[Plan, JobResult]]:
    """Return what plans and runs the digits job in an image with a runtime."""
    workspace = parts.home / "workspace"

    def run(runtime: str, image: str, environment: dict[str, str] | None = None) -> tuple[Plan, JobResult]:
        document = {
            "application": {
                "name": f"digits-{runtime}",
                "script": "train.py",
                "arguments": ["--epochs", str(EPOCHS)],
                "metrics": "metrics.json",
                "framework": {"name": "keras", "version": ">=3"},
                "image": image,
            },
            "target": {"name": "here", "workspace": str(workspace), "polling": {"first": 0.5, "maximum": 2.0}},
            "request": {"runtimes": [runtime], "catalogue": [str(site)], "numerics": "relaxed"},
        }
        deployment = parse_deployment(document, origin="the test")
        transport = UserTransport(parts, environment)
        plan = plan_deployment(deployment, transport, search=[DIGITS], now=datetime.now(UTC))
        plan = with_image(plan, transport, search=[DIGITS])
        assert plan.chosen.runtime == runtime
        assert plan.chosen.image is not None
        jobs = Jobs(transport, timeouts=Timeouts(settle=2.0))
        catalogue = catalogue_for(deployment.request.catalogue, [DIGITS]).images
        store = ImageStore(transport, locate(transport, plan.target))
        results = tmp_path_factory.mktemp("results")
        images = Images(store, jobs, plan.target, catalogue, logs=results)
        images.present(plan.chosen.image, Wish(runtime, "lz4" if runtime != "podman" else None))  # type: ignore[arg-type]
        jobs.absent(job_request(plan))
        present = jobs.present(
            job_request(plan),
            find_sources(plan.application, [DIGITS]),
            realise=lambda directory: realise(transport, job_request(plan), directory) and None,
        )
        (result,) = jobs.wait([present], timeout=600)
        fetched = jobs.fetch_results(present.job, result, results).result
        assert result.state == "completed", (results / plan.name / "output.log").read_text()
        return plan, fetched

    return run


def accurate(result: JobResult) -> bool:
    print("digits:", result.metrics)
    return result.metrics is not None and 0.8 < result.metrics["accuracy"] <= 1


def test_in_apptainer(digits: Callable[..., tuple[Plan, JobResult]]) -> None:
    plan, result = digits("apptainer", KERAS)
    assert accurate(result)
    assert plan.chosen.argv[0] == "python3"


@pytest.fixture(scope="session")
def published(parts: Containers, digits: Callable[..., tuple[Plan, JobResult]]) -> tuple[Plan, JobResult, str]:
    """The digits job in podman, and its image pushed to the registry that Charliecloud can speak to."""
    plan, result = digits("podman", KERAS)
    assert plan.chosen.image is not None
    digest = (plan.chosen.image.digest or "").removeprefix("sha256:")[:16]
    name = f"{parts.registry}/ai/keras:3.15"
    parts.run("podman", "push", "-q", "--tls-verify=false", f"localhost/modak/{KERAS}:{digest}", name)
    return plan, result, f"docker://{parts.secure}/ai/keras:3.15"


def test_in_podman(published: tuple[Plan, JobResult, str]) -> None:
    assert accurate(published[1])


def test_in_charliecloud(
    parts: Containers, published: tuple[Plan, JobResult, str], digits: Callable[..., tuple[Plan, JobResult]],
    monkeypatch: pytest.MonkeyPatch, login_file: Path,
) -> None:  # fmt: skip
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(parts.certificate))
    monkeypatch.setenv("REGISTRY_AUTH_FILE", str(login_file))
    _, result = digits("charliecloud", published[2], {"REQUESTS_CA_BUNDLE": str(parts.certificate)})
    assert accurate(result)


@pytest.fixture(scope="session")
def references(
    parts: Containers, built_image: Callable[[str], Path], published: tuple[Plan, JobResult, str]
) -> dict[str, str]:
    """The image with Keras in the registries, by runtime."""
    oras = f"oras://{parts.registry}/sif/keras:3.15"
    parts.run("apptainer", "push", "--no-https", str(built_image("keras-3.15-pip-cpu")), oras)
    return {
        "apptainer": oras,
        "podman": published[2].replace(parts.secure, parts.registry),
        "charliecloud": published[2],
    }


SLURM = {"type": "slurm"}
OWN_HOST = {"type": "cloud", "cloud": {"provider": "existing"}}


@pytest.mark.parametrize(
    ("runtime", "kind"),
    [("apptainer", SLURM), ("podman", SLURM), ("charliecloud", SLURM), ("podman", OWN_HOST)],
    ids=["apptainer", "podman", "charliecloud", "podman-on-an-existing-host"],
)
def test_over_ssh_from_a_registry(
    runtime: str, kind: dict[str, Any], parts: Containers, references: dict[str, str], rig_with_runtimes: Rig,
    environment: dict[str, str], login_file: Path, tmp_path: Path,
) -> None:  # fmt: skip
    settings = {"REGISTRY_AUTH_FILE": str(login_file), "REQUESTS_CA_BUNDLE": str(parts.certificate)}
    site = Site(tmp_path, {**environment, **settings}, rig_with_runtimes.inventory)
    document = _document(f"digits-{runtime}", runtime, references[runtime], parts.settings)
    document["target"] |= kind
    site.write(document)
    ended = site.play("deploy", timeout=600)
    assert ended.code == 0, ended.text
    (metrics,) = [json.loads(path.read_text()) for path in site.results.rglob("metrics.json")]
    print(f"digits on {kind['type']} in {runtime}: accuracy {metrics['accuracy']:.3f}")
    assert 0.8 < metrics["accuracy"] <= 1
    (plan,) = [json.loads(path.read_text()) for path in site.results.rglob("plan.json")]
    assert plan["chosen"]["runtime"] == runtime
    assert plan["chosen"]["image"]["digest"].startswith("sha256:")
    assert_unchanged(site.play("deploy"))
    undeployed = site.play("undeploy")
    assert undeployed.code == 0, undeployed.text
    assert_unchanged(site.play("undeploy"))


def _document(name: str, runtime: str, image: str, before: str) -> dict[str, Any]:
    return {
        "application": {
            "name": name,
            "script": str(DIGITS / "train.py"),
            "arguments": ["--epochs", "2"],
            "outputs": ["metrics.json"],
            "metrics": "metrics.json",
            "framework": {"name": "keras", "version": ">=3"},
            "image": image,
        },
        "target": {
            "name": "rig", "type": "slurm", "host": "slurm-login", "python": "/usr/bin/python3",
            "polling": {"first": 0.5, "maximum": 2.0},
        },
        "request": {"runtimes": [runtime]},
        "job": {"wall_time": "10m", "nodes": 1, "threads": 2, "pre_execution": before},
    }  # fmt: skip
