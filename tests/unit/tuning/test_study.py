"""What a study proposes: possible points only, and all of them where there are few."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pytest

from modak_deploy.tuning import study as study_module
from modak_deploy.tuning.space import NONE, Point
from modak_deploy.tuning.study import Study

pytest.importorskip("optuna", reason="Optuna is not installed; 'pip install .[tune]' installs it")


@dataclass(frozen=True)
class Exclusive:
    """Groups of levers of which two at most may be on, as where most exclude each other."""

    groups: Mapping[str, Sequence[str]]
    seeds: Sequence[Point] = ()

    @property
    def start(self) -> Point:
        return dict.fromkeys(self.groups, NONE)

    @property
    def size(self) -> int:
        return 2 ** len(self.groups)

    def fault(self, point: Point) -> str | None:
        return "too many" if sum(choice != NONE for choice in point.values()) > 2 else None


def exclusive(number, *seeds):
    groups = {f"group {one}": (NONE, f"lever {one}") for one in range(number)}
    space = Exclusive(groups)
    return Exclusive(groups, [{**space.start, f"group {one}": f"lever {one}"} for one in seeds])


def on(point):
    return sorted(int(choice.split()[1]) for choice in point.values() if choice != NONE)


def proposed(study, rounds, gains=None):
    found = []
    for _ in range(rounds):
        points = study.propose(6)
        for point in points:
            study.tell(point, (gains or {}).get(tuple(on(point)), 1.2))
        found += [on(point) for point in points]
        if not points:
            break
    return found


def test_where_most_is_impossible_all_that_is_possible_is_proposed_once(tmp_path):
    found = proposed(Study(tmp_path / "journal", "study", exclusive(12)), 30)
    assert len(found) == len({tuple(levers) for levers in found}) == 12 + 12 * 11 // 2


def test_in_a_space_too_large_to_be_listed_possible_points_are_still_found(tmp_path, monkeypatch):
    monkeypatch.setattr(study_module, "_LISTED", 0)
    found = proposed(Study(tmp_path / "journal", "study", exclusive(12)), 5)
    assert len(found) == len({tuple(levers) for levers in found}) == 30


def test_a_round_begins_with_advice_and_single_levers_in_turns(tmp_path):
    study = Study(tmp_path / "journal", "study", exclusive(12, 7, 9, 8, 6, 5))
    first = [on(point) for point in study.propose(6)]
    assert first == [[7], [0], [9], [1], [8], [2]]


def test_what_gains_is_combined_with_others_first(tmp_path):
    study = Study(tmp_path / "journal", "study", exclusive(12, 7))
    proposed(study, 1, {(7,): 0.5, (1,): 0.8})
    second = [on(point) for point in study.propose(6)]
    assert second[0] == [1, 7] and all(7 in levers for levers in second[:3])


def test_a_search_that_is_resumed_proposes_the_same(tmp_path):
    space, found = exclusive(12, 3), []
    for resumed in (False, True):
        study = Study(tmp_path / f"journal {resumed}", "study", space)
        proposed(study, 1)
        if resumed:
            study = Study(tmp_path / f"journal {resumed}", "study", space)
        found.append([on(point) for point in study.propose(6)])
    assert found[0] == found[1]
