"""The time model keeps up with what is measured: it is fitted anew when enough has come since."""

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from modak_deploy.catalogue.catalogue import Catalogue, load_catalogue
from modak_deploy.errors import InputError
from modak_deploy.performance.fitting import TooFewError, fit, missing_library
from modak_deploy.performance.paths import FITTING_VARIABLE, MODEL_FILE, model_folder
from modak_deploy.performance.records import Measurements, available_measurements
from modak_deploy.performance.timemodel import Description, TimeModel, read_description, write_model
from modak_deploy.util.files import PRIVATE

GROWTH = 20
"""A model is fitted anew when a part of this many of what it knew has come since: a twentieth more."""
MANUAL = "manual"
"""Value of the variable by which the user says that the command alone fits the model."""
FAILED = ".failed"
"""File beside the model: the number of measurements to which fitting has failed, and the catalogue's version."""
MOST = 2000
"""Measurements beyond which fitting takes too long to be done beside something else."""


def keep_current(notice: Callable[[str], None]) -> bool:
    """Fit the model anew where it does not know enough of what was measured; return whether it was.

    Nothing is done where the user wants to do it, without the libraries that fitting needs, nor while another process
    does it. What goes wrong is told, and is no reason to fail whatever has been measured.
    """
    if os.environ.get(FITTING_VARIABLE) == MANUAL or missing_library() is not None:
        return False
    try:
        return _fitted_anew(model_folder(), load_catalogue(), notice)
    except KeyboardInterrupt:
        notice("the time model is not fitted anew: it was stopped")
    except Exception as error:  # also what numerical libraries raise: the job has completed and is recorded
        notice(f"the time model is not fitted anew: {error}")
    return False


def _fitted_anew(folder: Path, catalogue: Catalogue, notice: Callable[[str], None]) -> bool:
    done = _fitted(folder, catalogue, notice)
    # Who removed measurements meanwhile has left the model to this process, which was at it already.
    return bool(_fitted(folder, catalogue, notice) if done is None else done)


def _fitted(folder: Path, catalogue: Catalogue, notice: Callable[[str], None]) -> bool | None:
    """Fit the model where that is due; None where measurements were removed meanwhile, without which it is to be."""
    measurements = available_measurements()
    if not _outgrown(folder, measurements, catalogue) or _failed(folder, measurements, catalogue):
        return False
    if measurements.count > MOST:
        if (folder / MODEL_FILE).is_file():
            notice(f"the time model is not fitted to the {measurements.count} measurements: run 'modak model fit'")
        return False
    folder.mkdir(parents=True, exist_ok=True)
    with _alone(folder) as alone:
        if not alone or not _outgrown(folder, measurements, catalogue):
            return False
        notice(f"fitting the time model to {measurements.count} measurements")
        try:
            fitted = fit(measurements, catalogue)
        except TooFewError:
            return False
        except Exception:
            with suppress(OSError):  # then it is tried and told again after the next job
                (folder / FAILED).write_text(f"{measurements.count} {catalogue.version}", encoding="utf-8")
            raise
        if available_measurements().origin != fitted.description.origin:
            return None
        write_model(folder, fitted.description.model_copy(update=_worth(folder, fitted.description)), fitted.contents)
        with suppress(OSError):
            (folder / FAILED).unlink(missing_ok=True)
    return True


def _failed(folder: Path, measurements: Measurements, catalogue: Catalogue) -> bool:
    """Tell whether fitting to about as many measurements has failed, and was told: it would after each job."""
    try:
        number, _, version = (folder / FAILED).read_text(encoding="utf-8").partition(" ")
        before = int(number)
    except (OSError, ValueError):
        return False
    return version == catalogue.version and before <= measurements.count < before + max(1, before // GROWTH)


def _outgrown(folder: Path, measurements: Measurements, catalogue: Catalogue) -> bool:
    """Tell whether there is no model that may be used, or one of much less than there is."""
    try:
        description = TimeModel(folder).description
    except InputError:
        return True
    if description.catalogue != catalogue.version or description.origin != measurements.origin:
        return True
    most = description.measurements + max(1, description.measurements // GROWTH)
    return not description.measurements <= measurements.count < most


def _worth(folder: Path, description: Description) -> dict[str, object]:
    """Return what the model before was found to be worth: to find that out takes a fit for each workload."""
    try:
        before = read_description(folder)
    except InputError:
        return {}
    if (before.origin, before.catalogue) != (description.origin, description.catalogue):
        return {}
    return {"held": before.held, "held_with": before.held_with}


@contextmanager
def _alone(folder: Path) -> Iterator[bool]:
    """Yield whether no other process fits the model of the folder, as far as its file system has locks."""
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    handle = os.open(folder / ".fitting", flags, PRIVATE)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        except OSError:  # no locks there: the files are written so that a reader meets whole ones
            pass
        yield True
    finally:
        os.close(handle)
