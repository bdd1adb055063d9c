"""``benchmarks/scaling_laws.py``: what it says of the least errors is right where they are known."""

import math
import random
import runpy
from pathlib import Path

import pytest

from modak_deploy.performance.laws import Point

SCRIPT = Path(__file__).parents[3] / "benchmarks" / "scaling_laws.py"
RANKS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)


@pytest.fixture(scope="module")
def laws():
    return runpy.run_path(str(SCRIPT))


def points(law, noise=0.0, ranks=RANKS, seed=3):
    draw = random.Random(seed)
    return [Point(1, count, 1, law(count) * math.exp(draw.gauss(0, noise))) for count in ranks]


def test_a_curve_is_smooth_and_noise_is_measured(laws):
    def bent(count):
        return 100 * count**-0.9 * math.exp(0.03 * math.log(count) ** 2)

    assert laws["off_smooth"](points(bent)) == pytest.approx(0, abs=1e-9)
    ranks = tuple(2**power for power in range(400))
    found = laws["off_smooth"](points(bent, noise=0.1, ranks=ranks[:60]))
    assert found == pytest.approx(0.1 * math.sqrt(2 / math.pi), rel=0.3)


def test_of_several_layouts_of_one_number_of_workers_the_fullest_counts(laws):
    alone = points(lambda count: 90 / count + 10)
    assert laws["off_smooth"]([*alone, Point(2, 8, 1, 1e6)]) == laws["off_smooth"](alone)


def test_the_best_law_in_hindsight_errs_as_little_as_the_true_one(laws):
    truth = points(lambda count: 90 / count + 10 + 0.4 * (count - 1))
    for pairs in laws["splits"](truth).values():
        error, nearest = laws["in_hindsight"](pairs)
        assert error == pytest.approx(0, abs=1e-6)
        assert 0 <= nearest <= error


def test_no_mean_of_the_laws_comes_nearer_than_the_nearest_one(laws):
    away = [*points(lambda count: 90 / count + 10, ranks=(1, 2, 4, 8, 16)), Point(1, 32, 1, 500.0)]
    error, nearest = laws["in_hindsight"](laws["splits"](away)["extrapolated"])
    assert error == pytest.approx(nearest)
    assert 0.9 < nearest < 1


def test_too_few_layouts_below_tell_nothing(laws):
    few = points(lambda count: 9 / count, ranks=(1, 8, 9, 10))
    assert laws["in_hindsight"](laws["splits"](few)["extrapolated"]) is None


def test_both_tables_are_printed(laws, tmp_path, monkeypatch, capsys):
    entries = "".join(f"    - [{n}, {10 + 90 / n}]\n" for n in (1, 2, 4, 8, 16, 32))
    (tmp_path / "series.yaml").write_text(f"- name: made-up\n  node: 8\n  points:\n{entries}")
    monkeypatch.setitem(laws["main"].__globals__, "stored", lambda: iter(()))
    for option, shown in (([], "made-up"), (["--floor"], "| made-up | 0.")):
        monkeypatch.setattr("sys.argv", ["scaling_laws.py", "--series", str(tmp_path / "series.yaml"), *option])
        laws["main"]()
        assert shown in capsys.readouterr().out
