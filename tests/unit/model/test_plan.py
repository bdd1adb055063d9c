"""The Plan's version, what its fingerprint covers, and which of its parts must follow from others."""

import ast
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from jobplans import plan
from modak_deploy.documents import check
from modak_deploy.errors import InputError
from modak_deploy.kept import OutdatedPlanError, kept_plan
from modak_deploy.model.deployment import Deployment
from modak_deploy.model.nodes import node_of_plan
from modak_deploy.model.plan import Plan
from modak_deploy.model.target import Facts
from modak_deploy.optimiser import make_plan

TOP = Path(__file__).parents[3]


def dump(folder: Path, **sections: dict[str, Any]) -> dict[str, Any]:
    """Return a Plan as plain data, its sections changed."""
    data: dict[str, Any] = json.loads(plan(["python3", "x.py"], folder).to_json())
    for name, changes in sections.items():
        data[name].update(changes)
    return data


def launch(**changes: Any) -> dict[str, Any]:
    return {"launch": {"trials": "live", **changes}}


@pytest.mark.parametrize(("version", "hint"), [(1, "; plan again"), (3, "; upgrade modak, or plan again")])
def test_another_version_is_refused(tmp_path: Path, version: int, hint: str) -> None:
    data = {**dump(tmp_path), "schema": f"modak.plan/{version}"}
    problem = f"version {version} of the Plan is not supported by this modak, which reads version 2{hint}"
    with pytest.raises(InputError) as caught:
        check(Plan, data, origin="plan.json")
    assert str(caught.value) == f"plan.json: {problem}"


def test_a_kept_plan_of_an_older_version_is_told_from_a_faulty_one(tmp_path: Path) -> None:
    folder = tmp_path / "results" / "probe"
    folder.mkdir(parents=True)
    (folder / "plan.json").write_text(json.dumps({"schema": "modak.plan/1", "name": "probe"}))
    with pytest.raises(OutdatedPlanError, match=r"plan\.json: version 1 of the Plan is not supported by this modak; "):
        kept_plan(tmp_path / "results", "probe")
    (folder / "plan.json").write_text(json.dumps({"schema": "modak.plan/2", "name": "probe"}))
    with pytest.raises(InputError, match="is required") as caught:
        kept_plan(tmp_path / "results", "probe")
    assert not isinstance(caught.value, OutdatedPlanError)


def tag(folder: Path, *relaxed: str, exact: tuple[str, ...] = ()) -> str:
    tried = launch(numerics="relaxed", candidates=[*exact, *relaxed], relaxed=list(relaxed))
    return Plan.model_validate(dump(folder, request={"numerics": "relaxed"}, chosen=tried)).tag()


def test_levers_that_may_change_results_make_another_job(tmp_path: Path) -> None:
    assert tag(tmp_path, "pytorch-tf32") != tag(tmp_path, "pytorch-tf32", "pytorch-autocast-bf16")
    assert tag(tmp_path, "pytorch-tf32") == tag(tmp_path, "pytorch-tf32", exact=("pytorch-compile",))
    assert tag(tmp_path, exact=("pytorch-compile",)) == Plan.model_validate(dump(tmp_path)).tag()


def test_the_tag_of_a_job_is_the_one_of_version_1(tmp_path: Path) -> None:
    """Jobs that run while modak is upgraded are found by it."""
    assert plan(["sh", "-c", "exit 0"], Path("/space"), environment={"A": "b"}).tag() == "modak-8b2cc069451119e2"
    sources = {"path": "x.py", "sha256": "0" * 64, "size": 3}
    data = {**dump(Path("/space")), "sources": [sources]}
    assert Plan.model_validate(data).tag() == "modak-764a34caa1df5502"


@pytest.mark.parametrize(
    ("sections", "fault"),
    [
        ({"chosen": launch(levers=["a"])}, r"chosen\.launch\.levers: 'a' is not one of chosen\.levers"),
        ({"chosen": launch(numerics="relaxed")}, "not permitted by request.numerics"),
        ({"chosen": launch(candidates=["a"], relaxed=["a"])}, "not permitted by request.numerics"),
        (
            {"request": {"numerics": "relaxed"}, "chosen": launch(candidates=["a"], relaxed=["b"])},
            "'b' is not one of the candidates",
        ),
        ({"request": {"forbid_levers": ["a"]}, "chosen": launch(candidates=["a"])}, "'a' is forbidden by the request"),
    ],
    ids=["levers", "numerics", "relaxed", "unknown", "forbidden"],
)
def test_what_the_launcher_does_follows_from_the_decision(
    tmp_path: Path, sections: dict[str, dict[str, Any]], fault: str
) -> None:
    with pytest.raises(ValidationError, match=fault):
        Plan.model_validate(dump(tmp_path, **sections))


def test_only_the_optimiser_makes_or_changes_a_plan() -> None:
    for file in [*TOP.glob("modak_deploy/**/*.py"), *TOP.glob("plugins/**/*.py")]:
        if file.is_relative_to(TOP / "modak_deploy" / "optimiser"):
            continue
        for node in ast.walk(ast.parse(file.read_text())):
            text = ast.unparse(node) if isinstance(node, ast.Call) else ""
            where = f"{file.relative_to(TOP)}:{getattr(node, 'lineno', 0)}: {text}"
            assert not text.startswith(("Plan(", "Plan.model_construct(", "Candidate(")), where
            owner, _, call = text.partition(".model_copy(")
            assert not (call and owner.rpartition(".")[2] in ("plan", "chosen", "unplanned")), where


def test_what_was_asked_and_when_is_told_as_the_optimiser_took_it() -> None:
    asked = {"application": {"name": "probe", "executable": "true"}, "job": {"wall_time": 60}}
    deployment, now = Deployment.model_validate(asked), datetime(2026, 1, 1, tzinfo=UTC)
    facts = Facts.model_validate({"hostname": "here", "node": {"cores": 8}})
    made = make_plan(deployment, facts, [], now=now)
    assert (made.asked, made.created_at, node_of_plan(made).cores) == (deployment, now, 8)
