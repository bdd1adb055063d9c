"""What a report says of a benchmark: which kind was the nearest to the default, and the mean of memory."""

import pytest

from evidence_parts import repeat
from modak_deploy.evidence import benchmarked
from modak_deploy.evidence.benchmarked import answer, memory_drawing
from modak_deploy.evidence.finished import Description, Finished
from modak_deploy.evidence.protocol import Protocol, outcomes


def finished(folder, walls, faults=(), memory=()):
    repeats = [repeat(name, block, wall) for name, wall in walls.items() for block in range(3)]
    repeats += [repeat(name, -1, 1.0, fault="ended with code 1") for name in faults]
    repeats += [repeat("native", 3 + number, 2.0, memory=values) for number, values in enumerate(memory)]
    return Finished(Description(title="x", default="native", protocol=Protocol()), repeats, outcomes(repeats), folder)


@pytest.mark.parametrize(
    ("walls", "faults", "text"),
    [
        (
            {"native": 2.0, "sif": 2.2, "podman": 3.0, "overlay": 1.0},
            [],
            "podman took the longest, 1.50 times the time of native; "
            "sif came closest to native, with 1.10 times the time",
        ),
        # The fastest was called the closest, and the one that took 0.95 times the time the one that took the longest.
        ({"native": 2.0, "sif": 1.9, "podman": 1.0}, [], "sif came closest to native, with 0.95 times the time"),
        ({"native": 2.0, "sif": 2.2}, [], "sif came closest to native, with 1.10 times the time"),
    ],
)
def test_the_nearest_to_the_default_is_named(tmp_path, walls, faults, text):
    assert answer(finished(tmp_path, walls, faults)) == f"{text}; in 3 rounds."


def test_what_was_refused_is_named(tmp_path):
    text = answer(finished(tmp_path, {"native": 2.0}, ["sif"]))
    assert text == "Only native was measured, in 3 rounds. Refused: sif."


def test_the_line_of_memory_is_the_mean(tmp_path, monkeypatch):
    """It was the middle of the band, which ends at no memory where runs differ by more than their mean."""
    drawn = []
    monkeypatch.setattr(benchmarked, "lines", lambda axes, series: drawn.extend(series))
    memory_drawing(finished(tmp_path, {}, memory=[[3] * 5, [3] * 5, [90] * 5]))
    (line,) = drawn
    assert {value for _, value in line.points} == {32}
    assert line.band[0][1] == 0
