"""What the schedulers share: checks of job options, the layout of ranks on nodes, and the texts that they are given.

Nothing in a directive can be quoted on every scheduler, so a value either is made of harmless characters or is refused
with the name of its key.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from modak_deploy.diagnostics import Key, Text
from modak_deploy.errors import InputError, OptionError
from modak_deploy.numbers import digits
from modak_deploy.schedulers.base import JobSpec

NAME = r"[A-Za-z][A-Za-z0-9_.-]{0,62}"
"""A job's name."""
NAME_PATTERN = r"[A-Za-z0-9_][A-Za-z0-9_.@:+-]*"
"""An account, a QOS, a mail address."""
LIST = r"[A-Za-z0-9_][A-Za-z0-9_.@,+-]*"
"""A partition, or several with commas."""
FOLDER = r"/[A-Za-z0-9_./+@=~-]*"
"""The absolute path of a job's folder, where it stands in a directive."""
HOST_LIST = r"[A-Za-z0-9_][A-Za-z0-9_.,+\[\]-]*"
TASKS = r"\d+(-\d+(:\d+)?)?(,\d+(-\d+(:\d+)?)?)*"
"""The numbers of an array's tasks."""
FILE_PATTERN = re.compile(r"%\d*[A-Za-z%]|\$\{?PBS_|\^array_index\^")
_HOST_RANGE = re.compile(r"(?P<head>[^\[\],]*)\[(?P<ranges>[0-9,-]+)\](?P<tail>[^\[\],]*)")
_LARGEST = 100_000
"""Most tasks of an array, and most hosts of a list."""
_LARGEST_TASK = 2**31 - 1
_LONGEST = 1000


def checked(scheduler: str, key: str, value: str, pattern: str = NAME_PATTERN, hint: Text = "") -> str:
    """Return ``value`` when the whole of it matches ``pattern``; raise InputError naming ``key`` otherwise."""
    if re.fullmatch(pattern, value, re.ASCII):
        return value
    raise refused(scheduler, key, f"'{value}' cannot be written into its directives", hint)


def refused(scheduler: str, key: str, why: str, hint: Text = "") -> OptionError:
    """Return the error that names the option, the scheduler, what is wrong and what would be right."""
    return OptionError(f"not supported by {scheduler}: {why}", key=key, hint=hint)


def check_name(job: JobSpec, scheduler: str) -> str:
    """Return the job's name, which Slurm, Torque and OpenPBS all take as it is."""
    hint = "write a letter and then letters, digits, '_', '.' or '-'"
    return checked(scheduler, "job.name", job.name, NAME, hint)


def check_tag(tag: str) -> str:
    """Return the tag; only what a Plan makes is one."""
    if re.fullmatch(r"modak-[0-9a-f]{16}", tag, re.ASCII):
        return tag
    raise InputError(f"'{tag}' is not a tag: it must be 'modak-' and 16 hexadecimal digits")


def check_paths(job: JobSpec, scheduler: str) -> None:
    """Refuse patterns in the names of output files: the job script opens them itself, and takes names literally."""
    for key, name in (("job.output", job.options.output), ("job.error", job.options.error)):
        if name is not None and (matches := FILE_PATTERN.search(name)):
            hint = "every job has a folder of its own, so write a plain name"
            raise refused(scheduler, key, f"'{name}' holds the pattern '{matches[0]}'", hint)


def check_scratch(job: JobSpec, scheduler: str) -> None:
    """Refuse a scratch folder for several nodes: each would have its own, and none would see the others' files."""
    if job.options.scratch is not None and job.resources.nodes > 1:
        why = f"it is on one node's own disk and the job has {job.resources.nodes} nodes"
        raise refused(scheduler, "job.scratch", why, ("leave ", Key("job.scratch"), " out or reserve one node"))


