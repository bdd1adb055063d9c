"""What Torque and OpenPBS have in common: most of the directives, and qstat's text."""

import re
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from modak_deploy import shell
from modak_deploy.errors import InputError, JobError
from modak_deploy.model.job import JobState
from modak_deploy.model.target import Node, NodeKind, Partition
from modak_deploy.schedulers import options as opt
from modak_deploy.schedulers.base import NO_FOLDER, JobSpec, Parts, QueueState, Recognised, Scheduler
from modak_deploy.schedulers.pbs.discovery import parse_nodes, parse_queues
from modak_deploy.schedulers.states import message, of_array, unreachable
from modak_deploy.schedulers.steps import reach, step
from modak_deploy.schedulers.unlike import kinds_of
from modak_deploy.transport.base import Completed
from modak_deploy.util.scripts import script_text
from modak_deploy.util.units import clock, seconds_of

ID = r"\d{1,18}(\[\d{0,18}\])?(\.[A-Za-z0-9_.-]{1,255})?"
NODE_RESTARTED: Mapping[int, tuple[JobState, str]] = dict.fromkeys(
    (-4, -5, -6), ("node_failure", "the node's daemon was restarted")
)
"""Exit statuses that both give such jobs."""
STATES: Mapping[str, JobState] = {
    "Q": "queued",
    "W": "queued",
    "T": "queued",
    "H": "held",
    "R": "running",
    "E": "running",
    "S": "running",
}
"""Letters that both write."""
_LIMITS: Mapping[str, tuple[JobState, str]] = {
    "walltime": ("timeout", "its wall time is over"),
    "cput": ("timeout", "its processor time is over"),
    "pcput": ("timeout", "its processor time is over"),
    "mem": ("out_of_memory", "it used more memory than it reserved"),
    "pmem": ("out_of_memory", "it used more memory than it reserved"),
    "vmem": ("out_of_memory", "it used more memory than it reserved"),
    "pvmem": ("out_of_memory", "it used more memory than it reserved"),
    "ncpus": ("failed", "it used more cores than it reserved"),
}
"""What a limit that a job has exceeded means, by the limit's name in pbs_mom's message."""


_SHARES = (
    "!($0 in slots) { host[++n] = $0 } { slots[$0]++ } END { for (i = 1; i <= n; i++) { "
    "ranks = n == nodes ? least + (i <= fuller) : slots[host[i]] / lines; while (ranks-- >= 1) print host[i] } }"
)
"""Program for awk: each node's share of the ranks, where a site has not put two of the job's nodes on one host."""


@dataclass(frozen=True)
class Job:
    """One job as ``qstat -f`` shows it."""

    id: str
    fields: Mapping[str, str]

    def get(self, *names: str) -> str:
        """Return the first of the fields that is there; empty where none is."""
        return next((self.fields[name] for name in names if name in self.fields), "")


def parse_jobs(text: str) -> dict[str, Job]:
    """Return the jobs in the output of ``qstat -f`` by id; folded lines are unfolded, complaints skipped."""
    jobs: dict[str, Job] = {}
    fields: dict[str, str] = {}
    last = ""
    for line in text.split("\n"):  # and no other character that Python takes for a line's end: a value may hold it
        if line.startswith("Job Id:"):
            fields, last = {}, ""
            name = line.partition(":")[2].strip()
            jobs[name] = Job(name, fields)
        elif line.startswith("\t") and last:
            fields[last] += line[1:]
        elif match := re.match(r" {4}([A-Za-z_][\w.]*) = (.*)", line):
            last = match[1]
            # A value with a line break in it could only pretend to be a field that has been told already.
            fields.setdefault(last, match[2])
    return jobs


