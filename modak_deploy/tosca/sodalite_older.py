"""SODALITE's node types before 2021: a job, with a configuration beside it or with its own properties.

What they say becomes the properties of the present types, whose meaning modak_deploy.tosca.sodalite has.
"""

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from modak_deploy.documents import read_text
from modak_deploy.errors import InputError
from modak_deploy.paths import expanded
from modak_deploy.tosca.sodalite import SCRIPT

CONFIGURATION = (
    "name", "script", "workspace", "queue", "scratch", "email", "nb_nodes", "ppn", "gpus", "walltime", "preconfigured",
)  # fmt: skip
"""Properties of a configuration, of any generation; in the first, and in the collection's, the job's own."""
_HEADERS: Mapping[str, Mapping[str, str]] = {
    "PBS": {
        "-N": "job_name",
        "-q": "queue",
        "-A": "account",
        "-M": "email_address",
        "-m": "request_event_notification",
    },
    "SBATCH": {
        "-J": "job_name",
        "--job-name": "job_name",
        "-N": "node_count",
        "--nodes": "node_count",
        "--ntasks-per-node": "process_count_per_node",
        "-n": "core_count",
        "--ntasks": "core_count",
        "-t": "wall_time_limit",
        "--time": "wall_time_limit",
        "-p": "partition",
        "--partition": "partition",
        "-A": "account",
        "--account": "account",
        "-c": "core_count_per_process",
        "--cpus-per-task": "core_count_per_process",
        "--mem": "memory_limit",
        "--mail-user": "email_address",
        "--mail-type": "request_event_notification",
    },
}
"""Options in the header of a script that have a property here, in qsub(1B) and sbatch(1)."""
_NUMBERS = frozenset({"node_count", "process_count_per_node", "core_count", "core_count_per_process", "request_gpus"})
_WITHOUT_EFFECT = frozenset(
    {"-o", "-e", "-j", "-S", "-V", "-k", "-r", "--output", "--error", "--comment", "--export", "--no-requeue"}
)
"""Options for output, shell, environment, tag and repetition: all of them are the job's own here."""
_FLAGS = frozenset({"-V", "--no-requeue"})
"""Options without a value."""
_TAG = re.compile(r"MODAK_TAG=[\w-]+")
"""The tag in a script of modak's own for Torque; the job has another one."""


def execution(given: Mapping[str, Any], folders: Sequence[Path], kept: Mapping[str, str]) -> dict[str, Any]:
    """Return the present properties for the older ones ``given``; a script's file is looked for in ``folders``,

    unless its text is among the files that are ``kept`` since the job was planned.

    InputError names a property that is missing, or a script that cannot be read.
    """
    script = given.get("script") or ""
    if not script:
        raise InputError("the job has neither a configuration nor a script of its own", key="script")
    content = kept.get(SCRIPT) or _content(script, folders)
    nodes, ranks, name = given.get("nb_nodes") or 1, given.get("ppn") or 1, given.get("name") or ""
    made: dict[str, Any] = {"content": content, "workspace": given.get("workspace") or "~/", "job_name": name}
    if given.get("preconfigured"):
        made |= header(content)
        made["job_name"] = name or made["job_name"]
    else:
        made |= {
            "node_count": nodes,
            "process_count_per_node": ranks,
            "request_gpus": given.get("gpus") or 0,
            "wall_time_limit": given.get("walltime") or "",
            "queue": given.get("queue") or "",
            "email_address": given.get("email") or "",
            "request_event_notification": "abe" if given.get("email") else "",
        }
    if node := given.get("job_node_name"):
        made |= {"node_list": node, "node_count": 1}
    environment = {key: str(value) for key, value in (given.get("env") or {}).items()}
    if given.get("scratch"):
        environment.setdefault("SCRATCH", str(given["scratch"]))
    return {**made, "env": environment, "app_tag": name}