def check_mail(job: JobSpec, scheduler: str) -> None:
    """Refuse an address without events, which nobody would ever write to."""
    options = job.options
    if options.mail_user is not None:
        checked(scheduler, "job.mail_user", options.mail_user, rf"{NAME_PATTERN}(,{NAME_PATTERN})*")
        if not options.mail_events:
            raise refused(scheduler, "job.mail_user", "no events are selected", ("add ", Key("job.mail_events")))


_LETTERS = {"begin": "b", "end": "e", "fail": "a"}


def mail_letters(job: JobSpec, scheduler: str) -> str:
    """Return the letters of ``-m`` in qsub(1B); events that only Slurm has are refused."""
    events = job.options.mail_events
    if absent := [event for event in events if event not in _LETTERS]:
        hint = f"write {', '.join(_LETTERS)}"
        raise refused(scheduler, "job.mail_events", f"it has no mail about {', '.join(absent)}", hint)
    return "".join(sorted({_LETTERS[event] for event in events})) or "n"


@dataclass(frozen=True)
class Layout:
    """Ranks on nodes: what is reserved, and what is launched."""

    nodes: int
    ranks: int
    cores: int | None
    """Cores per rank; None leaves it to the scheduler, which gives one."""

    @property
    def uneven(self) -> bool:
        """Whether some nodes have more ranks than others."""
        return self.ranks % self.nodes != 0

    def per_node(self) -> list[int]:
        """Return the ranks of each node, as even as can be, fullest first."""
        least, fuller = divmod(self.ranks, self.nodes)
        return [least + 1] * fuller + [least] * (self.nodes - fuller)

    def groups(self) -> list[tuple[int, int]]:
        """Return (nodes, ranks on each of them), fullest first."""
        share = self.per_node()
        return [(share.count(ranks), ranks) for ranks in sorted(set(share), reverse=True)]


def layout(job: JobSpec, scheduler: str) -> Layout:
    """Return the job's layout; raise InputError where it is none."""
    res, options = job.resources, job.options
    if res.ranks > res.nodes * res.ranks_per_node:
        why = f"{res.ranks} ranks do not fit on {res.nodes} nodes with {res.ranks_per_node} each"
        raise refused(scheduler, "job.ranks", why)
    if res.ranks < res.nodes:
        why = f"{res.ranks} ranks leave some of the {res.nodes} nodes idle"
        raise refused(scheduler, "job.ranks", why, "reserve no more nodes than there are ranks")
    cores = options.cores_per_rank
    if cores is not None and res.threads is not None and res.threads > cores:
        why = f"{res.threads} threads do not fit on {cores} cores per rank"
        raise refused(scheduler, "job.cores_per_rank", why)
    return Layout(res.nodes, res.ranks, cores or res.threads)


def launcher(job: JobSpec, scheduler: str) -> str:
    """Return what starts the ranks on a scheduler without a launcher of its own: ``none`` for the program itself."""
    name = job.options.mpi_launcher or ("mpirun" if job.resources.ranks > 1 else "none")
    if name == "srun":
        raise refused(scheduler, "job.mpi_launcher", "srun needs Slurm", "write mpirun")
    return name


def begin_time(job: JobSpec, scheduler: str) -> datetime | None:
    """Return the earliest start, in the target's time zone."""
    text = job.options.begin
    if text is None:
        return None
    if re.fullmatch(r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}(:\d{2})?", text, re.ASCII):
        try:
            return datetime.fromisoformat(text)
        except ValueError:
            pass
    raise refused(scheduler, "job.begin", f"'{text}' is not a date and time", "write it as 2030-12-31T23:59")


@dataclass(frozen=True)
class Array:
    """The tasks of an array job."""

    ranges: Sequence[tuple[int, int, int]]
    """(first, last, step)"""
    limit: int | None
    """Tasks that run at once."""

    def __str__(self) -> str:
        parts = [
            f"{first}{f'-{last}' if last > first else ''}{f':{step}' if step > 1 else ''}"
            for first, last, step in self.ranges
        ]
        return ",".join(parts) + (f"%{self.limit}" if self.limit else "")

    def indices(self) -> list[int]:
        """Return the numbers of all tasks, in order."""
        return sorted({index for first, last, step in self.ranges for index in range(first, last + 1, step)})