class PBS(Scheduler):
    """The common part of Torque and OpenPBS.

    A job's id is what qsub prints (``1.server``, for an array ``43[].server``). The tag is the variable MODAK_TAG in
    the job's own list. The scheduler copies its files only after the job's end, and loses them where it cannot; so the
    job script opens the user's files itself, and the scheduler's own are ``scheduler.log`` in the job's folder.
    """

    id_variable = "PBS_JOBID"
    submit_folder = "${PBS_O_WORKDIR:-$PWD}"
    own_commands = False
    queries = ("nodes", "queues", "server")
    query_prefixes = ("pbsnodes:", "qstat:")
    end_message = "^=>> PBS: job killed: "
    no_answer = (
        r"cannot connect to server|Cannot connect to specified server|Unable to communicate with|trqauthd|"
        r"Couldn't connect to cluster|Connection refused|Connection timed out|No route to host|pbs_iff|"
        r"Premature end of message|End of File"
    )
    _version_line: str
    """Regular expression for the line of ``qsub --version`` with the version."""
    _label: str
    """The scheduler's name in sentences."""
    _reserves_evenly = False
    """Whether a job whose nodes have different numbers of ranks reserves as much on each as on the fullest."""

    def probe(self) -> Sequence[str]:
        """See ``Scheduler.probe``: Slurm may stand in for Torque, so its part comes before."""
        return [
            script_text("modak_deploy.schedulers.slurm", "sh", "probe.sh"),
            script_text(__package__, "sh", "probe.sh"),
        ]

    def recognise(self, parts: Parts) -> Recognised | None:
        """See ``Scheduler.recognise``: by ``qsub --version``."""
        match = re.search(self._version_line, parts["qsub"], re.MULTILINE)
        return Recognised(self.name, match[1]) if match else None

    def partitions(self, parts: Parts, host: Node) -> list[Partition]:
        """See ``Scheduler.partitions``."""
        return parse_queues(parts["queues"], parts["server"], parse_nodes(parts["nodes"]))

    def node_kinds(self, parts: Parts) -> dict[str, list[NodeKind]]:
        """See ``Scheduler.node_kinds``: no queue says which nodes it uses, so that each may have all."""
        kinds = kinds_of((node, 1, True) for node in parse_nodes(parts["nodes"]))
        queues = parse_queues(parts["queues"], parts["server"], [])
        return {queue.name: kinds for queue in queues} if kinds else {}

    def directives(self, job: JobSpec) -> list[str]:
        """See ``Scheduler.directives``."""
        return [f"#PBS {option}" for option in self._options(job)]

    def _options(self, job: JobSpec) -> Iterator[str]:
        o = job.options
        opt.check_paths(job, self._label)
        opt.check_scratch(job, self._label)
        opt.check_mail(job, self._label)
        hint = "choose a workspace without blanks and special characters"
        opt.checked(self._label, "target.workspace", job.directory, opt.FOLDER, hint)
        yield f"-N {opt.check_name(job, self._label)}"
        # Without -S the user's login shell starts the script, which need not be a POSIX shell.
        yield f"-S {self._shell(job)}"
        # A plain word: Torque 6.1.3.h5 cuts a value at a comma or line break, and OpenPBS 23.06.06 reads an empty one
        # together with the variable after it. The job's own variables are lines of its script.
        yield f"-v MODAK_TAG={opt.check_tag(job.tag)}"
        # Into a folder that is there: else the job ends well and its output is lost in spool/undelivered (both).
        yield f"-o {job.directory}/{self._own_file(job)}"
        yield "-j oe"
        yield f"-r {self._rerun(o.array is not None)}"
        if o.account is not None:
            yield f"-A {opt.checked(self._label, 'job.account', o.account)}"
        if o.partition is not None:
            yield f"-q {opt.checked(self._label, 'job.partition', o.partition)}"
        yield from self._quality(job)
        if o.wall_time is not None:
            # Hours without a limit: OpenPBS 23.06.06 refuses days ("1:00:00:00", exit code 166).
            yield f"-l walltime={clock(o.wall_time)}"
        yield from self._resources(job)
        if array := opt.array(job, self._label):
            yield self._array(array)
        if o.dependency:
            yield f"-W depend={','.join(self._dependency(text) for text in o.dependency)}"
        if begin := opt.begin_time(job, self._label):
            yield f"-a {begin:%Y%m%d%H%M.%S}"
        yield f"-m {opt.mail_letters(job, self._label)}"
        if o.mail_user is not None:
            yield f"-M {o.mail_user}"

    def _shell(self, job: JobSpec) -> str:
        """Return the path of the job's shell."""
        return "/bin/sh"

    def _own_file(self, job: JobSpec) -> str:
        return "scheduler.log"

    def _rerun(self, array: bool) -> str:
        """Return whether the server may start the job again after a node's failure: nobody has asked for that."""
        return "n"

    @abstractmethod
    def _quality(self, job: JobSpec) -> Iterator[str]:
        """Yield what asks for a quality of service and passes the environment on."""

    @abstractmethod
    def _resources(self, job: JobSpec) -> Iterator[str]:
        """Yield what reserves nodes, cores, memory and GPUs."""

    def _hosts(self, job: JobSpec, layout: opt.Layout) -> list[str]:
        """Return the nodes that the job must have, all of them; empty where it says nothing."""
        names = opt.node_list(job, self._label)
        if names and len(names) != layout.nodes:
            why = f"'{job.options.node_list}' names {len(names)} nodes and the job has {layout.nodes}"
            raise opt.refused(self._label, "job.node_list", why, "name all of them or none")
        return names

    @abstractmethod
    def _array(self, array: opt.Array) -> str:
        """Return the option for an array."""

    def _dependency(self, text: str) -> str:
        pattern = rf"(after|afterok|afternotok|afterany)(:{ID})+"
        return opt.checked(self._label, "job.dependency", text, pattern, "write 'afterok:ID' with qsub's ids")

    def _gpus(self, job: JobSpec, usual: str, pattern: str, hint: str) -> str:
        spelling = job.target.gpu_spelling or usual
        opt.checked(self._label, "target.gpu_spelling", spelling, pattern, hint)
        return spelling.replace("{count}", str(job.resources.gpus))

    def launch(self, job: JobSpec, argv: Sequence[str]) -> str:
        """See ``Scheduler.launch``: mpirun with a list of hosts, because not every MPI library asks PBS for it."""
        ranks = job.resources.ranks
        launcher = opt.launcher(job, self._label)
        if launcher == "none":
            return shell.join(argv)
        return f'{launcher} -n {ranks} -machinefile "$modak_state/hosts$modak_suffix" {shell.join(argv)}'

    def prepare(self, job: JobSpec) -> str:
        """See ``Scheduler.prepare``: one line for each rank's host."""
        if job.options.mpi_launcher == "none" or (job.options.mpi_launcher is None and job.resources.ranks == 1):
            return ""
        layout = opt.layout(job, self._label)
        lines = self._lines_per_rank(layout)
        if layout.uneven and self._reserves_evenly:
            least, fuller = divmod(layout.ranks, layout.nodes)
            share = f"-v nodes={layout.nodes} -v least={least} -v fuller={fuller} -v lines={lines}"
            return f'awk {share} \'{_SHARES}\' "$PBS_NODEFILE" >"$modak_state/hosts$modak_suffix"'
        return f'awk \'seen[$0]++ % {lines} == 0\' "$PBS_NODEFILE" >"$modak_state/hosts$modak_suffix"'

    @abstractmethod
    def _lines_per_rank(self, layout: opt.Layout) -> int:
        """Return how many lines PBS_NODEFILE has for one rank."""

    def submit_command(self, job: JobSpec) -> str:
        """See ``Scheduler.submit_command``."""
        keep = " && (umask 077 && export -p >state/environment)" if self.reads_environment(job) else ""
        # A site's PBS_DPREFIX would make qsub look for directives of another spelling. What the scheduler wrote at the
        # end of an earlier attempt says nothing of this one.
        clean = "rm -f scheduler.log scheduler.log[.-]*"
        return (
            f"unset PBS_DPREFIX; {{ cd {shell.quote(job.directory)} && {clean}{keep}; }} || exit {NO_FOLDER}; "
            f"{reach('qsub')}{self._qsub(job)}"
        )

    def _qsub(self, job: JobSpec) -> str:
        return f"qsub {shell.quote(job.script)}"

    def parse_submit(self, done: Completed) -> str:
        """See ``Scheduler.parse_submit``: exit codes differ and mean little, so the words are passed on."""
        if done.returncode == 0:
            if result := re.search(rf"^({ID})$", done.stdout.strip(), re.MULTILINE | re.ASCII):
                return result[1]
            raise unreachable(self._label, done)
        if self.is_silent(done):
            raise unreachable(self._label, done)
        said = message(done, ("qsub:", "submit error"))
        raise JobError(f"{self._label} refused the job: {said.removeprefix('(').removesuffix(')')}{self._advice(said)}")

    def id_of(self, reported: str) -> str:
        """See ``Scheduler.id_of``: tasks of an array are ``43[1].server``, and the array ``43[].server``."""
        return re.sub(r"\[\d+\]", "[]", reported)

    def _advice(self, said: str) -> str:
        # Older servers take names of up to 15 characters.
        return ": give the run a name of at most 15 characters" if "illegal -N value" in said else ""

    def status_command(self, ids: Sequence[str]) -> str:
        """See ``Scheduler.status_command``."""
        plain = [self._checked(i) for i in ids if "[]" not in i]
        arrays = [self._checked(i) for i in ids if "[]" in i]
        return step(__package__, f"{self.name}_status", [str(len(plain)), *plain, *arrays], program="qstat")

    def parse_status(self, done: Completed, ids: Sequence[str]) -> dict[str, QueueState]:
        """See ``Scheduler.parse_status``."""
        text = f"{done.stdout}\n{done.stderr}"
        jobs = parse_jobs(done.stdout)
        # 153: an id that is not there; 35: OpenPBS, one that has ended, without -x; the code is that of the last id.
        if (not jobs and done.returncode not in (0, 35, 153)) or re.search(self.no_answer, _without_jobs(text)):
            raise unreachable(self._label, Completed(done.returncode, done.stdout, _without_jobs(text)))
        result = {}
        for asked in ids:
            tasks = {task: job for name, job in jobs.items() if (task := task_of(name, asked)) is not None}
            if asked in jobs and not any(tasks):
                result[asked] = self._state(jobs[asked], jobs)
            elif tasks := {task: job for task, job in tasks.items() if task}:
                result[asked] = of_array({task: self._state(job, jobs) for task, job in tasks.items()})
            elif "" in tasks:
                result[asked] = self._state(tasks[""], jobs)
        return result

    def parse_end_message(self, line: str) -> QueueState | None:
        """See ``Scheduler.parse_end_message``.

        pbs_mom of both writes the line to the job's standard error (resmom/mom_main.c) before it sends SIGTERM, with
        the words of job_over_limit (resmom/linux/mom_mach.c and OpenPBS's): ``=>> PBS: job killed: walltime 23
        exceeded limit 8``, ``mem 829432kb exceeded limit 65536kb``, ``ncpus 3.2 exceeded limit 1 (sum)``.
        """
        result = re.match(r"=>> PBS: job killed: ((\w+) .{0,200})", line, re.ASCII)
        if result is None:
            return None
        state, reason = _LIMITS.get(result[2], ("failed", f"{self._label} ended it"))
        return QueueState(state, reason=f"{reason} ({result[1].strip()})")

    @abstractmethod
    def _state(self, job: Job, jobs: Mapping[str, Job]) -> QueueState:
        """Return what the fields of a job mean; ``jobs`` are all that were told, the parents of this one among them."""

    def cancel_command(self, ids: Sequence[str]) -> str:
        """See ``Scheduler.cancel_command``."""
        return step(__package__, "pbs_cancel", [self._checked(i) for i in ids], program="qdel")

    def find_command(self, tag: str, name: str) -> str:
        """See ``Scheduler.find_command``."""
        opt.checked(self._label, "job.name", name, opt.NAME)
        return step(__package__, f"{self.name}_find", [opt.check_tag(tag), name], after="pbs_find", program="qselect")

    def parse_find(self, done: Completed, tag: str) -> list[str]:
        """See ``Scheduler.parse_find``."""
        if done.returncode != 0:
            raise unreachable(self._label, done)
        result = {self.id_of(line) for line in done.stdout.split("\n") if re.fullmatch(ID, line, re.ASCII)}
        return sorted(result, key=lambda name: int(re.split(r"\D", name)[0]))

    def check_command(self, job: JobSpec) -> str:
        """See ``Scheduler.check_command``: qsub cannot be asked; the shell reads the script, the queue must exist."""
        queue = job.options.partition
        if queue is None:
            return "/bin/sh -n"
        return f"{reach('qstat')}/bin/sh -n && qstat -Q {shell.quote(queue)} >/dev/null"

    def _checked(self, text: str) -> str:
        if re.fullmatch(ID, text, re.ASCII):
            return text
        raise InputError(f"'{text}' is not an id of a {self._label} job: it is what qsub printed, such as 12.server")


