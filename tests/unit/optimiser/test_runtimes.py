"""The Plan never pairs a runtime with a kind of image that the runtime cannot be given."""

from datetime import UTC, datetime

import pytest

from modak_deploy.containers.capabilities import kind_of
from modak_deploy.containers.location import argument
from modak_deploy.containers.registry import get
from modak_deploy.errors import InfeasibleError, InputError
from modak_deploy.extensions import RUNTIMES
from modak_deploy.model.base import RuntimeName
from modak_deploy.model.deployment import Deployment
from modak_deploy.model.plan import Image
from modak_deploy.model.reference import parse
from modak_deploy.model.target import Facts
from modak_deploy.optimiser import make_plan

NOW = datetime(2026, 1, 1, tzinfo=UTC)
REFERENCES = {
    "layers": "docker://example.org/a:1", "sif artefact": "oras://example.org/a:1",
    "library": "library://example.org/a/b/c:1", "sif file": "/site/a.sif", "squashfs file": "/site/a.sqfs",
    "file": "/site/a", "build": "debian12-cpu",
}  # fmt: skip
PAIRS = [(runtime, kind) for runtime in RUNTIMES.builtin for kind in REFERENCES]


def deployment(reference: str, *runtimes: str, **target: object) -> tuple[Deployment, Facts]:
    document = {
        "application": {"name": "a", "type": "hpc", "executable": "true", "image": reference},
        "target": {"name": "here", **target},
    }
    facts = Facts.model_validate({"runtimes": dict.fromkeys(runtimes, "99.0")})
    return Deployment.model_validate(document), facts


@pytest.mark.parametrize(("runtime", "kind"), PAIRS)
def test_a_pair_is_planned_where_it_is_in_the_table_and_rejected_with_the_reason_where_not(
    runtime: RuntimeName, kind: str
) -> None:
    reference = REFERENCES[kind]
    able = kind in get(runtime).sources
    image = reference if "/" in reference else f"build://{reference}"
    assert kind_of(parse(image)) == kind
    if able:
        plan = make_plan(*deployment(reference, runtime), [], now=NOW)
        assert plan.chosen.runtime == runtime
        assert argument(Image(reference=image, digest=f"sha256:{'0' * 64}"), runtime, "/images")
        return
    with pytest.raises(InfeasibleError, match=rf"cannot be used: {runtime} does not support .*; use "):
        make_plan(*deployment(reference, runtime), [], now=NOW)
    with pytest.raises(InputError, match=f"cannot be used: {runtime} does not support"):
        argument(Image(reference=image, digest=f"sha256:{'0' * 64}"), runtime, "/images")


@pytest.mark.parametrize("kind", sorted(REFERENCES))
def test_of_several_runtimes_one_that_can_is_the_default_and_the_others_are_rejected(kind: str) -> None:
    plan = make_plan(*deployment(REFERENCES[kind], "charliecloud", "podman", "apptainer"), [], now=NOW)
    assert kind in get(plan.chosen.runtime).sources
    ways = [plan.chosen, *(ranked.candidate for ranked in plan.alternatives)]
    assert all(kind in get(way.runtime).sources for way in ways if way.runtime != "native")
    unable = [name for name in ("charliecloud", "podman", "apptainer") if kind not in get(name).sources]
    rejected = {r.name.partition(":")[0]: r.reason for r in plan.rejected}
    assert all(f"{name} does not support" in rejected[name] for name in unable)


@pytest.mark.parametrize("runtime", ["podman", "charliecloud"])
def test_where_a_signature_is_required_only_runtimes_that_verify_it_are_planned(runtime: str) -> None:
    asked = deployment(REFERENCES["layers"], runtime, image_keys=["site.pub"])
    with pytest.raises(InfeasibleError, match=f"{runtime} cannot verify one; use apptainer or singularity"):
        make_plan(*asked, [], now=NOW)
