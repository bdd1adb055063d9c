"""The end of a job's output, as it is now on the target."""

from collections.abc import Iterator
from dataclasses import dataclass

from modak_deploy.errors import InputError
from modak_deploy.jobs.job import Job
from modak_deploy.jobs.remote import call
from modak_deploy.numbers import digits
from modak_deploy.schedulers import options
from modak_deploy.shell import quote
from modak_deploy.transport.base import Transport
from modak_deploy.transport.local import encode

MOST = 4 * 1024 * 1024
"""Bytes of an output that are shown at most."""
PIECE = 1024 * 1024
"""Bytes of an output in one answer."""


@dataclass(frozen=True)
class Tail:
    """The last lines of a file, and its size when they were read."""

    text: str
    size: int


def output_file(job: Job, *, error: bool = False, task: int | None = None) -> str:
    """Return the file on the target with the output of a job, or of one task of an array."""
    path = job.spec.error if error else job.spec.output
    if path is None:
        raise InputError("the job writes errors to its output", hint="leave '--error' out, or set job.join_output")
    array = options.array(job.spec, job.scheduler.name)
    if array is None:
        if task is not None:
            raise InputError("the job is not an array, and has no tasks", hint="leave '--task' out")
        return path
    if task not in (indices := list(array.indices())):
        hint = f"give '--task' with a number from {indices[0]} to {indices[-1]}"
        raise InputError("each task of the array has its own output" if task is None else "no such task", hint=hint)
    return f"{path}.{task}"


def tail(transport: Transport, path: str, lines: int) -> Tail | None:
    """Return the last ``lines`` lines of a file on the target; None where it does not exist yet."""
    # One look at the size: what is written after it belongs to whoever follows the file from there on.
    command = (
        f"file={quote(path)}\n"
        '[ -f "$file" ] || exit 3\n'
        'size=$(wc -c <"$file") || exit\n'
        'printf "%d\\n" "$size"\n'
        f"first=$((size > {MOST} ? size - {MOST} + 1 : 1))\n"
        f'tail -c "+$first" "$file" | head -c "$((size - first + 1))" | tail -n {lines}'
    )
    answer = call(transport, "ask", [command])
    if answer.integer("code") != 0:
        return None
    size, _, text = answer.text("out").partition("\n")
    return Tail(text, int(size) if size.isascii() and size.isdecimal() and len(size) < 20 else 0)


def rest(transport: Transport, path: str, first: int) -> Iterator[str]:
    """Yield what a file on the target holds from its byte ``first`` on, counted from 1, up to the size that it has now.

    A piece ends with a line where it can, so that it breaks no character.
    """
    last: int | None = None
    while last is None or first <= last:
        show = f'wc -c <"$file"; tail -c "+{first}" "$file" | head -c {PIECE}'
        answer = call(transport, "ask", [f'file={quote(path)}\n[ ! -f "$file" ] || {{ {show}; }}'])
        size, _, text = answer.text("out").partition("\n")
        if last is None:
            last = digits(size.strip()) or 0
        if first + len(encode(text)) <= last:
            text = text[: text.rfind("\n") + 1] or text
        if not text:
            return
        first += len(encode(text))
        yield text
