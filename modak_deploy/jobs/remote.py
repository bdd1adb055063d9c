"""One step on a target: one POSIX shell script, one round trip, an answer in named parts."""

import io
import re
import secrets
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil

from modak_deploy import reported
from modak_deploy.errors import TargetError
from modak_deploy.shell import join
from modak_deploy.terminal import ends
from modak_deploy.transport.base import Completed, Transport
from modak_deploy.transport.local import encode
from modak_deploy.util.scripts import script_text

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


@dataclass(frozen=True)
class Step:
    """The script ``sh/<name>.sh`` of ``package`` with what it is given.

    The scripts that ``library`` names come before it: ``lock``, or one of the same package.
    """

    name: str
    arguments: Sequence[str]
    stdin: bytes = b""
    library: Sequence[str] = ()
    package: str = __package__

    def scripts(self) -> list[tuple[str, str]]:
        """Return the scripts that the step consists of, besides the one that all share, as packages and names."""
        names = [*(name for name in self.library if name in _SHARED)]
        own = [name for name in (*self.library, self.name) if name not in _SHARED]
        return [(__package__, name) for name in names] + [(self.package, name) for name in own]


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
    """Run a step on the target, for at most ``limit`` seconds; see ``Step``.

    StepError when the step refuses (with its own sentence); TargetError when the target is not reached, and when the
    step died on the way or its answer was cut off.
    """
    return carry_out(transport, [Step(step, arguments, stdin, library, package)], limit=limit)[-1]


def carry_out(transport: Transport, steps: Sequence[Step], *, limit: float | None = STEP_LIMIT) -> list[Answer]:
    """Run steps one after the other in one round trip and return their answers; what ``call`` raises ends them.

    Only the first may read standard input.
    """
    boundary = _boundary()
    lines = [f"boundary={boundary}", _script(__package__, "common")]
    for step in steps:
        text = "\n".join(_script(package, name) for package, name in step.scripts())
        text = f"set -- {join(step.arguments)}\n{text}"
        # All but the last in a shell of their own, which their exit ends.
        lines.append(text if step is steps[-1] else f"(\n{text}\n) || exit\nexec </dev/null")
    done = transport.run("\n".join(lines), stdin=steps[0].stdin, timeout=limit)
    names = " and ".join(f"'{step.name}'" for step in steps)
    parts = _parts(done.stdout, boundary)
    _check(done.returncode, done.stderr, parts, boundary, names)
    answers = []
    for _step in steps:
        end = next((index for index, (name, _text) in enumerate(parts) if name == "end"), None)
        if end is None:
            raise TargetError(f"the answer to the step {names} was cut off on the way")
        answers.append(Answer(parts[:end], done.stderr))
        parts = parts[end + 1 :]
    return answers


def carry_out_all(
    transport: Transport,
    jobs: Sequence[Sequence[Step]],
    *,
    seconds: float,
    prepare: str = "",
    limit: float | None = STEP_LIMIT,
) -> list[list[Answer | TargetError]]:
    """Run the steps of several jobs in one round trip; return for each job its answers, or why there is none.

    The next step of a job comes after those before it of all jobs, and not at all when one failed. After ``seconds`` no
    further steps are begun, so that there may be fewer answers than steps. What the command ``prepare`` prints before
    the last ones is in the file that the variable ``modak_listing`` names. StepError or TargetError where nothing could
    be done at all.
    """
    boundary = _boundary()
    scripts: dict[str, str] = {"common": _script(__package__, "common")}
    files: dict[str, bytes] = {}
    for number, steps in enumerate(jobs):
        for phase, step in enumerate(steps, 1):
            lines = [f"boundary={boundary}", ". ./common", f"set -- {join(step.arguments)}"]
            for package, name in step.scripts():
                file = f"{package}.{name}"
                scripts[file] = _script(package, name)
                lines.append(f". ./{file}")
            files[f"{number}.{phase}"] = encode("\n".join([*lines, ""]))
            if step.stdin:
                files[f"{number}.{phase}.in"] = step.stdin
    data = _archive({**{name: text.encode() for name, text in scripts.items()}, **files})
    phases = max(map(len, jobs), default=0)
    arguments = [token(), str(ceil(seconds)), str(len(jobs)), str(phases), prepare]
    command = f"boundary={boundary}\nset -- {join(arguments)}\n{scripts['common']}\n{_script(__package__, 'several')}"
    done = transport.run(command, stdin=data, timeout=limit)
    parts = _parts(done.stdout, boundary)
    _check(done.returncode, done.stderr, parts, boundary, "'several'")
    answers: list[list[Answer | TargetError]] = [[] for _ in jobs]
    for number, phase, inner in _steps(parts[:-1]):
        if number < len(jobs) and len(answers[number]) == phase - 1 < len(jobs[number]):
            answers[number].append(_answer(inner, boundary, jobs[number][phase - 1].name))
    return answers


def _steps(parts: Sequence[tuple[str, str]]) -> Iterator[tuple[int, int, list[tuple[str, str]]]]:
    """Yield number, phase and parts of each step that ``several.sh`` has run."""
    current: tuple[int, int] | None = None
    inner: list[tuple[str, str]] = []
    for name, text in [*parts, ("step.0.0", "")]:
        if match := re.fullmatch(r"step\.([0-9]{1,6})\.([0-9])", name):
            if current is not None:
                yield (*current, inner)
            current, inner = (int(match[1]), int(match[2])), []
        else:
            inner.append((name, text))


def _answer(parts: Sequence[tuple[str, str]], boundary: str, name: str) -> Answer | TargetError:
    """Return the answer of one of several steps, or why there is none."""
    outer = dict(part for part in parts if part[0] in ("step_code", "step_said"))
    inner = [part for part in parts if part[0] not in outer]
    said = outer.get("step_said", "")
    try:
        code = reported.integer(outer.get("step_code", ""), "exit code", most=255)
        _check(code, said, inner, boundary, f"'{name}'")
    except TargetError as error:
        return error
    return Answer(inner[:-1], said)


def _boundary() -> str:
    return f"--{secrets.token_hex(12)}"


def _parts(text: str, boundary: str) -> list[tuple[str, str]]:
    pieces = (piece.partition("\n") for piece in text.split(f"\n{boundary} ")[1:])
    return [(name, content) for name, _, content in pieces]


def _check(code: int, stderr: str, parts: Sequence[tuple[str, str]], boundary: str, names: str) -> None:
    """Raise StepError or TargetError for what was not carried out to its end."""
    said = [line.strip() for line in stderr.splitlines() if line.strip()]
    for line in said:
        if line.startswith(f"{boundary} "):
            raise StepError(ends(line.removeprefix(f"{boundary} ")))
    if code:
        last = f": {ends(said[-1])}" if said else ""
        raise TargetError(f"the step {names} died on the target with exit code {code}{last}")
    if not parts or parts[-1][0] != "end":
        raise TargetError(f"the answer to the step {names} was cut off on the way")


def _archive(files: Mapping[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.GNU_FORMAT) as tar:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.mode, info.size = 0o600, len(content)
            tar.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


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
