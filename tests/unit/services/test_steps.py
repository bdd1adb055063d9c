"""What is done to a service as it is seen, for each of the states that a killed run can leave."""

from pathlib import Path

from modak_deploy.services.steps import Steps, steps_to
from services import GONE, replica, seen, service_plan


def ids(steps: Steps) -> dict[str, list[int]]:
    return {name: [int(r.id, 16) for r in getattr(steps, name)] for name in ("keep", "adopt", "discard", "retire")}


def test_a_first_deployment_starts_replicas_and_the_front(tmp_path: Path) -> None:
    made = service_plan(tmp_path, replicas=2)
    steps = steps_to(made, seen(made, front=None))
    assert (steps.new, steps.front, steps.changes) == (2, True, True)
    assert steps.sentences() == ["2 replicas would be started", "the front would be started"]


def test_a_service_as_it_is_described_stays(tmp_path: Path) -> None:
    made = service_plan(tmp_path, replicas=2)
    steps = steps_to(made, seen(made, replica(1, made), replica(2, made)))
    assert not steps.changes and steps.sentences() == []


def test_another_plan_replaces_all(tmp_path: Path) -> None:
    made, old = service_plan(tmp_path), service_plan(tmp_path, "old")
    steps = steps_to(made, seen(made, replica(1, old)))
    assert ids(steps) == {"keep": [], "adopt": [], "discard": [], "retire": [1]}
    assert (steps.new, steps.front) == (1, False)
    assert steps.sentences() == ["1 replica would be started", "1 replica would be ended"]


def test_settings_of_the_front_replace_no_replica(tmp_path: Path) -> None:
    made, changed = service_plan(tmp_path), service_plan(tmp_path, drain=5, port=18081, health="/x", timeout=9)
    steps = steps_to(changed, seen(made, replica(1, made)))
    assert ids(steps)["keep"] == [1] and steps.new == 0
    assert steps.front


def test_what_a_killed_run_has_left_is_taken_up_or_ended(tmp_path: Path) -> None:
    made, old = service_plan(tmp_path), service_plan(tmp_path, "old")
    left = seen(
        made, replica(1, old), replica(2, made, "starting"), replica(3, old, "starting"), replica(4, old, "retired")
    )
    steps = steps_to(made, left)
    assert ids(steps) == {"keep": [], "adopt": [2], "discard": [3], "retire": [1, 4]}
    assert steps.new == 0
    switched = seen(made, replica(2, made), replica(1, old, "retired"))
    assert ids(steps_to(made, switched)) == {"keep": [2], "adopt": [], "discard": [], "retire": [1]}


def test_what_is_dead_is_replaced(tmp_path: Path) -> None:
    made = service_plan(tmp_path, replicas=2)
    steps = steps_to(made, seen(made, replica(1, made), replica(2, made), gone=(1,), front=GONE))
    assert ids(steps) == {"keep": [2], "adopt": [], "discard": [], "retire": [1]}
    assert (steps.new, steps.front) == (1, True)


def test_fewer_replicas_and_a_replacement_without_a_change(tmp_path: Path) -> None:
    made = service_plan(tmp_path)
    assert ids(steps_to(made, seen(made, replica(1, made), replica(2, made))))["retire"] == [2]
    assert ids(steps_to(made, seen(made, replica(1, made)), again=True))["retire"] == [1]


def test_without_a_front_the_port_is_the_replicas_own(tmp_path: Path) -> None:
    made = service_plan(tmp_path, front="none")
    here = replica(1, made, ports=[18080])
    assert not steps_to(made, seen(made, here, front=None)).changes
    steps = steps_to(made, seen(made, replica(1, made), front=None))
    assert ids(steps)["retire"] == [1] and steps.new == 1 and not steps.front


def test_a_new_replica_that_does_not_run_is_not_waited_for(tmp_path: Path) -> None:
    made = service_plan(tmp_path)
    steps = steps_to(made, seen(made, replica(1, made, "starting"), gone=(1,)))
    assert ids(steps) == {"keep": [], "adopt": [], "discard": [1], "retire": []}
    assert steps.new == 1
