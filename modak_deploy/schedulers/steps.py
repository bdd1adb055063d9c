"""The longer commands: POSIX shell in files of its own, its arguments the only thing that changes."""

from collections.abc import Sequence

from modak_deploy import shell
from modak_deploy.util.scripts import script_text


def step(package: str, name: str, arguments: Sequence[str], *, after: str = "", program: str = "") -> str:
    """Return the command that runs ``sh/<name>.sh`` of ``package`` with ``arguments``; ``sh/<after>.sh`` goes before.

    It is to find the scheduler's ``program`` on the path; see ``reach``.
    """
    before = (reach(program) if program else "") + (script_text(package, "sh", f"{after}.sh") if after else "")
    return f"set -- {shell.join(arguments)}\n{before}{script_text(package, 'sh', f'{name}.sh')}"


def reach(program: str = "") -> str:
    """Return the lines after which ``program`` is on the path if a login would have it; without one the function."""
    return script_text(__package__, "sh", "reach.sh") + (f"reach {program}\n" if program else "")
