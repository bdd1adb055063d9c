"""What a Plan chooses where a target has only one of the real runtimes to offer."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from containers import Containers, UserTransport
from modak_deploy.documents import parse_deployment
from modak_deploy.errors import InfeasibleError
from modak_deploy.model.plan import Image, Plan
from modak_deploy.planning import plan_deployment, with_image


@pytest.mark.parametrize("runtime", ["podman", "charliecloud"])
def test_only_what_the_runtime_can_be_given_is_planned(
    parts: Containers, runtime: str, debian: Image, artefact: Image, sif: Path, site: Path, tmp_path: Path
) -> None:
    transport = UserTransport(parts)

    def plan_of(reference: str) -> Plan:
        document = {
            "application": {"name": "chosen", "type": "hpc", "executable": "true", "image": reference},
            "target": {"name": "here", "workspace": f"{parts.home}/chosen", "runtimes": [runtime]},
            "request": {"catalogue": [str(site)]},
        }
        deployment = parse_deployment(document, origin="the test")
        plan = plan_deployment(deployment, transport, search=[tmp_path], now=datetime.now(UTC))
        return with_image(plan, transport, search=[tmp_path])

    built = ["debian12-cpu"] if runtime == "charliecloud" else []
    for reference in (artefact.reference, str(sif), f"library://{parts.registry}/a/b/c:1", *built):
        with pytest.raises(InfeasibleError, match=rf"{runtime} does not support .*; use apptainer"):
            plan_of(reference)
    assert plan_of(debian.reference).chosen.runtime == runtime
    if not built:
        assert plan_of("debian12-cpu").chosen.runtime == runtime
