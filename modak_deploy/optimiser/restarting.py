"""Restart trials: which candidates a job tries before its run, each in a new process, or why it cannot."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any

from modak_deploy.catalogue.catalogue import Catalogue
from modak_deploy.catalogue.effects import applied
from modak_deploy.model.deployment import Deployment
from modak_deploy.model.plan import TIMED, Candidate, Launch, Prediction
from modak_deploy.model.trials import RestartCandidate, RestartPlan, Signal
from modak_deploy.optimiser.launching import COUNTED, counts_units, launcher_counts
from modak_deploy.optimiser.options import Location, Option
from modak_deploy.util.text import plural

MOST = 8
"""Candidates that a job tries besides the chosen one."""
SHORTEST = 5
"""Seconds below which a budget suffices for no trial."""
RULE = (
    "each is stopped once its steady rate is measured or it is clearly slower than the best so far; the better half is "
    "measured again for longer, until one is left; the program runs with that one where its slowest measurement is "
    "faster by 2 % than the fastest one of the default, which is measured again at the end"
)
NO_SIGNAL = (
    "the speed of the program cannot be measured; give application.progress, a regular expression for its output, or "
    "application.trial, the arguments of a short run"
)
TOLERANCE = {"exact": 0.01, "relaxed": 0.2}
_MEASURED_HERE = ("measurement", "trial")


@dataclass(frozen=True)
class Ranking:
    """An option at the chosen location, the best first, with what is known of it and what it would run."""

    option: Option
    prediction: Prediction
    candidate: Candidate


def counts(deployment: Deployment, location: Location) -> bool:
    """Return whether the launcher is needed to count the units of a program that restart trials start."""
    return (
        deployment.request.restart_budget is not None
        and deployment.application.progress is None
        and launcher_counts(deployment, location)
    )


def restart_of(
    deployment: Deployment,
    chosen: Ranking,
    others: Sequence[Ranking],
    catalogue: Catalogue,
    launch: Launch | None,
    failed: AbstractSet[str] = frozenset(),
) -> tuple[RestartPlan | None, str | None]:
    """Return what is tried before the run, and the clause on it for the Plan's reason.

    Nothing where the request does not permit it; else None and why nothing can be tried. ``failed`` are levers that an
    earlier job of the same work could not use.
    """
    asked = deployment.request.restart_budget
    if asked is None:
        return None, None
    signal = signal_of(deployment, launch)
    budget, short = _budget(deployment, chosen.prediction)
    process = _Process(deployment, chosen.candidate, catalogue)
    alike = [ranking for ranking in _first_of_engines(chosen, others) if process.becomes(ranking.candidate)]
    silent = _silent(alike, signal)
    audible = [ranking for ranking in alike if ranking.candidate.engine not in silent]
    candidates = _candidates(process, audible, failed)
    if (reason := obstacle(deployment)) is not None:
        return None, f"nothing is tried in new processes: {reason}"
    if signal is None:
        return None, f"nothing is tried in new processes: {NO_SIGNAL}"
    if budget is None or not candidates:
        why = short or _untried(silent) or "no candidate is left that was not measured and has not failed"
        return None, f"nothing is tried in new processes: {why}"
    plan = RestartPlan(
        signal=signal,
        **run_of(deployment, chosen.candidate, catalogue),
        budget=budget,
        share=asked.share,
        units=units_of(deployment, signal),
        expected=chosen.prediction.seconds if chosen.prediction.basis in TIMED else None,
        tolerance=TOLERANCE[deployment.request.numerics],
        candidates=[process.candidate(chosen.candidate), *candidates],
        rule=RULE,
    )
    what = plural(len(candidates), "configuration")
    text = f"{what} will be tried before the run, each in a new process, for at most {budget} s in all"
    return plan, "; ".join(filter(None, [text, _untried(silent)]))


def obstacle(deployment: Deployment) -> str | None:
    """Return why nothing can be tried in new processes, whatever the budget."""
    if deployment.request.configuration is not None:
        return "request.configuration names the one to run"
    return None


def signal_of(deployment: Deployment, launch: Launch | None) -> Signal | None:
    """Return what tells how fast the program is; None where nothing does."""
    application = deployment.application
    if application.progress is not None:
        return "output"
    if application.trial is not None:
        return "whole"
    if launch is not None and application.framework is not None and counts_units(application.framework.name):
        return "launcher"
    return None


def run_of(deployment: Deployment, chosen: Candidate, catalogue: Catalogue) -> dict[str, Any]:
    """Return what a job must know to start the program in trials, by the fields of RestartPlan."""
    application = deployment.application
    tail = tail_of(deployment, chosen, catalogue)
    return {
        "progress": application.progress,
        "arguments": [*(application.trial or []), *chosen.argv[len(chosen.argv) - tail :]],
        "replaced": len(application.arguments) + tail,
    }


def changed_environment(
    deployment: Deployment, chosen: Mapping[str, str], candidate: Mapping[str, str]
) -> tuple[dict[str, str], list[str]]:
    """Return the variables that a candidate sets where the chosen one's are set, and those that it unsets.

    What the user sets is the same in both, whether a lever of the chosen one sets it as well or not.
    """
    missing = set(chosen) - set(candidate)
    own = {**deployment.application.environment, **deployment.job.environment}
    return {**{name: own[name] for name in missing & set(own)}, **candidate}, sorted(missing - set(own))


def tail_of(deployment: Deployment, candidate: Candidate, catalogue: Catalogue) -> int:
    """Return how many words its engine and its levers put behind the application's arguments."""
    engine = deployment.application.engines.get(candidate.engine or "")
    levers = applied(catalogue.levers[name].all_effects for name in candidate.levers)
    return (len(engine.arguments) if engine is not None else 0) + len(levers.arguments)


