"""What is told of several tasks, said of the array that they belong to; and the words of a scheduler, made one line."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from modak_deploy.errors import ModakError, TargetError
from modak_deploy.model.job import ENDS, JobState
from modak_deploy.schedulers.base import QueueState
from modak_deploy.transport.base import Completed

_LONGEST = 500
"""Most characters of a scheduler's own words."""
_WORST_FIRST: Sequence[JobState] = (
    "out_of_memory",
    "node_failure",
    "lost",
    "timeout",
    "failed",
    "preempted",
    "cancelled",
    "dependency_never_satisfied",
    "never_starts",
    "completed",
)


def of_array(tasks: Mapping[str, QueueState]) -> QueueState:
    """Return an array's state from those of its tasks by number: it ends when all have ended, as the worst."""
    states = list(tasks.values())
    for state in ("running", "queued", "held"):
        if alive := [task for task in states if task.state == state]:
            done = sum(task.state in ENDS for task in states)
            reason = alive[0].reason or f"{done} of {len(states)} tasks have ended"
            return replace(alive[0], reason=reason, nodes=_all_nodes(states), tasks=tasks)
    number, worst = min(tasks.items(), key=lambda item: _WORST_FIRST.index(item[1].state))
    if worst.state == "completed":
        return replace(worst, nodes=_all_nodes(states), tasks=tasks)
    in_queue = any(task.in_queue for task in states)
    count = sum(task.state == worst.state for task in states)
    why = worst.reason or (f"exit code {worst.exit_code}" if worst.exit_code is not None else worst.state)
    more = f" and {count - 1} more" if count > 1 else ""
    reason = f"task {number}{more}: {why}"
    return replace(worst, reason=reason, nodes=_all_nodes(states), tasks=tasks, in_queue=in_queue)


def _all_nodes(states: Sequence[QueueState]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(node for state in states for node in state.nodes))


def message(done: Completed, prefixes: Sequence[str] = ()) -> str:
    """Return what a command said, on stderr or else on stdout, as one line without the ``prefixes`` of its lines."""
    lines = []
    for line in (done.stderr.strip() or done.stdout.strip()).splitlines():
        text = line.strip()
        if text.lower().startswith("usage:"):
            break
        for prefix in prefixes:
            text = text.removeprefix(prefix).strip()
        if text and text not in lines:
            lines.append(text)
    said = "".join(char if char.isprintable() else "?" for char in "; ".join(lines))
    return said[:_LONGEST] or f"nothing, and exit code {done.returncode}"


def unreachable(scheduler: str, done: Completed) -> ModakError:
    """Return the error for a scheduler whose server does not answer."""
    return TargetError(f"{scheduler} does not answer: {message(done)}")
