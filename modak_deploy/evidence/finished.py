"""A benchmark that has been carried out, as it lies in its results folder."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import Field

from modak_deploy.documents.jsontext import read_model
from modak_deploy.errors import InputError
from modak_deploy.evidence.protocol import Outcome, Protocol, Repeat, outcomes, read_repeats
from modak_deploy.model.base import Line, Model, Name
from modak_deploy.model.plan import Plan
from modak_deploy.util.files import PRIVATE, write_atomically

REPEATS, DESCRIPTION = "benchmark", "benchmark.json"
_OF_TASK = 3
"""Parts of the name of a task's file, ``repeats.7.jsonl``."""


class Description(Model):
    """What was measured and how; it lies beside the repeats."""

    schema_: Literal["modak.benchmark/1"] = Field(default="modak.benchmark/1", alias="schema")
    title: Line
    default: Line
    """Name of the configuration that all others are compared with."""
    choice: Line | None = None
    """Name of modak's choice."""
    protocol: Protocol
    repeats: list[Name] = ["repeats.jsonl"]
    """Files with the repeats: one, or one of each task of an array."""
    plans: list[Plan] = []
    """Of each configuration; none where no Plan stands behind it."""
    notes: list[Line] = []
    """What the times of a configuration include that another machine's would not."""


@dataclass(frozen=True)
class Finished:
    """What a benchmark measured."""

    description: Description
    repeats: Sequence[Repeat]
    outcomes: Sequence[Outcome]
    folder: Path

    @property
    def tasks(self) -> list[str]:
        """The numbers of an array's tasks, as its scheduler has them; none of a single job."""
        names = [name.split(".") for name in self.description.repeats]
        return [parts[1] for parts in names] if all(len(parts) == _OF_TASK for parts in names) else []

    @property
    def default(self) -> Outcome:
        """What all others are compared with."""
        return next(outcome for outcome in self.outcomes if outcome.name == self.description.default)


def write_description(folder: Path, description: Description) -> None:
    """Write the description beside the repeats."""
    path = folder / DESCRIPTION
    try:
        write_atomically(path, description.model_dump_json(by_alias=True, indent=1) + "\n", mode=PRIVATE)
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror}") from None


def read_finished(folder: Path) -> Finished:
    """Return a benchmark from its results folder; InputError names the file and what is wrong with it."""
    path = folder / DESCRIPTION
    description = read_model(path, Description)
    measured = {plan.chosen.name for plan in description.plans}
    repeats = read_repeats(folder / REPEATS, description.repeats)
    repeats = [repeat for repeat in repeats if not measured or repeat.name in measured]
    results = outcomes(repeats)
    if not any(outcome.name == description.default and outcome.counted for outcome in results):
        raise InputError(f"{folder / REPEATS}: no repeat of '{description.default}', with which others are compared")
    return Finished(description, repeats, results, folder)
