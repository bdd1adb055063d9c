"""A search: rounds of trials as jobs of their own, until nothing better is to be expected, and a confirmation."""

import hashlib
import math
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from modak_deploy.catalogue.catalogue import Catalogue
from modak_deploy.engines.registry import package_of
from modak_deploy.errors import InputError, JobError, ModakError
from modak_deploy.jobrequest import job_request
from modak_deploy.jobs.control import JobInput, Jobs
from modak_deploy.jobs.files import LocalSource
from modak_deploy.model.job import JobResult
from modak_deploy.model.nodes import node_of_plan
from modak_deploy.model.plan import Launch, Plan
from modak_deploy.model.trials import RestartCandidate, RestartPlan, RestartResult, Signal
from modak_deploy.optimiser import changes
from modak_deploy.optimiser.launching import launcher_counts
from modak_deploy.optimiser.planner import chosen_location
from modak_deploy.optimiser.resources import asked_resources
from modak_deploy.optimiser.restarting import NO_SIGNAL, TOLERANCE, obstacle, run_of, signal_of, units_of
from modak_deploy.performance.recording import add_results
from modak_deploy.tuning.space import Point, space_of
from modak_deploy.tuning.study import Study
from modak_deploy.util.digest import sha256_of
from modak_deploy.util.files import PRIVATE, write_atomically
from modak_deploy.util.text import plural

NOISE = 0.02
"""Least part by which something must be faster to count as such."""
_FEWEST = 2
"""Fresh runs of the best candidate and of the default, below which nothing is confirmed."""
_IDLE_ROUNDS = 2
"""Rounds in a row without a gain above the noise that end a search."""
_RULE = "each candidate is stopped once its steady rate is known or it is clearly beaten; nothing runs after that"


class Say(Protocol):
    """Takes one line of progress."""

    def __call__(self, text: str, /) -> None: ...


@dataclass(frozen=True)
class Options:
    """How much a search may cost."""

    rounds: int = 8
    """Jobs at most, besides the last one that confirms."""
    batch: int = 6
    """Candidates in a round."""
    budget: int = 120
    """Most seconds of a round's trials."""
    confirm: int = 3
    """Fresh runs of the winner and of the default, in turns."""


@dataclass(frozen=True)
class Outcome:
    """What a search came to."""

    default: str
    winner: str
    """The default where nothing is reliably faster."""
    levers: Sequence[str]
    gain: float
    low: float
    high: float
    tried: int
    failed: int
    rounds: int
    recorded: int
    reason: str
    unrecorded: str = ""
    """Why nothing of it is recorded; empty where it is, or would be."""
    changed: bool = False
    """Whether a job was submitted."""
    ranking: Sequence[tuple[str, float]] = field(default=())
    """Candidates and how many times as fast as the default they were, best first."""


class WouldSubmit(Exception):
    """A dry search has come to a job that was not run yet."""


