"""The strict base of all models and the value types that they share."""

import re
from collections.abc import Callable, Collection, Mapping
from typing import Annotated, Any, Self

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion, Version
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    StringConstraints,
)
from pydantic_core import PydanticKnownError, core_schema

from modak_deploy.extensions import RUNTIMES, SCHEDULERS, Registry
from modak_deploy.util.text import in_yaml


class Model(BaseModel):
    """A frozen model that refuses unknown keys and never converts one type into another."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Return a copy; pydantic's own keeps what a ``cached_property`` made of the values before ``update``."""
        copied = super().model_copy(update=update, deep=deep)
        for name in copied.__dict__.keys() - type(self).model_fields.keys():
            del copied.__dict__[name]
        return copied

    @classmethod
    def model_json_schema(cls, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Return the JSON schema, with the docstrings below the fields as their descriptions."""
        from modak_deploy.model.descriptions import add_to_schema

        schema = super().model_json_schema(*args, **kwargs)
        add_to_schema(cls, schema)
        return schema


class DeferredModel(Model):
    """A model that most commands do not need: its validator is built when it is first used.

    For the 30 models of sites, hardware and recipes that is a tenth of the processor time of a Plan. A model that every
    Plan uses gains nothing by it: what it holds is then built again inside of each that holds it.
    """

    model_config = ConfigDict(defer_build=True)


_UNITS_OF_TIME = {"s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400}
# At most 18 digits, which fit into 64 bits; ASCII, for int() does not take every digit that \d does, such as '\u00b2'.
_SECONDS = re.compile(r"\d{1,18}", re.ASCII)
_CLOCK = re.compile(
    r"(?:(?P<days>\d{1,9})-)?(?P<hours>\d{1,9}):(?P<minutes>\d{1,2})(?::(?P<seconds>\d{1,2}))?", re.ASCII
)
_DAYS = re.compile(r"(\d{1,9})-(\d{1,2})", re.ASCII)
_AMOUNT_OF_TIME = re.compile(r"(?P<amount>\d{1,18}(?:\.\d{1,18})?)\s*(?P<unit>s|min|m|h|d)", re.ASCII)
_AMOUNT_OF_MEMORY = re.compile(r"(?P<amount>\d{1,18}(?:\.\d{1,18})?)\s*(?P<unit>[kKMGT]?)(?P<binary>i?)[bB]?", re.ASCII)
_POWERS = {"": 0, "k": 1, "K": 1, "M": 2, "G": 3, "T": 4}


def _two_readings(text: str, first: int, second: int) -> str:
    short = f"{first // 60}:{first % 60:02d}:{second:02d}"
    return f"'{text}' can be read in two ways; write '{short}' (schedulers: MM:SS) or '{first}:{second:02d}:00' (H:MM)"


_LARGEST = 2**63 - 1
"""Schedulers count in 64 bits, and floats in formulas overflow at larger whole numbers."""


def _check_size(value: int) -> int:
    if abs(value) > _LARGEST:
        raise ValueError(f"the number is larger than {_LARGEST}")
    return value


def parse_duration(value: Any) -> Any:
    """Return seconds for ``90``, ``"30m"``, ``"1:30:00"`` (H:MM:SS), ``"2-00:00:00"`` or ``"2-12:00"``, ``"2-12"``.

    Blanks around the text are ignored. Anything else raises ValueError, ``"90:00"`` too: sbatch(1), qsub(1B) and
    submit(1) read it as MM:SS, and people often as H:MM.
    """
    if isinstance(value, int) and not isinstance(value, bool):
        return _above_zero(value, "a time")
    if not isinstance(value, str):
        raise ValueError(f"{_excerpt(value)} is not a time: write seconds, '30m', '1:30:00' or '2-00:00:00'")
    text = value.strip()
    if _SECONDS.fullmatch(text):
        return _above_zero(int(text), "a time")
    if clock := _CLOCK.fullmatch(text):
        if clock["days"] is None and clock["seconds"] is None:
            raise ValueError(_two_readings(text, int(clock["hours"]), int(clock["minutes"])))
        part = {k: int(v or 0) for k, v in clock.groupdict().items()}
        if part["minutes"] > 59 or part["seconds"] > 59:
            raise ValueError(f"'{value}' has more than 59 minutes or seconds")
        hours = part["days"] * 24 + part["hours"]
        return _above_zero(hours * 3600 + part["minutes"] * 60 + part["seconds"], "a time")
    if days := _DAYS.fullmatch(text):
        return _above_zero((int(days[1]) * 24 + int(days[2])) * 3600, "a time")
    if amount := _AMOUNT_OF_TIME.fullmatch(text):
        return _above_zero(round(float(amount["amount"]) * _UNITS_OF_TIME[amount["unit"]]), "a time")
    raise ValueError(f"{_excerpt(value)} is not a time: write seconds, '30m', '1:30:00' or '2-00:00:00'")


def parse_memory(value: Any) -> Any:
    """Return bytes for ``4000000000``, ``"4G"``, ``"10 MB"`` or ``"2 GiB"``; units are powers of 1024, as in Slurm."""
    if isinstance(value, int) and not isinstance(value, bool):
        return _above_zero(value, "an amount of memory")
    if isinstance(value, str) and (match := _AMOUNT_OF_MEMORY.fullmatch(value.strip())):
        size = round(float(match["amount"]) * 1024 ** _POWERS[match["unit"]])
        return _above_zero(size, "an amount of memory")
    raise ValueError(f"{_excerpt(value)} is not an amount of memory: write '4G', '512 MB' or bytes")


def _above_zero(value: int, what: str) -> int:
    if value <= 0:
        raise ValueError(f"'{value if value > -_LARGEST else 'the number'}' is not {what} above zero")
    return _check_size(value)


def _excerpt(value: Any) -> str:
    """Return a value as a message may show it, in the words of YAML."""
    if isinstance(value, str):
        return repr(value[:80])
    return in_yaml(value) or (repr(value) if isinstance(value, float) else f"a {type(value).__name__}")


def _check_is_version(value: Any) -> None:
    """Refuse what no version is, before it is read: Python refuses to convert numbers of more than 4300 digits."""
    if isinstance(value, int | float):
        number = f"the number {value}" if abs(value) < _LARGEST else "a number"
        raise ValueError(f"write the version in quotes: {number} may have lost a zero at its end")
    if isinstance(value, str) and len(value) > 200:
        raise ValueError("a version has at most 200 characters")


def _check_specifier(value: Any) -> Any:
    _check_is_version(value)
    if isinstance(value, str):
        text = value.strip()
        try:
            SpecifierSet(text if re.match(r"[<>=!~]", text) else f"=={text}.*")
        except InvalidSpecifier:
            raise ValueError(f"'{value}' is not a version or a range such as '2.1' or '>=2.1,<3'") from None
        return text
    return value


def _check_version(value: Any) -> Any:
    _check_is_version(value)
    if isinstance(value, str):
        try:
            Version(value)
        except InvalidVersion:
            raise ValueError(f"{value!r} is not a version such as '2.1.0'") from None
        if value != value.strip():  # Version ignores white space at both ends, line breaks included
            raise ValueError(f"{value!r} is not a version such as '2.1.0': remove the white space around it")
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
UserName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.@+-]*$", max_length=253)]
"""A user's login name. A ``$`` at the end, as of Samba's machine accounts, is refused: of ``%r@%h`` in a ProxyCommand a
shell would read ``$@``."""
Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
LONGEST_SECONDS = 3e11
"""Nothing takes ten thousand years. What a target or a program reports is bounded by it, so that it can be computed
with: squares and sums of longer times overflow, and of an integer of many digits no float can be made."""
SHORTEST_SECONDS = 1e-15
"""Nothing is over in less. Products of shorter times are 0, which has no logarithm."""
Seconds = Annotated[float, Field(ge=0, le=LONGEST_SECONDS, allow_inf_nan=False)]
"""How long something took."""
SecondsAboveZero = Annotated[float, Field(ge=SHORTEST_SECONDS, le=LONGEST_SECONDS, allow_inf_nan=False)]
Positive = Annotated[int, Field(gt=0), AfterValidator(_check_size)]
NonNegative = Annotated[int, Field(ge=0), AfterValidator(_check_size)]


class Registered:
    """Annotation of a text that names an extension, built in or of another distribution; see ``Registry``."""

    def __init__(
        self,
        *registries: Registry,
        also: Collection[str] = (),
        without: str = "",
        only: Callable[[], Collection[str]] | None = None,
    ) -> None:
        """``also`` are permitted besides the registered names; ``without``, and what is not in ``only``, are not."""
        self._registries = registries
        self._also = also
        self._without = without
        self._only = only

    def names(self) -> list[str]:
        """Return all names that are permitted at present."""
        registered = self._only() if self._only else [name for each in self._registries for name in each.names()]
        return list(self._also) + [name for name in registered if name != self._without]

    def check(self, value: Any) -> str:
        """Return a name that is permitted; the error for any other is the one of a ``Literal``."""
        if isinstance(value, str) and value and (value in self._also or self._is_registered(value)):
            return value
        *others, last = (f"'{name}'" for name in self.names())
        raise PydanticKnownError("literal_error", {"expected": f"{', '.join(others)} or {last}"})

    def _is_registered(self, name: str) -> bool:
        if name == self._without:
            return False
        # A built-in name of the last one is looked for before other distributions of the first: their metadata costs.
        is_builtin = any(name in each.builtin for each in self._registries)
        if not is_builtin and not any(name in each for each in self._registries):
            return False
        return self._only is None or name in self._only()

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        """See pydantic: the names are looked up when a value is checked, not when the model is made."""
        return core_schema.no_info_plain_validator_function(
            self.check, serialization=core_schema.to_string_ser_schema()
        )

    def __get_pydantic_json_schema__(
        self, schema: core_schema.CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        """See pydantic."""
        return {"enum": self.names(), "type": "string"}


RuntimeName = Annotated[str, Registered(RUNTIMES, also=["native"])]
SchedulerName = Annotated[str, Registered(SCHEDULERS)]


def specifier_set(text: str) -> SpecifierSet:
    """Return the SpecifierSet for a Specifier; ``"2.1"`` becomes ``==2.1.*``."""
    return SpecifierSet(text if re.match(r"[<>=!~]", text) else f"=={text}.*")
