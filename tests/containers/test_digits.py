"""The digits job in each container runtime, from the description to its metrics: planned, built, checked, run."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from containers import Containers, UserTransport
from modak.documents import find_sources, parse_deployment
from modak.images.ensure import Images, Wish
from modak.images.place import locate
from modak.images.store import ImageStore, realise
from modak.jobs.control import Jobs
from modak.jobs.settings import Patience
from modak.model.job import JobResult
from modak.model.plan import Plan
from modak.planning import catalogue_for, plan_deployment, with_image
from rig import TOP

DIGITS = TOP / "examples" / "digits"
KERAS = "keras-3.15-pip-cpu"
EPOCHS = 2


@pytest.fixture(scope="session")
def site(parts: Containers, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A site's catalogue, which has the base from its own registry."""
    folder = tmp_path_factory.mktemp("catalogue")
    (folder / "images.yaml").write_text(
        f"""version: 1
images:
  - name: debian12-cpu
    source: base
    origin: docker://{parts.registry}/library/debian:12
    distribution: debian12
    python: "3.11.2"
    glibc: "2.36"
"""
    )
    return folder


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
        jobs = Jobs(transport, patience=Patience(settle=2.0))
        catalogue = catalogue_for(deployment.request.catalogue, [DIGITS]).images
        store = ImageStore(transport, locate(transport, plan.target))
        results = tmp_path_factory.mktemp("results")
        images = Images(store, jobs, plan.target, catalogue, logs=results)
        images.present(plan.chosen.image, Wish(runtime, "lz4" if runtime != "podman" else None))  # type: ignore[arg-type]
        jobs.absent(plan)
        present = jobs.present(
            plan,
            find_sources(plan.application, [DIGITS]),
            realise=lambda directory: realise(transport, plan, directory) and None,
        )
        (result,) = jobs.wait([present], timeout=600)
        brought = jobs.bring(present.job, result, results).result
        assert result.state == "completed", (results / plan.name / "output.log").read_text()
        return plan, brought

    return run


def accurate(result: JobResult) -> bool:
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
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path,
) -> None:  # fmt: skip
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(parts.certificate))
    _keep_login(parts, tmp_path / "auth.json", monkeypatch)
    _, result = digits("charliecloud", published[2], {"REQUESTS_CA_BUNDLE": str(parts.certificate)})
    assert accurate(result)


def _keep_login(parts: Containers, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import base64
    import json

    text = base64.b64encode(f"{parts.login.user}:{parts.login.password}".encode()).decode()
    path.write_text(json.dumps({"auths": {parts.secure: {"auth": text}}}))
    monkeypatch.setenv("REGISTRY_AUTH_FILE", str(path))