class Search:
    """One search on one target. All that it knows lies in a folder, so that it goes on where it was ended."""

    def __init__(
        self,
        plan: Plan,
        catalogue: Catalogue,
        jobs: Jobs,
        sources: Sequence[LocalSource],
        *,
        folder: Path,
        results: Path,
        say: Say,
        options: Options | None = None,
        realise: Callable[[Plan, str], None] | None = None,
        store: str | None = None,
        record: bool = True,
        dry: bool = False,
    ) -> None:
        """``folder`` keeps searches, ``results`` gets the rounds' results; ``realise`` brings the image of a Plan.

        Without ``record`` nothing is added to the ``store``.
        With ``dry`` nothing is submitted or recorded: WouldSubmit where the search has not come to its end.
        """
        key = _key(plan, catalogue)
        self._plan = _base(folder / f"{key}.plan.json", plan)
        self._deployment = self._plan.asked
        self._catalogue, self._jobs, self._sources = catalogue, jobs, sources
        self._results, self._say, self._options = results, say, options or Options()
        self._realise, self._store, self._record_asked, self._dry = realise, store, record, dry
        location = chosen_location(self._plan, catalogue)
        launch = _launch(self._plan.chosen.launch, counts=launcher_counts(self._deployment, location))
        self._plan = changes.with_launch(self._plan, launch)
        self._check()
        self._space = space_of(self._deployment, self._plan, location, catalogue)
        if self._space.counts_threads:  # what was chosen reserves no cores but for the threads that it has itself
            self._plan = changes.with_threads(self._plan, asked_resources(self._plan).threads)
        name = hashlib.sha256(repr(sorted(self._space.groups.items())).encode()).hexdigest()[:16]
        self._study = Study(folder / f"{key}.journal", name, self._space)
        self._recorded = 0
        self._made = False

    def _check(self) -> None:
        """Raise InputError for what cannot be searched."""
        if reason := obstacle(self._deployment):
            raise InputError(f"modak tune: {reason}")
        if self._signal is None:
            raise InputError(f"modak tune: {NO_SIGNAL}")
        if self._plan.application.secret_environment:
            raise InputError("not supported by 'modak tune'", key="application.secret_environment")

    def run(self) -> Outcome:
        """Search until nothing better is to be expected, and confirm the best; JobError where a round fails."""
        self._say(
            f"{plural(self._space.size, 'combination')} of levers around {self._plan.chosen.name}, in rounds of up to "
            f"{self._options.batch} for {self._options.budget} s each"
        )
        with self._study.alone():
            return self._confirmed(self._search())

    def _search(self) -> str:
        while (pending := self._study.pending()) is not None or (why := self._finished()) is None:
            if pending is None:
                points = self._study.propose(self._options.batch)
                if not points:
                    return "all combinations were tried"
                pending = (self._study.rounds - 1, points)
            self._round(*pending)
        return why

    def _finished(self) -> str | None:
        """Return why the search is over; None while it goes on."""
        rounds = self._study.rounds
        best = 1.0
        idle = 0
        by_round: dict[int, float] = {}
        for ratio, number, _ in self._study.results():
            by_round[number] = min(ratio, by_round.get(number, math.inf))
        for _, measured in sorted(by_round.items()):
            idle = 0 if measured < best * (1 - NOISE) else idle + 1
            best = min(best, measured)
        if idle >= _IDLE_ROUNDS:
            return f"{idle} rounds in a row brought no gain above {NOISE:.0%}"
        return (
            f"{plural(rounds, 'round')} {'was' if rounds == 1 else 'were'} made"
            if rounds >= self._options.rounds
            else None
        )

    def _round(self, number: int, points: Sequence[Point]) -> None:
        candidates = [self._space.candidate(point) for point in points]
        # As when it was begun: with another its job would be another one, beside that in the queue.
        budget = self._study.budget(number, self._options.budget)
        measured = self._job(f"{number}", candidates, rounds=1, budget=budget)
        default = _time(measured, self._plan.chosen.name, self._units)
        if default is None:
            for point in points:  # the next call measures them in another round: this one stays as it is
                self._study.postpone(point)
            raise JobError(f"round {number + 1} measured no default: {measured.reason}")
        for point, candidate in zip(points, candidates, strict=True):
            times = [trial for trial in measured.trials if trial.name == candidate.name]
            if not times:
                self._study.postpone(point)
                self._say(f"round {number + 1}: {candidate.name}: postponed, the budget did not suffice")
                continue
            taken = _time(measured, candidate.name, self._units)
            self._study.tell(point, None if taken is None else taken / default)
            gain = "" if taken is None else f", {default / taken:.2f} times as fast as {self._plan.chosen.name}"
            self._say(f"round {number + 1}: {candidate.name}: {times[-1].state}{gain}: {times[-1].reason}")
        best = self._study.results()[:1]
        if best:
            ratio, _, point = best[0]
            self._say(f"round {number + 1} of at most {self._options.rounds}: best so far {self._name(point)}, "
                      f"{1 / ratio:.2f} times as fast")  # fmt: skip

    def _confirmed(self, reason: str) -> Outcome:
        """Measure the best one and the default again, in fresh runs and in turns; the default stays where in doubt."""
        results = self._study.results()
        default = self._plan.chosen.name
        ranking = [(self._name(point), 1 / ratio) for ratio, _, point in results]
        winner, levers, gain, low, high = default, list(self._plan.chosen.levers), 1.0, 1.0, 1.0
        if results and results[0][0] < 1 - NOISE:
            best = self._space.candidate(results[0][2])
            rounds, budget = self._options.confirm, self._options.budget
            measured = self._job("confirm", [best], rounds=rounds, budget=budget)
            slow, fast = _times(measured, default, self._units), _times(measured, best.name, self._units)
            if doubt := _doubt(best.name, slow, fast):
                reason += f"; {doubt}"
            else:
                winner, levers = best.name, list(best.levers)
                gain = statistics.geometric_mean(slow) / statistics.geometric_mean(fast)
                low, high = min(slow) / max(fast), max(slow) / min(fast)
        return Outcome(
            default=default,
            winner=winner,
            levers=levers,
            gain=gain,
            low=low,
            high=high,
            tried=len(results),
            failed=self._study.failed,
            rounds=self._study.rounds,
            recorded=self._recorded,
            reason=reason,
            unrecorded=self._unrecorded(),
            changed=self._made,
            ranking=ranking,
        )

    def _name(self, point: Point) -> str:
        return self._space.candidate(point).name

    @property
    def _signal(self) -> Signal | None:
        launch = self._plan.chosen.launch
        return signal_of(self._deployment, launch if launch is not None and launch.counts else None)

    @property
    def _units(self) -> int | None:
        return None if self._signal is None else units_of(self._deployment, self._signal)

    def _job(self, name: str, candidates: Sequence[RestartCandidate], *, rounds: int, budget: int) -> RestartResult:
        """Return what a job measured of the candidates; one that was submitted before is followed, or read."""
        plan = self._round_plan(name, candidates, rounds, budget)
        realise = self._realise
        realise_image = (
            None if realise is None or plan.chosen.image is None else lambda directory: realise(plan, directory)
        )
        item = JobInput(job_request(plan), self._sources, realise_image)
        if self._dry:
            job = self._jobs.find(item.request)
            if job is None or (seen := self._jobs.see(job)).state != "completed":
                raise WouldSubmit
            ended = self._jobs.fetch_results(job, seen, self._results).result
            if ended.restart is None:
                raise WouldSubmit
            return ended.restart
        present = self._jobs.present(item.request, item.sources, realise=item.realise)
        self._made |= present.made
        (result,) = self._jobs.wait([present])
        fetched = self._jobs.fetch_results(present.job, result, self._results).result
        if fetched.state != "completed" or fetched.restart is None:
            raise JobError(
                f"job {result.id}, a round of the search, {fetched.state}: {fetched.reason or 'see its log'} "
                f"({fetched.results}); modak tune goes on from here when it is called again"
            )
        self._record(fetched)
        return fetched.restart

    def _round_plan(self, name: str, candidates: Sequence[RestartCandidate], rounds: int, budget: int) -> Plan:
        plan = self._plan
        chosen = plan.chosen
        default = RestartCandidate(name=chosen.name, levers=chosen.levers, engine=chosen.engine)
        restart = RestartPlan(
            signal=self._signal or "output",
            **run_of(self._deployment, chosen, self._catalogue),
            budget=budget,
            units=self._units,
            tolerance=TOLERANCE[plan.request.numerics],
            only=True,
            search=plan.created,
            rounds=rounds,
            candidates=[default, *candidates],
            rule=_RULE,
        )
        return changes.only_trials(
            plan, restart, name=f"{plan.name[:48]}-tune-{name}", wall_time=budget + budget // 2 + 60
        )

    def _record(self, result: JobResult) -> None:
        """Add what a round measured to the store; what cannot be recorded is said, and the search goes on."""
        if self._unrecorded() or result.results is None:
            return
        try:
            self._recorded += add_results([Path(result.results)], self._catalogue, self._store)[0]
        except (ModakError, OSError) as error:
            self._say(f"job {result.id} is not recorded: {error}")

    def _unrecorded(self) -> str:
        """Return why nothing is recorded, whatever is measured; empty where it is."""
        if not self._record_asked:
            return "the description says 'record: false'"
        if self._plan.application.workload.model is None:
            return "the workload names no model"
        return "workload.units is 1 or is not what is counted" if self._units is None else ""


