"""Levers whose gain is known before they are tried."""

from launch_parts import Program, lever
from modak_deploy.launch.config import Expected


def test_what_is_expected_of_a_lever_decides_whether_it_pays():
    levers = [lever("compile", expensive=True)]
    for gain, seconds, best in [(3.0, 10.0, "compile"), (3.0, 20.0, "default"), (1.05, 8.0, "default")]:
        expected = {"compile": Expected(gain=gain, seconds=seconds)}
        program = Program(levers, {"default": 1.0, "compile": 0.3}, units=100, expected=expected).run(100)
        assert program.search.best.name == best, (gain, seconds)


def test_what_it_takes_is_estimated_where_a_gain_alone_is_expected(monkeypatch):
    monkeypatch.setattr("modak_deploy.launch.hardware.load", lambda: 1.0)
    levers = [lever("compile", expensive=True)]
    for gain, best in [(None, "default"), (2.0, "compile")]:
        expected = {} if gain is None else {"compile": Expected(gain=gain)}
        times, costs = {"default": 1.0, "compile": 0.3}, {"compile": 8.0}
        program = Program(levers, times, units=100, expected=expected, costs=costs).run(100)
        assert program.search.best.name == best
