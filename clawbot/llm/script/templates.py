"""The words in double braces that a reply may hold: which there are, and what is put in their place."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

# `\{{` stands for two braces that are no template.
TEMPLATE = re.compile(r"\\\{\{|\{\{\s*([^{}]*?)\s*\}\}")
NAMES = ("user", "tool_result", "model", "request")


def names_in(value: Any) -> Iterator[str]:
    """The names of all templates in the texts of `value`."""
    if isinstance(value, str):
        yield from (match[1] for match in TEMPLATE.finditer(value) if match[1] is not None)
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from names_in(item)
    elif isinstance(value, list):
        for item in value:
            yield from names_in(item)


def render(text: str, values: Mapping[str, str]) -> str:
    """`text` with each template replaced by its value."""
    return TEMPLATE.sub(lambda match: "{{" if match[1] is None else values[match[1]], text)


def render_all(value: Any, values: Mapping[str, str]) -> Any:
    """`value` (plain JSON values) with the templates in all its texts replaced; keys stay as they are."""
    return _each_text(value, lambda text: render(text, values))


def _each_text(value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        return {key: _each_text(item, change) for key, item in value.items()}
    if isinstance(value, list):
        return [_each_text(item, change) for item in value]
    return value
