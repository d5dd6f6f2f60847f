"""Brings the keys of a layer into the one spelling of the schema, and finds those that do not exist.

snake_case and camelCase are the same key. Names that users choose (of agents, hooks) stay as they are.
"""

from __future__ import annotations

import re
import typing
from collections.abc import Iterator
from typing import Any, NamedTuple

from pydantic import SecretStr
from pydantic.fields import FieldInfo

from clawbot.config.errors import Problem
from clawbot.config.explain import unknown_key
from clawbot.config.paths import DEFAULTS
from clawbot.config.section import Section
from clawbot.config.source import KeyPath, Layer, Mark, dotted

_HUMP = re.compile(r"(?<=[a-z0-9])[A-Z]|(?<=[A-Z])[A-Z](?=[a-z])")


class Step(NamedTuple):
    """One key on the way to a value. `either` says that its camelCase spelling is the same key."""

    name: str
    either: bool = False


def to_snake(key: str) -> str:
    """`key` in snake_case: `softThresholdTokens` is `soft_threshold_tokens`."""
    return _HUMP.sub(lambda found: f"_{found[0]}", key).lower() if not key.isupper() else key


def keys_of(section: type[Section]) -> dict[str, FieldInfo]:
    """The fields of `section` by the names that they have in a file."""
    return {field.alias or name: field for name, field in section.model_fields.items()}


def kinds(annotation: Any) -> Iterator[Any]:
    """The plain types in `annotation`: through unions and Annotated, not into containers."""
    origin = typing.get_origin(annotation)
    if origin is typing.Annotated:
        yield from kinds(typing.get_args(annotation)[0])
    elif origin is None or origin in (dict, list, typing.Literal):
        yield annotation
    else:
        for part in typing.get_args(annotation):
            yield from kinds(part)


def section_of(annotation: Any) -> type[Section] | None:
    """The section that `annotation` allows, if it does."""
    return next((kind for kind in kinds(annotation) if isinstance(kind, type) and issubclass(kind, Section)), None)


def items_of(annotation: Any, container: type) -> Any:
    """The annotation of the values in a dict or list that `annotation` allows, or None."""
    found = next((kind for kind in kinds(annotation) if typing.get_origin(kind) is container), None)
    return typing.get_args(found)[-1] if found else None


def extras_of(section: type[Section]) -> Any:
    """The annotation of keys that are no fields: None when `section` allows none, Any when they are free."""
    if section.model_config.get("extra") != "allow":
        return None
    declared = typing.get_type_hints(section, include_extras=True).get("__pydantic_extra__")
    return items_of(declared, dict) or Any


def is_secret(annotation: Any) -> bool:
    """Whether values of this kind must not be shown."""
    return SecretStr in kinds(annotation)


def _place_of(name: str, root: type[Section]) -> str:
    """The dotted place of the key `name` that is nearest to the top of `root`; "" for none, or when several are."""
    found = sorted(_places_of(name, root, ()), key=len)
    alone = len(found) == 1 or (len(found) > 1 and len(found[0]) < len(found[1]))
    return dotted(found[0]) if alone else ""


def _places_of(name: str, section: type[Section], path: KeyPath) -> Iterator[KeyPath]:
    for key, field in keys_of(section).items():
        if key == name:
            yield (*path, key)
        below, named = section_of(field.annotation), section_of(items_of(field.annotation, dict))
        if below:
            yield from _places_of(name, below, (*path, key))
        if named:
            yield from _places_of(name, named, (*path, key, DEFAULTS))


def respell(layer: Layer, schema: type[Section]) -> tuple[Layer, list[Problem]]:
    """`layer` with the keys of `schema`, and a problem for each key that does not exist or is written twice."""
    speller = _Speller(layer.marks, schema)
    data = speller.section(layer.data, schema, (), ())
    return Layer(data, speller.marks), speller.problems


class _Speller:
    """Walks through data and schema together; `old` paths are the file's, `new` ones the schema's."""

    def __init__(self, marks: dict[KeyPath, Mark], root: type[Section]) -> None:
        self.old_marks = marks
        self.root = root
        self.marks: dict[KeyPath, Mark] = {}
        self.problems: list[Problem] = []

    def section(self, data: dict[str, Any], schema: type[Section], old: KeyPath, new: KeyPath) -> dict[str, Any]:
        fields, extras = keys_of(schema), extras_of(schema)
        result: dict[str, Any] = {}
        for key, value in data.items():
            name = key if key in fields else to_snake(key)
            if name not in fields:
                name = key
            annotation = fields[name].annotation if name in fields else extras
            if annotation is None:
                text = unknown_key(key, list(fields), _place_of(to_snake(key), self.root))
                self._problem((*old, key), (*new, key), text)
            elif name in result:
                self._problem((*old, key), (*new, name), "is written twice, in both spellings")
            else:
                result[name] = self._value(value, annotation, (*old, key), (*new, name))
        return result

    def _value(self, value: Any, annotation: Any, old: KeyPath, new: KeyPath) -> Any:
        self.marks[new] = self.old_marks[old]
        section = section_of(annotation)
        named, listed = items_of(annotation, dict), items_of(annotation, list)
        if value is None and (section or named):
            return {}  # `main:` with nothing after it
        if isinstance(value, dict) and section:
            return self.section(value, section, old, new)
        if isinstance(value, dict):
            return {key: self._value(item, named or Any, (*old, key), (*new, key)) for key, item in value.items()}
        if isinstance(value, list):
            return [self._value(item, listed or Any, (*old, at), (*new, at)) for at, item in enumerate(value)]
        return value

    def _problem(self, old: KeyPath, new: KeyPath, text: str) -> None:
        self.problems.append(Problem(self.old_marks[old].place, dotted(new), text))