def units_of(deployment: Deployment, signal: Signal) -> int | None:
    """Return how many units the run does, where the workload tells it in those that are counted."""
    workload = deployment.application.workload
    if workload.units == 1 or signal == "whole":
        return None
    return workload.units if signal == "output" or workload.unit in COUNTED else None


def _budget(deployment: Deployment, prediction: Prediction) -> tuple[int | None, str | None]:
    """Return the seconds that the trials may take, or why that is too little.

    A share is one of the wall time where nothing else is known; the job lowers it once it knows the program's rate.
    """
    asked, wall = deployment.request.restart_budget, deployment.job.wall_time
    expected = prediction.seconds if prediction.basis in TIMED else None
    if asked is None:
        return None, None
    if asked.share is not None:
        lengths = [length for length in (wall, expected) if length is not None]
        if not lengths:
            return None, (
                f"a share of {asked.budget} needs the length of the job, which is not known: give job.wall_time, or "
                "request.trials.budget in seconds"
            )
        seconds = asked.share * min(lengths)
    else:
        seconds = float(asked.seconds or 0)
    if wall is not None:
        # What is left must suffice for the run.
        seconds = min(seconds, wall - 1.1 * expected if expected is not None else wall / 5)
    if seconds < SHORTEST:
        return None, f"the job is too short: the budget of {max(seconds, 0):.3g} s suffices for no trial"
    return int(seconds), None


def _first_of_engines(chosen: Ranking, others: Sequence[Ranking]) -> Iterator[Ranking]:
    """Yield the candidates with the chosen one's engine, and of each other engine the first, which has no extra levers.

    What levers bring to an engine is looked at once it has turned out to be the fastest.
    """
    seen: set[str | None] = {chosen.candidate.engine}
    for ranking in others:
        engine = ranking.candidate.engine
        if engine == chosen.candidate.engine or engine not in seen:
            seen.add(engine)
            yield ranking


def _silent(others: Sequence[Ranking], signal: Signal | None) -> list[str]:
    """Return the engines whose speed nothing tells, where the launcher counts, by their names."""
    engines = {ranking.candidate.engine for ranking in others} - {None}
    return sorted(name for name in engines if name and signal == "launcher" and not counts_units(name))


def _untried(silent: Sequence[str]) -> str | None:
    """Return the clause on engines whose speed nothing tells."""
    if not silent:
        return None
    return f"{', '.join(silent)} cannot be tried: {NO_SIGNAL}; the launcher counts no units in them"


