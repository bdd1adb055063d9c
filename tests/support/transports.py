"""Transports that count, and that fail where a test wants it."""

from collections.abc import Callable

from modak_deploy.errors import TargetError
from modak_deploy.transport.base import Completed
from modak_deploy.transport.local import LocalTransport


class Killed(BaseException):
    """Stands for SIGKILL: nothing in the library catches it."""


class Counting(LocalTransport):
    """Counts round trips."""

    trips = 0

    def run(self, command: str, *, stdin: bytes | None = None, timeout: float | None = None) -> Completed:
        self.trips += 1
        return super().run(command, stdin=stdin, timeout=timeout)


class Failing(LocalTransport):
    """Fails at the round trip with number ``at`` (from 0), before or after the command has run on the target."""

    def __init__(self, at: int, *, after: bool, error: Callable[[], BaseException] = Killed) -> None:
        self._at = at
        self._after = after
        self._error = error
        self.trips = 0

    def run(self, command: str, *, stdin: bytes | None = None, timeout: float | None = None) -> Completed:
        number, self.trips = self.trips, self.trips + 1
        if number == self._at and not self._after:
            raise self._error()
        done = super().run(command, stdin=stdin, timeout=timeout)
        if number == self._at:
            raise self._error()
        return done


class Unplugged(LocalTransport):
    """Answers nothing for a number of round trips once ``pull`` has been called."""

    def __init__(self) -> None:
        self.dark = 0

    def pull(self, trips: int) -> None:
        self.dark = trips

    def run(self, command: str, *, stdin: bytes | None = None, timeout: float | None = None) -> Completed:
        if self.dark:
            self.dark -= 1
            raise TargetError("the network is down")
        return super().run(command, stdin=stdin, timeout=timeout)


class Noisy(LocalTransport):
    """A login that greets, on both outputs, before and after."""

    def run(self, command: str, *, stdin: bytes | None = None, timeout: float | None = None) -> Completed:
        done = super().run(command, stdin=stdin, timeout=timeout)
        greeting = "Welcome to the cluster!\n1 2 3\n\nout\n"
        return Completed(done.returncode, f"{greeting}{done.stdout}\nlogout\n", f"{greeting}{done.stderr}")


class CutShort(LocalTransport):
    """Kills the shell that carries out the submit step, with SIGKILL, just before one of its lines."""

    def __init__(self, line: str) -> None:
        self._line = line
        self.cut = False

    def run(self, command: str, *, stdin: bytes | None = None, timeout: float | None = None) -> Completed:
        if not self.cut and self._line in command:
            self.cut = True
            command = command.replace(self._line, f"kill -KILL $$\n{self._line}", 1)
        return super().run(command, stdin=stdin, timeout=timeout)


class Notes:
    """A reporter that keeps what it is told."""

    def __init__(self) -> None:
        self.states: list[tuple[str, str]] = []
        self.notices: list[str] = []
        self.text = ""

    def state(self, job: object, state: object) -> None:
        self.states.append((state.state, state.reason))  # type: ignore[attr-defined]

    def notice(self, text: str) -> None:
        self.notices.append(text)

    def output(self, job: object, text: str) -> None:
        self.text += text
