"""Secret variables reach a program in a container by name, and lie in no file of the job once it has begun."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from containers import Containers, UserTransport
from modak_deploy.documents import parse_deployment
from modak_deploy.images.store import realise
from modak_deploy.jobrequest import job_request
from modak_deploy.jobs.control import Jobs
from modak_deploy.jobs.settings import Timeouts
from modak_deploy.model.base import RuntimeName
from modak_deploy.optimiser.changes import with_secrets
from modak_deploy.planning import plan_deployment, with_image
from modak_deploy.secret_values import Reader, checked_values, environment_file, hashes_of

VALUE = "hunter2 'quoted' \"twice\" $(touch proof) `touch proof` \\ é\nsecond line"
LINE = 'printf %s "$TOKEN" >value; ls ../state >listing; tr "\\0" "\\n" </proc/1/cmdline >command; test ! -e proof'


@pytest.mark.parametrize("runtime", ["apptainer", "podman"])
def test_a_secret_in_a_container(parts: Containers, runtime: RuntimeName, tmp_path: Path) -> None:
    (tmp_path / "token").write_text(VALUE + "\n")
    (tmp_path / "token").chmod(0o600)
    document = {
        "application": {
            "name": f"secret-{runtime}", "type": "hpc", "executable": "sh", "arguments": ["-c", LINE],
            "image": f"docker://{parts.registry}/library/debian:12", "outputs": ["value", "listing"],
            "secret_environment": {"TOKEN": {"file": str(tmp_path / "token")}},
        },
        "target": {
            "name": "here", "workspace": str(parts.folder(f"secret-{runtime}")), "polling": {"first": 0.2},
        },
        "request": {"runtimes": [runtime]},
    }  # fmt: skip
    transport = UserTransport(parts)
    asked = plan_deployment(parse_deployment(document, origin="the test"), transport, search=[], now=datetime.now(UTC))
    plan = with_image(with_secrets(asked, hashes_of(asked, Reader())), transport, search=[])
    jobs = Jobs(transport, timeouts=Timeouts(settle=2.0))
    present = jobs.present(
        job_request(plan),
        realise=lambda directory: realise(transport, job_request(plan), directory) and None,
        secrets=lambda: environment_file(checked_values(plan, Reader())),
    )
    (result,) = jobs.wait([present], timeout=120)
    jobs.fetch_results(present.job, result, tmp_path)
    results = tmp_path / plan.name
    assert result.state == "completed", (results / "output.log").read_text()
    assert (results / "value").read_text() == VALUE
    assert "secret_environment" not in (results / "listing").read_text()
    assert "hunter2" not in present.script
    assert "hunter2" not in plan.to_json()
    job = Path(present.job.spec.directory)
    holders = [file.name for file in job.rglob("*") if file.is_file() and b"hunter2" in file.read_bytes()]
    assert holders == ["value"]
    jobs.absent(job_request(plan))
    assert not job.exists()
