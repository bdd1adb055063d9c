"""One step on a target: one POSIX shell script, one round trip, an answer in named parts."""

import re
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from modak import reported
from modak.errors import TargetError
from modak.shell import join
from modak.terminal import excerpt
from modak.transport.base import Completed, Transport
from modak.util.scripts import script_text

STEP_LIMIT = 300.0
"""Seconds after which a step is taken for hung."""

_SHARED = frozenset({"lock"})
"""Scripts of this package that those of other packages use too."""


class StepError(TargetError):
    """A step was carried out as far as it could be, and refused; to try again would not help."""


@dataclass(frozen=True)
class Answer:
    """What a step printed: its parts in order, and what else came by standard error."""

    parts: Sequence[tuple[str, str]]
    stderr: str

    def get(self, name: str) -> str | None:
        """Return the first part of that name; None where there is none."""
        return next((text for key, text in self.parts if key == name), None)

    def text(self, name: str) -> str:
        """Return the first part of that name, empty where there is none."""
        return self.get(name) or ""

    def integer(self, name: str, *, most: int = reported.MAX_INTEGER) -> int:
        """Return the number in a part; TargetError where it is none."""
        return reported.integer(self.text(name), name, most=most)

    def completed(self, out: str, code: str, err: str | None = None) -> Completed:
        """Return how a command ended, by the parts that hold its output and its exit code, for a parser."""
        stderr = self.stderr if err is None else self.text(err)
        return Completed(self.integer(code, most=255), reported.plain(self.text(out)), reported.plain(stderr))

    def groups(self, prefix: str) -> Iterator[dict[str, str]]:
        """Yield the parts that follow each part named ``prefix`` and a number."""
        group: dict[str, str] | None = None
        for key, text in self.parts:
            if re.fullmatch(rf"{re.escape(prefix)}[0-9]{{1,9}}", key):
                if group is not None:
                    yield group
                group = {}
            elif group is not None:
                group[key] = text
        if group is not None:
            yield group


def call(
    transport: Transport,
    step: str,
    arguments: Sequence[str],
    *,
    stdin: bytes = b"",
    package: str = __package__,
    library: Sequence[str] = (),
    limit: float | None = STEP_LIMIT,
) -> Answer:
    """Run the script ``sh/<step>.sh`` of ``package`` on the target, for at most ``limit`` seconds.

    The scripts that ``library`` names come before it: ``lock``, or one of the same package.

    StepError when the step refuses (with its own sentence); TargetError when the target is not reached, and when the
    step died on the way or its answer was cut off.
    """
    boundary = f"--{secrets.token_hex(12)}"
    shared = ["common", *(name for name in library if name in _SHARED)]
    own = [name for name in (*library, step) if name not in _SHARED]
    script = "\n".join([_script(__package__, name) for name in shared] + [_script(package, name) for name in own])
    command = f"boundary={boundary}\nset -- {join(arguments)}\n{script}"
    done = transport.run(command, stdin=stdin, timeout=limit)
    parts = []
    for piece in done.stdout.split(f"\n{boundary} ")[1:]:
        name, _, text = piece.partition("\n")
        parts.append((name, text))
    said = [line.strip() for line in done.stderr.splitlines() if line.strip()]
    for line in said:
        if line.startswith(f"{boundary} "):
            raise StepError(excerpt(line.removeprefix(f"{boundary} ")))
    if done.returncode:
        last = f": {excerpt(said[-1])}" if said else ""
        raise TargetError(f"the step '{step}' died on the target with exit code {done.returncode}{last}")
    if not parts or parts[-1][0] != "end":
        raise TargetError(f"the answer to the step '{step}' was cut off on the way")
    return Answer(parts[:-1], done.stderr)


def ask(transport: Transport, command: str, *, stdin: bytes = b"") -> Completed:
    """Run one command and return how it ended, free of what a login prints; TargetError when the target is silent."""
    return call(transport, "ask", [command], stdin=stdin).completed("out", "code")


def read(transport: Transport, path: str) -> str | None:
    """Return what is in a file on the target, as it is; None where it cannot be read."""
    answer = call(transport, "ask", [join(["cat", path])])
    return None if answer.integer("code") else answer.text("out")


def token() -> str:
    """Return a name that no other attempt has."""
    return secrets.token_hex(8)


def _script(package: str, name: str) -> str:
    return script_text(package, "sh", f"{name}.sh").removesuffix("\n")
