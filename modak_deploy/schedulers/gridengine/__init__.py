"""Grid Engine (Son of Grid Engine, Univa/Altair Grid Engine, Open Grid Scheduler): qsub, qstat, qdel, qacct."""

import re
from collections.abc import Iterator, Sequence
from typing import ClassVar

from modak_deploy import shell
from modak_deploy.diagnostics import Key, Text
from modak_deploy.errors import InputError, JobError
from modak_deploy.model.base import SchedulerName
from modak_deploy.model.target import Node, Partition
from modak_deploy.schedulers import options as opt
from modak_deploy.schedulers.base import NO_FOLDER, JobSpec, Parts, QueueState, Recognised, Scheduler
from modak_deploy.schedulers.gridengine.discovery import parse_qhost
from modak_deploy.schedulers.gridengine.states import parse_answer
from modak_deploy.schedulers.states import message, unreachable
from modak_deploy.schedulers.steps import reach, step
from modak_deploy.transport.base import Completed
from modak_deploy.util.scripts import script_text
from modak_deploy.util.units import mebibytes

_LABEL = "Grid Engine"
_VERSION = re.compile(r"^(?:[A-Z]{2,3}/)?[A-Z]?GE +([0-9][\w.]*)", re.MULTILINE | re.ASCII)
"""The first line of ``qsub -help``: SGE 8.1.9, UGE 8.6.18, GE 6.2u5, OGS/GE 2011.11, AGE 2023.1.1."""
_PREFIXES = ("Unable to run job:", "Unable to read script file because of error:", "error:")


