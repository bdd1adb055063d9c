"""The time model's word on the options of a decision, where there is a fitted model that may be used."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from modak.catalogue.catalogue import Catalogue
from modak.errors import InputError
from modak.model.measurement import Configuration, Hardware
from modak.model.plan import Rejected
from modak.optimiser.options import Option, Place
from modak.performance.features import Case, Features, features
from modak.performance.matching import Work
from modak.performance.places import MODEL_FILE
from modak.performance.records import Measurements
from modak.performance.statistics import Interval

if TYPE_CHECKING:
    from modak.performance.timemodel import Phase, TimeModel


class Modelled:
    """Predictions of one model for one work at its places; each option is asked about once."""

    def __init__(self, model: "TimeModel", work: Work, places: Mapping[Option, Place], catalogue: Catalogue) -> None:
        self.model = model
        self._work = work
        self._places = places
        self._catalogue = catalogue
        self._known: dict[Option, Features | str] = {}

    @property
    def version(self) -> str:
        """SHA-256 of the model."""
        return self.model.version

    def features_of(self, option: Option) -> Features | str:
        """Return the option's features, or why the model cannot tell of it."""
        if option not in self._known:
            place = self._places[option.with_levers(())]
            found = features(self._case(option, place), self._catalogue)
            if found is None:
                self._known[option] = "the size of the work or the speed of the hardware is not known to the model"
            else:
                self._known[option] = self.model.refusal(found) or found
        return self._known[option]

    def _case(self, option: Option, place: Place) -> Case:
        work = self._work
        hardware = Hardware(
            microarchitecture=work.microarchitecture,
            cpu_model=work.cpu_model,
            cores=work.cores,
            accelerator=work.accelerator,
            accelerators=work.accelerators,
        )
        configuration = Configuration(
            runtime=option.runtime,
            image=place.image.name if place.image and place.image.name in self._catalogue.images else None,
            framework=option.engine,
            levers=list(option.levers),
        )
        return Case(work.type, work.framework, work.workload, hardware, configuration)

    def phases(self, option: Option) -> tuple[Interval, Mapping["Phase", float]] | None:
        """Return the whole seconds with their interval, and those of the phases; None where it cannot tell."""
        found = self.features_of(option)
        if isinstance(found, str):
            return None
        return self.model.total(found, self._work.workload.units), self.model.phases(found)

    def ratio(self, one: Option, other: Option) -> Interval | None:
        """Return the time of ``one`` over the time of ``other``; None where the model cannot tell of both."""
        a, b = self.features_of(one), self.features_of(other)
        if isinstance(a, str) or isinstance(b, str):
            return None
        return self.model.ratio(a, b, self._work.workload.units)


def usable_model(
    folder: Path | None, measurements: Measurements, catalogue: Catalogue
) -> tuple["TimeModel | None", list[Rejected]]:
    """Return the model in ``folder``, and why it is not used where it is there and may not be."""
    if folder is None or not (folder / MODEL_FILE).is_file():
        return None, []
    from modak.performance.timemodel import TimeModel

    try:
        model = TimeModel(folder)
    except InputError as error:
        return None, [Rejected(name="the time model", reason=str(error).replace("\n", "; "))]
    if model.description.data != measurements.version:
        reason = "it was fitted with other measurements than there are now: run 'modak model fit'"
    elif model.description.catalogue != catalogue.version:
        reason = "it was fitted with another catalogue: run 'modak model fit'"
    elif "steady" not in model.description.phases:
        reason = "it knows no steady time: it was fitted with too few workloads"
    else:
        return model, []
    return None, [Rejected(name="the time model", reason=reason)]
