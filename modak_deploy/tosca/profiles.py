"""The orchestrators and parsers that a blueprint may be judged for."""

from collections.abc import Iterable
from typing import Literal

Tool = Literal["opera", "unfurl", "puccini", "tosca-parser"]
Profile = Literal["opera", "unfurl", "puccini", "tosca-parser", "all"]
OPERA: tuple[Profile, ...] = ("opera",)
UNFURL: tuple[Profile, ...] = ("unfurl",)
PUCCINI: tuple[Profile, ...] = ("puccini",)
TOSCA_PARSER: tuple[Profile, ...] = ("tosca-parser",)
PORTABLE: tuple[Profile, ...] = ("all",)
"""No tool rejects it, but it does not mean the same to all of them, or the standard advises against it."""


def is_error(tools: Iterable[str], profile: Profile) -> bool:
    """Tell whether a finding is an error for ``profile``.

    ``tools`` are those that reject what is written; without any, TOSCA 1.3 itself or modak's types forbid it.
    """
    rejecting = tuple(tools)
    return not rejecting or profile == "all" or profile in rejecting
