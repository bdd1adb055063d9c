"""The errors that modak raises on purpose; each message is one sentence that a user can act on."""

from modak.addresses import without_password
from modak.terminal import visible


class ModakError(Exception):
    """Base of all expected failures; ``exit_code`` is what the command line ends with.

    Messages repeat keys, names and addresses of others, so that characters which a terminal would act upon, or could
    not show, are written as escapes, and passwords in addresses as ``***``.
    """

    exit_code = 1

    def __init__(self, message: object = "") -> None:
        super().__init__(visible(without_password(str(message))))


class InputError(ModakError):
    """What the user wrote is wrong: a key, a value, a missing file."""

    exit_code = 2

    def __init__(self, message: object = "") -> None:
        super().__init__(str(message).replace("\t", "\\t"))  # of a key or a value: nothing else holds one


def reworded(error: ModakError, message: str) -> ModakError:
    """Return an error of the same kind with another message; one of an option, without its place in a document."""
    return InputError(message) if isinstance(error, OptionError) else type(error)(message)


class OptionError(InputError):
    """An option of the job that the target's scheduler does not support."""

    def __init__(self, message: str, *, key: str, problem: str) -> None:
        """``key`` is the option's place in a document, such as ``job.qos``; ``problem`` what follows it."""
        super().__init__(message)
        self.key = key
        self.problem = problem


class InfeasibleError(ModakError):
    """No candidate can do what was asked for."""

    exit_code = 3


class TargetError(ModakError):
    """The target cannot be reached or does not do what was asked."""

    exit_code = 4


class JobError(ModakError):
    """The job ended badly, or was never accepted by the scheduler."""

    exit_code = 5
