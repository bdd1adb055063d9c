"""The search itself: Optuna proposes combinations, with its memory in a file, so that a search can be resumed."""

import errno
import fcntl
import itertools
import json
import math
import os
import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from modak_deploy.errors import InputError
from modak_deploy.tuning.space import Point
from modak_deploy.util.files import PRIVATE

if TYPE_CHECKING:
    import optuna

_KEY, _ROUND = "point", "round"
_PART = 65536
_PROPOSALS = 60
"""Proposals of a round that bring nothing new, after which the space is listed, or counts as exhausted."""
_LISTED = 20_000
"""Points of a space that is listed."""


class Searched(Protocol):
    """The points that a study chooses from; ``modak_deploy.tuning.space.Space`` is one."""

    @property
    def groups(self) -> Mapping[str, Sequence[str]]:
        """Choices by group, that of the start first."""

    @property
    def start(self) -> Point:
        """The point that all others are compared with."""

    @property
    def seeds(self) -> Sequence[Point]:
        """Points that are worth a look first, best first."""

    @property
    def size(self) -> int:
        """How many points there are at most."""

    def fault(self, point: Point) -> str | None:
        """Return why a point cannot be used; None when it can."""


class Study:
    """What was tried in a search, and what to try next."""

    def __init__(self, file: Path, name: str, space: Searched) -> None:
        """Open or make the study ``name`` in ``file``; InputError where Optuna is not installed."""
        try:
            import optuna
            from optuna.storages.journal import JournalFileBackend, JournalStorage
        except ImportError:
            raise InputError("modak tune needs Optuna: pip install 'modak-deploy[tune]'") from None
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self._optuna = optuna
        self._space = space
        self._distributions: dict[str, optuna.distributions.BaseDistribution] = {
            group: optuna.distributions.CategoricalDistribution(tuple(choices))
            for group, choices in space.groups.items()
        }
        self._file = file.absolute()
        with self.alone():
            try:
                self._study = optuna.create_study(
                    study_name=name,
                    storage=JournalStorage(JournalFileBackend(str(self._file))),
                    sampler=self._sampler(0),
                    load_if_exists=True,
                )
            except ValueError as error:
                raise InputError(f"{self._file}: cannot be read: {error}; remove it to search anew") from None

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Keep the search from going on elsewhere at the same time; InputError where it does, or cannot be written.

        What a search that was ended has left is put right: half a line at the end, and Optuna's own lock.
        """
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            handle = os.open(self._file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, PRIVATE)
        except OSError as error:
            raise InputError(f"{self._file} cannot be written: {error.strerror}") from None
        try:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise InputError("modak tune: another process is carrying out this search") from None
            except OSError:  # no locks there
                pass
            else:
                _cut(handle)
                with suppress(FileNotFoundError):
                    Path(f"{self._file}.lock").unlink()
            yield
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EROFS):
                raise
            raise InputError(f"{error.filename or self._file} cannot be written: {error.strerror}") from None
        finally:
            os.close(handle)

    def _sampler(self, seed: int) -> "optuna.samplers.BaseSampler":
        return self._optuna.samplers.TPESampler(seed=seed, multivariate=True, constant_liar=True, n_startup_trials=12)

    def pending(self) -> tuple[int, list[Point]] | None:
        """Return the round that was begun and has no end, with all its points; None where there is none."""
        running = []
        for trial in self._of(self._optuna.trial.TrialState.RUNNING):
            if _ROUND in trial.user_attrs:
                running.append(trial)
            else:  # the search was ended just then
                self._drop(trial)
        if not running:
            return None
        number = min(trial.user_attrs.get(_ROUND, 0) for trial in running)
        # Those too whose results were taken in already: the job that measured them all is found again by all of them.
        trials = self._study.get_trials(deepcopy=False)
        return number, [trial.params for trial in trials if trial.user_attrs.get(_ROUND) == number]

    def _drop(self, trial: Any) -> None:
        """Take a point back that was chosen for no round: it may be chosen again."""
        self._study.set_user_attr(f"postponed-{trial.number}", True)
        self._study.tell(trial.number, state=self._optuna.trial.TrialState.FAIL)
        if fixed := trial.system_attrs.get("fixed_params"):
            self._study.enqueue_trial(dict(fixed))

    @property
    def rounds(self) -> int:
        """How many rounds were begun."""
        return 1 + max((trial.user_attrs.get(_ROUND, -1) for trial in self._study.trials), default=-1)

    def budget(self, number: int, offered: int) -> int:
        """Return the seconds of a round's trials: those ``offered`` when it was begun."""
        key = f"budget-{number}"
        if key not in self._study.user_attrs:
            self._study.set_user_attr(key, offered)
        return int(self._study.user_attrs[key])

    def propose(self, count: int) -> list[Point]:
        """Return up to ``count`` new points for the next round; fewer, or none, where the space is exhausted."""
        number = self.rounds
        # Seeded by the round: a search that was ended proposes what it would have proposed without that.
        self._study.sampler = self._sampler(number)
        points: list[Point] = []
        seen = {self._key(self._space.start), *(self._key(trial.params) for trial in self._finished_or_running())}
        for point in self._first(seen, count):
            self._study.enqueue_trial(dict(point))
        misses, draw = 0, random.Random(number)  # noqa: S311 - which of several changes is taken back is no secret
        while len(points) < count and len(seen) < self._space.size:
            if misses == _PROPOSALS:
                misses += 1
                for point in self._rest(seen, draw)[: count - len(points)]:
                    self._study.enqueue_trial(dict(point))
            if misses > _PROPOSALS and not self._of(self._optuna.trial.TrialState.WAITING):
                break
            trial = self._study.ask(self._distributions)
            key = self._key(trial.params)
            if key in seen or self._space.fault(trial.params) is not None:
                # Neither a result nor a failure of the program: Optuna leaves it out of its model.
                self._study.tell(trial, state=self._optuna.trial.TrialState.FAIL)
                seen.add(key)
                misses += 1
                mended = self._mended(trial.params, draw)
                if self._key(mended) not in seen:
                    self._study.enqueue_trial(dict(mended))
                continue
            seen.add(key)
            trial.set_user_attr(_ROUND, number)
            points.append(trial.params)
        return points

    def _first(self, seen: set[str], count: int) -> list[Point]:
        """Return what a round begins with: what is advised and what differs little from the best, in turns.

        Neither has a round for itself. Advice may be wrong, and Optuna's sampler needs more results than a search has
        at its beginning.
        """
        if self._of(self._optuna.trial.TrialState.WAITING):
            return []
        seeds = [seed for seed in self._space.seeds if self._key(seed) not in seen][: (count + 1) // 2]
        neighbours = [point for point in self._neighbours(seen) if point not in seeds][: (count + 1) // 2]
        turns = itertools.zip_longest(seeds, neighbours)
        return [point for pair in turns for point in pair if point is not None][:count]

    def _rest(self, seen: set[str], draw: random.Random) -> list[Point]:
        """Return all points that are possible and not seen, in random order; none of a space too large to be listed."""
        if self._space.size > _LISTED:
            return []
        groups = self._space.groups
        points = [dict(zip(groups, choices, strict=True)) for choices in itertools.product(*groups.values())]
        rest = [point for point in points if self._key(point) not in seen and self._space.fault(point) is None]
        return draw.sample(rest, len(rest))

    def _mended(self, point: Point, draw: random.Random) -> Point:
        """Return the start with as many of a point's choices as go together, taken in random order."""
        mended = dict(self._space.start)
        for group in draw.sample(sorted(point), len(point)):
            changed = {**mended, group: point[group]}
            if changed != mended and self._space.fault(changed) is None:
                mended = changed
        return mended

    def _neighbours(self, seen: set[str]) -> list[Point]:
        """Return the untried points that differ from the best one in one group, what was good elsewhere first."""
        results = self.results()
        best = results[0][2] if results and results[0][0] < 1 else self._space.start
        quality: dict[str, float] = {}
        for ratio, _, point in results:
            for choice in point.values():
                quality[choice] = min(ratio, quality.get(choice, math.inf))
        ranked = [
            (quality.get(choice, 1.0), {**best, group: choice})
            for group, choices in self._space.groups.items()
            for choice in choices
            if choice != best[group]
        ]
        usable = [entry for entry in ranked if self._key(entry[1]) not in seen and self._space.fault(entry[1]) is None]
        return [point for _, point in sorted(usable, key=lambda entry: entry[0])]

    def tell(self, point: Point, ratio: float | None) -> None:
        """Take the result of a running point in: its time over the default's; None for one that failed."""
        state = self._optuna.trial.TrialState
        for trial in self._of(state.RUNNING):
            if self._key(trial.params) == self._key(point):
                if ratio is None or not ratio > 0:
                    self._study.tell(trial.number, state=state.FAIL)
                else:
                    self._study.tell(trial.number, math.log(ratio))

    def postpone(self, point: Point) -> None:
        """Propose a running point again, for which the budget of its round did not suffice."""
        for trial in self._of(self._optuna.trial.TrialState.RUNNING):
            if self._key(trial.params) == self._key(point):
                self._study.set_user_attr(f"postponed-{trial.number}", True)
                self._study.tell(trial.number, state=self._optuna.trial.TrialState.FAIL)
                self._study.enqueue_trial(dict(point))

    def results(self) -> list[tuple[float, int, Point]]:
        """Return the measured points as time over the default's, round and point, the best first."""
        done = self._of(self._optuna.trial.TrialState.COMPLETE)
        finished = [
            (math.exp(trial.value or 0.0), int(trial.user_attrs.get(_ROUND, 0)), trial.params) for trial in done
        ]
        return sorted(finished, key=lambda entry: entry[0])

    @property
    def failed(self) -> int:
        """How many points were tried and failed."""
        failed = self._of(self._optuna.trial.TrialState.FAIL)
        postponed = self._study.user_attrs
        return sum(_ROUND in trial.user_attrs and f"postponed-{trial.number}" not in postponed for trial in failed)

    def _of(self, state: "optuna.trial.TrialState") -> Sequence[Any]:
        trials: Sequence[Any] = self._study.get_trials(deepcopy=False, states=(state,))
        return trials

    def _finished_or_running(self) -> list[Any]:
        waiting = self._optuna.trial.TrialState.WAITING
        postponed = self._study.user_attrs
        trials = self._study.get_trials(deepcopy=False)
        return [t for t in trials if t.state != waiting and f"postponed-{t.number}" not in postponed]

    @staticmethod
    def _key(point: Point) -> str:
        return json.dumps(dict(point), sort_keys=True)


def _cut(handle: int) -> None:
    """Cut off the half line that a full disk or a machine that failed has left at the end of a file of lines."""
    size = end = os.fstat(handle).st_size
    while end:
        start = max(end - _PART, 0)
        if (last := os.pread(handle, end - start, start).rfind(b"\n")) >= 0:
            end = start + last + 1
            break
        end = start
    if end < size:
        os.ftruncate(handle, end)
