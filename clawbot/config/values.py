"""The types of settings values (durations, sizes, switches, paths, zones, model names), and the base class of sections.

Errors of type "expected" name what was expected and never repeat the value.
"""

from __future__ import annotations

import math
import re
import zoneinfo
from datetime import time
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer, SecretStr, ValidationInfo
from pydantic_core import PydanticCustomError

from clawbot.config.paths import find_home


class SettingsSection(BaseModel):
    """A mapping of keys in the settings: immutable, without extra keys and implicit type conversions. `word` is the key
    whose value may be written in place of the mapping, "" for none."""

    word: ClassVar[str] = ""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


_NUMBER = re.compile(r"\d{1,15}(?:\.\d+)?")
_DURATION_PART = re.compile(r"(\d{1,15}(?:\.\d+)?)\s*(ms|s|m|h|d)\s*")
_SECONDS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86_400}
_TOKENS, _CHARS_PER_TOKEN = re.compile(r"(\d{1,9}) ?tokens?"), 4
_SIZE = re.compile(r"(\d{1,18}(?:\.\d+)?)\s*([kmg]?)i?b?")
_BYTES = {"": 1, "k": 1024, "m": 1024**2, "g": 1024**3}
_CLOCK = re.compile(r"(\d{1,2}):(\d{2})")
_STATE_FOLDER = "~/.clawbot"


def expected(what: str, *, show: bool = True) -> PydanticCustomError:
    """Return the error for a value of another type. `show` False: the value must not be shown."""
    return PydanticCustomError("expected", "{what}", {"what": what, "show": show})


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and value >= 0


def parse_duration(value: Any, *, bare: str = "s") -> float:
    """Return seconds from `5m`, `1h30m`, `500ms` or a number, in the unit `bare`. Raises PydanticCustomError."""
    if _is_number(value):
        return float(value) * _SECONDS[bare]
    text = value.strip().lower() if isinstance(value, str) else ""
    if _NUMBER.fullmatch(text):
        return float(text) * _SECONDS[bare]
    if not text or _DURATION_PART.sub("", text):
        raise expected("a duration such as 30s, 5m or 1h30m")
    return float(sum(float(number) * _SECONDS[unit] for number, unit in _DURATION_PART.findall(text)))


def format_duration(seconds: float) -> str:
    """Return the shortest notation, exact to a millisecond: 300 is `5m`."""
    for unit in ("d", "h", "m", "s"):
        if seconds and seconds % _SECONDS[unit] == 0:
            return f"{seconds / _SECONDS[unit]:.0f}{unit}"
    return f"{seconds * 1000:.0f}ms" if seconds else "0s"


def parse_size(value: Any) -> int:
    """Return bytes from `2mb`, `64kb` (1024 bytes) or a number. Raises PydanticCustomError."""
    if _is_number(value):
        return int(value)
    found = _SIZE.fullmatch(value.strip().lower()) if isinstance(value, str) else None
    if not found:
        raise expected("a size such as 512kb, 2mb or a number of bytes")
    return int(float(found[1]) * _BYTES[found[2]])


def format_size(size: int) -> str:
    """Return the shortest exact notation: 2097152 is `2mb`."""
    for unit in ("g", "m", "k"):
        if size and size % _BYTES[unit] == 0:
            return f"{size // _BYTES[unit]}{unit}b"
    return str(size)


def parse_chars(value: Any) -> Any:
    """Return characters from `1000 tokens`, four for each, or from a number, which is not checked. Raises
    PydanticCustomError."""
    if not isinstance(value, str) or _NUMBER.fullmatch(value.strip()):
        return value
    if not (found := _TOKENS.fullmatch(value.strip().lower())):
        raise expected("a number of characters, or of tokens such as 1000 tokens")
    return int(found[1]) * _CHARS_PER_TOKEN


def parse_switch(value: Any) -> bool:
    """True or False, also from yes, no, on and off, as found in YAML files. Raises PydanticCustomError."""
    known = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
    text = str(value).lower() if isinstance(value, str | bool) else ""
    if text not in known:
        raise expected("true or false")
    return known[text]


