"""Candidates: which lever sets are worth a look at a place, and which cannot or may not be used there."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import combinations, islice

from modak_deploy.catalogue.catalogue import Catalogue
from modak_deploy.catalogue.effects import Use
from modak_deploy.catalogue.lever import Lever
from modak_deploy.containers import registry
from modak_deploy.errors import InfeasibleError, InputError
from modak_deploy.model.deployment import Deployment
from modak_deploy.model.image import Packing
from modak_deploy.model.nodes import ranks_of
from modak_deploy.model.plan import Rejected
from modak_deploy.model.reference import parse
from modak_deploy.optimiser.conditions import no_launch, unmet
from modak_deploy.optimiser.options import LeverSet, Location, Option
from modak_deploy.optimiser.resources import cores_of
from modak_deploy.util.text import did_you_mean, plural

_MOST_PAIRS = 200


@dataclass
class Choice:
    """The options to choose among."""

    default: Option
    """What runs without modak."""
    base: Option
    """The default with what the request requires: what runs when nothing is known to be better."""
    feasible: list[Option] = field(default_factory=list)
    """All options worth a look, ``base`` first."""
    rejected: list[Rejected] = field(default_factory=list)

    def join(self, other: "Choice") -> None:
        """Take the options of another place in."""
        self.feasible += other.feasible
        self.rejected += other.rejected


def about(name: str, reason: str) -> str:
    """Return the clause ``it needs ..`` with the lever's name for its subject."""
    return f"{name} {reason.removeprefix('it ')}" if reason.startswith("it ") else reason.replace(" it", f" {name}", 1)


def check_names(catalogue: Catalogue, deployment: Deployment) -> None:
    """Raise InputError for a lever that the request names and the catalogue does not have."""
    request, levers_by_name = deployment.request, catalogue.levers
    exact = request.configuration.levers if request.configuration else []
    lists = (("require_levers", request.require_levers), ("forbid_levers", request.forbid_levers))
    for key, names in (*lists, ("configuration.levers", exact)):
        for name in names:
            if name not in levers_by_name:
                hint = did_you_mean(name, levers_by_name)
                raise InputError(f"the catalogue has no lever '{name}'", key=f"request.{key}", hint=hint)
    if both := sorted(set(request.require_levers) & set(request.forbid_levers)):
        raise InputError(f"the lever '{both[0]}' is both required and forbidden", key="request.forbid_levers")


