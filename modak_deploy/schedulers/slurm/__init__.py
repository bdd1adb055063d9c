"""Slurm: sbatch, squeue, scontrol, scancel, and sacct where there is accounting."""

import re
from collections.abc import Iterator, Sequence
from typing import ClassVar

from modak_deploy import shell
from modak_deploy.errors import InputError, JobError
from modak_deploy.model.base import SchedulerName
from modak_deploy.model.target import Node, NodeKind, Partition
from modak_deploy.numbers import digits
from modak_deploy.schedulers import options as opt
from modak_deploy.schedulers.base import NO_FOLDER, JobSpec, Parts, QueueState, Recognised, Scheduler
from modak_deploy.schedulers.slurm.discovery import parse_kinds, parse_sinfo
from modak_deploy.schedulers.slurm.states import from_accounting, from_record, from_row
from modak_deploy.schedulers.states import message, of_array, unreachable
from modak_deploy.schedulers.steps import reach, step
from modak_deploy.transport.base import Completed
from modak_deploy.util.scripts import script_text
from modak_deploy.util.units import clock, mebibytes

_LABEL = "Slurm"
_PREFIXES = ("sbatch: error:", "sbatch: fatal:", "Batch job submission failed:", "allocation failure:")
# What a site sets in these variables would win over the script's own directives.
_SUBMIT_ENVIRONMENT = (
    "unset SBATCH_ARRAY_INX SBATCH_CLUSTERS SBATCH_CONSTRAINT SBATCH_CPUS_PER_GPU SBATCH_EXCLUSIVE SBATCH_EXPORT "
    "SBATCH_GPUS SBATCH_GPUS_PER_NODE SBATCH_GPUS_PER_TASK SBATCH_GRES SBATCH_JOB_NAME SBATCH_MEM_PER_CPU "
    "SBATCH_MEM_PER_GPU SBATCH_MEM_PER_NODE SBATCH_OPEN_MODE SBATCH_REQUEUE"
)
# Of several clusters (sbatch(1), --clusters) sbatch picks one, and each counts its own jobs: squeue would tell of those
# of that number on all of them, and scancel end them. So it is the one cluster that is named, or the login node's own.
# Where SBATCH_CLUSTERS alone named another one, squeue would not find the job.
_CLUSTER = "case ${SLURM_CLUSTERS-} in *,* | all) unset SLURM_CLUSTERS ;; esac; "
_ALIVE = "^(PENDING|CONFIGURING|RUNNING|COMPLETING|SUSPENDED|STOPPED|RESIZING|SIGNALING|STAGE_OUT|REQUEUE|SPECIAL|RESV)"