class GridEngine(Scheduler):
    """Grid Engine 8.1 and relatives.

    A job's id is its number (``12``), for an array the array's; ``12.3`` is one task. The tag is the job's accounting
    string, which qstat shows while the job is queued or running.

    What differs from the other schedulers (submit(1), queue_conf(5), and seen with Son of Grid Engine 8.1.9):

    * Several slots need a *parallel environment*, whose allocation rule alone decides how they are spread over hosts.
      Its name is the site's, so ``target.parallel_environment`` gives it.
    * There is one kind of dependency, ``-hold_jid``: the job is released when the other has ended, however it ended.
    * ``qdel`` and the wall time kill with SIGKILL. With ``-notify`` SIGUSR2 comes first, by the queue's ``notify`` time
      (60 s by default): the job script takes it as the request to end.
    * A job whose folder or shell is missing is put into the error state (``Eqw``) and stays in the queue for ever.
    """

    name: ClassVar[SchedulerName] = "gridengine"
    submit_folder = "${SGE_O_WORKDIR:-$PWD}"
    queries = ("qhost",)
    id_variable = "JOB_ID"
    task_variable = "SGE_TASK_ID"
    end_signals = {"USR2": 12}
    no_answer = (
        r"unable to send message to qmaster|unable to contact qmaster|commlib error|got send error|"
        r"can't resolve group|Connection refused|SGE_ROOT is not set|cell directory .* doesn't exist"
    )

    own_messages = r"^(Unable to|error:)"

    def probe(self) -> Sequence[str]:
        """See ``Scheduler.probe``."""
        return [script_text(__package__, "sh", "probe.sh")]

    def recognise(self, parts: Parts) -> Recognised | None:
        """See ``Scheduler.recognise``: Grid Engine has no ``--version`` and begins its help with its name."""
        match = _VERSION.search(parts["qsub-help"])
        return Recognised(self.name, match[1]) if match else None

    def partitions(self, parts: Parts, host: Node) -> list[Partition]:
        """See ``Scheduler.partitions``."""
        return parse_qhost(parts["qhost"])

    def directives(self, job: JobSpec) -> list[str]:
        """See ``Scheduler.directives``."""
        return [f"#$ {option}" for option in self._options(job)]

    def _options(self, job: JobSpec) -> Iterator[str]:
        o = job.options
        opt.check_paths(job, _LABEL)
        opt.check_scratch(job, _LABEL)
        opt.check_mail(job, _LABEL)
        hint = "choose a workspace without blanks and special characters"
        opt.checked(_LABEL, "target.workspace", job.directory, opt.FOLDER, hint)
        yield f"-N {opt.check_name(job, _LABEL)}"
        yield "-S /bin/sh"
        yield f"-wd {job.directory}"
        yield f"-A {opt.check_tag(job.tag)}"
        # The scheduler appends, so each task has a file of its own.
        yield f"-o {job.directory}/scheduler.log{'.$TASK_ID' if o.array else ''}"
        yield "-j y"
        yield "-r n"
        yield "-notify"
        # Without it a job that no host can ever run is taken, and waits for ever.
        yield "-w e"
        if o.export_environment:
            yield "-V"
        if o.account is not None:
            yield f"-P {opt.checked(_LABEL, 'job.account', o.account)}"
        if o.partition is not None:
            yield f"-q {opt.checked(_LABEL, 'job.partition', o.partition, opt.LIST)}"
        if o.wall_time is not None:
            yield f"-l h_rt={o.wall_time}"
        yield from self._resources(job)
        yield from self._placement(job)
        if array := opt.array(job, _LABEL):
            yield from _tasks(array)
        if o.dependency:
            yield f"-hold_jid {','.join(number for text in o.dependency for number in _parents(text))}"
        if begin := opt.begin_time(job, _LABEL):
            yield f"-a {begin:%Y%m%d%H%M.%S}"
        yield f"-m {opt.mail_letters(job, _LABEL)}"
        if o.mail_user is not None:
            yield f"-M {o.mail_user}"

    def _resources(self, job: JobSpec) -> Iterator[str]:
        o = job.options
        layout = opt.layout(job, _LABEL)
        slots = layout.ranks * (layout.cores or 1)
        environment = job.target.parallel_environment
        if environment is not None:
            yield f"-pe {opt.checked(_LABEL, 'target.parallel_environment', environment)} {slots}"
        elif slots > 1:
            why = f"{slots} slots need a parallel environment"
            raise opt.refused(_LABEL, "target.parallel_environment", why, "name one; 'qconf -spl' lists them")
        if o.memory is not None:
            # Not h_vmem, a limit of addresses: frameworks reserve many times of what they use.
            yield f"-l mem_free={mebibytes(o.memory)}M"
        if o.memory_per_core is not None:
            yield f"-l mem_free={mebibytes(o.memory_per_core * max(layout.per_node()) * (layout.cores or 1))}M"
        if job.resources.gpus:
            spelling = job.target.gpu_spelling or "gpu={count}"
            hint = "write 'NAME={count}' with the name of a consumable that is counted per job"
            opt.checked(_LABEL, "target.gpu_spelling", spelling, r"[A-Za-z0-9_]+=\{count\}", hint)
            yield f"-l {spelling.replace('{count}', str(job.resources.gpus))}"

    def _placement(self, job: JobSpec) -> Iterator[str]:
        o = job.options
        if o.qos is not None:
            raise opt.refused(_LABEL, "job.qos", "it has no qualities of service", ("leave ", Key("job.qos"), " out"))
        if o.exclusive:
            named: Text = ("name the site's resource with ", Key("job.constraint"), ", often exclusive=true")
            raise opt.refused(_LABEL, "job.exclusive", "it has no option for whole nodes", named)
        if o.constraint is not None:
            pattern = r"[A-Za-z0-9_]+=[A-Za-z0-9_.*|-]+(,[A-Za-z0-9_]+=[A-Za-z0-9_.*|-]+)*"
            hint = "write resources as NAME=VALUE, with commas between them"
            yield f"-l {opt.checked(_LABEL, 'job.constraint', o.constraint, pattern, hint)}"
        if names := opt.node_list(job, _LABEL):
            yield f"-l hostname={'|'.join(names)}"

    def launch(self, job: JobSpec, argv: Sequence[str]) -> str:
        """See ``Scheduler.launch``: mpirun with a list of hosts; MPICH and Open MPI start remote ranks by qrsh."""
        ranks = job.resources.ranks
        launcher = opt.launcher(job, _LABEL)
        if launcher == "none":
            return shell.join(argv)
        return f'{launcher} -n {ranks} -machinefile "$modak_state/hosts$modak_suffix" {shell.join(argv)}'

    def prepare(self, job: JobSpec) -> str:
        """See ``Scheduler.prepare``: a line for each rank's host; another number of hosts than planned is an error."""
        ranks = job.resources.ranks
        if job.options.mpi_launcher == "none" or (job.options.mpi_launcher is None and ranks == 1):
            return ""
        layout = opt.layout(job, _LABEL)
        hosts = '"$modak_state/hosts$modak_suffix"'
        room = f"{layout.nodes} hosts with room for {ranks} ranks of {layout.cores or 1} slots"
        why = (
            f"the parallel environment {job.target.parallel_environment} did not give {room}; choose one whose "
            "allocation_rule does"
        )
        lines = (
            f"awk -v cores={layout.cores or 1} '{{ for (i = 0; i + cores <= $2; i += cores) print $1 }}' "
            f'"$PE_HOSTFILE" >{hosts}'
        )
        check = f'[ "$(wc -l <{hosts})" -ge {ranks} ] && [ "$NHOSTS" = {layout.nodes} ]'
        return f"{lines}\n  {{ {check}; }} || modak_fail {shell.quote(why)}"

    def submit_command(self, job: JobSpec) -> str:
        """See ``Scheduler.submit_command``."""
        return (
            f"cd {shell.quote(job.directory)} || exit {NO_FOLDER}; {reach('qsub')}qsub -terse {shell.quote(job.script)}"
        )

    def parse_submit(self, done: Completed) -> str:
        """See ``Scheduler.parse_submit``: ``12``, or ``12.1-4:1`` for an array."""
        if done.returncode == 0:
            if match := re.search(r"^(\d+)(\.\d+-\d+:\d+)?$", done.stdout.strip(), re.MULTILINE | re.ASCII):
                return match[1]
            raise unreachable(_LABEL, done)
        if self.is_silent(done):  # qsub exits 1 for that too
            raise unreachable(_LABEL, done)
        said = message(done, _PREFIXES).removesuffix("; Exiting.")
        raise JobError(f"Grid Engine refused the job: {said}")

    def status_command(self, ids: Sequence[str]) -> str:
        """See ``Scheduler.status_command``: one qstat for all; qacct only for those that have left the queue."""
        return step(__package__, "gridengine_status", [_number(i) for i in ids], program="qstat")

    def parse_status(self, done: Completed, ids: Sequence[str]) -> dict[str, QueueState]:
        """See ``Scheduler.parse_status``."""
        if done.returncode != 0 or self.is_silent(done):
            raise unreachable(_LABEL, done)
        return parse_answer(done.stdout, ids)

    def cancel_command(self, ids: Sequence[str]) -> str:
        """See ``Scheduler.cancel_command``."""
        return step(__package__, "gridengine_cancel", [_number(i) for i in ids], program="qdel")

    def find_command(self, tag: str, name: str) -> str:
        """See ``Scheduler.find_command``: of ended jobs qacct alone knows, and it reads the site's whole history."""
        return step(__package__, "gridengine_find", [opt.check_tag(tag)], program="qstat")

    def parse_find(self, done: Completed, tag: str) -> list[str]:
        """See ``Scheduler.parse_find``."""
        if done.returncode != 0 or self.is_silent(done):
            raise unreachable(_LABEL, done)
        return sorted(set(re.findall(r"^modak-job ([0-9]{1,12})$", done.stdout, re.MULTILINE)), key=int)

    def check_command(self, job: JobSpec) -> str:
        """See ``Scheduler.check_command``: ``-w v`` reads the script from standard input and submits nothing."""
        return f"{reach('qsub')}qsub -w v 1>&2"


def _tasks(array: opt.Array) -> Iterator[str]:
    """Yield ``-t``: one range from 1 on; a list such as ``1,3`` is read as the range 1-3:2 (seen with 8.1.9)."""
    first, last, step_ = array.ranges[0]
    if len(array.ranges) > 1 or first < 1:
        hint = "write one range, such as 1-10 or 1-9:2"
        raise opt.refused(_LABEL, "job.array", f"'{array}' is not one range of numbers above 0", hint)
    yield f"-t {first}-{last}:{step_}"
    if array.limit:
        yield f"-tc {array.limit}"


def _parents(text: str) -> list[str]:
    hint = "write 'afterany:ID': a job is released however the other ended"
    return opt.checked(_LABEL, "job.dependency", text, r"afterany(:\d+)+", hint).split(":")[1:]


def _number(text: str) -> str:
    if re.fullmatch(r"[0-9]{1,12}", text):
        return text
    raise InputError(f"'{text}' is not the id of a Grid Engine job", hint="it is a number, such as 12")
