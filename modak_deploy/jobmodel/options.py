"""From ``job_options`` to the options of a job, whichever scheduler it is for."""

import re
from collections.abc import Sequence
from datetime import datetime
from typing import Any, get_args

from modak_deploy.errors import InputError
from modak_deploy.jobmodel.layout import Layout
from modak_deploy.jobmodel.model import JobBody
from modak_deploy.jobmodel.site import Site
from modak_deploy.model.request import MailEvent

_LETTERS = {"a": "fail", "b": "begin", "e": "end"}
_EVENTS: tuple[str, ...] = get_args(MailEvent)
_ALL = {"slurm": ["begin", "end", "fail", "invalid_depend", "requeue", "stage_out"]}
"""What ALL means, in sbatch(1); elsewhere it is each of the three letters."""
_STAMP = re.compile(r"(?P<date>(?:\d\d)?\d{10})(?:\.(?P<seconds>\d\d))?")
_SETTING = re.compile(r"(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?P<value>=.*)?")


def options_of(job: JobBody, site: Site, layout: Layout, name: str) -> dict[str, Any]:
    """Return the options as a deployment's section ``job``, without the scripts."""
    o = job.job_options
    settings, _ = copied(o.copy_environment_variable)
    threads_are_cores = o.core_count_per_process is None
    options: dict[str, Any] = {
        "name": name,
        "account": o.account,
        "qos": o.qos,
        "partition": partition_of(job),
        "wall_time": o.wall_time_limit,
        "nodes": layout.nodes,
        "ranks": layout.ranks,
        "cores_per_rank": layout.cores,
        "threads": None if threads_are_cores and layout.cores == layout.threads else layout.threads,
        "memory": o.memory_limit,
        "memory_per_core": o.minimum_memory_per_processor if o.memory_limit is None else None,
        "gpus": o.request_gpus,
        "exclusive": o.node_exclusive,
        "array": o.job_array,
        "dependency": [part.strip() for part in o.job_dependency.split(",")] if o.job_dependency else [],
        "begin": begin_of(o.defer_job),
        **_mail(job, site),
        "export_environment": o.copy_environment,
        "environment": {**settings, **_affinity(job)},
        **_output(job, name),
        **_where(job, site),
    }
    return {key: value for key, value in options.items() if value is not None}


def partition_of(job: JobBody) -> str | None:
    o = job.job_options
    if o.queue is not None and o.partition is not None and o.queue != o.partition:
        raise InputError(
            f"it is '{o.queue}' and partition is '{o.partition}'", key="job_options.queue", hint="give one of them"
        )
    return o.partition or o.queue


def check_memory(job: JobBody) -> None:
    """Raise InputError where memory is asked for twice."""
    o = job.job_options
    if o.memory_limit is not None and o.minimum_memory_per_processor is not None:
        raise InputError("give it or minimum_memory_per_processor, not both", key="job_options.memory_limit")


def _where(job: JobBody, site: Site) -> dict[str, Any]:
    """Return what chooses nodes: a list of names, and properties that they must have."""
    o = job.job_options
    text = o.request_specific_nodes
    reported = site.infrastructure.specific_nodes if site.infrastructure else None
    names = (reported or ("property" if site.target.type == "torque" else "names")) == "names"
    properties = [o.architecture_constraint, None if names else text]
    return {
        "constraint": "&".join(part for part in properties if part is not None) or None,
        "node_list": text if names else None,
    }


def _output(job: JobBody, name: str) -> dict[str, Any]:
    o = job.job_options
    joined = o.combine_stdout_stderr if o.combine_stdout_stderr is not None else o.standard_error_file is None
    options: dict[str, Any] = {"output": o.standard_output_file or f"{name}.out", "join_output": joined}
    if not joined:
        options["error"] = o.standard_error_file or f"{name}.err"
    return options


def _mail(job: JobBody, site: Site) -> dict[str, Any]:
    """Return address and events; an address without events gets mail about failures, as from qsub(1B)."""
    o = job.job_options
    if o.email_address is not None and o.request_event_notification is None:
        return {"mail_user": o.email_address, "mail_events": ["fail"]}
    events = events_of(o.request_event_notification, site.target.type)
    return {"mail_user": o.email_address if events else None, "mail_events": events}


def mail_notes(job: JobBody, site: Site) -> list[str]:
    """Return what an address comes to that stands without events, in sentences."""
    o = job.job_options
    if o.email_address is None or _mail(job, site)["mail_user"] is None:
        return [] if o.email_address is None else ["job_options.email_address: no event causes mail"]
    if o.request_event_notification is None:
        return ["job_options.email_address: no event is named: mail is written when the job fails"]
    return []


def events_of(text: str | None, target: str = "slurm") -> list[str]:
    """Return events for Torque's letters or Slurm's words, in lower or upper case."""
    if text is None or text == "n":
        return []
    if re.fullmatch("[abe]+", text):
        return sorted({_LETTERS[letter] for letter in text})
    events: set[str] = set()
    for part in text.split(","):
        event = part.strip().lower()
        if event not in (*_EVENTS, "all", "none"):
            names = ", ".join(name.upper() for name in (*_EVENTS, "all", "none"))
            raise InputError(
                f"'{part.strip()}' is not an event",
                key="job_options.request_event_notification",
                hint=f"write letters of 'abe', or with commas between them {names}",
            )
        events.update(_ALL.get(target, list(_LETTERS.values())) if event == "all" else {event} - {"none"})
    return sorted(events)


def begin_of(text: str | None) -> str | None:
    """Return the earliest start as in ISO 8601; Torque's [CC]YYMMDDhhmm[.SS] is read as well."""
    if text is None:
        return None
    if match := _STAMP.fullmatch(text):
        stamp = match["date"] if len(match["date"]) == 12 else f"20{match['date']}"
        text = f"{stamp[:4]}-{stamp[4:6]}-{stamp[6:8]}T{stamp[8:10]}:{stamp[10:]}:{match['seconds'] or '00'}"
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        when = None
    if when is None or when.tzinfo is not None or not re.search("[T ]", text):
        raise InputError(
            f"'{text}' is not a date and time of the target",
            key="job_options.defer_job",
            hint="write it as 2030-12-31T23:59",
        )
    return when.replace(microsecond=0).isoformat()


def copied(text: str | None) -> tuple[dict[str, str], list[str]]:
    """Return the variables that ``copy_environment_variable`` sets, and those that it passes on by name."""
    settings: dict[str, str] = {}
    names: list[str] = []
    for part in (text or "").split(","):
        match = _SETTING.fullmatch(part.strip())
        if match is None and part.strip():
            raise InputError(
                f"'{part.strip()}' is neither a variable's name nor NAME=VALUE",
                key="job_options.copy_environment_variable",
            )
        if match and match["value"] is not None:
            settings[match["name"]] = match["value"][1:]
        elif match:
            names.append(match["name"])
    return settings, names


def _affinity(job: JobBody) -> dict[str, str]:
    """Return OpenMP's variable: neighbouring cores for ``block``, no moving about for ``simple``."""
    hpc = job.optimisation.hpc if job.optimisation else None
    affinity = hpc.openmp.affinity if hpc and hpc.openmp else None
    return {"OMP_PROC_BIND": {"block": "close", "simple": "true"}[affinity]} if affinity else {}


def joined(parts: Sequence[str | None]) -> str | None:
    """Return shell lines one after the other; None where there are none."""
    return "\n".join(part for part in parts if part) or None
