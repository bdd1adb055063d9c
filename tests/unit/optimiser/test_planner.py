"""Properties of every Plan: the same input gives the same bytes, and finished work is kept."""

from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml

from modak_deploy.catalogue import load_catalogue
from modak_deploy.errors import InfeasibleError
from modak_deploy.jobrequest import job_request
from modak_deploy.jobs.files import source_uploads
from modak_deploy.model.plan import Image, Plan, Source
from modak_deploy.optimiser import keep, make_plan
from modak_deploy.optimiser.table import render
from modak_deploy.performance.records import Table

DATA = Path(__file__).parents[2] / "data" / "optimiser"
CASES = yaml.safe_load((DATA / "cases.yaml").read_text())
NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
GOOD = [case for case in CASES if "expect" in case]
TRAIN = Source(path="train.py", sha256="0" * 64, size=4321)


@pytest.mark.parametrize("case", GOOD, ids=lambda case: case["name"])
def test_the_same_input_gives_the_same_plan(case, changed, measured):
    deployment, facts = changed(case["base"], case.get("change", {}))
    first = make_plan(deployment, facts, [TRAIN], now=NOW, measurements=measured)
    shuffled = Table(reversed(measured.records))
    later = make_plan(deployment, facts, [TRAIN], now=datetime(2027, 1, 1, tzinfo=UTC), measurements=shuffled)
    assert first.created == "2026-01-02T03:04:05Z"
    assert first.to_json() == later.model_copy(update={"created": first.created}).to_json()
    assert Plan.model_validate_json(first.to_json()) == first
    assert first.tag() == later.tag()


@pytest.mark.parametrize("case", GOOD, ids=lambda case: case["name"])
def test_candidates_are_told_apart(case, changed, measured):
    plan = make_plan(*changed(case["base"], case.get("change", {})), [], now=NOW, measurements=measured)
    names = [plan.chosen.name, *(r.candidate.name for r in plan.alternatives), *(r.name for r in plan.rejected)]
    assert len(names) == len(set(names))
    seconds = [r.prediction.seconds for r in plan.alternatives if r.prediction.seconds is not None]
    assert seconds == sorted(seconds)
    for prediction in (plan.prediction, *(r.prediction for r in plan.alternatives)):
        if prediction.seconds is not None:
            assert prediction.low <= prediction.seconds <= prediction.high


@pytest.fixture
def digits(changed):
    """Return the function that gives the digits document with ``place__of__key=value`` changed."""
    return lambda **change: changed("digits", {place.replace("__", "."): value for place, value in change.items()})


def test_a_new_measurement_does_not_undo_a_deployed_plan(digits, measured):
    deployment, facts = digits()
    fewer = Table(r for r in measured.records if "keras-mixed-bfloat16" not in r.configuration.levers)
    old = make_plan(deployment, facts, [TRAIN], now=NOW, measurements=fewer)
    new = make_plan(deployment, facts, [TRAIN], now=NOW, measurements=measured)
    assert old.chosen.name != new.chosen.name
    assert keep(new, old) is old


def test_another_wish_makes_a_new_plan(digits, measured):
    deployment, facts = digits()
    old = make_plan(deployment, facts, [TRAIN], now=NOW, measurements=measured)
    exact, _ = digits(deployment__request__numerics="exact")
    new = make_plan(exact, facts, [TRAIN], now=NOW, measurements=measured)
    assert keep(new, old) is new


def test_a_changed_script_makes_a_new_plan(digits, measured):
    deployment, facts = digits()
    old = make_plan(deployment, facts, [TRAIN], now=NOW, measurements=measured)
    edited = TRAIN.model_copy(update={"sha256": "1" * 64})
    new = make_plan(deployment, facts, [edited], now=NOW, measurements=measured)
    assert keep(new, old) is new


def test_a_choice_that_the_target_lost_is_not_kept(digits, measured):
    deployment, facts = digits()
    old = make_plan(deployment, facts, [TRAIN], now=NOW, measurements=measured)
    _, poorer = digits(facts__node__cpu_features=[])
    new = make_plan(deployment, poorer, [TRAIN], now=NOW, measurements=measured)
    assert keep(new, old) is new


EDITS = {
    "pre_execution": lambda p: {"job": p.job.model_copy(update={"pre_execution": "id"})},
    "post_execution": lambda p: {"job": p.job.model_copy(update={"post_execution": "id"})},
    "environment": lambda p: {"application": p.application.model_copy(update={"environment": {"A": "b"}})},
    "executable": lambda p: {"application": p.application.model_copy(update={"executable": "id"})},
    "argv": lambda p: {"chosen": p.chosen.model_copy(update={"argv": ["id"]})},
    "candidate-environment": lambda p: {"chosen": p.chosen.model_copy(update={"environment": {"LD_PRELOAD": "evil"}})},
    "preload": lambda p: {"chosen": p.chosen.model_copy(update={"preload": ["evil.so"]})},
    "launcher": lambda p: {"chosen": p.chosen.model_copy(update={"launcher_text": "id"})},
    "image": lambda p: {
        "chosen": p.chosen.model_copy(update={"runtime": "apptainer", "image": Image(reference="docker://evil/evil:1")})
    },
    "workspace": lambda p: {"target": p.target.model_copy(update={"workspace": "/evil"})},
    "scheduler": lambda p: {"scheduler": "slurm"},
    "name": lambda p: {"name": "other"},
    "sources": lambda p: {"sources": []},
    "secrets": lambda p: {"secrets": {"A": "0" * 64}},
}