def _doubt(name: str, slow: Sequence[float], fast: Sequence[float]) -> str | None:
    """Return why fresh runs of a candidate do not show that it is faster than the default; None where they do.

    ``slow`` are the times of the default and ``fast`` those of the candidate: one of each tells nothing of the noise.
    """
    if not slow or not fast:
        return f"no fresh run of {name if slow else 'the default'} could be timed"
    if min(len(slow), len(fast)) < _FEWEST:
        return f"the budget did not suffice for {_FEWEST} fresh runs of {name} and of the default"
    smallest, largest = min(slow) / max(fast), max(slow) / min(fast)
    if smallest * (1 - NOISE) > 1:
        return None
    return f"in fresh runs {name} was {smallest:.2f} to {largest:.2f} times as fast, no clear gain"


def _key(plan: Plan, catalogue: Catalogue) -> str:
    """Return what a search is kept by: what was asked, and with what levers, software and hardware it is made.

    What was measured before one of these changed is none of the same search.
    """
    node, framework = node_of_plan(plan), plan.application.framework
    names = {"python", *([package_of(framework.name)] if framework else [])}
    names |= {name for lever in catalogue.levers.values() for name in lever.when.packages}
    names |= {other for name in names for other in catalogue.packages.get(name, ())}
    made_with = {
        "catalogue": catalogue.version,
        "packages": {name: version for name, version in plan.facts.packages.items() if name in names},
        "glibc": plan.facts.glibc,
        "processor": [node.microarchitecture, node.cpu_model, node.cores],
        "accelerators": [entry.model for entry in node.accelerators],
    }
    return f"{plan.inputs[:16]}-{sha256_of(made_with)[:16]}"


