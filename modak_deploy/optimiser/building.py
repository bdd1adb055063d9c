"""What was decided, and the candidates of a Plan that are made of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from modak_deploy.catalogue.catalogue import DATA, Catalogue
from modak_deploy.catalogue.effects import applied
from modak_deploy.model.deployment import Deployment
from modak_deploy.model.image import Packing
from modak_deploy.model.plan import Candidate, Image, RankStart, Resources, Source
from modak_deploy.model.target import Facts
from modak_deploy.optimiser.candidates import Choice, Enumerator
from modak_deploy.optimiser.decision import Decision
from modak_deploy.optimiser.earlier import Earlier, earlier
from modak_deploy.optimiser.evidence import Evidence
from modak_deploy.optimiser.expecting import Usual
from modak_deploy.optimiser.launching import launch_of
from modak_deploy.optimiser.locations import Locations
from modak_deploy.optimiser.options import Location, Option
from modak_deploy.optimiser.ranks import rank_start
from modak_deploy.optimiser.resources import with_threads
from modak_deploy.optimiser.restarting import counts
from modak_deploy.performance.records import Measurements


@dataclass(frozen=True)
class Outcome:
    """What was decided, and among what."""

    locations: Locations
    enumerators: Mapping[Option, Enumerator]
    """By their locations, without levers."""
    evidence: Evidence
    choice: Choice
    decision: Decision
    resources: Resources
    remarks: list[str]
    """What else the reason has to tell."""
    model: str | None
    """Version of the time model that was used."""


class Builder:
    """Makes the Plan's candidates of options."""

    def __init__(
        self,
        deployment: Deployment,
        outcome: Outcome,
        sources: Sequence[Source],
        catalogue: Catalogue,
        facts: Facts,
        measurements: Measurements,
    ) -> None:
        self.deployment = deployment
        self.facts = facts
        self.locations = outcome.locations.by_option()
        self.sources = sources
        self.catalogue = catalogue
        self.resources = outcome.resources
        self._outcome = outcome
        self._usual = Usual(measurements, catalogue, outcome.evidence.work)

    def candidate(self, option: Option) -> Candidate:
        """Return ``option`` with all that is needed to run it."""
        location = self.locations[option.with_levers(())]
        chosen = [self.catalogue.levers[name] for name in option.levers]
        enumerator = self._outcome.enumerators[location.option(())]
        run = applied((lever.all_effects for lever in chosen), enumerator.cores)
        engine = self.deployment.application.engines.get(option.engine) if option.engine else None
        return Candidate(
            name=option.name,
            runtime=option.runtime,
            image=_image(location, run.packing),
            engine=option.engine,
            compiler=next((lever.compiler for lever in chosen if lever.compiler), None),
            levers=list(option.levers),
            environment={**(engine.environment if engine else {}), **run.environment},
            preload=run.preload,
            launcher=run.launcher,
            launcher_text=self._launcher_text(run.launcher),
            launch=launch_of(
                self.deployment,
                enumerator,
                option.levers,
                self.resources,
                self.earlier(option),
                self._usual,
                counts=counts(self.deployment, location),
            ),
            argv=[
                *run.prefix,
                *self._argv(location, run.launcher),
                *(engine.arguments if engine else []),
                *run.arguments,
            ],
            resources=with_threads(self.resources, self.deployment, run.threads),
            rank_start=self._rank_start(location),
        )

    def earlier(self, option: Option) -> Earlier:
        """Return what jobs before have shown of the option's place and of its gain."""
        location = self.locations[option.with_levers(())]
        evidence, prediction = self._outcome.evidence, self._outcome.decision.predictions.get(option)
        measured = prediction is not None and prediction.basis in ("measurement", "trial")
        gain = prediction.gain.low if measured and prediction is not None and prediction.gain is not None else 1.0
        return earlier(evidence, location, option, self.catalogue.levers, gain)

    def _rank_start(self, location: Location) -> RankStart | None:
        start = rank_start(self.deployment, self.facts, location.image, self.resources.ranks)
        return start if isinstance(start, RankStart) else None

    def _launcher_text(self, launcher: str | None) -> str | None:
        path = self.catalogue.launchers[launcher] if launcher else None
        return None if path is None or path.is_relative_to(DATA) else path.read_text(encoding="utf-8")

    def _argv(self, location: Location, launcher: str | None) -> list[str]:
        application = self.deployment.application
        if application.script is None:
            return [application.executable or "", *application.arguments]
        starter = [f"launchers/{launcher}"] if launcher else []
        return [location.python or "", *starter, self._path_of(application.script), *application.arguments]

    def _path_of(self, script: str) -> str:
        """Return where the script lies below the working directory."""
        paths = [source.path for source in self.sources]
        if script in paths:
            return script
        base = PurePosixPath(script).name
        return base if base in paths else script


def _image(location: Location, packing: Packing | None) -> Image | None:
    entry = location.image
    if entry is None:
        return None
    return Image(
        reference=entry.reference or f"build://{entry.name}",
        digest=entry.digest,
        entry=entry.name,
        architecture=entry.architecture,
        accelerator=entry.accelerator,
        labels=entry.labels,
        packing=packing,
    )
