"""Where the application can run: natively, or in which images with which runtime; and why not elsewhere."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

from packaging.version import Version

from modak_deploy.catalogue.catalogue import Catalogue
from modak_deploy.catalogue.imagefile import Alike, preference
from modak_deploy.containers.registry import by_preference
from modak_deploy.containers.registry import preference as runtime_preference
from modak_deploy.engines.registry import package_of
from modak_deploy.errors import InfeasibleError, InputError
from modak_deploy.model.application import Framework
from modak_deploy.model.base import RuntimeName
from modak_deploy.model.deployment import Deployment
from modak_deploy.model.image import ImageEntry
from modak_deploy.model.plan import Rejected
from modak_deploy.model.target import Facts, Node
from modak_deploy.optimiser.conditions import satisfies
from modak_deploy.optimiser.images import fault_of, find, for_processor
from modak_deploy.optimiser.options import Location, Option, location_parts
from modak_deploy.optimiser.ranks import rank_start
from modak_deploy.optimiser.runtimes import fault_of_ranks, fault_of_runtime
from modak_deploy.util.text import nearest

_MOST_NAMED = 50
"""Images of one framework that are rejected one by one; more are counted."""
_MOST_USED = 100
"""Images of one framework that are looked at besides those that were measured."""


@dataclass
class Locations:
    """Where the application can run, the default first."""

    feasible: list[Location] = field(default_factory=list)
    rejected: list[Rejected] = field(default_factory=list)
    unused: str | None = None
    """Why the image that the application names is not among them; None where it is, or none is named."""

    @property
    def default(self) -> Location:
        """Where it would run without modak."""
        return self.feasible[0]

    def by_option(self) -> dict[Option, Location]:
        """Return the feasible places by their options without levers."""
        return {location.option(()): location for location in self.feasible}


def locations_of(
    deployment: Deployment,
    facts: Facts,
    node: Node,
    catalogue: Catalogue,
    ranks: int,
    measured: frozenset[str],
    unavailable: Mapping[str, str] | None = None,
) -> Locations:
    """Return every place; those of the images named in ``measured`` are looked at in any case.

    Of the images in ``unavailable`` none is one, for the reason given there. Where the request names a configuration,
    its place is the only one. InfeasibleError gives the reasons when there is none.
    """
    finder = _Finder(deployment, facts, node, catalogue, ranks, unavailable or {})
    locations = Locations()
    own = deployment.application.framework
    for framework, engine in _frameworks(deployment, own):
        finder.look(framework, engine, measured, locations)
    exact = deployment.request.configuration
    if not any(location.engine is None or exact is not None for location in locations.feasible):
        raise InfeasibleError(_nowhere(locations.rejected, deployment) + finder.nearest(own))
    if exact is not None:
        return locations
    locations.unused = finder.unused(locations)
    if locations.unused is not None and own is None and "native" not in (deployment.request.runtimes or []):
        raise InfeasibleError(f"the application cannot run on {deployment.target.name}: {locations.unused}")
    locations.feasible.sort(key=finder.order)
    return locations


def _frameworks(deployment: Deployment, own: Framework | None) -> Iterator[tuple[Framework | None, str | None]]:
    engines, exact = deployment.application.engines, deployment.request.configuration
    if exact is not None and exact.engine is not None and exact.engine not in engines:
        names = ", ".join(engines) or "no engines"
        raise InputError(f"the application has {names}, and not '{exact.engine}'", key="request.configuration.engine")
    if exact is None or exact.engine is None:
        yield own, None
    for name, engine in engines.items():
        if exact is None or exact.engine == name:
            yield Framework(name=name, version=engine.version), name


def _nowhere(rejected: Sequence[Rejected], deployment: Deployment) -> str:
    name = deployment.target.name
    if len(rejected) == 1:
        return f"the application cannot run on {name}: {rejected[0].reason}"
    reasons: dict[str, list[str]] = {}
    for r in rejected:
        reasons.setdefault(r.reason, []).append(r.name)
    clauses = [
        f"{names[0] if len(names) == 1 else f'{len(names)} candidates'}: {why}" for why, names in reasons.items()
    ]
    more = f"; and {len(clauses) - 10} more reasons" if len(clauses) > 10 else ""
    return f"the application can run nowhere on {name}: {'; '.join(clauses[:10])}{more}"


class _Finder:
    def __init__(
        self,
        deployment: Deployment,
        facts: Facts,
        node: Node,
        catalogue: Catalogue,
        ranks: int,
        unavailable: Mapping[str, str],
    ) -> None:
        self.deployment = deployment
        self.application = deployment.application
        self.facts = facts
        self.node = node
        self.catalogue = catalogue
        self.ranks = ranks
        self.unavailable = unavailable
        self.exact = deployment.request.configuration
        self.wanted = self._wanted()

    def _wanted(self) -> ImageEntry | None:
        """Return the image that the user names.

        Of one that nobody knows it is taken that it is for the node's processor and uses the job's GPUs.
        """
        if self.exact is not None and self.exact.image is not None:
            key, image = "request.configuration.image", self.exact.image
        elif self.application.image is not None:
            key, image = "application.image", self.application.image
        else:
            return None
        entry = find(image, self.catalogue, key)
        if entry.name in self.catalogue.images:
            return entry
        entry = for_processor(entry, self.node.microarchitecture)
        if not self.deployment.job.gpus or not self.node.accelerators:
            return entry
        vendor = self.node.accelerators[0].vendor
        return entry.model_copy(update={"accelerator": vendor}) if vendor != "intel" else entry

    def look(
        self, framework: Framework | None, engine: str | None, measured: frozenset[str], locations: Locations
    ) -> None:
        """Add the places for ``framework`` to ``locations``."""
        if self.exact is None or self.exact.runtime == "native":
            self._native(framework, engine, locations)
        runtimes = list(self._containers(engine, locations))
        if not runtimes:
            return
        fitting: list[Alike] = []
        rejected = Counter[str]()
        for group in self._groups(framework):
            group = self._available(group, runtimes[0], engine, locations)
            if not len(group):
                continue
            reason = fault_of(
                group.first,
                self._location(framework, None, runtimes[0], group.first),
                framework,
                self.facts,
                self.ranks,
            )
            if reason is None:
                fitting.append(group)
                continue
            for entry in islice(group, max(0, _MOST_NAMED - rejected.total())):
                name = "+".join(location_parts(runtimes[0], entry.name, engine))
                locations.rejected.append(Rejected(name=name, reason=reason))
            rejected[reason] += len(group)
        if (others := rejected.total() - _MOST_NAMED) > 0:
            reason = "they do not fit either, for reasons such as these"
            locations.rejected.append(Rejected(name=f"{others} other images", reason=reason))
        for entry in self._used(fitting, measured, locations):
            for runtime in runtimes:
                self._take(self._location(framework, engine, runtime, entry), entry, locations)

    def _available(self, group: Alike, runtime: RuntimeName, engine: str | None, locations: Locations) -> Alike:
        """Return the images of a group without those that turned out not to be available, which are rejected."""
        if not self.unavailable or not any(name in self.unavailable for name in group.names):
            return group
        for name in (name for name in group.names if name in self.unavailable):
            rejected = "+".join(location_parts(runtime, name, engine))
            locations.rejected.append(Rejected(name=rejected, reason=self.unavailable[name]))
        return Alike([entry for entry in group if entry.name not in self.unavailable])

    def _take(self, location: Location, entry: ImageEntry, locations: Locations) -> None:
        """Add a place to the feasible ones, unless its runtime cannot run the image or show it what it needs."""
        reason = self._not_runnable(location.runtime, entry)
        if reason is None and entry.accelerator is not None:
            reason = fault_of_runtime(location.runtime, self.facts.runtimes[location.runtime], entry.accelerator)
        if reason is None and entry.mpi is not None and location.type == "hpc":
            reason = fault_of_ranks(location.runtime, self.ranks)
        if reason is None and isinstance(start := rank_start(self.deployment, self.facts, entry, self.ranks), str):
            reason = start
        if reason is None:
            locations.feasible.append(location)
        else:
            locations.rejected.append(Rejected(name=location.option(()).name, reason=reason))

    def _not_runnable(self, runtime: RuntimeName, entry: ImageEntry) -> str | None:
        from modak_deploy.containers.capabilities import fault_of_signature, fault_of_source
        from modak_deploy.model.reference import parse

        if entry.runtimes is not None and runtime not in entry.runtimes:
            return f"the catalogue permits only {', '.join(entry.runtimes) or 'none'} for this image"
        reference = parse(entry.reference or f"build://{entry.name}")
        if (kind := self.deployment.target.kind).pulls_images and reference.scheme != "docker":
            return f"nodes of {kind.title} pull images of a registry only, and this is none"
        reason = fault_of_source(runtime, reference)
        if reason is None and self.deployment.target.image_keys:
            reason = fault_of_signature(runtime)
        return reason

    def _groups(self, framework: Framework | None) -> list[Alike]:
        """Return the images that hold ``framework``, and the one that the user names."""
        if self.exact is not None:
            return [Alike([self.wanted])] if self.wanted is not None else []
        groups = list(self.catalogue.image_index.holding(_package(framework))) if framework else []
        if self.wanted is not None and not any(self.wanted.name in group.names for group in groups):
            groups.insert(0, Alike([self.wanted]))
        return groups

    def unused(self, locations: Locations) -> str | None:
        """Return why the image that the user names is at no place; None where it is, or none is named."""
        name = self.wanted.name if self.wanted else None
        if name is None or any(
            location.image is not None and location.image.name == name for location in locations.feasible
        ):
            return None
        reasons = [r.reason for r in locations.rejected if name in r.name.partition(":")[2].split("+")]
        containers = {*self.facts.runtimes, *(self.deployment.request.runtimes or [])} - {"native"}
        reasons += [r.reason for r in locations.rejected if r.name in containers]
        why = reasons[0] if reasons else f"no container runtime was found on {self.deployment.target.name}"
        return f"the image {self.application.image}, which the application names, cannot be used: {why}"

    def _used(self, fitting: list[Alike], measured: frozenset[str], locations: Locations) -> list[ImageEntry]:
        used = {entry.name: entry for entry in Alike.preferred(fitting, _MOST_USED)}
        total = sum(map(len, fitting))
        if total > len(used):
            named = [*(self.catalogue.images[n] for n in sorted(measured) if n in self.catalogue.images), self.wanted]
            used |= {e.name: e for e in named if e is not None and any(e.name in group.names for group in fitting)}
            reason = (
                f"they fit as well, but only the {_MOST_USED} preferred ones and those that were measured are compared"
            )
            locations.rejected.append(Rejected(name=f"{total - len(used)} other images", reason=reason))
        return list(used.values())

    def _native(self, framework: Framework | None, engine: str | None, locations: Locations) -> None:
        reason = self._not_permitted("native") or self._native_fault(framework)
        if reason is None and isinstance(start := rank_start(self.deployment, self.facts, None, self.ranks), str):
            reason = start
        location = self._location(framework, engine, "native", None)
        if reason is None:
            locations.feasible.append(location)
        else:
            name = "+".join(location_parts("native", None, engine)) or "native"
            locations.rejected.append(Rejected(name=name, reason=reason))

    @property
    def _python(self) -> str | None:
        """The application's Python; the shell of a job expands no ``~`` that is quoted, the discovery has done it."""
        described = self.deployment.target.python
        if described is None or (described.startswith("~/") and self.facts.python is not None):
            return self.facts.python
        return described

    def _native_fault(self, framework: Framework | None) -> str | None:
        if self.application.script is None:
            return None
        python, name = self._python, self.deployment.target.name
        if python is None:
            return f"no Python was found on {name} for {self.application.script}: set target.python"
        if python.startswith("~/"):
            return f"{name} does not tell which Python {python} is: give target.python as an absolute path"
        if framework is None:
            return None
        if self.facts.hostname is not None and self.facts.python is None:
            unseen = f"{self.facts.hostname} cannot see the Python {python}, nor whether it has {framework.name}"
            return f"{unseen}: set target.python to a virtual environment in a folder that the nodes share"
        location = self._location(framework, None, "native", None)
        version = location.version_of(_package(framework))
        if version is None:
            remedy = "install it there, or set target.python to one that has it"
            return f"the Python {python} on {name} has no {_package(framework)}: {remedy}"
        if framework.version is not None and not satisfies(version, framework.version):
            asked = f"{framework.name} {framework.version} is requested"
            return f"{asked}, but the Python {python} on {name} has {_package(framework)} {version}"
        return None

    def _containers(self, engine: str | None, locations: Locations) -> Iterator[RuntimeName]:
        asked = self.deployment.request.runtimes or []
        if self.exact is not None:
            asked = [self.exact.runtime]
        for runtime in by_preference(asked if self.exact is not None else [*self.facts.runtimes, *asked]):
            if runtime in self.facts.runtimes:
                if reason := self._not_permitted(runtime) or self._too_old(runtime):
                    locations.rejected += [Rejected(name=runtime, reason=reason)] if engine is None else []
                else:
                    yield runtime
            elif runtime in asked and (engine is None or self.exact is not None):
                verb = "permits" if self.exact is None else "names"
                reason = f"the request {verb} {runtime}, which was not found on {self.deployment.target.name}"
                locations.rejected.append(Rejected(name=runtime, reason=reason))

    def _too_old(self, runtime: RuntimeName) -> str | None:
        return fault_of_runtime(runtime, self.facts.runtimes[runtime], None)

    def _not_permitted(self, runtime: RuntimeName) -> str | None:
        if runtime != "docker" and (kind := self.deployment.target.kind).pulls_images:
            return f"{kind.title} runs images, as docker does"
        for key, permitted in (
            ("request", self.deployment.request.runtimes),
            ("target", self.deployment.target.runtimes),
        ):
            if permitted is not None and runtime not in permitted:
                return f"{key}.runtimes permits only {', '.join(permitted) or 'none'}"
        return None

    def _location(
        self, framework: Framework | None, engine: str | None, runtime: RuntimeName, entry: ImageEntry | None
    ) -> Location:
        software = entry or self.facts
        return Location(
            type=self.application.type,
            framework=framework.name.lower() if framework else None,
            node=self.node,
            glibc=software.glibc,
            libraries=software.libraries,
            packages=software.packages,
            gpus=self.deployment.job.gpus,
            python=self._python if entry is None else "python3",
            aliases=self.catalogue.packages,
            runtime=runtime,
            image=entry,
            engine=engine,
        )

    def nearest(self, framework: Framework | None) -> str:
        """Return the clause that names the versions of ``framework`` nearest to the one that nothing satisfies."""
        if framework is None:
            return ""
        groups = self.catalogue.image_index.holding(_package(framework))
        names = [*{e.framework for e in self.catalogue.images.values() if e.framework}, *self.facts.packages]
        if not groups and framework.name.lower() not in names:
            return nearest(framework.name.lower(), sorted(names)) or ""
        if framework.version is None or not self.facts.runtimes:
            return ""
        versions = {_version(group.first, framework) for group in groups} - {None}
        if any(satisfies(str(version), framework.version) for version in versions):
            return ""
        wanted = [int(part) for part in re.findall(r"\d+", framework.version)[:2]] or [0]

        def distance(version: str) -> list[int]:
            release = (*Version(version).release, 0)
            return [abs(have - want) for have, want in zip(release, wanted, strict=False)]

        near = sorted((str(version) for version in versions), key=lambda version: (distance(version), version))[:2]
        return f"; the nearest versions in images are {' and '.join(near)}" if near else ""

    def order(self, location: Location) -> tuple[object, ...]:
        """Return the sort key by which the first place is what would run without modak."""
        image = location.image
        wanted = self.wanted is None or (image is not None and image.name == self.wanted.name)
        if image is None:
            return (not wanted, location.engine or "", 0)
        return (not wanted, location.engine or "", 1, preference(image), runtime_preference(location.runtime))


def _version(entry: ImageEntry, framework: Framework) -> str | None:
    if entry.framework == framework.name.lower():
        return entry.version
    return entry.packages.get(_package(framework))


def _package(framework: Framework) -> str:
    name = framework.name.lower()
    return package_of(name)
