"""Restart trials: what a request permits, what a Plan carries, and what a job reports."""

import re
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Discriminator, Field, Tag

from modak_deploy.model.base import (
    DeferredModel,
    Line,
    Model,
    Name,
    NonNegative,
    Positive,
    Text,
    VariableName,
    parse_duration,
)

_SHARE = re.compile(r"(\d{1,2}(?:\.\d{1,3})?)\s*%", re.ASCII)
LARGEST_SHARE = 50.0
"""Per cent of a job that trials may take."""


def parse_budget(value: Any) -> Any:
    """Return ``"5%"`` for a share, and seconds for a duration such as ``60`` or ``"2m"``."""
    if isinstance(value, str) and "%" in value:
        match = _SHARE.fullmatch(value.strip())
        if match is None or not 0 < float(match[1]) <= LARGEST_SHARE:
            raise ValueError(f"'{value[:40]}' is not a share of the job above 0% and up to {LARGEST_SHARE:g}%")
        return f"{float(match[1]):g}%"
    try:
        return parse_duration(value)
    except ValueError as error:
        raise ValueError(f"{error}; or a share of the job such as '5%'") from None


Budget = Annotated[str | int, BeforeValidator(parse_budget, json_schema_input_type=int | str)]
"""A share of the job's time such as ``5%``, or seconds."""


class RestartBudget(Model):
    """Permission to start the program several times before its one run, for what only a new process can change."""

    budget: Budget
    """Longest time for all trials: a share of the job's time, such as ``5%``, or a duration."""
    live: bool = True
    """Whether levers are also tried while the program runs."""

    @property
    def share(self) -> float | None:
        """The budget as a part of the job's time; None for a duration."""
        return float(self.budget[:-1]) / 100 if isinstance(self.budget, str) else None

    @property
    def seconds(self) -> int | None:
        """The budget as a duration; None for a share."""
        return self.budget if isinstance(self.budget, int) else None


def _form(value: Any) -> str:
    return "[mapping]" if isinstance(value, dict | RestartBudget) else "[word]"


def _from_text(value: Any) -> Any:
    """Return a text that begins with a digit as a budget: the short form, and TOSCA's, which has no unions."""
    return {"budget": value} if isinstance(value, str) and value.strip()[:1].isdigit() else value


Trials = Annotated[
    Annotated[Literal["none", "live", "survey"], Tag("[word]")] | Annotated[RestartBudget, Tag("[mapping]")],
    Discriminator(_form),
    BeforeValidator(_from_text, json_schema_input_type=str | RestartBudget),
]
"""``none``, ``live``, ``survey``, or a mapping that permits restart trials; the tags are left out of messages."""
Signal = Literal["launcher", "output", "whole"]
"""How progress is measured: units that the launcher counts, ``application.progress`` on the output, or the time of a
whole short run with the arguments ``application.trial``."""


class RestartCandidate(Model):
    """A configuration that is tried by starting the program with it."""

    name: Line
    levers: list[Name] = []
    environment: dict[VariableName, Text] = {}
    """Variables that it sets."""
    unset: list[VariableName] = []
    """Variables of the chosen candidate that it does not have."""
    preload: list[Line] = []
    launch_levers: list[Name] = []
    """Levers that are switched on inside the application's interpreter."""
    engine: Name | None = None
    """What does the application's work in place of its framework."""
    arguments: list[Text] = []
    """Words at the end of the command line, in place of the last ``replaced`` ones of the chosen candidate's."""
    replaced: NonNegative = 0


class RestartPlan(Model):
    """Trials in the first part of a job, each in a new process; see docs/trials.md."""

    signal: Signal
    progress: Line | None = None
    """``application.progress``."""
    arguments: list[Text] = []
    """Those of a short run, in place of the last ``replaced`` words of the command line."""
    replaced: NonNegative = 0
    budget: Positive
    """Most seconds for all trials together, everything that belongs to them included."""
    share: float | None = Field(default=None, gt=0, le=LARGEST_SHARE / 100)
    """Part of the job's time, as it is measured, that the budget is lowered to."""
    units: Positive | None = None
    """Units of work in the whole program, where known; else candidates are compared by their steady rate."""
    expected: float | None = Field(default=None, gt=0)
    """Predicted seconds of the run."""
    tolerance: float = Field(default=0.01, gt=0)
    """Largest relative difference of a captured value from the default's."""
    only: bool = False
    """The program itself is not run afterwards: the job is a part of ``modak tune``."""
    search: Line | None = Field(default=None, exclude_if=lambda value: value is None)
    """When the search began that the job is a part of: what an earlier one measured is measured again."""
    window: float = Field(default=1.0, gt=0, le=3600)
    """Seconds for which a steady rate is measured at least."""
    rounds: Positive = 1
    """How often all candidates are measured in turn, the best ones once more after that."""
    candidates: list[RestartCandidate]
    """The chosen candidate first, as what all others are compared with."""
    rule: Text
    """How the winner is found, in a sentence."""


TrialState = Literal["measured", "beaten", "failed", "stopped", "unusable", "different"]


class RestartTrial(DeferredModel):
    """One start of the program with a candidate; times in seconds."""

    name: Line
    levers: list[Name] = []
    state: TrialState
    reason: Line = "-"
    round: Positive = 1
    seconds: float = Field(default=0, ge=0, le=1e9)
    """Of the trial itself."""
    start: float | None = Field(default=None, ge=0, le=1e9)
    """From its start to the end of its first unit."""
    steady: float | None = Field(default=None, ge=0, le=1e9)
    """Of one unit; of the whole short run, where that is timed."""
    units: NonNegative = 0
    times: list[Annotated[float, Field(ge=0, le=1e9)]] = []
    """Of one unit, in parts of the trial one after another."""
    exit_code: int | None = None
    memory: NonNegative | None = None
    """Most bytes that its processes had."""
    value: float | None = Field(default=None, allow_inf_nan=False)
    """The last result that ``application.progress`` captured."""
    load: float | None = Field(default=None, ge=0, le=1e6)
    """Load average of the node before it."""
    whole: bool = False
    """It ended before it was looked at twice: its steady time is that of the whole, with its start, over its units."""


class RestartResult(DeferredModel):
    """What a job tried before its run."""

    trials: list[RestartTrial] = []
    chosen: Line | None = None
    """Name of the candidate that the program ran with; None where the trials did not come to their end."""
    levers: list[Name] = []
    gain: float | None = Field(default=None, ge=0, le=1e6)
    """Time of the default over that of the chosen one, the more careful of the measured values."""
    drift: float | None = Field(default=None, ge=0, le=1e6)
    """Time of the default at the end over its time at the beginning."""
    seconds: float = Field(default=0, ge=0, le=1e9)
    """What the trials took in all."""
    reason: Line = "-"
    incomplete: list[Line] = []
    """What of the record could not be read."""
