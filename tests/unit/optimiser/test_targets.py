"""The choice among targets: which one is taken, what the Plan says of the others, and what is kept."""

from dataclasses import replace
from datetime import UTC, datetime
from itertools import permutations
from typing import Any

import pytest

from modak_deploy.errors import InfeasibleError
from modak_deploy.model.deployment import Deployment
from modak_deploy.model.plan import Plan, Prediction
from modak_deploy.optimiser import choose_target, keep, make_plan
from modak_deploy.optimiser.table import render
from modak_deploy.optimiser.targets import Refused, refuse, weigh

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
Told = tuple[float, float, float] | None


@pytest.fixture
def plan(changed):
    """Return what makes a Plan on a target of this name, with these seconds, at this price for an hour of a node."""

    def make(name: str, seconds: Told, price: float | None = None, **request: Any) -> Plan:
        change = {"deployment.target.name": name, "deployment.target.node": {"price": price} if price else {}}
        change |= {f"deployment.request.{key}": value for key, value in request.items()}
        value, low, high = seconds or (None, None, None)
        told = Prediction(seconds=value, low=low, high=high, basis="measurement" if seconds else "none")
        return make_plan(*changed("digits", change), [], now=NOW).model_copy(update={"prediction": told})

    return make


def test_the_table_shows_what_each_rests_on_and_costs(plan):
    cannot = Refused(plan("c", None).target, "it cannot", "0" * 64)
    chosen = choose_target([plan("a", (10, 9, 11), 3.6), plan("b", (20, 18, 22)), plan("u", None), cannot])
    text = render(chosen)
    rows = {row.split()[0]: row.split() for row in text[text.index("\ntarget") :].split("\n\n")[0].splitlines() if row}
    assert rows["*"] == ["*", "a", "machine", "10", "9", "to", "11", "measurement", "0.01", "0.009", "to", "0.011"]
    assert rows["b"] == ["b", "machine", "20", "18", "to", "22", "measurement", "not", "stated", "-"]
    assert rows["u"] == ["u", "machine", "-", "-", "none", "-", "-"]
    assert rows["c"] == ["c", "machine", "-", "-", "cannot", "-", "-"]
    assert chosen.cost is not None
    assert chosen.cost.value == pytest.approx(0.01)


@pytest.mark.parametrize(
    ("first", "second", "request_", "taken", "why"),
    [
        (("a", (10, 9, 11)), ("b", (5, 4, 6)), {}, "b", "take 5 s (4 to 6) on b against 10 s (9 to 11) on a"),
        (("a", (10, 9, 11)), ("b", (20, 18, 22)), {}, "a", "take 20 s (18 to 22) on b against 10 s (9 to 11) on a"),
        (("a", (10, 5, 15)), ("b", (9, 4, 14)), {}, "a", "but these intervals meet"),
        (("a", None), ("b", (5, 4, 6)), {}, "a", "no time is known on a, so that the two cannot be compared"),
        (("a", (5, 4, 6)), ("b", None), {}, "a", "no time is known on b, so that the two cannot be compared"),
        (("a", (10, 9, 11), 3.6), ("b", (20, 18, 22), 0.36), {"objective": "cost"}, "b", "cost 0.002 (0.0018 to"),
        (("a", (10, 9, 11)), ("b", (5, 4, 6)), {"objective": "cost"}, "b", "0.001389 node-hours ("),
        (("a", (10, 9, 11), 3.6), ("b", (5, 4, 6)), {"objective": "cost"}, "a", "costs cannot be compared"),
    ],
    ids=["faster", "slower", "unsure", "first-unknown", "second-unknown", "cheaper", "node-hours", "one-price"],
)  # fmt: skip
def test_a_later_target_is_taken_where_it_is_surely_better(plan, first, second, request_, taken, why):
    one, other = plan(*first, **request_), plan(*second, **request_)
    chosen = choose_target([one, other])
    assert chosen.target.name == taken
    (elsewhere,) = chosen.other_targets
    assert elsewhere.target.name == ({"a", "b"} - {taken}).pop()
    assert why in elsewhere.reason
    assert (why in chosen.reason) == (taken == "b")
    assert chosen.tag() == (one if taken == "a" else other).tag(), "the job is the same as if it had been alone"
    assert Plan.model_validate_json(chosen.to_json()) == chosen
    assert f"  {elsewhere.target.name}, {elsewhere.candidate.name}: " in render(chosen)


def test_the_best_of_many_is_found_in_any_order(plan):
    plans = [plan("a", (10, 9, 11)), plan("b", (5, 4, 6)), plan("c", (3, 2.5, 3.5)), plan("d", None)]
    for order in permutations(plans[:3]):
        chosen = choose_target([*order, plans[3]])
        assert chosen.target.name == "c"
        assert sorted(e.target.name for e in chosen.other_targets) == ["a", "b", "d"]


def test_a_target_that_cannot_do_it_is_told(plan):
    one = plan("a", (10, 9, 11))
    wrong = Refused(one.target.model_copy(update={"name": "b"}), "a node of it has too little memory", "0" * 64)
    for chosen in (choose_target([wrong, one]), choose_target([one, wrong]), refuse(one, wrong)):
        assert chosen.target.name == "a"
        assert [(e.target.name, e.candidate, e.reason) for e in chosen.other_targets] == [("b", None, wrong.reason)]
        assert "  b: a node of it has too little memory" in render(chosen)
    with pytest.raises(InfeasibleError, match=r"^no target can do what was asked: on b: a node .*; on c: no GPUs$"):
        choose_target([wrong, replace(wrong, target=one.target.model_copy(update={"name": "c"}), reason="no GPUs")])


def test_a_deployed_plan_stays_though_another_target_is_faster_now(plan):
    slow, fast = plan("a", (10, 9, 11)), plan("b", (5, 4, 6))
    old = choose_target([slow, fast.model_copy(update={"prediction": Prediction()})])
    new = choose_target([slow, fast])
    assert (old.target.name, new.target.name) == ("a", "b")
    assert keep(new, old) is old
    assert keep(choose_target([slow, fast, plan("c", None)]), old).target.name == "b", "something else was asked"
    lost = new.model_copy(
        update={"other_targets": [e.model_copy(update={"candidate": None}) for e in new.other_targets]}
    )
    assert keep(lost, old) is lost, "the application cannot run there any more"


def test_one_after_the_other_comes_to_the_same(plan):
    """As an orchestrator does it, which looks at one target in each operation."""
    plans = [plan("a", (10, 9, 11)), plan("b", (5, 4, 6)), plan("c", (7, 6.5, 8))]
    together = choose_target(plans)
    assert weigh(weigh(plans[0], plans[1]), plans[2]) == together
    assert together.questions() == {plan.inputs for plan in plans}


def test_targets_of_a_deployment_have_names_of_their_own(changed):
    deployment, _ = changed("digits", {})
    with pytest.raises(ValueError, match="two targets have the name 'here': give each its own"):
        Deployment(application=deployment.application, target=deployment.target, other_targets=[deployment.target])
