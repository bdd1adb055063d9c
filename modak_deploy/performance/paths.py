"""Where this user's measurements and models lie."""

import hashlib
import os
from pathlib import Path

from modak_deploy.errors import InputError

MODEL_FILE = "model.json"
"""What is known of a fitted model, in its folder."""
STORE_VARIABLE = "MODAK_MEASUREMENTS"
"""Environment variable with the address of the measurement store, such as postgresql://user@host/database."""


FITTING_VARIABLE = "MODAK_FITTING"
"""Environment variable that keeps the time model from being fitted by itself: ``manual``."""


def data_folder() -> Path:
    """Return the user's data folder for modak."""
    base = os.environ.get("XDG_DATA_HOME") or "~/.local/share"
    return Path(base).expanduser() / "modak"


def default_path() -> Path:
    """Return the SQLite file that holds measurements where nothing else is said."""
    return data_folder() / "measurements.sqlite"


def store_in_use() -> str | None:
    """Return the address of the store that records are added to; None for the default file, there or not."""
    return os.environ.get(STORE_VARIABLE) or None


def store_address() -> str | None:
    """Return the address of the store that is in use: the variable's, or the default file's where it is there.

    InputError where the user may not look for the default file.
    """
    given = os.environ.get(STORE_VARIABLE)
    if given:
        return given
    path = default_path()
    try:
        return f"sqlite:///{path}" if path.is_file() else None
    except OSError as error:
        hint = f"set XDG_DATA_HOME to a folder of your own, or {STORE_VARIABLE} to a store's address"
        raise InputError(f"{path}: the measurements cannot be read: {error.strerror}; {hint}") from None


def model_folder() -> Path:
    """Return the folder of the time model that is fitted to the store in use."""
    address = store_in_use()
    name = "model" if address is None else f"model-{hashlib.sha256(address.encode()).hexdigest()[:16]}"
    return data_folder() / name
