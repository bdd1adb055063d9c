"""The time model's word on the options of a decision, where there is a fitted model that may be used."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from modak_deploy.catalogue.catalogue import Catalogue, load_catalogue
from modak_deploy.errors import InputError
from modak_deploy.model.measurement import Configuration, Mix
from modak_deploy.model.plan import Rejected
from modak_deploy.optimiser.options import Location, Option
from modak_deploy.performance.features import Case, Features, agree, features
from modak_deploy.performance.matching import Work
from modak_deploy.performance.paths import MODEL_FILE
from modak_deploy.performance.records import Measurements
from modak_deploy.performance.seen import completed
from modak_deploy.performance.series import Observation
from modak_deploy.performance.statistics import Interval

if TYPE_CHECKING:
    from modak_deploy.performance.timemodel import Phase, TimeModel


class Modelled:
    """Predictions of one model for one work at its places; each option is asked about once."""

    def __init__(
        self,
        model: "TimeModel",
        work: Work,
        locations: Mapping[Option, Location],
        catalogue: Catalogue,
        records: Iterable[Observation] = (),
        mix: Mix | None = None,
    ) -> None:
        """``records`` are of the same workload: what they saw of its model need not be in the document.

        ``mix`` is that of its operations, where it is known otherwise.
        """
        self.model = model
        workload, seen = completed(work, records)
        self._work, self._mix = replace(work, workload=workload), mix or seen or {}
        self._locations = locations
        self._catalogue = catalogue
        self._features: dict[Option, Features | str] = {}

    @property
    def version(self) -> str:
        """SHA-256 of the model."""
        return self.model.version

    def features_of(self, option: Option) -> Features | str:
        """Return the option's features, or why the model cannot tell of it."""
        if option not in self._features:
            location = self._locations[option.with_levers(())]
            inputs = features(self._case(option, location), self._catalogue)
            if inputs is None:
                self._features[option] = "the size of the work or the speed of the hardware is not known to the model"
            else:
                self._features[option] = self.model.refusal(inputs) or inputs
        return self._features[option]

    def _case(self, option: Option, location: Location) -> Case:
        work = self._work
        configuration = Configuration(
            runtime=option.runtime,
            image=location.image.name if location.image and location.image.name in self._catalogue.images else None,
            framework=option.engine,
            levers=list(option.levers),
        )
        return Case(work.type, work.framework, work.workload, work.hardware, configuration, self._mix)

    def phases(self, option: Option) -> tuple[Interval, Mapping["Phase", float]] | None:
        """Return the whole seconds with their interval, and those of the phases; None where it cannot tell."""
        inputs = self.features_of(option)
        if isinstance(inputs, str):
            return None
        return self.model.total(inputs, self._work.workload.units), self.model.phases(inputs)

    def records(self, option: Option) -> int:
        """Return how many records the model's steady times of an option were learned from; 0 where it cannot tell."""
        inputs = self.features_of(option)
        return 0 if isinstance(inputs, str) else self.model.records(inputs)

    def ratio(self, first: Option, other: Option) -> Interval | None:
        """Return the time of ``first`` over the time of ``other``; None where the model cannot tell of both."""
        a, b = self.features_of(first), self.features_of(other)
        if isinstance(a, str) or isinstance(b, str):
            return None
        return self.model.ratio(a, b, self._work.workload.units)


def usable_model(
    folder: Path | None, measurements: Measurements, catalogue: Catalogue
) -> tuple["TimeModel | None", list[Rejected]]:
    """Return the model in ``folder``, and why it is not used where it is there and may not be.

    One that does not know the latest measurements is used: what was measured of the work at hand counts before it.
    """
    if folder is None or not (folder / MODEL_FILE).is_file():
        return None, []
    from modak_deploy.performance.timemodel import TimeModel

    try:
        model = TimeModel(folder)
    except InputError as error:
        return None, [Rejected(name="the time model", reason=str(error).replace("\n", "; "))]
    if model.description.origin != measurements.origin or model.description.measurements > measurements.count:
        reason = "it was fitted in another place, or to measurements that were removed since: run 'modak model fit'"
    elif model.description.catalogue not in (catalogue.version, load_catalogue().version):
        reason = "it was fitted with another catalogue: run 'modak model fit', which takes modak's own"
    elif model.description.catalogue != catalogue.version and not agree(catalogue, load_catalogue()):
        reason = "it was fitted with modak's own catalogue, of which the request's replaces what the model goes by"
    elif not model.description.usable:
        reason = "it knows no steady time: it was fitted with too few workloads"
    else:
        return model, []
    return None, [Rejected(name="the time model", reason=reason)]
