"""What the trials before a run came to: their record, read with bounds, and checked, as the job may have written it."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, get_args

from pydantic import ValidationError

from modak_deploy.jobs.job import Job
from modak_deploy.jobs.remote import call
from modak_deploy.model.trials import RestartPlan, RestartResult, RestartTrial, TrialState
from modak_deploy.terminal import excerpt
from modak_deploy.transport.base import Transport

BYTES = 256 * 1024
MOST = 500
"""Trials that are kept."""
MOST_TIMES = 20
_FIELD = re.compile(r"([a-z]+)=(\S*)", re.ASCII)
_INTEGER = re.compile(r"\d{1,15}", re.ASCII)
_DECIMAL = re.compile(r"\d{1,15}(?:\.\d{1,3})?", re.ASCII)
_STATES = frozenset(get_args(TrialState))


def read_restart(transport: Transport, job: Job) -> RestartResult | None:
    """Return what was tried before the run; None for a job without such trials."""
    if job.request.restart is None:
        return None
    answer = call(transport, "restarted", [job.spec.directory, str(BYTES)])
    return parse_restart(answer.text("record"), job.request.restart)


def parse_restart(text: str, plan: RestartPlan) -> RestartResult:
    """Return what a record says of the trials that ``plan`` asks for; what cannot be read is counted and left out."""
    trials: list[RestartTrial] = []
    end: dict[str, Any] = {}
    unreadable = 0
    for line in text.splitlines():
        event, _, rest = line.partition(" ")
        values = _values(rest)
        try:
            if event == "trial":
                trials.append(_trial(values, plan))
            elif event in ("decided", "end") and not end:
                end = _end(values, plan)
            elif event not in ("begin", "trying"):
                unreadable += 1
        except (LookupError, ValueError, ValidationError):
            unreadable += 1
    incomplete = [f"{unreadable} lines of the trials' record cannot be read"] if unreadable else []
    if not end:
        end = {"reason": "the trials did not come to their end"}
    return RestartResult(trials=trials[:MOST], incomplete=incomplete, **end)


def _values(text: str) -> Mapping[str, str]:
    """Return the words ``key=value``; a reason takes the rest of the line."""
    before, _, reason = text.partition("reason=")
    return {**dict(_FIELD.findall(before)), "reason": excerpt(reason, 200) or "-"}


def _trial(values: Mapping[str, str], plan: RestartPlan) -> RestartTrial:
    candidate = plan.candidates[_integer(values["index"])]
    if values["state"] not in _STATES:
        raise ValueError("state")
    start, memory, code = (_optional(values, key) for key in ("start", "memory", "code"))
    load = values.get("load", "")
    return RestartTrial(
        name=candidate.name,
        levers=candidate.levers,
        state=values["state"],  # type: ignore[arg-type]
        reason=values["reason"],
        round=_integer(values["round"]),
        seconds=_integer(values["took"]) / 100,
        start=None if start is None else start / 100,
        steady=_micro(values["steady"]) if values.get("steady") else None,
        units=_integer(values["units"]),
        times=[_micro(time) for time in values.get("times", "").split(",")[:MOST_TIMES] if time],
        exit_code=code,
        memory=None if not memory else memory * 1024,
        whole=values.get("whole") == "1",
        load=float(load) if re.fullmatch(r"\d{1,5}\.\d{1,3}", load, re.ASCII) else None,
    )


def _end(values: Mapping[str, str], plan: RestartPlan) -> dict[str, Any]:
    end: dict[str, Any] = {"reason": values["reason"], "seconds": (_optional(values, "spent") or 0) / 100}
    if "index" in values:
        candidate = plan.candidates[_integer(values["index"])]
        drift = _optional(values, "drift")
        end |= {
            "chosen": candidate.name,
            "levers": candidate.levers,
            "gain": _integer(values["gain"]) / 100,
            "drift": None if drift is None else drift / 100,
        }
    elif plan.candidates and values["reason"] != "the job was ended during its trials":
        end |= {"chosen": plan.candidates[0].name, "levers": plan.candidates[0].levers}
    return end


def _integer(text: str) -> int:
    if not _INTEGER.fullmatch(text):
        raise ValueError("a number")
    return int(text)


def _micro(text: str) -> float:
    """Return the seconds that so many microseconds are."""
    if not _DECIMAL.fullmatch(text):
        raise ValueError("a number")
    return float(text) / 1e6


def _optional(values: Mapping[str, str], key: str) -> int | None:
    return _integer(values[key]) if values.get(key) else None


def lines(result: RestartResult) -> Iterator[str]:
    """Yield what was tried before the run, one line each, for people."""
    for trial in result.trials:
        steady = "" if trial.steady is None else f", {trial.steady:.4g} s a unit"
        yield f"tried {trial.name} before the run: {trial.state}{steady}: {trial.reason}"
    if result.chosen is not None:
        gain = f", {result.gain:.2f} times as fast as the default" if result.gain and result.gain > 1 else ""
        yield f"the program ran with {result.chosen}{gain}: {result.reason}; the trials took {result.seconds:.1f} s"
    else:
        yield f"the trials decided nothing: {result.reason}"
    yield from result.incomplete