def parse_clock(value: Any) -> str:
    """Return a time of day as HH:MM, also from `4:00`. Raises PydanticCustomError."""
    found = _CLOCK.fullmatch(value.strip()) if isinstance(value, str) else None
    try:
        if found:
            return time(int(found[1]), int(found[2])).strftime("%H:%M")
    except ValueError as error:
        raise expected("a time of the day from 00:00 to 23:59") from error
    raise expected('a time of the day such as "04:00"')


def expand_tilde(value: Any) -> Path:
    """Return a path with `~` expanded; a relative one remains relative. Raises PydanticCustomError."""
    if not isinstance(value, str | Path) or not str(value).strip() or "\0" in str(value):
        raise expected("a path")
    try:
        return Path(value).expanduser()
    except RuntimeError as error:
        raise expected("a path whose ~ is the home folder of a user that exists here") from error


def expand_path(value: Any, info: ValidationInfo) -> Path:
    """Return an absolute path. `~/.clawbot` is the state folder, wherever $CLAWBOT_HOME puts it; relative paths start
    there."""
    home: Path = (info.context or {}).get("home") or find_home()
    text = str(value).strip()
    if text.startswith("$"):
        return Path(text)  # of an MCP server, which resolves it when it starts
    if text == _STATE_FOLDER or text.startswith(f"{_STATE_FOLDER}/"):
        return home / text[len(_STATE_FOLDER) :].lstrip("/")
    return home / expand_tilde(value)


def zone_hint(name: str) -> str | None:
    """Return the nearest zone in words, "" for none near; None if the machine knows the zone `name`."""
    try:
        zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        near = get_close_matches(name, sorted(zoneinfo.available_timezones()), n=1)
        return f" (did you mean {near[0]}?)" if near else ""
    return None


def check_zone(value: Any) -> str:
    """Return `value` if it is the name of an IANA zone. Raises PydanticCustomError."""
    hint = zone_hint(value) if isinstance(value, str) else ""
    if hint is not None:
        raise expected(f"the name of a time zone such as Europe/Berlin{hint}")
    return str(value)


def check_model(value: Any) -> str:
    """Return `value` if it is `auto`, `offline`, `provider/model` or `script:FILE`. Raises PydanticCustomError."""
    text = value.strip() if isinstance(value, str) else ""
    kind, slash, name = text.partition("/")
    if text in ("auto", "offline") or (slash and kind and name) or (text.startswith("script:") and text != "script:"):
        return text
    near = get_close_matches(text, ("auto", "offline"), n=1)
    meant = f" (did you mean {near[0]}?)" if near else ""
    raise expected(f"auto, offline, provider/model (such as openai/gpt-5) or script:FILE{meant}")


def check_variable(value: Any) -> str:
    """Return `value` if it is the name of an environment variable. Raises PydanticCustomError."""
    if isinstance(value, str) and re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", value):
        return value
    # Don't show the value: users who misunderstand the key put a secret here.
    raise expected("the name of an environment variable such as OPENAI_API_KEY", show=False)


Switch = Annotated[bool, BeforeValidator(parse_switch)]
Count = Annotated[int, Field(ge=0)]
Positive = Annotated[int, Field(ge=1)]
Chars = Annotated[int, BeforeValidator(parse_chars), Field(ge=1)]
Share = Annotated[float, Field(ge=0, le=1)]
# Seconds.
Duration = Annotated[
    float, BeforeValidator(parse_duration), PlainSerializer(format_duration, return_type=str, when_used="json")
]
# Seconds; a bare number counts minutes, as in the family of programs where this key comes from.
MinutesDuration = Annotated[
    float,
    BeforeValidator(lambda value: parse_duration(value, bare="m")),
    PlainSerializer(format_duration, return_type=str, when_used="json"),
]
# Bytes.
Size = Annotated[int, BeforeValidator(parse_size), PlainSerializer(format_size, return_type=str, when_used="json")]
Secret = Annotated[SecretStr, Field(min_length=1)]
ClockTime = Annotated[str, BeforeValidator(parse_clock)]
StatePath = Annotated[Path, BeforeValidator(expand_path)]
TildePath = Annotated[Path, BeforeValidator(expand_tilde)]
ZoneName = Annotated[str, BeforeValidator(check_zone)]
ModelRef = Annotated[str, BeforeValidator(check_model)]
VariableName = Annotated[str, BeforeValidator(check_variable)]
