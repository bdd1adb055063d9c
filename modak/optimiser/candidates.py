"""Candidates: which lever sets are worth a look, and which cannot or may not be used."""

import difflib
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from modak.catalogue.catalogue import Catalogue
from modak.catalogue.lever import Lever
from modak.errors import InfeasibleError, InputError
from modak.model.deployment import Deployment
from modak.model.plan import Rejected
from modak.optimiser.conditions import Context, unmet

LeverSet = tuple[str, ...]
"""Names of levers in the catalogue's order."""


@dataclass
class Choice:
    """The lever sets to choose among."""

    default: LeverSet
    """What runs without modak."""
    base: LeverSet
    """The default with what the request requires: what runs when nothing is known to be better."""
    feasible: list[LeverSet] = field(default_factory=list)
    """All sets worth a look, ``base`` first."""
    rejected: list[Rejected] = field(default_factory=list)


def name_of(levers: LeverSet) -> str:
    """Return the candidate's name."""
    return "+".join(levers) or "as-is"


def about(name: str, reason: str) -> str:
    """Return the clause ``it needs ..`` with the lever's name for its subject."""
    return f"{name} {reason.removeprefix('it ')}" if reason.startswith("it ") else reason.replace(" it", f" {name}", 1)


class Enumerator:
    """Finds the lever sets for one deployment."""

    def __init__(self, catalogue: Catalogue, deployment: Deployment, context: Context) -> None:
        self.catalogue = catalogue
        self.deployment = deployment
        self.context = context
        self._order = {name: number for number, name in enumerate(catalogue.levers)}
        self._environment = {**deployment.application.environment, **deployment.job.environment}
        self._check_names()
        self.faults: dict[str, str] = {}
        """Why a lever cannot or may not be used, by name."""
        self._applies: dict[str, bool] = {}
        for lever in catalogue.levers.values():
            if reason := self._fault(lever):
                self.faults[lever.name] = reason

    def _check_names(self) -> None:
        request, known = self.deployment.request, self.catalogue.levers
        for name in (*request.require_levers, *request.forbid_levers):
            if name not in known:
                close = difflib.get_close_matches(name, known, 1)
                hint = f"; did you mean '{close[0]}'?" if close else ""
                raise InputError(f"request: the catalogue has no lever '{name}'{hint}")
        if both := sorted(set(request.require_levers) & set(request.forbid_levers)):
            raise InputError(f"request: the lever '{both[0]}' is both required and forbidden")

    def _fault(self, lever: Lever) -> str | None:
        if reason := unmet(lever.when, self.context):
            return reason
        if lever.launcher is not None and self.deployment.application.script is None:
            return "it starts a Python script, and the application is an executable"
        for variable, value in self._variables(lever).items():
            theirs = self._environment.get(variable)
            if theirs is not None and theirs != value:
                return f"it sets {variable}, which the application or the job sets to '{theirs}' itself"
        request = self.deployment.request
        if lever.name in request.forbid_levers:
            return "the request forbids it"
        if lever.numerics == "relaxed" and request.numerics == "exact":
            return "it changes numbers beyond the order of additions, and the request asks for exact numerics"
        return None

    @staticmethod
    def _variables(lever: Lever) -> dict[str, str]:
        variables = lever.variables()
        if lever.preload is not None:
            variables["LD_PRELOAD"] = lever.preload
        return variables

    def choose(self, measured: Iterable[Sequence[str]]) -> Choice:
        """Return the sets worth a look: the base, each change of one group, and every set that was measured."""
        default = self._default()
        base = self._with_required(default)
        choice = Choice(default, base)
        seen: set[LeverSet] = set()
        singles = [(name, self._changed(base, name)) for name in self.catalogue.levers if name not in base]
        sets = [(None, base), (None, default), *singles, *((None, self._sorted(s)) for s in measured)]
        for lever, levers in sets:
            if levers in seen:
                continue
            seen.add(levers)
            if reason := self.fault_of(levers):
                if not (lever and self._irrelevant(lever)):
                    choice.rejected.append(Rejected(name=name_of(levers), reason=reason))
            else:
                choice.feasible.append(levers)
        if base not in choice.feasible:
            raise InfeasibleError(f"the candidate '{name_of(base)}' cannot be used: {self.fault_of(base)}")
        self._note_others(choice)
        return choice

    def _irrelevant(self, lever: str) -> bool:
        """A lever of another framework or kind of application is no candidate at all."""
        when = self.catalogue.levers[lever].when
        frameworks = [when.framework] if isinstance(when.framework, str) else when.framework
        return (frameworks is not None and self.context.framework not in frameworks) or (
            when.type is not None and self.context.type not in when.type
        )

    def _note_others(self, choice: Choice) -> None:
        usable = (sum(lever.name not in self.faults for lever in group) for group in self.catalogue.by_group.values())
        required = {self.catalogue.levers[name].group for name in choice.base}
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
            elif group.required and group.framework == self.context.framework:
                if usable:
                    levers.append(usable[0].name)
                elif not self._decided_by_user(members):
                    reasons = "; ".join(about(lever.name, self.faults[lever.name]) for lever in members)
                    raise InfeasibleError(f"the application cannot run on the target: {reasons}")
        return self._sorted(levers)

    def _permitted(self, lever: Lever) -> bool:
        return lever.name not in self.faults

    def _decided_by_user(self, members: Sequence[Lever]) -> bool:
        return any(variable in self._environment for lever in members for variable in lever.environment)

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
                changed[lever.group] = lever.name
                pending += lever.when.levers
        return self._sorted(changed.values())

    def _sorted(self, levers: Iterable[str]) -> LeverSet:
        return tuple(sorted(levers, key=lambda name: (self._order.get(name, len(self._order)), name)))

    def fault_of(self, levers: LeverSet) -> str | None:
        """Return why the set cannot or may not be used, as one clause; None when it can."""
        known = self.catalogue.levers
        for name in levers:
            if name not in known:
                return f"the catalogue has no lever '{name}'"
            if reason := self.faults.get(name):
                return about(name, reason)
        chosen = [known[name] for name in levers]
        for name in self.deployment.request.require_levers:
            if name not in levers:
                return f"the request requires the lever {name}"
        return _clash(chosen) or self._missing_group(chosen) or _missing(chosen)

    def _missing_group(self, levers: Sequence[Lever]) -> str | None:
        on = {lever.group for lever in levers}
        for group in self.catalogue.groups.values():
            if group.required and group.framework == self.context.framework and group.name not in on:
                members = self.catalogue.by_group[group.name]
                if any(self._permitted(lever) for lever in members):
                    return f"it names no {group.name}"
        return None


def _clash(levers: Sequence[Lever]) -> str | None:
    groups: dict[str, str] = {}
    variables: dict[str, tuple[str, str]] = {}
    launchers = [lever.name for lever in levers if lever.launcher is not None]
    if len(launchers) > 1:
        return f"{launchers[0]} and {launchers[1]} both start the script"
    for lever in levers:
        if (other := groups.setdefault(lever.group, lever.name)) != lever.name:
            return f"{other} and {lever.name} exclude each other"
        for variable, value in lever.variables().items():
            before, name = variables.setdefault(variable, (value, lever.name))
            if before != value:
                return f"{name} and {lever.name} set {variable} to different values"
    return None


def _missing(levers: Sequence[Lever]) -> str | None:
    names = {lever.name for lever in levers}
    compilers = {lever.compiler for lever in levers if lever.compiler}
    for lever in levers:
        for needed in lever.when.levers:
            if needed not in names:
                return f"{lever.name} works only together with {needed}"
        if lever.when.compiler is not None and lever.when.compiler not in compilers:
            return f"{lever.name} works only with the graph compiler {lever.when.compiler}"
    return None
