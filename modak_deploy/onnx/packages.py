"""Packages that are imported only where a model needs them; a missing one is reported with its pip command."""

from collections.abc import Mapping
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from modak_deploy.errors import InputError


def require(module: str, requirement: str, *, purpose: str, extra: str | None = None) -> Any:
    """Return the imported ``module``; InputError names the pip command that installs it."""
    try:
        return import_module(module)
    except ImportError as error:
        missing = (error.name or module).partition(".")[0]
        if missing == module.partition(".")[0]:
            also = f", or pip install 'modak-deploy[{extra}]'" if extra else ""
            raise InputError(
                f"{purpose} needs the package {missing}: not installed; pip install '{requirement}'{also}"
            ) from None
        raise InputError(
            f"{purpose}: the package {module} cannot be imported: {error}; install a version that fits"
        ) from None
    except Exception as error:  # what a package of other versions than it expects raises is its own affair
        raise InputError(
            f"{purpose}: the package {module} cannot be imported: {type(error).__name__}: {error}; "
            "give the model a 'python' of its own, with versions that fit"
        ) from None


def versions(names: Mapping[str, str] | tuple[str, ...]) -> dict[str, str]:
    """Return the versions of those distributions that are installed."""
    releases = {}
    for name in names:
        try:
            releases[name] = version(name)
        except PackageNotFoundError:
            continue
    return releases
