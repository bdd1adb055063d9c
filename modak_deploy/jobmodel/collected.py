"""Errors of several steps, reported together."""

from collections.abc import Callable
from typing import TypeVar

from modak_deploy.errors import InfeasibleError, InputError, ModakError, all_of

T = TypeVar("T")


class Errors:
    """Runs steps and keeps what each of them refuses."""

    def __init__(self) -> None:
        self._errors: list[ModakError] = []

    def of(self, step: Callable[[], T]) -> T | None:
        """Return what ``step`` returns; None where it refuses, which ``check`` reports."""
        try:
            return step()
        except (InputError, InfeasibleError) as error:
            self._errors.append(error)
            return None

    def check(self) -> None:
        """Raise one error with all diagnostics; it is infeasible only where each of them is."""
        if not self._errors:
            return
        infeasible = all(isinstance(error, InfeasibleError) for error in self._errors)
        raise (InfeasibleError if infeasible else InputError)(all_of(self._errors))