@pytest.mark.parametrize("edit", EDITS)
def test_an_edited_plan_is_not_kept_though_its_hashes_say_so(digits, measured, edit):
    deployment, facts = digits()
    new = make_plan(deployment, facts, [TRAIN], now=NOW, measurements=measured)
    old = new.model_copy(update={"created": "2020-01-01T00:00:00Z"})
    assert keep(new, old) is old
    assert keep(new, old, own=False) is old
    edited = old.model_copy(update=EDITS[edit](old))
    assert keep(new, edited) is new
    assert keep(new, edited, own=False) is new


def test_the_digest_of_an_image_is_taken_from_an_own_plan_only(digits, measured):
    deployment, facts = digits()
    plan = make_plan(deployment, facts, [TRAIN], now=NOW, measurements=measured)
    image = Image(reference="docker://keras:3")

    def with_digest(digest):
        chosen = plan.chosen.model_copy(update={"image": image.model_copy(update={"digest": digest})})
        return plan.model_copy(update={"chosen": chosen})

    new, old = with_digest(None), with_digest("sha256:" + "1" * 64)
    assert keep(new, old) is old
    assert keep(new, old, own=False) is new
    assert keep(with_digest("sha256:" + "1" * 64), old, own=False) is old
    assert keep(with_digest("sha256:" + "2" * 64), old, own=False) is not old


def test_a_script_from_another_folder_runs_where_it_was_put(digits, measured):
    deployment, facts = digits(deployment__application__script="../jobs/train.py")
    plan = make_plan(deployment, facts, [TRAIN], now=NOW, measurements=measured)
    assert plan.chosen.argv[1] == "train.py"


def test_the_table_names_what_a_reader_asks_for(digits, measured):
    plan = make_plan(*digits(), [TRAIN], now=NOW, measurements=measured)
    table = render(plan)
    for words in (plan.chosen.name, "why ", "predicted ", "measured 5 times", "keras-mixed-bfloat16", "1 node, 1 rank"):
        assert words in table
    assert "keras-torch: keras-torch needs torch >=2.1" in render(plan, explain=True)


def test_the_explanation_says_what_each_lever_brings_and_names_everything(digits, measured):
    plan = make_plan(*digits(), [TRAIN], now=NOW, measurements=measured)
    text = " ".join(render(plan, explain=True).split())
    assert "keras-mixed-bfloat16: 1.46 in keras-tensorflow+keras-mixed-bfloat16;" in text
    for name in [*(r.candidate.name for r in plan.alternatives), *(r.name for r in plan.rejected)]:
        assert name in text
    assert plan.versions.catalogue[:16] in text


def test_a_sites_launcher_travels_in_the_plan(tmp_path, digits, measured):
    (tmp_path / "launchers").mkdir()
    (tmp_path / "launchers" / "wrap.py").write_text("# ours\n")
    (tmp_path / "levers.yaml").write_text(
        "version: 1\nlevers:\n  - {name: wrap, group: allocator, summary: wrapped, launcher: wrap.py}\n"
    )
    deployment, facts = digits(
        deployment__request__require_levers=["wrap"],
        deployment__request__numerics="exact",
        deployment__request__trials="none",
    )
    catalogue = load_catalogue([tmp_path])
    plan = make_plan(deployment, facts, [TRAIN], now=NOW, catalogue=catalogue, measurements=measured)
    assert plan.chosen.argv[1] == "launchers/wrap.py"
    assert plan.chosen.launcher_text == "# ours\n"
    assert (
        b"".join(u.read() for u in source_uploads(job_request(plan.model_copy(update={"sources": []})), []))
        == b"# ours\n"
    )


def test_what_modak_ships_travels_by_name(digits, measured):
    plan = make_plan(*digits(), [], now=NOW, measurements=measured)
    chosen = plan.chosen.model_copy(update={"launcher": "import_first.py", "launch": None})
    uploads = source_uploads(job_request(plan.model_copy(update={"chosen": chosen})), [])
    assert [upload.path for upload in uploads] == ["work/launchers/import_first.py"]


def test_a_lever_of_the_launcher_is_on_from_the_start(digits, measured):
    plan = make_plan(*digits(), [], now=NOW, measurements=measured)
    assert (plan.chosen.launcher, plan.chosen.argv[1]) == (None, "train.py")
    launch = plan.chosen.launch
    assert launch.levers == ["keras-mixed-bfloat16"]
    assert launch.candidates == ["keras-plain-input", "keras-keep-memory", "keras-jit-compile"]


def test_a_python_in_the_home_is_the_one_that_was_found(digits, measured):
    places = {"deployment__target__python": "~/keras/bin/python", "facts__python": "/home/alice/keras/bin/python"}
    deployment, facts = digits(**places)
    plan = make_plan(deployment, facts, [], now=NOW, measurements=measured)
    assert plan.chosen.argv[0] == "/home/alice/keras/bin/python"
    with pytest.raises(InfeasibleError, match=r"give target\.python as an absolute path"):
        make_plan(deployment, facts.model_copy(update={"python": None}), [], now=NOW, measurements=measured)


def test_most_reasons_of_rejections_are_left_to_the_explanation(changed, measured) -> None:
    deployment, facts = changed("digits", {})
    plan = make_plan(deployment, facts, [TRAIN], now=NOW, measurements=measured)
    reasons = list(dict.fromkeys(rejected.reason for rejected in plan.rejected))
    assert len(reasons) > 8
    short, whole = (render(plan, explain=explain).partition("Not considered further:")[2] for explain in (False, True))
    assert short.endswith(f"\n  and {len(reasons) - 8} more reasons; 'modak plan --explain' shows all\n")
    assert "more reasons" not in whole
