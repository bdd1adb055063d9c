"""How outputs of the tutorials are compared with those of a run (tests/support/tutorials.py)."""

import pytest

import tutorials

TABLE = "RUN     TARGET   JOB  STATE      TIME     RESULTS\nshapes  cluster  1    completed  0:01:32  /results\n"
RECAP = "this-machine : ok=5    changed=0    failed=0\n"
TRIALS = """  tried as-is before the run: measured, 0.4034 s a unit: its rate is known
  tried jemalloc before the run: beaten, 0.3937 s a unit: it is slower than the best so far
  the program ran with threads-half, 3.28 times as fast as the default: fastest of all; the trials took 56.6 s
"""


@pytest.mark.parametrize(
    ("expected", "printed", "same"),
    [
        (TABLE, TABLE.replace("0:01:32", "0:00:07").replace("1    com", "12   com"), True),
        (TABLE, TABLE.replace("JOB  STATE", "STATE  JOB"), False),
        (TABLE, TABLE.replace("0:01:32", "-"), False),
        ("job 1 completed in 92.8 s", "job 1 completed in 3.1 s", True),
        ("job 1 completed in 92.8 s", "job 1 completed in 92.8 ms", False),
        (RECAP, RECAP.replace("    changed", "  changed"), True),
        (RECAP, RECAP.replace("changed=0", "changed=2"), False),
        (RECAP, RECAP.replace("ok=5", "ok=15"), False),
        (RECAP.replace("ok=5", "ok=15"), RECAP.replace("ok=5", "ok=16"), False),
    ],
)
def test_what_counts_in_an_output(expected: str, printed: str, same: bool) -> None:
    assert tutorials.same(expected, printed) == same


def test_lines_on_trials_are_compared_by_their_shape() -> None:
    other = TRIALS.replace("threads-half", "malloc-hugepages+tcmalloc").replace("beaten", "failed")
    other = other.replace("3.28", "1.07").replace("fastest of all", "nothing else was faster")
    printed = f"Plan for shapes\n{other}shapes: job 1 completed\n"
    assert tutorials.excerpt(TRIALS, printed) == TRIALS


@pytest.mark.parametrize(
    ("old", "new"),
    [("s a unit", "ms a unit"), ("threads-half", "threads-halved"), ("before the run", "before"), ("0.4034", "fast")],
)
def test_lines_that_no_run_prints_are_replaced_by_those_that_it_prints(old: str, new: str) -> None:
    page = TRIALS.replace(old, new, 1)
    assert tutorials.excerpt(page, f"Plan for shapes\n{TRIALS}shapes: job 1 completed\n") == TRIALS
