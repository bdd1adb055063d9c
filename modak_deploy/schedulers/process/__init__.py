"""A plain machine: the job is a detached process with a session of its own."""

import re
from collections.abc import Sequence
from typing import ClassVar

from modak_deploy import shell
from modak_deploy.diagnostics import Key
from modak_deploy.errors import InputError
from modak_deploy.model.base import SchedulerName
from modak_deploy.schedulers import options as opt
from modak_deploy.schedulers.base import JobSpec, QueueState, Scheduler
from modak_deploy.schedulers.states import unreachable
from modak_deploy.schedulers.steps import step
from modak_deploy.transport.base import Completed
from modak_deploy.util.units import seconds_of

_LABEL = "a plain machine"
GRACE = 10
"""Seconds from SIGTERM to SIGKILL."""


class Process(Scheduler):
    """Jobs as detached processes, with nothing that queues them.

    A job's id is the process id of its session's leader, a hyphen and the time at which that started (``4711-883901``),
    so that a later process with the same number is never taken for it. The job script keeps the wall time and writes
    how the job ended; what is not running any more is unknown here. The id is in the job's folder, as ``state/pid``.
    """

    name: ClassVar[SchedulerName] = "process"
    keeps_time = False
    reuses_ids = False

    def directives(self, job: JobSpec) -> list[str]:
        """See ``Scheduler.directives``: there are none, but what a plain machine has not is refused."""
        o = job.options
        opt.check_name(job, _LABEL)
        opt.check_tag(job.tag)
        opt.check_paths(job, _LABEL)
        absent = {
            "account": o.account,
            "partition": o.partition,
            "qos": o.qos,
            "constraint": o.constraint,
            "node_list": o.node_list,
            "exclusive": o.exclusive or None,
            "array": o.array,
            "dependency": o.dependency or None,
            "begin": o.begin,
            "mail_user": o.mail_user,
            "mail_events": o.mail_events or None,
            "memory": o.memory,
            "memory_per_core": o.memory_per_core,
        }
        for key, value in absent.items():
            if value is not None:
                hint = ("leave ", Key(f"job.{key}"), " out or choose a target with a scheduler")
                raise opt.refused(_LABEL, f"job.{key}", "nothing queues or confines jobs there", hint)
        if job.resources.nodes > 1:
            why = f"it is one node and the job has {job.resources.nodes}"
            raise opt.refused(_LABEL, "job.nodes", why)
        opt.layout(job, _LABEL)
        return []

    def launch(self, job: JobSpec, argv: Sequence[str]) -> str:
        """See ``Scheduler.launch``."""
        ranks = job.resources.ranks
        launcher = opt.launcher(job, _LABEL)
        return shell.join(argv if launcher == "none" else [launcher, "-n", str(ranks), *argv])

    def submit_command(self, job: JobSpec) -> str:
        """See ``Scheduler.submit_command``: returns at once, and leaves nothing open that a connection waits for."""
        keep = "yes" if job.options.export_environment else "no"
        return step(
            __package__, "process_submit", [job.directory, job.script, opt.check_tag(job.tag), keep], after="process"
        )

    def parse_submit(self, done: Completed) -> str:
        """See ``Scheduler.parse_submit``."""
        matches = re.search(r"^modak-process (\d+-\w+)$", done.stdout, re.MULTILINE | re.ASCII)
        if done.returncode != 0 or not matches:
            raise unreachable("the machine", done)
        return matches[1]

    def id_of(self, reported: str) -> str:
        """See ``Scheduler.id_of``; where there is no /proc, the script does not know when its process started."""
        return reported if "-" in reported else f"{reported}-0"

    def status_command(self, ids: Sequence[str]) -> str:
        """See ``Scheduler.status_command``."""
        return step(__package__, "process_status", [_id(i) for i in ids], after="process")

    def parse_status(self, done: Completed, ids: Sequence[str]) -> dict[str, QueueState]:
        """See ``Scheduler.parse_status``."""
        if done.returncode != 0:
            raise unreachable("the machine", done)
        lines = re.findall(r"^modak-process (\d+-\w+) +(\S*)$", done.stdout, re.MULTILINE | re.ASCII)
        reported = {number: QueueState("running", elapsed=seconds_of(elapsed)) for number, elapsed in lines}
        return {asked: reported[asked] for asked in ids if asked in reported}

    def cancel_command(self, ids: Sequence[str]) -> str:
        """See ``Scheduler.cancel_command``: SIGTERM to the whole session, and SIGKILL to what is left after GRACE."""
        return step(__package__, "process_cancel", [str(GRACE), *(_id(i) for i in ids)], after="process")

    def find_command(self, tag: str, name: str) -> str:
        """See ``Scheduler.find_command``: only processes that run can be found."""
        return step(__package__, "process_find", [opt.check_tag(tag)], after="process")

    def parse_find(self, done: Completed, tag: str) -> list[str]:
        """See ``Scheduler.parse_find``."""
        if done.returncode != 0:
            raise unreachable("the machine", done)
        matches = re.findall(r"^modak-process (\d+-\w+)$", done.stdout, re.MULTILINE | re.ASCII)
        return sorted(set(matches), key=lambda text: (text.partition("-")[2].zfill(20), text))

    def check_command(self, job: JobSpec) -> str:
        """See ``Scheduler.check_command``: there is nobody to ask, but the shell reads the script."""
        return "/bin/sh -n"


def _id(text: str) -> str:
    if re.fullmatch(r"\d+-\w+", text, re.ASCII):
        return text
    raise InputError(f"'{text}' is not an id of a process: it is a process id, a hyphen and a start time")
