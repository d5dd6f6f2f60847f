"""Turns what pydantic finds into sentences for users: what was expected, what stands there, what was probably meant."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any

from pydantic_core import ErrorDetails

from clawbot.logs import redact

_EXPECTED = {
    "bool_type": "true or false",
    "dict_type": "keys with values",
    "float_type": "a number",
    "int_type": "a whole number",
    "list_type": "a list",
    "model_type": "keys with values",
    "string_type": "text",
}
_LIMITS = {
    "greater_than": "more than {gt:g}",
    "greater_than_equal": "at least {ge:g}",
    "less_than_equal": "at most {le:g}",
    "string_too_short": "text that is not empty",
}
# An example value longer than this says nothing more.
_SHOWN = 60


def nearest(word: str, words: list[str]) -> str:
    """The one of `words` that was probably meant, or ""."""
    folded = {known.replace("_", "").lower(): known for known in words}
    found = get_close_matches(word.replace("_", "").lower(), list(folded), n=1)
    return folded[found[0]] if found else ""


def unknown_key(key: str, known: list[str], elsewhere: str) -> str:
    """What is said about a key that does not exist beside `known`; `elsewhere` is where one of its name does."""
    meant = nearest(key, known) or elsewhere
    return f"unknown key; did you mean {meant}?" if meant else f"unknown key; expected one of {', '.join(known)}"


def unknown_agent(agent_id: str, known: list[str]) -> str:
    """What is said about an agent that is none of the `known` ones."""
    meant = nearest(agent_id, known)
    hint = f"; did you mean {meant}?" if meant else ""
    return f"expected one of the agents {', '.join(known)}{_found(agent_id, secret=False)}{hint}"


def explain(error: ErrorDetails, *, secret: bool) -> str:
    """One sentence about `error`. The value is left out when it is `secret`."""
    kind, context = error["type"], error.get("ctx", {})
    value = error["input"]
    if kind == "expected":
        return f"expected {context['what']}{_found(value, secret or not context['show'])}"
    if kind == "missing":
        return f"expected the key {error['loc'][-1]}"
    if kind == "literal_error":
        meant = nearest(value, [choice.strip("'") for choice in _choices(context)]) if isinstance(value, str) else ""
        hint = f"; did you mean {meant}?" if meant else ""
        return f"expected {context['expected']}{_found(value, secret)}{hint}"
    if kind in _LIMITS:
        return f"expected {_LIMITS[kind].format(**context)}{_found(value, secret)}"
    if kind in _EXPECTED:
        return f"expected {_EXPECTED[kind]}{_found(value, secret)}"
    return redact(error["msg"])


def _choices(context: Mapping[str, Any]) -> list[str]:
    return str(context["expected"]).replace(" or ", ", ").split(", ")


def _found(value: Any, secret: bool) -> str:
    if secret:
        return ""
    if value is None:
        return ", found nothing"
    if isinstance(value, bool):
        return f", found {str(value).lower()}"
    if isinstance(value, int | float):
        return f", found the number {value}"
    if isinstance(value, str):
        shown = value if len(value) <= _SHOWN else f"{value[:_SHOWN]}..."
        return f", found the text {redact(shown)!r}"
    return ", found a list" if isinstance(value, list) else ", found keys with values"
