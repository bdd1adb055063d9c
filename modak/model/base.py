"""The strict base of all models and the value types that they share."""

import re
from typing import Annotated, Any, Literal

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion, Version
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints


class Model(BaseModel):
    """A frozen model that refuses unknown keys and never converts one type into another."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    @classmethod
    def model_json_schema(cls, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Return the JSON schema, with the docstrings below the fields as their descriptions."""
        from modak.model.descriptions import add_to_schema

        schema = super().model_json_schema(*args, **kwargs)
        add_to_schema(cls, schema)
        return schema


_UNITS_OF_TIME = {"s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400}
_CLOCK = re.compile(r"(?:(?P<days>\d+)-)?(?P<hours>\d+):(?P<minutes>\d{1,2})(?::(?P<seconds>\d{1,2}))?")
_AMOUNT_OF_TIME = re.compile(r"(?P<amount>\d+(?:\.\d+)?)\s*(?P<unit>s|min|m|h|d)")
_AMOUNT_OF_MEMORY = re.compile(r"(?P<amount>\d+(?:\.\d+)?)\s*(?P<unit>[kKMGT]?)(?P<binary>i?)[bB]?")
_POWERS = {"": 0, "k": 1, "K": 1, "M": 2, "G": 3, "T": 4}


def parse_duration(value: Any) -> Any:
    """Return seconds for ``90``, ``"30m"``, ``"1:30:00"`` (H:MM:SS), ``"90:00"`` (H:MM) or ``"2-00:00:00"``.

    Blanks around the text are ignored. Anything else raises ValueError.
    """
    if isinstance(value, int) and not isinstance(value, bool):
        seconds = value
    elif isinstance(value, str):
        text = value.strip()
        if text.isdigit():
            seconds = int(text)
        elif clock := _CLOCK.fullmatch(text):
            part = {k: int(v or 0) for k, v in clock.groupdict().items()}
            if part["minutes"] > 59 or part["seconds"] > 59:
                raise ValueError(f"'{value}' has more than 59 minutes or seconds")
            seconds = part["days"] * 86400 + part["hours"] * 3600 + part["minutes"] * 60 + part["seconds"]
        elif amount := _AMOUNT_OF_TIME.fullmatch(text):
            seconds = round(float(amount["amount"]) * _UNITS_OF_TIME[amount["unit"]])
        else:
            raise ValueError(f"'{value}' is not a time: write seconds, '30m', '1:30:00' or '2-00:00:00'")
    else:
        raise ValueError(f"{value!r} is not a time: write seconds, '30m', '1:30:00' or '2-00:00:00'")
    if seconds <= 0:
        raise ValueError(f"'{value}' is not a time above zero")
    return seconds


def parse_memory(value: Any) -> Any:
    """Return bytes for ``4000000000``, ``"4G"``, ``"10 MB"`` or ``"2 GiB"``; units are powers of 1024, as in Slurm."""
    if isinstance(value, int) and not isinstance(value, bool):
        size = value
    elif isinstance(value, str) and (match := _AMOUNT_OF_MEMORY.fullmatch(value.strip())):
        size = round(float(match["amount"]) * 1024 ** _POWERS[match["unit"]])
    else:
        raise ValueError(f"{value!r} is not an amount of memory: write '4G', '512 MB' or bytes")
    if size <= 0:
        raise ValueError(f"'{value}' is not an amount of memory above zero")
    return size


def _check_specifier(value: Any) -> Any:
    if isinstance(value, int | float):
        raise ValueError(f"write the version in quotes: the number {value} may have lost a zero at its end")
    if isinstance(value, str):
        text = value.strip()
        try:
            SpecifierSet(text if re.match(r"[<>=!~]", text) else f"=={text}.*")
        except InvalidSpecifier:
            raise ValueError(f"'{value}' is not a version or a range such as '2.1' or '>=2.1,<3'") from None
        return text
    return value


def _check_version(value: Any) -> Any:
    if isinstance(value, int | float):
        raise ValueError(f"write the version in quotes: the number {value} may have lost a zero at its end")
    if isinstance(value, str):
        try:
            Version(value)
        except InvalidVersion:
            raise ValueError(f"'{value}' is not a version such as '2.1.0'") from None
    return value


Duration = Annotated[int, BeforeValidator(parse_duration, json_schema_input_type=int | str), Field(gt=0)]
"""Whole seconds."""
Memory = Annotated[int, BeforeValidator(parse_memory, json_schema_input_type=int | str), Field(gt=0)]
"""Bytes."""
Specifier = Annotated[str, BeforeValidator(_check_specifier)]
"""A version range; a bare ``2.1`` means 2.1.x and never 2.10."""
VersionText = Annotated[str, BeforeValidator(_check_version)]
"""One version."""
Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z][A-Za-z0-9_.-]{0,62}$")]
"""A name that is safe as a file name and in every scheduler's directives once shortened."""
Line = Annotated[str, StringConstraints(pattern=r"^[^\x00\r\n]*$", min_length=1)]
"""One line of text: no line break, no NUL."""
Text = Annotated[str, StringConstraints(pattern=r"^[^\x00]*$")]
"""Any text without NUL, which no shell or environment can hold."""
VariableName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
HostName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_:][A-Za-z0-9_.:%-]*$", max_length=253)]
"""A host name, SSH alias or IP address. ssh would take one that starts with a hyphen for an option, and hands host and
user to the shell that runs a ProxyCommand (CVE-2023-51385), so that neither holds a character that a shell knows."""
UserName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.@+-]*[$]?$", max_length=253)]
"""A user's login name."""
Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
Positive = Annotated[int, Field(gt=0)]
NonNegative = Annotated[int, Field(ge=0)]

RuntimeName = Literal["native", "apptainer", "singularity", "podman", "docker", "charliecloud"]
SchedulerName = Literal["process", "slurm", "torque", "openpbs"]


def specifier_set(text: str) -> SpecifierSet:
    """Return the SpecifierSet for a Specifier; ``"2.1"`` becomes ``==2.1.*``."""
    return SpecifierSet(text if re.match(r"[<>=!~]", text) else f"=={text}.*")
