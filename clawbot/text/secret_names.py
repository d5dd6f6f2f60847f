"""Recognises secrets by the names under which they are stored. The names are in `secret_names.toml`."""

from __future__ import annotations

import re
from functools import cache, lru_cache
from typing import Any

from clawbot.text.language import fold
from clawbot.text.patterns import any_glob, lazy_re
from clawbot.text.secret_shapes import shapes_in
from clawbot.text.tables import packaged_table

_HUMP = lazy_re(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|[-. ]")
_NUMBER = lazy_re(r"_?\d+\Z")


@cache
def _names() -> dict[str, re.Pattern[str]]:
    return {
        group: any_glob(globs)
        for group, globs in packaged_table("clawbot.text", "secret_names.toml", dict[str, Any]).items()
    }


@lru_cache(1024)
def is_secret_name(name: str) -> bool:
    """Return whether a variable or key called `name` contains a secret."""
    fits = {group: globs.match(_NUMBER.sub("", _HUMP.sub("_", name)).upper()) for group, globs in _names().items()}
    if name.isupper():
        return bool(fits["secret"] or fits["variables"]) and not fits["harmless"]
    return bool(fits["secret"]) and not (fits["harmless"] or fits["harmless_keys"])


def is_secret_variable(name: str, value: str) -> bool:
    """Return whether the variable `name` of the environment is a secret, by its name or by the shape of its `value`."""
    if is_secret_name(name):
        return True
    return not _names()["usual"].match(name) and next(shapes_in(fold(value)), None) is not None