def _candidates(process: "_Process", others: Sequence[Ranking], failed: AbstractSet[str]) -> list[RestartCandidate]:
    """Return what a new process can change: best first by what the model or a rule expects, then by the catalogue.

    Engines come before levers: the user named them, and they differ by more. Groups of levers take turns, so that a
    large one, such as that of threads, does not take all the places.
    """
    chosen, catalogue = process.chosen, process.catalogue
    usable = [
        (number, ranking)
        for number, ranking in enumerate(others)
        if ranking.prediction.basis not in _MEASURED_HERE
        and not (ranking.prediction.gain is not None and ranking.prediction.gain.high < 1)
        and not failed & set(ranking.candidate.levers) - set(chosen.levers)
    ]

    groups = Counter[str]()
    turns: dict[int, int] = {}
    for number, ranking in usable:
        added = [catalogue.levers[name].group for name in ranking.candidate.levers if name not in chosen.levers]
        turns[number] = max((groups[group] for group in added), default=0)
        groups.update(set(added))

    def order(entry: tuple[int, Ranking]) -> tuple[bool, bool, float, int, int]:
        gain = entry[1].prediction.gain
        same = entry[1].candidate.engine == chosen.engine
        return (same, gain is None, -gain.ratio if gain else 0.0, turns[entry[0]], entry[0])

    return [process.candidate(ranking.candidate) for _, ranking in sorted(usable, key=order)[:MOST]]


@dataclass(frozen=True)
class _Process:
    """The chosen candidate's process, and what another start of the program can change of it."""

    deployment: Deployment
    chosen: Candidate
    catalogue: Catalogue

    def becomes(self, candidate: Candidate) -> bool:
        """Whether the candidate is the chosen one but for what is set when a process starts."""
        chosen = self.chosen
        same = ("runtime", "image", "launcher")
        if any(getattr(chosen, key) != getattr(candidate, key) for key in same):
            return False
        if candidate.engine == chosen.engine:
            if candidate.argv != chosen.argv or candidate.levers == chosen.levers:
                return False
        elif self._program(candidate) != self._program(chosen):
            return False
        if chosen.preload and chosen.preload != candidate.preload:
            return False
        sessions = [option.launch.session if option.launch is not None else None for option in (candidate, chosen)]
        if (sessions[0] or None) != (sessions[1] or None):
            return False
        live = {name for name in candidate.levers if self.catalogue.levers[name].run.launch == "live"}
        return live <= set(chosen.levers)

    def _program(self, candidate: Candidate) -> list[str]:
        """Return the command line without what its engine and its levers put at the end."""
        return candidate.argv[: len(candidate.argv) - tail_of(self.deployment, candidate, self.catalogue)]

    def candidate(self, candidate: Candidate) -> RestartCandidate:
        """Return a candidate as a job starts it."""
        chosen = self.chosen
        changed = candidate.engine != chosen.engine
        environment, unset = changed_environment(self.deployment, chosen.environment, candidate.environment)
        return RestartCandidate(
            name=candidate.name,
            levers=candidate.levers,
            environment=environment,
            unset=unset,
            preload=[name for name in candidate.preload if name not in chosen.preload],
            launch_levers=candidate.launch.levers if candidate.launch is not None else [],
            engine=candidate.engine,
            arguments=candidate.argv[len(self._program(candidate)) :] if changed else [],
            replaced=tail_of(self.deployment, chosen, self.catalogue) if changed else 0,
        )


def advice(deployment: Deployment, chosen: Ranking, others: Sequence[Ranking], launch: Launch | None) -> str | None:
    """Return what to do where the default stays because nothing is known, and nothing will be tried."""
    request = deployment.request
    silent = chosen.prediction.basis != "none" or any(ranking.prediction.gain is not None for ranking in others)
    if silent or not others or request.configuration is not None or request.trials == "none":
        return None
    if deployment.application.service is not None:  # which has no end that a trial could time
        return None
    if request.restart_budget is not None or request.surveys or (launch is not None and launch.candidates):
        return None
    if obstacle(deployment) is not None:
        return None
    needs = "" if signal_of(deployment, launch) is not None else ", and application.progress"
    return (
        f"to find out which of {plural(len(others), 'candidate')} is faster, set request.trials to a budget such as 5%"
        f"{needs}, or run modak tune"
    )


def possible(ranking: Ranking, restart: RestartPlan | None) -> Prediction:
    """Return the prediction with the remark that a candidate will be tried before the run."""
    if restart is None or ranking.prediction.basis in _MEASURED_HERE:
        return ranking.prediction
    if ranking.candidate.name not in {candidate.name for candidate in restart.candidates[1:]}:
        return ranking.prediction
    remark = f"{ranking.prediction.evidence}; it will be tried before the run, in a new process"
    return ranking.prediction.model_copy(update={"evidence": remark})