def array(job: JobSpec, scheduler: str) -> Array | None:
    """Return the array that ``options.array`` describes, such as ``0-9%2`` or ``1,3,5-9:2``."""
    text = job.options.array
    if text is None:
        return None
    if not re.fullmatch(rf"{TASKS}(%\d+)?", text, re.ASCII):
        raise refused(scheduler, "job.array", f"'{text}' is not an array", "write it as 0-9, 0-9%2 or 1,3,5")
    numbers, _, limit = text.partition("%")
    matches = ranges(numbers)
    if matches is None or (limit and digits(limit) is None):
        raise refused(scheduler, "job.array", f"'{text[:100]}' has more than {_LARGEST} tasks")
    for part, (first, last, step) in zip(numbers.split(","), matches, strict=True):
        if first > last or step == 0 or last - first > _LARGEST:
            raise refused(scheduler, "job.array", f"'{part}' is not a range of at most {_LARGEST} tasks")
    if limit and int(limit) == 0:
        raise refused(scheduler, "job.array", f"'{text}' lets no task run at a time")
    return Array(matches, int(limit) if limit else None)


def ranges(tasks: str) -> list[tuple[int, int, int]] | None:
    """Return (first, last, step) of each part of a text that matches TASKS, such as ``1,3,5-9:2``.

    None for more tasks than any scheduler takes: a target may say so, and each of them would become an object.
    """
    matches = []
    total = 0
    for part in tasks.split(","):
        span, _, step = part.partition(":")
        first, _, last = span.partition("-")
        numbers = [digits(text, _LARGEST_TASK) for text in (first, last or first, step or "1")]
        if None in numbers:
            return None
        begin, end, stride = (number or 0 for number in numbers)
        total += max(0, end - begin) // (stride or 1) + 1
        matches.append((begin, end, stride))
    return matches if total <= _LARGEST + 1 else None


def hosts(text: str) -> list[str]:
    """Return the names in a host list such as ``n[1-3,7],m1``; a text that is none is returned as one name."""
    names: list[str] = []
    for part in _parts(text):
        if len(names) > _LARGEST:
            return [text[:_LONGEST]]
        if match := _HOST_RANGE.fullmatch(part):
            names += [match["head"] + number + match["tail"] for number in _numbers(match["ranges"])]
        elif part:
            names.append(part)
    return names


def _parts(text: str) -> Iterator[str]:
    """Yield what stands between commas outside brackets."""
    depth, part = 0, ""
    for char in text:
        depth += (char == "[") - (char == "]")
        if char == "," and depth == 0:
            yield part
            part = ""
        else:
            part += char
    yield part


def _numbers(ranges: str) -> Iterator[str]:
    for span in ranges.split(","):
        first, _, last = span.partition("-")
        if first and not last:
            yield first
        elif (begin := digits(first)) is not None and (end := digits(last)) is not None and end - begin < _LARGEST:
            yield from (str(number).zfill(len(first)) for number in range(begin, end + 1))


def node_list(job: JobSpec, scheduler: str) -> list[str]:
    """Return the nodes that the job must have, empty where it says nothing."""
    text = job.options.node_list
    if text is None:
        return []
    checked(scheduler, "job.node_list", text, HOST_LIST, "write it as n1,n2 or n[1-4]")
    names = hosts(text)
    if any("[" in name or "]" in name for name in names) or not names or len(set(names)) != len(names):
        why = f"'{text}' is not a list of different hosts"
        raise refused(scheduler, "job.node_list", why, "write it as n1,n2 or n[1-4]")
    if len(names) > job.resources.nodes:
        why = f"'{text}' names {len(names)} nodes and the job has {job.resources.nodes}"
        raise refused(scheduler, "job.node_list", why)
    return names
