"""What is done about the instances that a provider lists."""

import itertools

import pytest

from modak_deploy.providers.decision import decide, to_release
from modak_deploy.providers.resources import Listed, ListedGroup, Listing, State


def instance(
    number: int, state: State = "running", kind: str = "c7i.xlarge", address: str | None = "192.0.2.7"
) -> Listed:
    return Listed(id=f"i-{number}", type=kind, state=state, launched=f"2026-01-0{number}T00:00:00", address=address)


@pytest.mark.parametrize(
    ("instances", "pending", "step"),
    [
        ([], False, "create"),
        ([], True, "wait"),
        ([instance(1, "gone")], False, "create"),
        ([instance(1, "ending")], False, "wait"),
        ([instance(1, "starting", address=None)], False, "wait"),
        ([instance(1, address=None)], False, "wait"),
        ([instance(1)], True, "use"),
        ([instance(1, "stopped")], False, "refuse"),
        ([instance(1, kind="m7i.large")], False, "replan"),
        ([instance(1, kind="t3.micro")], False, "refuse"),
        ([instance(1).model_copy(update={"interruptible": True})], False, "refuse"),
    ],
)
def test_each_state_has_one_next_step(instances: list[Listed], pending: bool, step: str) -> None:
    decision = decide(
        Listing(instances=instances), wanted="c7i.xlarge", permitted=["c7i.xlarge", "m7i.large"], pending=pending
    )
    assert decision.step == step
    assert decision.surplus == []


def test_all_controllers_keep_the_same_one_of_several_instances() -> None:
    for order in itertools.permutations([instance(1, "starting"), instance(2), instance(3)]):
        decision = decide(Listing(instances=list(order)), wanted="c7i.xlarge", permitted=[], pending=False)
        assert decision.instance is not None
        assert (decision.step, decision.instance.id, decision.surplus) == ("wait", "i-1", ["i-2", "i-3"])


def test_everything_listed_is_released_whatever_its_state() -> None:
    listing = Listing(
        instances=[instance(1), instance(2, "ending"), instance(3, "stopped"), instance(4, "starting")],
        groups=[ListedGroup(id="sg-1")],
    )
    assert to_release(listing) == (["i-1", "i-3", "i-4"], ["sg-1"], [])


def test_what_has_only_the_name_stands_in_the_way_of_a_creation_alone() -> None:
    unmarked = ["server 7"]
    assert decide(Listing(unmarked=unmarked), wanted="c7i.xlarge", permitted=[], pending=False).step == "refuse"
    there = Listing(instances=[instance(1)], unmarked=unmarked)
    assert decide(there, wanted="c7i.xlarge", permitted=[], pending=False).step == "use"
    assert to_release(Listing(unmarked=unmarked)) == ([], [], [])
