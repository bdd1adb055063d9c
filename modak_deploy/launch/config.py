"""The launcher's configuration: one JSON file, named by the environment variable MODAK_LAUNCH."""

import glob
import json
import math
import os
from dataclasses import dataclass, field
from typing import Any, Dict, List, Optional

from .files import open_file

VARIABLE = "MODAK_LAUNCH"
VERSION = 1
SESSION_OPTIONS = "onnxruntime-options"
"""The lever whose settings are options of ONNX Runtime's sessions."""
SURVEY = "survey"
MODES = ("none", "live", SURVEY)
NUMERICS = ("exact", "relaxed")
TRIALS = (
    "mode", "numerics", "candidates", "kept", "units", "share", "tolerance", "expected", "foreseen", "gain", "sets",
    "claim",
)  # fmt: skip
LARGEST = 1024 * 1024
"""Bytes of the file that are read at most."""


class ConfigError(ValueError):
    """The configuration cannot be used."""


@dataclass
class Expected:
    """What is known about a lever before it is tried."""

    gain: float = 1.0
    """Factor by which it shortens a unit of work."""
    seconds: Optional[float] = None
    """What it costs once; None where the launcher's own estimate is to count."""


@dataclass
class Trials:
    """What may be tried while the program runs."""

    mode: str = "none"
    numerics: str = "exact"
    candidates: Optional[List[str]] = None
    """Levers in the order of trial; all that the numerics permit when None."""
    units: Optional[int] = None
    """Units of work in the whole program, where they are known."""
    share: float = 0.03
    """Largest part of the time that trials may lose against the default."""
    tolerance: Optional[float] = None
    """Largest relative difference of outputs; by number format when None."""
    expected: Dict[str, Expected] = field(default_factory=dict)
    foreseen: Dict[str, float] = field(default_factory=dict)
    """Factors by which levers usually shorten a unit: what a job will take is foretold by them, and nothing decided."""
    gain: float = 1.0
    """How many times as fast as the default the levers that are on from the start were measured to be."""
    sets: List[List[str]] = field(default_factory=list)
    """Sets of levers that a survey measures in any case."""
    kept: List[str] = field(default_factory=list)
    """Candidates that are tried only where an earlier run has kept what they are made ready of: to make it anew would
    cost more than they gain."""
    claim: Optional[str] = None
    """File that the one process makes which tries levers, where several would, as the tasks of an array do."""

    @property
    def wanted(self) -> bool:
        """Tell whether anything is tried."""
        return self.mode != "none"

    @property
    def surveys(self) -> bool:
        """Tell whether all sets of levers are measured, in place of what the run can pay for."""
        return self.mode == SURVEY


@dataclass
class Config:
    """Everything that the launcher is told."""

    record: Optional[str] = None
    """Folder in which each process writes its record; none is written when None."""
    levers: List[str] = field(default_factory=list)
    """Levers that are on from the start."""
    settings: Dict[str, Any] = field(default_factory=dict)
    """Parameters of levers, by the lever's name."""
    trials: Trials = field(default_factory=Trials)
    counts: bool = True
    """Whether units of work are counted; else only what frameworks compile is kept."""
    interval: float = 5.0
    """Seconds after which the state of the counters is written again."""
    cache: Optional[str] = None
    """Folder that keeps conversions and compiled code from one run to the next."""
    earlier: List[str] = field(default_factory=list)
    """Folders, as patterns, in which earlier attempts of this job left their records."""


def read(path: str) -> Config:
    """Return the configuration in a file; ConfigError when it cannot be read or understood.

    Relative paths in it are relative to the file's folder.
    """
    try:
        with open_file(path, encoding="utf-8") as file:
            text = file.read(LARGEST + 1)
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError("{}: cannot be read: {}".format(path, error)) from None
    if len(text) > LARGEST:
        raise ConfigError("{}: is larger than {} bytes".format(path, LARGEST))
    try:
        config = parse(json.loads(text))
    except (ValueError, RecursionError) as error:
        raise ConfigError("{}: {}".format(path, error)) from None
    folder = os.path.dirname(os.path.abspath(path))
    config.record, config.cache = _below(folder, config.record), _below(folder, config.cache)
    config.earlier = [os.path.join(glob.escape(folder), pattern) for pattern in config.earlier]
    config.trials.claim = _below(folder, config.trials.claim)
    return config


