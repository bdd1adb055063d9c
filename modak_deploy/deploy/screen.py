"""Where the commands write: results to standard output, progress to standard error, alive on a terminal."""

import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from modak_deploy.deploy.progress import LineReporter
from modak_deploy.jobs.job import Job
from modak_deploy.jobs.shown import state_text, to_stderr
from modak_deploy.model.job import ENDS, JobState
from modak_deploy.schedulers.base import QueueState
from modak_deploy.terminal import lines, visible
from modak_deploy.util.units import clock

if TYPE_CHECKING:
    from rich.live import Live
    from rich.text import Text

COLOURS: dict[JobState, str] = {"completed": "green", "running": "cyan", "queued": "yellow", "held": "yellow"}
"""Colours of states; every other one is an end that somebody has to look at, and red."""


def colour_of(state: JobState) -> str:
    """Return the colour of a job's state."""
    return COLOURS.get(state, "red")


class Screen:
    """The user's terminal, or the files and pipes in its place."""

    def __init__(self, *, json: bool = False, output: bool = False) -> None:
        """With ``json`` nothing but one value goes to standard output; with ``output``, the output of jobs."""
        self.json = json
        self.reporter: LineReporter = _ScreenReporter(self, output)
        self._live: Live | None = None
        self._status = _Status()

    def line(self, text: str) -> None:
        """Write a line of the result, which is left out where it is written as JSON."""
        if not self.json:
            with suppress(SystemExit):  # where its reader has ended; the work goes on, and has its exit code
                self.write(text + "\n")

    def write(self, text: str) -> None:
        """Write text of the result as it is."""
        with self._still():
            sys.stdout.write(text)
            sys.stdout.flush()

    def value(self, value: Any) -> None:
        """Write the result as JSON, where that is wanted."""
        if self.json:
            with self._still(), suppress(SystemExit):
                sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=False) + "\n")

    def progress(self, text: str) -> None:
        """Write a line of what happens, with its time."""
        if self._live is None:
            to_stderr(text)
            return
        from rich.text import Text

        line = Text.assemble((time.strftime("%H:%M:%S "), "dim"), visible(text))
        self._live.console.print(line, soft_wrap=True)

    def status(self, text: str, colour: str = "") -> None:
        """Show what is waited for; the time since then is counted beside it."""
        self._status.set(visible(text), colour)

    @contextmanager
    def alive(self, text: str) -> Iterator[None]:
        """Show a line that moves while something is waited for, where standard error is a terminal."""
        # Not sys.stderr: that shows control characters, with which a terminal is drawn on, as escapes.
        if self._live is not None or sys.__stderr__ is None or not sys.__stderr__.isatty():
            yield
            return
        from rich.console import Console
        from rich.live import Live
        from rich.spinner import Spinner

        self.status(text)
        console = Console(file=sys.__stderr__, highlight=False, markup=False)
        spinner = Spinner("dots", text=self._status, style="cyan")
        # Standard output stays what it is: it may be a file.
        live = Live(
            spinner, console=console, transient=True, redirect_stdout=False, redirect_stderr=False, refresh_per_second=5
        )
        with live:
            self._live = live
            try:
                yield
            finally:
                self._live = None

    @contextmanager
    def _still(self) -> Iterator[None]:
        if self._live is None:
            yield
            return
        self._live.stop()
        try:
            yield
        finally:
            self._live.start()


class _Status:
    """What is waited for, and for how long."""

    def __init__(self) -> None:
        self.set("", "")

    def set(self, text: str, colour: str) -> None:
        self._text, self._colour, self._since = text, colour, time.monotonic()

    def __rich__(self) -> "Text":
        from rich.text import Text

        since = clock(int(time.monotonic() - self._since))
        return Text.assemble((self._text, self._colour), (f"  {since}", "dim"), no_wrap=True, overflow="ellipsis")


class _ScreenReporter(LineReporter):
    """Shows what happens to jobs on a screen."""

    def __init__(self, screen: Screen, output: bool) -> None:
        super().__init__(screen.progress)
        self._screen = screen
        self._output = output

    def state(self, job: Job, state: QueueState) -> None:
        """See modak_deploy.jobs.settings.Reporter."""
        super().state(job, state)
        if state.state not in ENDS:
            self._screen.status(state_text(job, state), colour_of(state.state))

    def output(self, job: Job, text: str) -> None:
        """See modak_deploy.jobs.settings.Reporter."""
        if self._output:
            with suppress(SystemExit):
                self._screen.write("".join(f"{line}\n" for line in lines(text)))
        else:
            super().output(job, text)
