"""Which scheduler answers on a login node, by what its commands say of themselves, and how they are asked."""

from collections.abc import Iterator

from modak_deploy.errors import ModakError, TargetError
from modak_deploy.extensions import SCHEDULERS
from modak_deploy.model.kinds import kind_of
from modak_deploy.schedulers import registry
from modak_deploy.schedulers.base import Parts, Recognised, Scheduler
from modak_deploy.util.scripts import script_text


def probe_script(kind: str) -> str:
    """Return the shell function ``probe_schedulers``; ``kind`` is the expected scheduler, ``machine`` for none, or any.

    Of other distributions' schedulers only an expected one takes part, all of them for ``any``.
    """
    asked = SCHEDULERS.names() if kind == "any" else [] if kind_of(kind).single_node else [kind]
    parts = [script_text(__package__, "sh", "probe_commands.sh")] if asked else []
    parts += [part for name in asked for part in registry.get(name).probe()]
    lines = (f"{part.rstrip()}\n" for part in dict.fromkeys(parts))  # whether or not a part ends its last line
    return "probe_schedulers() {\n" + "".join(lines) + ":\n}\n"


def recognise(parts: Parts, *, expected: str = "") -> Recognised | None:
    """Return the scheduler that has answered; None where none has."""
    return next(recognised(parts, expected=expected), None)


def recognised(parts: Parts, *, expected: str = "") -> Iterator[Recognised]:
    """Yield the schedulers whose commands have answered, the one that counts first.

    The order of the built-in ones matters: Slurm's wrappers for Torque's commands are no Torque, they are driven as
    Slurm. But nobody has wrappers of Grid Engine's: where that is ``expected`` and answers, an sbatch beside it does
    not count.
    """
    for scheduler in _ordered(expected):
        if (answer := _asked(scheduler, parts)) is not None:
            yield answer


def _asked(scheduler: Scheduler, parts: Parts) -> Recognised | None:
    """Return what a scheduler makes of the answers; one of another distribution may fail at them in its own way."""
    if scheduler.name in SCHEDULERS.builtin:
        return scheduler.recognise(parts)
    try:
        return scheduler.recognise(parts)
    except ModakError:
        raise
    except Exception as error:  # whatever the other distribution's code raises
        raise TargetError(
            f"the scheduler '{scheduler.name}' cannot read what its commands answered: {type(error).__name__}: "
            f"{error}; {type(scheduler).__module__} is not part of modak: update it, or name another one in target.type"
        ) from error


def _ordered(expected: str) -> Iterator[Scheduler]:
    first = registry.get(expected) if expected else None
    if first is not None and first.own_commands:
        yield first
    for name in SCHEDULERS.builtin if expected else SCHEDULERS.names():
        yield registry.get(name)