class Slurm(Scheduler):
    """Slurm 20.02 or newer, behind its own commands; its wrappers for Torque's commands are not used.

    A job's id is its number (``123``), for an array the array's; ``123_4`` is one task. The tag is the job's comment,
    and is in the name of its working directory as well, because some sites write their own comments.
    """

    name: ClassVar[SchedulerName] = "slurm"
    submit_folder = "${SLURM_SUBMIT_DIR:-$PWD}"
    rank_launcher = "srun"
    stands_in_for = frozenset({"torque"})
    queries = ("sinfo",)
    query_prefixes = ("sinfo: error:", "sinfo: fatal:", "slurm_load_partitions:")
    no_cluster = "Could not establish a configuration source"
    id_variable = "SLURM_JOB_ID"
    array_variable = "SLURM_ARRAY_JOB_ID"
    task_variable = "SLURM_ARRAY_TASK_ID"
    host_variable = "SLURMD_NODENAME"
    no_answer = (
        r"Unable to contact slurm controller|Socket timed out|Connection refused|Zero Bytes were transmitted|"
        r"Unexpected message received|Could not establish a configuration source|Unable to establish|"
        r"Protocol authentication error|Munge encode failed|Connection timed out|I/O error|backup controller"
    )

    def probe(self) -> Sequence[str]:
        """See ``Scheduler.probe``."""
        return [script_text(__package__, "sh", "probe.sh")]

    def recognise(self, parts: Parts) -> Recognised | None:
        """See ``Scheduler.recognise``: by ``sbatch --version``, or by its wrapper for qsub alone."""
        sbatch, wrapped = parts["sbatch"], "[-a start_time]" in parts["qsub"] and "[-P wckey]" in parts["qsub"]
        if match := re.search(r"^slurm\S* +(\d+\.\d+\S*)", sbatch, re.MULTILINE):
            return Recognised(self.name, match[1], wrapped)
        if wrapped or re.search(r"^sbatch: (error|fatal):", sbatch, re.MULTILINE):
            return Recognised(self.name, None, wrapped)
        return None

    def partitions(self, parts: Parts, host: Node) -> list[Partition]:
        """See ``Scheduler.partitions``."""
        return parse_sinfo(parts["sinfo"], set(parts["here"].split()), host)

    def node_kinds(self, parts: Parts) -> dict[str, list[NodeKind]]:
        """See ``Scheduler.node_kinds``."""
        return parse_kinds(parts["sinfo"])

    def gpu_spelling(self, models: Sequence[str]) -> str | None:
        """See ``Scheduler.gpu_spelling``: jobs must name the type of typed GPUs."""
        kinds = set(models)
        return f"gres=gpu:{kinds.pop()}:{{count}}" if len(kinds) == 1 and kinds != {"gpu"} else None

    def directives(self, job: JobSpec) -> list[str]:
        """See ``Scheduler.directives``."""
        return [f"#SBATCH --{option}" for option in self._options(job)]

    def _options(self, job: JobSpec) -> Iterator[str]:
        o = job.options
        opt.check_paths(job, _LABEL)
        opt.check_scratch(job, _LABEL)
        opt.check_mail(job, _LABEL)
        yield f"job-name={opt.check_name(job, _LABEL)}"
        yield f"comment={opt.check_tag(job.tag)}"
        # Relative to the job's folder, where sbatch is started. The script opens the user's own files.
        yield f"output=scheduler.log{'.%a' if o.array else ''}"
        # sbatch(1): a requeued job starts its script from the beginning, and a node's failure does that by default.
        yield "no-requeue"
        # sbatch(1): without --export all variables of whoever submits travel, and SLURM_* do in any case.
        yield f"export={'ALL' if o.export_environment else 'NONE'}"
        if o.account is not None:
            yield f"account={opt.checked(_LABEL, 'job.account', o.account)}"
        if o.partition is not None:
            yield f"partition={opt.checked(_LABEL, 'job.partition', o.partition, opt.LIST)}"
        if o.qos is not None:
            yield f"qos={opt.checked(_LABEL, 'job.qos', o.qos)}"
        if o.wall_time is not None:
            yield f"time={o.wall_time // 86400}-{clock(o.wall_time % 86400)}"
        yield from self._resources(job)
        yield from self._placement(job)
        if array := opt.array(job, _LABEL):
            yield f"array={array}"
        if o.dependency:
            yield f"dependency={','.join(self._dependency(text) for text in o.dependency)}"
            # sbatch(1): else it waits for ever, with the reason DependencyNeverSatisfied, unless a site says otherwise.
            yield "kill-on-invalid-dep=yes"
        if begin := opt.begin_time(job, _LABEL):
            yield f"begin={begin.isoformat()}"
        if o.mail_user is not None:
            yield f"mail-user={o.mail_user}"
        yield f"mail-type={','.join(event.upper() for event in o.mail_events) or 'NONE'}"

    def _resources(self, job: JobSpec) -> Iterator[str]:
        o = job.options
        layout = opt.layout(job, _LABEL)
        yield from _shape(layout)
        if o.memory is not None:
            yield f"mem={mebibytes(o.memory)}M"
        if o.memory_per_core is not None:
            yield f"mem-per-cpu={mebibytes(o.memory_per_core)}M"
        if job.resources.gpus:
            spelling = job.target.gpu_spelling or "gres=gpu:{count}"
            pattern = r"(gres=gpu:|gpus-per-node=)([A-Za-z0-9_.-]+:)?\{count\}"
            hint = "write 'gres=gpu:{count}', 'gres=gpu:TYPE:{count}' or 'gpus-per-node={count}'"
            opt.checked(_LABEL, "target.gpu_spelling", spelling, pattern, hint)
            yield spelling.replace("{count}", str(job.resources.gpus))

    def _placement(self, job: JobSpec) -> Iterator[str]:
        o = job.options
        if o.constraint is not None:
            pattern = r"[A-Za-z0-9_\[(][A-Za-z0-9_.,:&|*()\[\]-]*"
            yield f"constraint={opt.checked(_LABEL, 'job.constraint', o.constraint, pattern)}"
        if names := opt.node_list(job, _LABEL):
            yield f"nodelist={','.join(names)}"
        if o.exclusive:
            yield "exclusive"

    def _dependency(self, text: str) -> str:
        pattern = r"(after|afterok|afternotok|afterany)(:\d+(_\d+)?)+"
        return opt.checked(_LABEL, "job.dependency", text, pattern, "write 'afterok:ID' with Slurm's numbers")

    def launch(self, job: JobSpec, argv: Sequence[str]) -> str:
        """See ``Scheduler.launch``."""
        layout = opt.layout(job, _LABEL)
        launcher = job.options.mpi_launcher or ("srun" if layout.ranks > 1 else "none")
        if launcher == "none":
            return shell.join(argv)
        if launcher != "srun":
            return shell.join([launcher, "-n", str(layout.ranks), *argv])
        # srun would otherwise hand on the environment that the job was submitted with.
        srun = ["srun", "--export=ALL", "--kill-on-bad-exit=1", *(f"--{option}" for option in _shape(layout))]
        if layout.uneven:
            srun = [option for option in srun if not option.startswith("--ntasks-per-node=")]
        if job.target.mpi_type is not None:
            srun.append(f"--mpi={job.target.mpi_type}")
        elif job.rank_start is not None and job.rank_start.types:
            # Chosen by the job script, which looks up what the program is linked to; see modak_deploy/jobs/ranks.py.
            return f'{shell.join(srun)} ${{modak_mpi_type:+"--mpi=$modak_mpi_type"}} {shell.join(argv)}'
        return shell.join([*srun, *argv])

    def prepare(self, job: JobSpec) -> str:
        """See ``Scheduler.prepare``: ranks per node are a limit to sbatch, and an exact number to srun."""
        return "unset SLURM_NTASKS_PER_NODE" if opt.layout(job, _LABEL).uneven else ""

    def submit_command(self, job: JobSpec) -> str:
        """See ``Scheduler.submit_command``."""
        return (
            f"{_unset_for(job)}; {_CLUSTER}cd {shell.quote(job.directory)} || exit {NO_FOLDER}; "
            f"{reach('sbatch')}sbatch --parsable {shell.quote(job.script)}"
        )

    def parse_submit(self, done: Completed) -> str:
        """See ``Scheduler.parse_submit``."""
        if done.returncode == 0:
            # sbatch(1), --parsable: the number, and the cluster's name after a semicolon if there are several.
            if matches := re.search(r"^(\d+)(;\S+)?$", done.stdout.strip(), re.MULTILINE | re.ASCII):
                return matches[1]
            raise unreachable(_LABEL, done)
        if self.is_silent(done):
            raise unreachable(_LABEL, done)
        raise JobError(f"Slurm refused the job: {message(done, _PREFIXES)}")

    def status_command(self, ids: Sequence[str]) -> str:
        """See ``Scheduler.status_command``: one squeue for all, scontrol and sacct only for what has ended."""
        return step(__package__, "slurm_status", [",".join(_number(i) for i in ids), _ALIVE], program="squeue")

    def parse_status(self, done: Completed, ids: Sequence[str]) -> dict[str, QueueState]:
        """See ``Scheduler.parse_status``."""
        head, _, rest = done.stdout.partition("\n")
        # squeue of 22.05 ends with 1 and "Invalid job id specified" where the one that was asked for is forgotten.
        if head != "squeue 0" and not (head == "squeue 1" and "Invalid job id" in rest):
            raise unreachable(_LABEL, Completed(done.returncode, rest or done.stdout, done.stderr))
        tasks: dict[str, dict[str, QueueState]] = {}
        for job, task, state in _facts(rest.splitlines()):
            reported = tasks.setdefault(job, {})
            reported[task] = _merged(reported.get(task), state)
        matches = {}
        for asked in ids:
            job, _, task = asked.partition("_")
            reported = tasks.get(job, {})
            if task and task in reported:
                matches[asked] = reported[task]
            elif not task and reported:
                matches[asked] = reported[""] if set(reported) == {""} else of_array(reported)
        return matches

    def cancel_command(self, ids: Sequence[str]) -> str:
        """See ``Scheduler.cancel_command``; scancel itself forgives jobs that are unknown or have ended."""
        return reach("scancel") + _CLUSTER + shell.join(["scancel", *(_number(i) for i in ids)])

    def find_command(self, tag: str, name: str) -> str:
        """See ``Scheduler.find_command``."""
        listed = self.find_listed_command(tag, name)
        return f"list=$(\n{self.listing_command()}) || exit\nprintf '%s\\n' \"$list\" | {{\n{listed}}}\n"

    def listing_command(self) -> str:
        """See ``Scheduler.listing_command``."""
        return step(__package__, "slurm_list", [], program="squeue")

    def find_listed_command(self, tag: str, name: str) -> str:
        """See ``Scheduler.find_listed_command``."""
        return step(__package__, "slurm_find", [opt.check_tag(tag)])

    def parse_find(self, done: Completed, tag: str) -> list[str]:
        """See ``Scheduler.parse_find``."""
        if done.returncode != 0:
            raise unreachable(_LABEL, done)
        return sorted({line for line in done.stdout.split() if digits(line) is not None}, key=int)

    def check_command(self, job: JobSpec) -> str:
        """See ``Scheduler.check_command``."""
        return f"{_unset_for(job)}; {_CLUSTER}{reach('sbatch')}sbatch --test-only"


