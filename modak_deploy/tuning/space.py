"""The space of a search: for each group of levers, none or one of those that a new process can have."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from modak_deploy.catalogue.catalogue import Catalogue
from modak_deploy.catalogue.effects import Run, applied
from modak_deploy.model.deployment import Deployment
from modak_deploy.model.plan import Candidate, Plan
from modak_deploy.model.trials import RestartCandidate
from modak_deploy.optimiser.candidates import Enumerator
from modak_deploy.optimiser.options import LeverSet, Location
from modak_deploy.optimiser.restarting import changed_environment

NONE = "-"
"""No lever of a group."""
Point = Mapping[str, str]
"""A lever, or NONE, for each group."""


@dataclass(frozen=True)
class Space:
    """What can be chosen at the place of a Plan's candidate."""

    groups: Mapping[str, Sequence[str]]
    """Levers by group, the chosen candidate's choice first."""
    start: Point
    """The chosen candidate."""
    seeds: Sequence[Point]
    """What is worth a look first, best first, by what measurements and the model say."""
    order: Mapping[str, int]
    _enumerator: Enumerator
    _chosen: Candidate
    _engine_environment: Mapping[str, str]

    @property
    def size(self) -> int:
        """How many combinations there are, those included that exclude each other."""
        size = 1
        for choices in self.groups.values():
            size *= len(choices)
        return size

    @property
    def counts_threads(self) -> bool:
        """Whether its points differ in the number of threads."""
        levers = self._enumerator.catalogue.levers
        several = (choices for choices in self.groups.values() if len(choices) > 1)
        return any(name != NONE and levers[name].threads is not None for choices in several for name in choices)

    def levers(self, point: Point) -> LeverSet:
        """Return a point's levers in the catalogue's order."""
        return tuple(sorted((name for name in point.values() if name != NONE), key=lambda name: self.order[name]))

    def fault(self, point: Point) -> str | None:
        """Return why a point cannot be used; None when it can."""
        return self._enumerator.fault_of(self.levers(point))

    def candidate(self, point: Point) -> RestartCandidate:
        """Return the point as it is tried."""
        catalogue = self._enumerator.catalogue
        levers = self.levers(point)
        chosen = [catalogue.levers[name] for name in levers]
        levers_set = applied((lever.all_effects for lever in chosen), self._enumerator.cores).environment
        environment, unset = changed_environment(
            self._enumerator.deployment, self._chosen.environment, {**self._engine_environment, **levers_set}
        )
        return RestartCandidate(
            name=self._enumerator.location.option(levers).name,
            levers=list(levers),
            environment=environment,
            unset=unset,
            preload=[name for lever in chosen for name in lever.run.preload if name not in self._chosen.preload],
            launch_levers=[lever.name for lever in chosen if lever.run.launch is not None],
            engine=self._chosen.engine,
        )


def space_of(deployment: Deployment, plan: Plan, location: Location, catalogue: Catalogue) -> Space:
    """Return the space around a Plan's chosen candidate.

    Levers that can be switched while a program runs belong to it as well: on from the start they may be worth more.
    """
    enumerator = Enumerator(catalogue, deployment, location)
    chosen = {catalogue.levers[name].group: name for name in plan.chosen.levers}
    groups: dict[str, list[str]] = {}
    for group, levers in catalogue.by_group.items():
        usable = [
            lever.name
            for lever in levers
            if lever.name not in enumerator.faults
            and not _needs_more(lever.run)
            and (plan.chosen.launch is not None or lever.run.launch is None)
            and (not plan.chosen.preload or set(lever.run.preload) <= set(plan.chosen.preload))
        ]
        required = catalogue.groups[group].required and catalogue.groups[group].framework == location.framework
        first = chosen.get(group, NONE)
        choices = list(dict.fromkeys([first, *([] if required else [NONE]), *usable]))
        if len(choices) > 1 and not (first != NONE and _stays(catalogue.levers[first].run)):
            groups[group] = choices
        elif first != NONE:
            groups[group] = [first]
    order = {name: number for number, name in enumerate(catalogue.levers)}
    start = {group: chosen.get(group, NONE) for group in groups}
    seeds = list(_seeds(plan, catalogue, groups, start))
    engine = deployment.application.engines.get(plan.chosen.engine or "")
    return Space(groups, start, seeds, order, enumerator, plan.chosen, engine.environment if engine else {})


def _seeds(plan: Plan, catalogue: Catalogue, groups: Mapping[str, Sequence[str]], start: Point) -> Iterator[Point]:
    """Yield the Plan's alternatives at the same location: those with an expected gain first, the largest first."""

    def order(number: int) -> tuple[bool, float, int]:
        gain = plan.alternatives[number].prediction.gain
        return (gain is None, -gain.ratio if gain is not None else 0.0, number)

    same = ("runtime", "image", "engine")
    for number in sorted(range(len(plan.alternatives)), key=order):
        candidate = plan.alternatives[number].candidate
        if any(getattr(candidate, key) != getattr(plan.chosen, key) for key in same):
            continue
        point = dict.fromkeys(groups, NONE) | {catalogue.levers[name].group: name for name in candidate.levers}
        if point != start and all(choice in groups.get(group, ()) for group, choice in point.items()):
            yield point


def _stays(run: Run) -> bool:
    """Return whether what a chosen lever does cannot be taken back when a process starts."""
    return bool(run.preload) or _needs_more(run)


def _needs_more(run: Run) -> bool:
    """Return whether a lever changes more than what is set when a process starts."""
    return bool(run.launcher or run.prefix or run.arguments or run.packing or run.session)
