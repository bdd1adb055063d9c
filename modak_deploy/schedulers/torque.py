"""Torque: qsub, qstat, qdel, qselect."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import ClassVar

from modak_deploy import shell
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
from modak_deploy.schedulers.process import GRACE
from modak_deploy.util.units import kibibytes

# Torque's own endings; whatever else is negative is a failure to start or to keep the job.
_NEGATIVE: Mapping[int, tuple[JobState, str]] = {
    # Seen with 6.1.3.h5: -11 at the wall time, 271 (256 + SIGTERM) after qdel, 265 where kill_delay ran out.
    -10: ("out_of_memory", "it used more memory than it reserved"),
    -11: ("timeout", "its wall time is over"),
    -12: ("timeout", "its processor time is over"),
    **NODE_RESTARTED,
}


class Torque(PBS):
    """Torque 6 and the like."""

    name: ClassVar[SchedulerName] = "torque"
    task_variable = "PBS_ARRAYID"
    # Without cpusets nothing confines an OpenMP program to the one core that it reserves, and Torque sets no variable.
    default_threads = 1
    script_is_shell = True
    _version_line = r"^Version: *(\d\S*)"
    _label = "Torque"
    _reserves_evenly = True

    def _shell(self, job: JobSpec) -> str:
        """See ``PBS._shell``: the job script itself, where it can be.

        pbs_mom starts the shell as session leader and gives it the script's path on standard input, so that the script
        would be its child. SIGTERM goes to the whole session; a shell without a trap dies of it, pbs_mom takes that for
        the end of the job ("local task termination detected", resmom/catch_child.c) and sends SIGKILL to what is left,
        8 to 9 ms later as seen with 6.1.3.h5. As session leader the script lives until kill_delay is over (2 s where
        the site has set none), and its own exit code is the job's.
        """
        if not job.own_shell:
            return super()._shell(job)
        # qsub(1): -S path[@host][,path[@host],...]
        hint = "choose a workspace whose path has no '@' in it"
        return opt.checked(self._label, "target.workspace", job.script, r"/[A-Za-z0-9_./+=~-]*", hint)

    def _qsub(self, job: JobSpec) -> str:
        """Return the command that submits the script, and gives the job time to end after qdel.

        qsub(1) of Torque 6: "-K kill_delay", seconds from SIGTERM to SIGKILL, which wins over the site's (2 where it
        has set none, of which 1.2 were seen). Older versions, such as 4.2.10, answer 2 and a usage text, and submit
        nothing.
        """
        script = shell.quote(job.script)
        return (
            f"{{ said=$(qsub -K {GRACE} {script} 2>&1 >&3); code=$?; }} 3>&1; "
            f'if [ "$code" = 2 ]; then qsub {script}; else printf %s "$said" >&2; exit "$code"; fi'
        )

    def _quality(self, job: JobSpec) -> Iterator[str]:
        o = job.options
        if o.qos is not None:
            yield f"-l qos={opt.checked(self._label, 'job.qos', o.qos)}"
        if o.export_environment:
            yield "-V"
        if o.exclusive:
            hint = ("reserve all cores of a node with ", Key("job.cores_per_rank"))
            raise opt.refused(self._label, "job.exclusive", "it has no option for whole nodes", hint)

    def _resources(self, job: JobSpec) -> Iterator[str]:
        layout = opt.layout(job, self._label)
        names = self._hosts(job, layout)
        # 6.1.3.h5 takes a "-l gpus=1" of its own and gives no GPU: they are asked for beside the nodes.
        suffix = self._properties(job)
        if job.resources.gpus:
            pattern = r"gpus=\{count\}(:[A-Za-z0-9_]+)*"
            suffix += ":" + self._gpus(job, "gpus={count}", pattern, "write 'gpus={count}' or 'gpus={count}:MODE'")
        # As much on each node as on the fullest. Parts with different shares ("nodes=1:ppn=2+1:ppn=1") may land on one
        # host; pbs_mom then refuses to join itself ("im_request, error processing command 0", 6.1.3.h5), and the job is
        # shown as running for ever, whatever qdel says.
        slots = max(layout.per_node()) * (layout.cores or 1)
        parts = [f"{host}:ppn={slots}{suffix}" for host in names or [str(layout.nodes)]]
        yield f"-l nodes={'+'.join(parts)}"
        memory = job.options.memory
        if memory is not None:
            # For the whole job. In 6.1.3.h5 it is a data limit of each process, and pbs_sched does not look at it: a
            # job that asks for more than there is runs all the same.
            yield f"-l mem={kibibytes(memory * layout.nodes)}kb"
        if job.options.memory_per_core is not None:
            yield f"-l mem={kibibytes(job.options.memory_per_core * layout.nodes * slots)}kb"

    def _properties(self, job: JobSpec) -> str:
        constraint = job.options.constraint
        if constraint is None:
            return ""
        pattern = r"[A-Za-z][A-Za-z0-9_.-]*([:&][A-Za-z][A-Za-z0-9_.-]*)*"
        hint = "write node properties, joined with '&' where a node must have several"
        return ":" + opt.checked(self._label, "job.constraint", constraint, pattern, hint).replace("&", ":")

    def _array(self, array: opt.Array) -> str:
        # There are no steps in Torque's syntax.
        parts = [
            f"{first}-{last}" if step == 1 and last > first else ",".join(map(str, range(first, last + 1, step)))
            for first, last, step in array.ranges
        ]
        return f"-t {','.join(parts)}{f'%{array.limit}' if array.limit else ''}"

    def _dependency(self, text: str) -> str:
        kind, _, ids = super()._dependency(text).partition(":")
        arrays = [i for i in ids.split(":") if "[]" in i]
        # qsub(1B): arrays have kinds of their own, such as afterokarray.
        if arrays and len(arrays) != ids.count(":") + 1:
            why = f"'{text}' waits for an array and a job at once"
            raise opt.refused(self._label, "job.dependency", why, "write one dependency for each")
        if not arrays:
            return text
        return f"{'afterstartarray' if kind == 'after' else f'{kind}array'}:{ids}"

    def _lines_per_rank(self, layout: opt.Layout) -> int:
        return layout.cores or 1

    def _advice(self, said: str) -> str:
        # 6.1.3.h5 answers 208 for a parent that has ended well or is not there, with any kind of dependency.
        if "Invalid Job Dependency" in said:
            return ": it knows no such job that has not ended yet, so leave out a 'dependency' on one that has"
        return super()._advice(said)

    def _state(self, job: Job, jobs: Mapping[str, Job]) -> QueueState:
        letter, comment = job.get("job_state"), job.get("comment")
        if letter == "C":
            return self._ended(job)
        state = STATES.get(letter, "queued")
        reason = "" if comment.startswith("Job started on") else comment
        if state == "held" and not is_held(job) and (parents := waits_for(job)):
            state, reason = "queued", f"it waits for {parents}"
            if bad := self._unsatisfied(parents, jobs):  # Torque leaves it in the queue for ever
                return replace(base_of(job), state="dependency_never_satisfied", reason=bad, in_queue=True)
            if gone := _gone(parents, jobs):
                # It may have ended well this very moment, so this is no end.
                reason = f"{reason}, and Torque knows no {gone} any more: it may wait for ever"
        elif state == "queued" and "PBS Error: Unknown node-attribute" in comment:
            # Its scheduler writes other errors of the server's there too, which pass.
            return replace(base_of(job), state="never_starts", reason=reason, in_queue=True)
        elif letter == "S":
            reason = reason or "it is suspended"
        return replace(base_of(job), state=state, reason=reason)

    def _unsatisfied(self, parents: str, jobs: Mapping[str, Job]) -> str:
        """Return why a held job will never be released; Torque leaves one for ever whose parent had ended before."""
        for kind, _, ids in (part.partition(":") for part in parents.split(",")):
            for parent in ids.split(":"):
                reported = jobs.get(parent)
                if reported is None or reported.get("job_state") != "C" or kind not in ("afterok", "afternotok"):
                    continue
                if (reported.get("exit_status") == "0") != (kind == "afterok"):
                    return f"{parent} ended with exit status {reported.get('exit_status') or 'none'} ({kind})"
        return ""

    def _ended(self, job: Job) -> QueueState:
        code, comment = exit_status_of(job.get("exit_status")), job.get("comment")
        why = "" if comment.startswith("Job started on") else comment
        base = base_of(job)
        # "Job deleted as result of dependency on job 45.server", with exit_status 271 although it never ran (6.1.3.h5).
        if "as result of dependency" in comment:
            return replace(base, state="dependency_never_satisfied", reason=comment)
        # C without exit_status and start_time: qdel of a job that waited or was held (6.1.3.h5).
        if code is None:
            return replace(base, state="cancelled", reason=why or "it was deleted before it started")
        if code < 0:
            state, reason = _NEGATIVE.get(code, ("failed", f"Torque could not run it (exit status {code})"))
            return replace(base, state=state, reason=reason)
        exit_code, signal, reason = of_exit(code)
        if signal == 15:
            return replace(base, state="cancelled", signal=signal, reason=why or "it was deleted while it ran")
        state = "completed" if code == 0 else "failed"
        return replace(base, state=state, exit_code=exit_code, signal=signal, reason=why or reason)


def _gone(parents: str, jobs: Mapping[str, Job]) -> str:
    """Return the first job that is waited for and not told of; arrays are never asked for."""
    ids = (name for part in parents.split(",") for name in part.split(":")[1:])
    return next((name for name in ids if "[]" not in name and name not in jobs), "")
