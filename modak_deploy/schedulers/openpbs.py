"""OpenPBS and PBS Professional: qsub, qstat, qdel, qselect."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import pairwise
from typing import ClassVar

from modak_deploy.diagnostics import Key
from modak_deploy.model.base import SchedulerName
from modak_deploy.model.job import JobState
from modak_deploy.schedulers import options as opt
from modak_deploy.schedulers.base import JobSpec, QueueState
from modak_deploy.schedulers.pbs import (
    NODE_RESTARTED,
    PBS,
    STATES,
    Job,
    base_of,
    exit_status_of,
    is_held,
    of_exit,
    waits_for,
)
from modak_deploy.util.units import kibibytes

_NEGATIVE: Mapping[int, tuple[JobState, str]] = {
    # Seen with 23.06.06: -29 at the wall time, 12 to 15 s after it was over; 271 (256 + SIGTERM) after qdel.
    -24: ("failed", "it used more cores than it reserved"),
    -25: ("failed", "it used more cores than it reserved"),
    -26: ("out_of_memory", "it used more memory than it reserved"),
    -27: ("out_of_memory", "it used more memory than it reserved"),
    -28: ("timeout", "its processor time is over"),
    -29: ("timeout", "its wall time is over"),
    **NODE_RESTARTED,
}
_STATES: Mapping[str, JobState] = {**STATES, "M": "queued", "B": "running", "U": "running", "X": "running"}


class OpenPBS(PBS):
    """OpenPBS 20 and newer."""

    name: ClassVar[SchedulerName] = "openpbs"
    task_variable = "PBS_ARRAY_INDEX"
    _version_line = r"^pbs_version *= *(\S+)"
    _label = "OpenPBS"

    def reads_environment(self, job: JobSpec) -> bool:
        """See ``Scheduler.reads_environment``: ``qsub -V`` of OpenPBS 23.06 passes nothing on and says nothing."""
        return job.options.export_environment

    def _own_file(self, job: JobSpec) -> str:
        return f"scheduler.log{'.^array_index^' if job.options.array else ''}"

    def _rerun(self, array: bool) -> str:
        return "y" if array else "n"  # it refuses an array that may not run again

    def _quality(self, job: JobSpec) -> Iterator[str]:
        if job.options.qos is not None:
            hint = ("choose a queue with ", Key("job.partition"))
            raise opt.refused(self._label, "job.qos", "it has no qualities of service", hint)
        yield from ()

    def _resources(self, job: JobSpec) -> Iterator[str]:
        o = job.options
        layout = opt.layout(job, self._label)
        cores = layout.cores or 1
        names = self._hosts(job, layout)
        suffix = self._chunk(job)
        shares = [(nodes, ranks, "") for nodes, ranks in layout.groups()]
        if names:
            shares = [(1, ranks, f":host={name}") for ranks, name in zip(layout.per_node(), names, strict=True)]
        chunks = []
        for nodes, ranks, host in shares:
            memory = o.memory if o.memory_per_core is None else o.memory_per_core * ranks * cores
            size = "" if memory is None else f":mem={kibibytes(memory)}kb"
            chunks.append(f"{nodes}:ncpus={ranks * cores}:mpiprocs={ranks}{size}{suffix}{host}")
        # "select" and no "-l mem" or "-l ncpus" beside it: qsub of 23.06.06 ends with 5 ("cannot be used with select").
        yield f"-l select={'+'.join(chunks)}"
        yield f"-l place=scatter{':excl' if o.exclusive else ''}"

    def _chunk(self, job: JobSpec) -> str:
        suffix = ""
        if job.resources.gpus:
            pattern = r"[A-Za-z][A-Za-z0-9_]*=\{count\}(:[A-Za-z][A-Za-z0-9_]*=[A-Za-z0-9_.-]+)*"
            suffix += ":" + self._gpus(job, "ngpus={count}", pattern, "write 'ngpus={count}' or as the site names it")
        if job.options.constraint is not None:
            pair = r"[A-Za-z][A-Za-z0-9_]*=[A-Za-z0-9_.-]+"
            hint = "write resources of a node as 'name=value', several with ':'"
            constraint = opt.checked(self._label, "job.constraint", job.options.constraint, f"{pair}(:{pair})*", hint)
            suffix += f":{constraint}"
        return suffix

    def _array(self, array: opt.Array) -> str:
        numbers = array.indices()
        steps = {after - before for before, after in pairwise(numbers)}
        # qsub -J of 23.06.06 refuses a range of one task with 2, and takes one range only.
        if len(steps) != 1:
            text = str(array)
            why = f"'{text}' is a single task" if not steps else f"'{text}' is not one range"
            raise opt.refused(self._label, "job.array", why, "write a range of two tasks or more, such as 0-9 or 0-9:2")
        step = steps.pop()
        limit = f"%{array.limit}" if array.limit else ""
        return f"-J {numbers[0]}-{numbers[-1]}{f':{step}' if step > 1 else ''}{limit}"

    def _lines_per_rank(self, layout: opt.Layout) -> int:
        return 1

    def _state(self, job: Job, jobs: Mapping[str, Job]) -> QueueState:
        letter, comment = job.get("job_state"), job.get("comment")
        if letter in ("F", "X") and (letter == "F" or job.get("Exit_status")):
            return self._ended(job)
        state = _STATES.get(letter, "queued")
        reason = "" if re.match(r"Job (run|Array Began) at ", comment) else comment
        # qsub takes such a job and answers 0; it stays Q for ever (23.06.06: "Can Never Run: Insufficient amount of
        # resource: ncpus (R: 64 A: 8 T: 8)", "Not enough total nodes available").
        if state == "queued" and comment.startswith("Can Never Run"):
            return replace(base_of(job), state="never_starts", reason=reason, in_queue=True)
        if state == "held" and not is_held(job) and (parents := waits_for(job)):
            state, reason = "queued", f"it waits for {parents}"
        elif letter in ("S", "U"):
            reason = reason or "it is suspended"
        start = job.get("estimated.start_time") if state == "queued" else ""
        return replace(base_of(job), state=state, reason=reason, start=start)

    def _ended(self, job: Job) -> QueueState:
        code, comment = exit_status_of(job.get("Exit_status")), job.get("comment")
        base = base_of(job)
        if code is None:
            # Without an exit status it never ran, whatever its substate says.
            # Substate 92, as of a job that ended well, is what 23.06.06 gives to a child that its parent has killed.
            if (parents := waits_for(job)) and "s" in job.get("Hold_Types"):
                return replace(base, state="dependency_never_satisfied", reason=f"{parents} did not end as it must")
            return replace(base, state="cancelled", reason=_by(comment) or "it was deleted before it started")
        # The comment, such as "Job run at ... and exceeded resource walltime", is kept with the history (qstat -x -f).
        if "exceeded resource walltime" in comment:
            return replace(base, state="timeout", reason="its wall time is over")
        if "exceeded resource mem" in comment or "exceeded resource vmem" in comment:
            return replace(base, state="out_of_memory", reason="it used more memory than it reserved")
        if code < 0:
            state, reason = _NEGATIVE.get(code, ("failed", f"OpenPBS could not run it (exit status {code})"))
            return replace(base, state=state, reason=reason)
        exit_code, signal, reason = of_exit(code)
        if _by(comment) or signal == 15:
            return replace(base, state="cancelled", signal=signal, reason=_by(comment) or "it was deleted while it ran")
        state = "completed" if code == 0 else "failed"
        return replace(base, state=state, exit_code=exit_code, signal=signal, reason=reason)


def _by(comment: str) -> str:
    fields = re.search(r"(terminated|deleted) by (\S+)", comment)
    return f"deleted by {fields[2]}" if fields else ""
