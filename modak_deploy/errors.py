"""The errors that modak raises on purpose: one or several diagnostics, each a sentence that a user can act on."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Self

from modak_deploy.diagnostics import Diagnostic, Locate, Location, Text, location_of


class ModakError(Exception):
    """Base of all expected failures; ``exit_code`` is what the command line ends with.

    Messages repeat keys, names and addresses of others, so that characters which a terminal would act upon, or could
    not show, are written as escapes, and passwords in addresses as ``***``.
    """

    exit_code = 1
    code = "failure"
    """The code of a diagnostic that is made of a message alone."""
    diagnostics: tuple[Diagnostic, ...]

    def __init__(
        self,
        problem: Text | Diagnostic | Sequence[Diagnostic] = "",
        *,
        key: str | Location = "",
        hint: Text = "",
        code: str | None = None,
        source: str | Path = "",
        line: int | None = None,
    ) -> None:
        """``problem`` is a message, with its ``key`` as in a document (``job.qos``), or one or more diagnostics."""
        if isinstance(problem, Diagnostic):
            self.diagnostics = (problem,)
        elif problem and not isinstance(problem, str) and all(isinstance(part, Diagnostic) for part in problem):
            self.diagnostics = tuple(part for part in problem if isinstance(part, Diagnostic))
        else:
            text = problem if isinstance(problem, tuple) else str(problem)
            path = location_of(key) if isinstance(key, str) else key
            self.diagnostics = (Diagnostic(text, code or self.code, path, str(source), line, hint),)
        super().__init__(self._rendered())

    def _rendered(self) -> str:
        return "\n".join(map(str, self.diagnostics))

    def mapped(self, change: Callable[[Diagnostic], Diagnostic]) -> Self:
        """Return an error of the same kind with each of its diagnostics changed."""
        return type(self)([change(diagnostic) for diagnostic in self.diagnostics])

    def located(self, locate: Locate) -> Self:
        """Return the error with file and line of those diagnostics that have a path and no source yet."""

        def change(diagnostic: Diagnostic) -> Diagnostic:
            if diagnostic.source or not diagnostic.path:
                return diagnostic
            position = locate(diagnostic.path)
            return diagnostic if position is None else diagnostic.at(position)

        return self.mapped(change)


class InputError(ModakError):
    """What the user wrote is wrong: a key, a value, a missing file."""

    exit_code = 2
    code = "invalid-input"

    def _rendered(self) -> str:
        return super()._rendered().replace("\t", "\\t")  # of a key or a value: nothing else holds one


class OptionError(InputError):
    """An option of the job that the target's scheduler does not support; its path is that in a document."""

    code = "option-not-supported"


class InfeasibleError(ModakError):
    """No candidate can do what was asked for."""

    exit_code = 3
    code = "infeasible"


class TargetError(ModakError):
    """The target cannot be reached or does not do what was asked."""

    exit_code = 4
    code = "target"


class JobError(ModakError):
    """The job ended badly, or was never accepted by the scheduler."""

    exit_code = 5
    code = "job"


def all_of(errors: Iterable[ModakError]) -> tuple[Diagnostic, ...]:
    """Return the diagnostics of several errors, each once."""
    return tuple(dict.fromkeys(diagnostic for error in errors for diagnostic in error.diagnostics))