def _shape(layout: opt.Layout) -> Iterator[str]:
    yield f"nodes={layout.nodes}"
    yield f"ntasks={layout.ranks}"
    yield f"ntasks-per-node={max(layout.per_node())}"
    if layout.cores is not None:
        yield f"cpus-per-task={layout.cores}"


def _unset_for(job: JobSpec) -> str:
    options = job.options
    given = {
        "SBATCH_ACCOUNT": options.account,
        "SBATCH_PARTITION": options.partition,
        "SBATCH_QOS": options.qos,
        "SBATCH_TIMELIMIT": options.wall_time,
    }
    return " ".join([_SUBMIT_ENVIRONMENT, *(name for name, value in given.items() if value is not None)])


def _number(text: str) -> str:
    if re.fullmatch(r"\d+(_\d+)?", text, re.ASCII):
        return text
    raise InputError(f"'{text}' is not an id of a Slurm job: it is a number, such as 123, or 123_4 for a task")


def _facts(lines: Sequence[str]) -> Iterator[tuple[str, str, QueueState]]:
    """Yield (job, task or empty, state) for every line that tells of a job; later lines know more."""
    users: dict[str, str] = {}
    for line in lines:
        if line.startswith("sacct|"):
            yield from from_accounting(line, users)
        elif line.startswith("user|"):
            number, _, name = line.removeprefix("user|").partition("|")
            users[number] = name
        elif line.startswith("JobId="):
            yield from from_record(line)
        else:
            yield from from_row(line)


def _merged(old: QueueState | None, new: QueueState) -> QueueState:
    """Return what two sources say together: scontrol knows the exit code, sacct who cancelled."""
    if old is None:
        return new
    return QueueState(
        state=old.state if old.state == "dependency_never_satisfied" else new.state,
        exit_code=old.exit_code if new.exit_code is None else new.exit_code,
        signal=old.signal if new.signal is None else new.signal,
        reason=old.reason if old.state == "dependency_never_satisfied" else new.reason or old.reason,
        elapsed=old.elapsed if new.elapsed is None else new.elapsed,
        limit=old.limit if new.limit is None else new.limit,
        nodes=new.nodes or old.nodes,
        in_queue=new.in_queue,
    )
