"""Recognises secrets by the names under which they are stored. The names are in `secret_names.toml`."""

from __future__ import annotations

import re
from fnmatch import translate
from functools import cache, lru_cache

from msgspec import Struct

from clawbot.text.language import fold
from clawbot.text.patterns import lazy_re
from clawbot.text.secret_shapes import shapes_in
from clawbot.text.tables import packaged_table

_HUMP = lazy_re(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|[-. ]")
_NUMBER = lazy_re(r"_?\d+\Z")


class _Names(Struct, frozen=True, forbid_unknown_fields=True):
    secret: tuple[str, ...]
    variables: tuple[str, ...]
    harmless: tuple[str, ...]
    harmless_keys: tuple[str, ...]
    usual: frozenset[str]


@cache
def _names() -> _Names:
    return packaged_table("clawbot.text", "secret_names.toml", _Names)


@cache
def _fitting(globs: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join(map(translate, globs)))


@lru_cache(1024)
def is_secret_name(name: str) -> bool:
    """Whether a variable or key called `name` contains a secret."""
    table, plain = _names(), _NUMBER.sub("", _HUMP.sub("_", name)).upper()
    secret, harmless = (
        (table.secret + table.variables, table.harmless)
        if name.isupper()
        else (table.secret, table.harmless + table.harmless_keys)
    )
    return bool(_fitting(secret).match(plain)) and not _fitting(harmless).match(plain)


def is_secret_variable(name: str, value: str) -> bool:
    """Whether the variable `name` of the environment is a secret, by its name or by the shape of its `value`."""
    if is_secret_name(name):
        return True
    return name not in _names().usual and next(shapes_in(fold(value)), None) is not None
