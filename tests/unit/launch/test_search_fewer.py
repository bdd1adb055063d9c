"""The best variant is tried without a lever that a later one may have made useless."""

from launch_parts import Program, lever


def test_a_lever_that_a_later_one_has_made_useless_is_taken_away():
    times = {"default": 1.0, "a": 0.7, "a + b": 0.6, "b": 0.4, "b + slow": 0.3}
    levers = [lever("a"), lever("b"), lever("slow", expensive=True)]
    program = Program(levers, times, units=300).run(300)
    assert program.search.best.name == "b + slow"
    assert [entry["variant"] for entry in program.record.of("trial")] == ["a", "a + b", "b", "b + slow"]


def test_no_lever_is_to_blame_where_the_rest_without_one_is_wrong():
    times = {"default": 1.0, "a": 0.7, "a + b": 0.5, "b": 0.3}
    program = Program([lever("a"), lever("b")], times, units=300)
    program.wrong = {"b"}
    program.run(300)
    assert program.search.best.name == "a + b"
    assert program.record.of("fallback") == []
    assert [entry["lever"] for entry in program.record.of("trying")] == ["a", "b", ""]
    assert not any(entry["failed"] for entry in program.record.of("trial"))


def test_the_best_that_fails_on_its_turn_is_to_blame_and_not_what_is_tried():
    levers, times = [lever("a"), lever("b")], {"default": 1.0, "a": 0.5, "a + b": 0.4}
    program = Program(levers, times, units=400)
    for _ in range(400):
        action = program.search.next()
        if program.search.best.name == "a" == action.variant.name and program.search.current.name == "a + b":
            break
        program.run(1)
    else:
        raise AssertionError("the two never took turns")
    program.search.failed("WeightsChanged: no", action.variant)
    assert program.record.of("fallback") == [{"event": "fallback", "what": "a", "reason": "WeightsChanged: no"}]
    assert program.search.best.name == "default" and program.search.settled
    assert program.search.wanted == {"default"}, "nothing that was made is held any longer"
