"""What is tried only for what an earlier run has kept for it, and is of no use after all: it is not made anew."""

import pytest

from launch_parts import Program, lever


def conversion(name):
    return lever(name, expensive=True, group="conversion")


@pytest.mark.parametrize("after", [3, 4, 5, 6, 7])
def test_it_is_given_up_while_another_one_is_made_in_the_background(after):
    times = {"default": 1.0, "made": 0.6, "kept": 0.4}
    levers, costs = [conversion("made"), conversion("kept")], {"made": 30.0, "kept": 0.5}
    program = Program(levers, times, units=300, share=0.12, costs=costs)
    program.background({"made": 30.0}, loss=0.5)
    program.run(after)
    search = program.search
    search.next()
    search.lost(["kept"])
    search.costs({"made": 30.0, "kept": 30.0})
    search.verify()
    done = len(program.used)
    program.run(200)
    assert "kept" not in program.used[done:]


@pytest.mark.parametrize("cost", [5.0, 40.0, 400.0])
def test_it_is_no_part_of_a_combination_any_more(cost):
    times = {"default": 1.0, "a": 0.9, "kept": 0.4, "kept + a": 0.35}
    levers = [conversion("kept"), lever("a"), lever("b")]
    program = Program(levers, times, units=300, share=0.12, costs={"kept": 0.5})
    search = program.search
    while search.next().variant.name != "kept + a":
        program.run(1)
    search.lost(["kept"])
    search.costs({"kept": cost})
    search.anew(1.0, 0.1)
    done = len(program.used)
    program.run(100)
    assert "kept + a" not in program.used[done:]
