"""The quick part, which runs in make test: one job in Apptainer from description to results, and one attack."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from containers import Containers, UserTransport
from modak_deploy.containers.location import argument, locate
from modak_deploy.documents import find_sources, parse_deployment
from modak_deploy.errors import TargetError
from modak_deploy.images.store import realise
from modak_deploy.jobrequest import job_request
from modak_deploy.jobs.control import Jobs
from modak_deploy.jobs.settings import Timeouts
from modak_deploy.model.plan import Plan
from modak_deploy.planning import plan_deployment, with_image

pytestmark = pytest.mark.smoke
LINE = 'cat /etc/os-release >where.txt && test -d /.singularity.d && test "$(id -u)" != 0 && touch "$ASKED_FOR"'


@pytest.fixture
def plan(parts: Containers) -> Plan:
    """A line of shell in the base system, which comes from the registry by its digest."""
    document = {
        "application": {
            "name": "smoke", "type": "hpc", "executable": "sh", "arguments": ["-c", LINE],
            "image": f"docker://{parts.registry}/library/debian:12", "outputs": ["where.txt", "a b"],
            "environment": {"ASKED_FOR": "a b"},
        },
        "target": {
            "name": "here", "workspace": str(parts.folder("smoke")), "polling": {"first": 0.2, "maximum": 1.0},
        },
        "request": {"runtimes": ["apptainer"]},
    }  # fmt: skip
    transport = UserTransport(parts)
    plan = plan_deployment(parse_deployment(document, origin="the test"), transport, search=[], now=datetime.now(UTC))
    return with_image(plan, transport, search=[])


@pytest.fixture
def submit(parts: Containers, plan: Plan, tmp_path: Path) -> Callable[[], Path]:
    """Return what runs the job to its end and tells where its results are."""
    transport = UserTransport(parts)
    jobs = Jobs(transport, timeouts=Timeouts(settle=2.0))

    def run() -> Path:
        present = jobs.present(
            job_request(plan),
            find_sources(plan.application, []),
            realise=lambda directory: realise(transport, job_request(plan), directory) and None,
        )
        (result,) = jobs.wait([present], timeout=120)
        jobs.fetch_results(present.job, result, tmp_path)
        jobs.absent(job_request(plan))
        assert result.state == "completed", (tmp_path / plan.name / "output.log").read_text()
        return tmp_path / plan.name

    return run


def test_a_job_runs_in_its_image_and_not_in_a_tampered_one(
    parts: Containers, plan: Plan, submit: Callable[[], Path]
) -> None:
    assert plan.chosen.image is not None
    assert (plan.chosen.image.digest or "").startswith("sha256:")
    results = submit()
    assert "VERSION_CODENAME=bookworm" in (results / "where.txt").read_text()
    assert (results / "a b").exists()
    image = Path(argument(plan.chosen.image, "apptainer", locate(UserTransport(parts), plan.target)))
    image.chmod(0o644)
    with image.open("r+b") as file:
        file.seek(-4000, 2)
        file.write(b"changed")
    with pytest.raises(TargetError, match=f"the image {image} was changed: its hash is [0-9a-f]+ and should be"):
        submit()
