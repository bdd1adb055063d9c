"""The one question to a target and the parts of its answer."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from modak_deploy.containers.registry import probe_script as runtime_script
from modak_deploy.errors import TargetError
from modak_deploy.extensions import RUNTIMES
from modak_deploy.model.application import Application
from modak_deploy.model.base import RuntimeName
from modak_deploy.model.target import Target
from modak_deploy.numbers import digits
from modak_deploy.reported import plain
from modak_deploy.schedulers.detect import probe_script as scheduler_script
from modak_deploy.schedulers.steps import reach
from modak_deploy.shell import join
from modak_deploy.util.scripts import script_text

MAX_ANSWER = 16 * 1024 * 1024
_MARK = "@@modak:"
_NO_PYTHON = "-"


def probe_script(
    target: Target | None,
    application: Application | None = None,
    *,
    default_python: str | None = None,
    runtimes: Sequence[RuntimeName] = (),
) -> str:
    """Return the POSIX shell script that tells all that ``parse_probe`` wants to know, in one round trip.

    Without a ``target`` it finds out which scheduler there is. The application's Python is ``target.python``, else
    ``default_python``, else ``python3`` on the target's path; an application that has nothing to do with Python is
    not asked for one. It looks for the container runtimes of other distributions where the target or ``runtimes``
    names them, or nothing is known of the target.
    """
    kind = target.type if target is not None else "any"
    described = (target.python if target is not None else None) or ""
    if application is not None and application.script is None and application.framework is None:
        described = _NO_PYTHON
    workspace = (target or Target(name="unknown")).workspace
    arguments = join([kind, described, default_python or "", workspace])
    if target is None:
        others: list[str] = RUNTIMES.names()
    else:
        others = [name for name in (*(target.runtimes or []), *runtimes) if name != "native"]
    functions = reach() + scheduler_script(kind) + runtime_script(list(dict.fromkeys(others)))
    return f"set -- {arguments}\n{functions}{script_text(__package__, 'sh', 'probe.sh')}"


@dataclass(frozen=True)
class Answer:
    """What the script printed, by the name of the part; ``code`` holds exit codes of the queries."""

    parts: dict[str, str]
    codes: dict[str, int]

    def __getitem__(self, name: str) -> str:
        """Return the text of a part, empty where there is none."""
        return self.parts.get(name, "")

    def line(self, name: str) -> str | None:
        """Return the first line of a part that is not blank."""
        return next((line.strip() for line in self[name].splitlines() if line.strip()), None)


def split(text: str) -> Answer:
    """Return the parts of the probe's output; TargetError when it did not come to its end.

    What a login shell prints before the first part is left out.
    """
    if len(text) > MAX_ANSWER:
        raise TargetError(f"the target's answer to the discovery has more than {MAX_ANSWER} characters")
    text = plain(text)
    parts: dict[str, str] = {}
    codes: dict[str, int] = {}
    last = ""
    for name, body in _pieces(text):
        if name == "code":
            code = digits(body.strip(), 255)
            codes[last] = 1 if code is None else code
        else:
            parts[name] = body
            last = name
    if "end" not in parts:
        raise TargetError("the target's answer to the discovery was cut off on the way")
    return Answer(parts, codes)


def _pieces(text: str) -> Iterator[tuple[str, str]]:
    for piece in f"\n{text}".split(f"\n{_MARK}")[1:]:
        name, _, body = piece.partition("\n")
        yield name.strip(), body
