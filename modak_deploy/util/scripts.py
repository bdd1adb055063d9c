"""Shell scripts that packages carry as files and that run on a target."""

from functools import cache
from importlib import resources


@cache
def script_text(package: str, *path: str) -> str:
    """Return a script of ``package`` without the lines that are comments: what travels is what runs."""
    text = resources.files(package).joinpath(*path).read_text("utf-8")
    return "".join(f"{line}\n" for line in text.splitlines() if not line.lstrip().startswith("#"))