class Enumerator:
    """Finds the lever sets for one deployment at one place."""

    def __init__(self, catalogue: Catalogue, deployment: Deployment, location: Location) -> None:
        self.catalogue = catalogue
        self.deployment = deployment
        self.location = location
        self._order = {name: number for number, name in enumerate(catalogue.levers)}
        engine = deployment.application.engines.get(location.engine) if location.engine else None
        self._environment = {
            **deployment.application.environment,
            **(engine.environment if engine else {}),
            **deployment.job.environment,
        }
        self.cores = cores_of(deployment, location.node)
        self._use = Use(
            deployment.application.script is not None,
            ranks_of(deployment),
            no_launch(location),
            location.framework,
            _packings(location),
            self.cores,
            deployment.job.threads,
        )
        self.faults: dict[str, str] = {}
        """Why a lever cannot or may not be used, by name."""
        for lever in catalogue.levers.values():
            if reason := self._fault(lever):
                self.faults[lever.name] = reason
        self._fault_same_threads()
        self._reachable = {
            location.framework,
            *(lever.runs for lever in catalogue.levers.values() if self._permitted(lever)),
        }
        for lever in catalogue.levers.values():
            if lever.when.runs is not None and lever.when.runs not in self._reachable:
                does = location.framework or "no known framework"
                self.faults.setdefault(lever.name, f"it is for work done by {lever.when.runs}, and here {does} does it")

    def _fault(self, lever: Lever) -> str | None:
        if reason := unmet(lever.when, self.location):
            return reason
        if self.location.image is not None and lever.compiler and lever.compiler not in self.location.image.compilers:
            return f"it switches on {lever.compiler}, which the image {self.location.image.name} does not have"
        if reason := lever.fault(self._use):
            return reason
        for variable, value in lever.variables(self.cores).items():
            theirs = self._environment.get(variable)
            if theirs is not None and theirs != value:
                return f"it sets {variable}, which the application or the job sets to '{theirs}' itself"
        request = self.deployment.request
        if lever.name in request.forbid_levers:
            return "the request forbids it"
        if lever.numerics == "relaxed" and request.numerics == "exact":
            return "it changes numbers beyond the order of additions, and the request asks for exact numerics"
        return None

    def _fault_same_threads(self) -> None:
        """Give a fault to levers that set as many threads as another one, such as half and physical cores."""
        seen: dict[tuple[int, frozenset[tuple[str, str]]], str] = {}
        for lever in self.catalogue.levers.values():
            run = lever.run_with(self.cores)
            if lever.threads is not None and run.threads is not None and lever.name not in self.faults:
                other = seen.setdefault((run.threads, frozenset(run.environment.items())), lever.name)
                if other != lever.name:
                    self.faults[lever.name] = f"it gives {plural(run.threads, 'thread')} here, as {other} does"

    def choose(self, measured: Iterable[LeverSet], *, explore: bool, pairs: bool = False) -> Choice:
        """Return the options worth a look: the base, every set that was measured, and each change of one group.

        The last only where ``explore``: elsewhere nothing is known of them. With ``pairs`` two groups are changed at
        once as well, for a model that can tell of them.
        """
        default = self._default()
        base = self._with_required(default)
        choice = Choice(self.location.option(default), self.location.option(base))
        names = self.catalogue.levers if explore else ()
        singles = [(name, self._changed(base, name)) for name in names if name not in base]
        sets: list[tuple[str | None, LeverSet]] = [(None, base), (None, default), *singles]
        sets += [(None, self._sorted(levers)) for levers in measured]
        if pairs:
            sets += [(None, levers) for levers in self._pairs(base)]
        seen: set[LeverSet] = set()
        for lever, levers in sets:
            if levers in seen:
                continue
            seen.add(levers)
            option = self.location.option(levers)
            if reason := self.fault_of(levers):
                if not (lever and self._irrelevant(lever)):
                    choice.rejected.append(Rejected(name=option.name, reason=reason))
            else:
                choice.feasible.append(option)
        if choice.base not in choice.feasible:
            raise InfeasibleError(f"the candidate '{choice.base.name}' cannot be used: {self.fault_of(base)}")
        if explore:
            self._note_others(choice)
        return choice

    def exactly(self, names: Iterable[str]) -> Choice:
        """Return the one option with these levers and no others; InfeasibleError with the reason where it cannot be."""
        levers = self._sorted(names)
        if reason := self.fault_of(levers):
            raise InfeasibleError(f"request.configuration cannot be used: {reason}")
        option = self.location.option(levers)
        return Choice(option, option, [option])

    def _pairs(self, base: LeverSet) -> list[LeverSet]:
        """Return the usable sets in which two groups differ from ``base``, not more than _MOST_PAIRS."""
        names = [name for name in self.catalogue.levers if name not in self.faults and name not in base]
        sets = (self._changed(self._changed(base, a), b) for a, b in combinations(names, 2))
        return list(islice((levers for levers in sets if self.fault_of(levers) is None), _MOST_PAIRS))

    def _irrelevant(self, lever: str) -> bool:
        """A lever of another framework or kind of application is no candidate at all."""
        when = self.catalogue.levers[lever].when
        frameworks = [when.framework] if isinstance(when.framework, str) else when.framework
        return (
            (frameworks is not None and self.location.framework not in frameworks)
            or (when.type is not None and self.location.type not in when.type)
            or (when.runs is not None and when.runs not in self._reachable)
            or self.location.framework in when.without_runs
        )

    def _note_others(self, choice: Choice) -> None:
        usable = (sum(lever.name not in self.faults for lever in group) for group in self.catalogue.by_group.values())
        required = {self.catalogue.levers[name].group for name in choice.base.levers}
        sizes = zip(usable, self.catalogue.by_group, strict=True)
        total = math.prod(count if group in required else count + 1 for count, group in sizes)
        if (others := total - len(choice.feasible)) > 0:
            reason = "they were not measured together, and what levers bring does not multiply"
            choice.rejected.append(Rejected(name=f"up to {others} other combinations of levers", reason=reason))

    def _default(self) -> LeverSet:
        levers: list[str] = []
        for group in self.catalogue.groups.values():
            members = self.catalogue.by_group[group.name]
            usable = [lever for lever in members if self._permitted(lever)]
            preferred = [lever for lever in usable if lever.default]
            if preferred:
                levers.append(preferred[0].name)
            elif group.required and group.framework == self.location.framework:
                if usable:
                    levers.append(usable[0].name)
                elif self.location.packages and not self._decided_by_user(members):
                    reasons = "; ".join(about(lever.name, self.faults[lever.name]) for lever in members)
                    raise InfeasibleError(f"the application cannot run on the target: {reasons}")
        return self._sorted(levers)

    def _permitted(self, lever: Lever) -> bool:
        return lever.name not in self.faults

    def _decided_by_user(self, members: Sequence[Lever]) -> bool:
        return any(variable in self._environment for lever in members for variable in lever.run.environment)

    def _with_required(self, levers: LeverSet) -> LeverSet:
        for name in self.deployment.request.require_levers:
            if reason := self.faults.get(name):
                raise InfeasibleError(f"the request requires a lever that cannot be used: {about(name, reason)}")
            levers = self._changed(levers, name)
        for name in self.deployment.request.require_levers:
            if name not in levers:
                others = [n for n in self.deployment.request.require_levers if n != name]
                raise InfeasibleError(
                    f"the required lever '{name}' excludes another required one of {', '.join(others)}"
                )
        return levers

    def _changed(self, levers: LeverSet, name: str) -> LeverSet:
        """Return ``levers`` with ``name``, and the levers that it needs, in place of others of their groups."""
        changed = {self.catalogue.levers[n].group: n for n in levers}
        pending = [name]
        while pending:
            lever = self.catalogue.levers[pending.pop()]
            if changed.get(lever.group) != lever.name:
                kept = (n for n in changed.values() if not lever.excludes(self.catalogue.levers[n]))
                changed = {self.catalogue.levers[n].group: n for n in (*kept, lever.name)}
                pending += [*lever.when.levers, *self._runner(lever, changed.values())]
        return self._sorted(changed.values())

    def _runner(self, lever: Lever, others: Iterable[str]) -> list[str]:
        """Return the lever that makes the framework do the work that ``lever`` is for, where another one does it."""
        runs, levers_by_name = lever.when.runs, self.catalogue.levers
        doing = next(
            (levers_by_name[name].runs for name in others if levers_by_name[name].runs), self.location.framework
        )
        if runs is None or runs == doing:
            return []
        return [other.name for other in levers_by_name.values() if other.runs == runs and self._permitted(other)][:1]

    def _sorted(self, levers: Iterable[str]) -> LeverSet:
        return tuple(sorted(levers, key=lambda name: (self._order.get(name, len(self._order)), name)))

    def fault_of(self, levers: LeverSet) -> str | None:
        """Return why the set cannot or may not be used, as one clause; None when it can."""
        levers_by_name = self.catalogue.levers
        for name in levers:
            if name not in levers_by_name:
                return f"the catalogue has no lever '{name}'"
            if reason := self.faults.get(name):
                return about(name, reason)
        chosen = [levers_by_name[name] for name in levers]
        for name in self.deployment.request.require_levers:
            if name not in levers:
                return f"the request requires the lever {name}"
        return _clash(chosen) or self._missing_group(chosen) or _missing(chosen, self.location.framework)

    def _missing_group(self, levers: Sequence[Lever]) -> str | None:
        on = {lever.group for lever in levers}
        for group in self.catalogue.groups.values():
            if group.required and group.framework == self.location.framework and group.name not in on:
                members = self.catalogue.by_group[group.name]
                if any(self._permitted(lever) for lever in members):
                    return f"it names no {group.name}"
        return None