def task_of(name: str, asked: str) -> str | None:
    """Return the number of the task ``name`` of the array ``asked``; empty for the array itself, None for neither."""
    if name == asked:
        return ""
    head, brackets, tail = asked.partition("[]")
    match = re.fullmatch(rf"{re.escape(head)}\[(\d+)\]{re.escape(tail)}", name) if brackets else None
    return match[1] if match else None


def base_of(job: Job) -> QueueState:
    """Return what does not depend on the job's state: its hosts, seconds so far, and their limit."""
    return QueueState(
        "queued",
        elapsed=seconds_of(job.get("resources_used.walltime")),
        limit=seconds_of(job.get("Resource_List.walltime")),
        nodes=_nodes_of(job),
    )


def _nodes_of(job: Job) -> tuple[str, ...]:
    """Return the hosts in ``exec_host``, such as ``n1/0-3+n2/0,2`` or ``n1/0*4``."""
    return tuple(dict.fromkeys(part.partition("/")[0] for part in job.get("exec_host").split("+") if part))


def exit_status_of(text: str) -> int | None:
    """Return an exit status; None where there is none."""
    return int(text) if re.fullmatch(r"-?\d{1,9}", text, re.ASCII) else None


def of_exit(code: int) -> tuple[int | None, int | None, str]:
    """Return exit code, signal and a clause about it for an exit status: 256 and more mean a signal."""
    # Both: 137 and 143 for a script that killed itself, as a shell tells it; 256 + N where the daemon sent signal N.
    if code >= 256:
        return None, code - 256, f"signal {code - 256} ended it"
    return code, None, ""


def waits_for(job: Job) -> str:
    """Return the jobs that this one waits for, such as ``afterok:45.server``; empty where it waits for none."""
    parts = [part for part in job.get("depend").split(",") if part.startswith("after")]
    return re.sub(r"@[^:,]*", "", ",".join(parts))


def is_held(job: Job) -> bool:
    """Return whether somebody holds the job, its user or an operator, whatever else it waits for."""
    return not set(job.get("Hold_Types")).isdisjoint("uop")


def _without_jobs(text: str) -> str:
    """Return the lines of an answer that are no job's: what the commands complained of."""
    return "\n".join(line for line in text.splitlines() if line and not line.startswith(("Job Id:", "    ", "\t")))