def _launch(chosen: Launch | None, *, counts: bool) -> Launch | None:
    """Return what trials need of the launcher: that it counts, and what is on in the chosen candidate."""
    levers, session = (chosen.levers, chosen.session) if chosen is not None else ([], {})
    return Launch(counts=counts, levers=levers, session=session) if counts or levers or session else None


def _base(file: Path, plan: Plan) -> Plan:
    """Return the Plan that a search began with: what it records meanwhile must not move what it compares with."""
    try:
        kept = Plan.model_validate_json(file.read_bytes())
        if kept.inputs == plan.inputs and kept.versions.catalogue == plan.versions.catalogue:
            return kept
    except (OSError, ValueError):
        pass
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(file, plan.to_json(), mode=PRIVATE)
    except OSError as error:
        raise InputError(f"{file} cannot be written: {error.strerror}") from None
    return plan


def _times(measured: RestartResult, name: str, units: int | None) -> list[float]:
    """Return the measured times of a candidate: of the whole run, or of a unit where its length is not known."""
    return list(_measured(measured, name, units))


def _measured(measured: RestartResult, name: str, units: int | None) -> Iterator[float]:
    trials = [trial for trial in measured.trials if trial.name == name]
    if any(trial.state in ("failed", "different", "unusable") for trial in trials):
        return
    for trial in trials:
        if trial.steady:
            yield trial.steady if units is None else (trial.start or 0.0) + (units - 1) * trial.steady


def _time(measured: RestartResult, name: str, units: int | None) -> float | None:
    times = _times(measured, name, units)
    return statistics.geometric_mean(times) if times else None