def _clash(levers: Sequence[Lever]) -> str | None:
    variables: dict[str, tuple[str, str]] = {}
    launchers = [lever.name for lever in levers if lever.run.launcher is not None]
    if len(launchers) > 1:
        return f"{launchers[0]} and {launchers[1]} both start the script"
    for number, lever in enumerate(levers):
        if other := next((other for other in levers[:number] if lever.excludes(other)), None):
            return f"{other.name} and {lever.name} exclude each other"
        for variable, value in lever.run.environment.items():
            before, name = variables.setdefault(variable, (value, lever.name))
            if before != value:
                return f"{name} and {lever.name} set {variable} to different values"
    return None


def _missing(levers: Sequence[Lever], framework: str | None) -> str | None:
    runs = next((lever.runs for lever in levers if lever.runs), framework)
    names = {lever.name for lever in levers}
    compilers = {lever.compiler for lever in levers if lever.compiler}
    for lever in levers:
        for needed in lever.when.levers:
            if needed not in names:
                return f"{lever.name} works only together with {needed}"
        if lever.when.runs not in (None, runs):
            return (
                f"{lever.name} is for work done by {lever.when.runs}, and here {runs or 'no known framework'} does it"
            )
        if runs in lever.when.without_runs:
            return f"{lever.name} has no effect on {runs}"
        if lever.when.compiler is not None and lever.when.compiler not in compilers:
            return f"{lever.name} works only with the graph compiler {lever.when.compiler}"
    return None


def _packings(location: Location) -> Sequence[Packing]:
    """Return how the image's file can be compressed, where the target makes one of a registry's layers."""
    entry = location.image
    if entry is None or entry.reference is None or parse(entry.reference).scheme != "docker":
        return ()
    return registry.get(location.runtime).packings
