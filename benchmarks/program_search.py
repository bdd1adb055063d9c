"""Which of a program's candidates an exhaustive search measures: what was not far slower, and combinations."""

import itertools
from collections.abc import Iterator, Mapping, Sequence

import program_table

from modak_deploy.catalogue import load_catalogue

GAIN = 1.03
"""Times as fast as the default, from which a candidate is looked at in combinations."""
FAR = 0.8
"""Share of the best gain in a first deployment's live trials, below which a trial stands for a candidate's own job."""
MOST_COMBINATIONS = 3


def far_slower(gains: Mapping[frozenset[str], float]) -> set[frozenset[str]]:
    """Return what was far slower than the best with the same numerics, and so cannot be the best itself."""
    exact = max([1.0, *(gain for levers, gain in gains.items() if program_table.is_exact(levers))])
    best = max([exact, *gains.values()])
    return {
        levers for levers, gain in gains.items() if gain < FAR * (exact if program_table.is_exact(levers) else best)
    }


def exclude_one_another(levers: Sequence[str]) -> bool:
    """Tell whether two of the levers cannot be on together, so that a Plan with them is refused."""
    table = load_catalogue().levers
    pairs = itertools.combinations([table[name] for name in levers if name in table], 2)
    return any(one.excludes(other) for one, other in pairs)


def combinations(
    singles: Sequence[Sequence[str]], default: Sequence[str], steady: dict[tuple[str, ...], float]
) -> Iterator[list[str]]:
    """Yield combinations of what is faster alone: to the best so far one more is added, the fastest first.

    Times of what was yielded are in ``steady`` when the next one is asked for. A run that fails counts for nothing and
    takes no other's place.
    """
    base = steady[tuple(default)]
    gains = {tuple(levers): base / steady[tuple(levers)] for levers in singles if tuple(levers) in steady}
    order = sorted((levers for levers, gain in gains.items() if gain > GAIN), key=lambda levers: -gains[levers])
    tried = 0
    for first in order[:2]:
        best = list(first)
        for other in order:
            added = [lever for lever in other if lever not in best and lever not in default]
            if not added or tried >= MOST_COMBINATIONS:
                continue
            trial = [*best, *added]
            if any(set(trial) == set(one) for one in steady) or exclude_one_another(trial):
                continue
            yield trial
            tried += tuple(trial) in steady
            if steady.get(tuple(trial), float("inf")) < steady[tuple(best)]:
                best = trial
