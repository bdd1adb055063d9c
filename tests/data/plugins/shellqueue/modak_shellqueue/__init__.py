"""The scheduler ``shellqueue``: one job at a time, by the shell script ``sq``."""

import re
from collections.abc import Mapping, Sequence

from modak_deploy import shell
from modak_deploy.errors import JobError, TargetError
from modak_deploy.model.job import JobState
from modak_deploy.model.target import Node, Partition
from modak_deploy.schedulers import options as opt
from modak_deploy.schedulers.base import JobSpec, Parts, QueueState, Recognised, Scheduler
from modak_deploy.transport.base import Completed
from modak_deploy.util.scripts import script_text
from modak_deploy.util.units import seconds_of

_STATES: Mapping[str, JobState] = {"waiting": "queued", "running": "running", "cancelled": "cancelled"}
_LINE = re.compile(r"([0-9]{1,9}) (?:(waiting|running|cancelled)|ended ([0-9]{1,3}))", re.ASCII)
"""What ``sq status`` prints of a job; whatever else a login prints is no such line."""


class ShellQueue(Scheduler):
    """A job's id is a number; the queue does not know its wall time, so the job script keeps it."""

    name = "shellqueue"
    id_variable = "SQ_JOB"
    submit_folder = "${SQ_FOLDER:-$PWD}"
    keeps_time = False
    no_answer = "sq: no spool folder"
    own_messages = "^sq: "
    queries = ("shellqueue-queues",)
    query_prefixes = ("sq:",)

    def probe(self) -> Sequence[str]:
        return [script_text(__package__, "sh", "probe.sh")]

    def recognise(self, parts: Parts) -> Recognised | None:
        match = re.search(r"^sq ([0-9.]+)$", parts["shellqueue"], re.MULTILINE)
        return Recognised(self.name, match[1]) if match else None

    def partitions(self, parts: Parts, host: Node) -> list[Partition]:
        lines = re.findall(r"^([A-Za-z][A-Za-z0-9_-]{0,30}) ([0-9:-]{1,20})$", parts["shellqueue-queues"], re.MULTILINE)
        return [
            Partition(name=name, default=True, nodes=1, maximum_wall_time=seconds_of(limit), node=host)
            for name, limit in lines
        ]

    def directives(self, job: JobSpec) -> list[str]:
        name = opt.check_name(job, "shellqueue")
        if job.options.qos is not None:
            raise opt.refused("shellqueue", "job.qos", "it has no qualities of service", "leave 'qos' out")
        return [f"#SQ name={name}", f"#SQ tag={opt.check_tag(job.tag)}"]

    def launch(self, job: JobSpec, argv: Sequence[str]) -> str:
        return shell.join(argv)

    def submit_command(self, job: JobSpec) -> str:
        return shell.join(["sq", "submit", job.directory, job.script])

    def parse_submit(self, done: Completed) -> str:
        if self.is_silent(done):
            raise TargetError("the shell queue does not answer")
        if match := re.fullmatch(r"[0-9]{1,9}", done.stdout.strip()):
            return match[0]
        raise JobError(f"the shell queue refused the job: {done.stderr.strip()}")

    def status_command(self, ids: Sequence[str]) -> str:
        return shell.join(["sq", "status", *ids])

    def parse_status(self, done: Completed, ids: Sequence[str]) -> dict[str, QueueState]:
        # A job that is absent from the result is taken for gone: a command that failed has said nothing of any.
        if done.returncode or self.is_silent(done):
            raise TargetError("the shell queue does not answer")
        states = {}
        for number, state, code in (
            match.groups() for line in done.stdout.splitlines() if (match := _LINE.fullmatch(line))
        ):
            if state is not None:
                states[number] = QueueState(_STATES[state])
            elif int(code) < 256:
                states[number] = QueueState("failed" if int(code) else "completed", exit_code=int(code))
        return {number: state for number, state in states.items() if number in ids}

    def cancel_command(self, ids: Sequence[str]) -> str:
        return shell.join(["sq", "cancel", *ids])

    def find_command(self, tag: str, name: str) -> str:
        return shell.join(["sq", "find", opt.check_tag(tag)])

    def parse_find(self, done: Completed, tag: str) -> list[str]:
        if done.returncode or self.is_silent(done):
            raise TargetError("the shell queue does not answer")
        return re.findall(r"^[0-9]{1,9}$", done.stdout, re.MULTILINE)

    def check_command(self, job: JobSpec) -> str | None:
        return None