def _below(folder: str, path: Optional[str]) -> Optional[str]:
    return os.path.join(folder, path) if path else path


def parse(data: Any) -> Config:
    """Return the configuration that parsed JSON holds; ConfigError names the key that is wrong."""
    _keys(
        data,
        "the file",
        ("version", "record", "levers", "settings", "trials", "counts", "interval", "cache", "earlier"),
    )
    if data.get("version") != VERSION:
        raise ConfigError("version: {!r} is not supported; {} is".format(data.get("version"), VERSION))
    settings = data.get("settings", {})
    if not isinstance(settings, dict):
        raise ConfigError("settings: must be an object")
    return Config(
        record=_text(data, "record"),
        levers=_names(data, "levers") or [],
        settings=settings,
        trials=_trials(data.get("trials", {})),
        counts=_truth(data, "counts", True),
        interval=_number(data, "interval", 5.0, 3600.0),
        cache=_text(data, "cache"),
        earlier=_names(data, "earlier") or [],
    )


def _trials(data: Any) -> Trials:
    _keys(data, "trials", TRIALS)
    units = data.get("units")
    if units is not None and (not isinstance(units, int) or isinstance(units, bool) or units < 1):
        raise ConfigError("trials.units: must be a whole number from 1")
    expected, foreseen = data.get("expected", {}), data.get("foreseen", {})
    for key, value in (("expected", expected), ("foreseen", foreseen)):
        if not isinstance(value, dict):
            raise ConfigError("trials.{}: must be an object".format(key))
    return Trials(
        mode=_choice(data, "mode", MODES, "none"),
        numerics=_choice(data, "numerics", NUMERICS, "exact"),
        candidates=_names(data, "candidates"),
        units=units,
        share=_number(data, "share", 0.03, 1.0),
        tolerance=None if data.get("tolerance") is None else _number(data, "tolerance", 0.0, 1.0),
        expected={name: _expected(name, value) for name, value in expected.items()},
        foreseen={name: _number({name: gain}, name, 1.0, 1e6) for name, gain in foreseen.items()},
        gain=_number(data, "gain", 1.0, 1e6),
        sets=_sets(data),
        kept=_names(data, "kept") or [],
        claim=_text(data, "claim"),
    )


def _expected(name: str, data: Any) -> Expected:
    _keys(data, "trials.expected." + name, ("gain", "seconds"))
    seconds = None if data.get("seconds") is None else _number(data, "seconds", 0.0, 1e9)
    return Expected(_number(data, "gain", 1.0, 1e6), seconds)


def _keys(data: Any, where: str, allowed: Any) -> None:
    if not isinstance(data, dict):
        raise ConfigError("{}: must be an object".format(where))
    for key in data:
        if key not in allowed:
            raise ConfigError("{}: the key {!r} is not supported; use {}".format(where, key, ", ".join(allowed)))


def _text(data: Any, key: str) -> Optional[str]:
    value = data.get(key)
    if value is not None and (not isinstance(value, str) or not value):
        raise ConfigError("{}: must be a text".format(key))
    return value


def _truth(data: Any, key: str, default: bool) -> bool:
    value = data.get(key, default)
    if not isinstance(value, bool):
        raise ConfigError("{}: must be true or false".format(key))
    return value


def _names(data: Any, key: str) -> Optional[List[str]]:
    value = data.get(key)
    if value is None:
        return None
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        raise ConfigError("{}: must be a list of names".format(key))
    return list(value)


def _sets(data: Any) -> List[List[str]]:
    sets = data.get("sets", [])
    if not isinstance(sets, list):
        raise ConfigError("trials.sets: must be a list of lists of names")
    return [_names({"trials.sets": names}, "trials.sets") or [] for names in sets]


def _choice(data: Any, key: str, allowed: Any, default: str) -> str:
    value = data.get(key, default)
    if value not in allowed:
        raise ConfigError("trials.{}: {!r} is not supported; use {}".format(key, value, " or ".join(allowed)))
    return str(value)


def _number(data: Any, key: str, default: float, largest: float) -> float:
    value = data.get(key, default)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= largest:
        raise ConfigError("{}: must be a number from 0 to {:g}".format(key, largest))
    if not math.isfinite(value):
        raise ConfigError("{}: must be finite".format(key))
    return float(value)