def _content(script: str, folders: Sequence[Path]) -> str:
    """Return a script's text: what the property holds itself, or the file that it names."""
    if "\n" in script:
        return script
    path = expanded(script)
    for candidate in [path] if path.is_absolute() else [folder / path for folder in folders]:
        if candidate.is_file():
            return read_text(candidate)
    where = "" if path.is_absolute() else f" in {', '.join(map(str, folders))}"
    raise InputError(f"the file '{script}' not found{where}", key="script", hint="give its absolute path, or its text")


def header(content: str) -> dict[str, Any]:
    """Return what a script's own header asks for; InputError names a line that has no property here."""
    made: dict[str, Any] = {}
    for kind, option, value, line in _options(content):
        options = _HEADERS[kind]
        if option == "-l" and kind == "PBS":
            made |= _resources(value, line)
        elif option == "--gres" and (gres := re.fullmatch(r"gpu(?::[A-Za-z]\w*)?:(\d+)", value)):
            made["request_gpus"] = gres[1]
        elif option in options:
            made[options[option]] = _in_units(kind, options[option], value)
        elif option not in _WITHOUT_EFFECT and not (option == "-v" and _TAG.fullmatch(value)):
            raise InputError(f"its line '{line}' has no property here", key="script")
    if {"node_count", "process_count_per_node"} <= made.keys():
        made.pop("core_count", None)  # sbatch's --ntasks follows from both
    return {key: _number(key, value) for key, value in made.items()}


def _options(content: str) -> Iterator[tuple[str, str, str, str]]:
    """Yield the scheduler, the option and the value of each directive, and its line.

    Both schedulers stop at the first command, so that a script which a script writes does not count.
    """
    for line in content.splitlines():
        if line.strip() and not line.lstrip().startswith("#"):
            return
        if not (match := re.match(r"#(?P<kind>PBS|SBATCH)\s+(?P<parts>.*)", line)):
            continue
        try:
            parts = shlex.split(match["parts"], comments=True)
        except ValueError:
            raise InputError(f"its line '{line}' has an open quote", key="script") from None
        while parts:
            option, value = parts.pop(0), ""
            if option.startswith("--"):
                option, _, value = option.partition("=")
            else:
                option, value = option[:2], option[2:]
            if not value and parts and option not in _FLAGS:
                value = parts.pop(0)
            yield match["kind"], option, value, line


def _in_units(kind: str, key: str, value: str) -> str:
    """Return a value with its unit where the scheduler has another one for a mere number; see sbatch(1), qsub(1B)."""
    if key == "wall_time_limit" and (short := re.fullmatch(r"(\d{1,9}):(\d{1,2})", value)):
        return str(int(short[1]) * 60 + int(short[2]))
    if kind == "SBATCH" and value.isdecimal():
        return value + {"wall_time_limit": "m", "memory_limit": "M"}.get(key, "")
    return value


def _number(key: str, value: Any) -> Any:
    if key in _NUMBERS and not str(value).isdecimal():
        raise InputError(f"'{value}' in its header is not a number", key="script")
    return int(value) if key in _NUMBERS else value


def _resources(text: str, line: str) -> dict[str, Any]:
    """Return what ``-l`` of qsub(1B) asks for."""
    made: dict[str, Any] = {}
    for part in text.split(","):
        key, _, value = part.partition("=")
        if key == "walltime":
            made["wall_time_limit"] = _in_units("PBS", "wall_time_limit", value)
        elif key == "nodes":
            first, *rest = value.split(":")
            made |= {"node_count": first} if first.isdecimal() else {"request_specific_nodes": first}
            for item in rest:
                name, _, number = item.partition("=")
                wanted = {"ppn": "process_count_per_node", "gpus": "request_gpus"}.get(name, "architecture_constraint")
                made[wanted] = number if number else name
        elif key != "epilogue":
            raise InputError(f"'{part}' in its line '{line}' has no property here", key="script")
    return made
