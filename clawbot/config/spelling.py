"""Converts the keys of a layer to the schema's spelling, and explains wrong keys and values to the user: what was
expected, what was found, what was probably meant.

snake_case and camelCase are the same key. Names chosen by users (of agents, hooks) remain as they are.
"""

from __future__ import annotations

import itertools
import re
import typing
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pydantic import SecretStr
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from clawbot.config.errors import ConfigProblem, nearest
from clawbot.config.paths import DEFAULTS
from clawbot.config.source import KeyPath, Layer, Mark, dotted
from clawbot.config.values import SettingsSection
from clawbot.text.secrets import redact

Spare = Callable[[KeyPath, object], bool]
"""Returns whether an unknown key with its value is left out."""

_HUMP = re.compile(r"(?<=[a-z0-9])[A-Z]|(?<=[A-Z])[A-Z](?=[a-z])")


def to_snake(key: str) -> str:
    """Return `softThresholdTokens` becomes `soft_threshold_tokens`."""
    return _HUMP.sub(lambda found: f"_{found[0]}", key).lower() if not key.isupper() else key


def keys_of(section: type[SettingsSection]) -> dict[str, FieldInfo]:
    """Return the fields of `section` by their names in a file."""
    return {field.alias or name: field for name, field in section.model_fields.items()}


def kinds(annotation: Any) -> Iterator[Any]:
    """Yield the plain types in `annotation`: inside unions and Annotated, not inside containers."""
    origin = typing.get_origin(annotation)
    if origin is typing.Annotated:
        yield from kinds(typing.get_args(annotation)[0])
    elif origin is None or origin in (dict, list, typing.Literal):
        yield annotation
    else:
        for part in typing.get_args(annotation):
            yield from kinds(part)


def section_of(annotation: Any) -> type[SettingsSection] | None:
    """Return the section that `annotation` allows, if any."""
    return next(
        (kind for kind in kinds(annotation) if isinstance(kind, type) and issubclass(kind, SettingsSection)), None
    )


def items_of(annotation: Any, container: type) -> Any:
    """Return the annotation of the values in a dict or list that `annotation` allows, or None."""
    found = next((kind for kind in kinds(annotation) if typing.get_origin(kind) is container), None)
    return typing.get_args(found)[-1] if found else None


def extras_of(section: type[SettingsSection]) -> Any:
    """Return the annotation of additional keys: None if `section` allows none, Any if they are free."""
    if section.model_config.get("extra") != "allow":
        return None
    declared = typing.get_type_hints(section, include_extras=True).get("__pydantic_extra__")
    return items_of(declared, dict) or Any


def is_secret(annotation: Any) -> bool:
    """Return whether values of this kind must not be shown."""
    return SecretStr in kinds(annotation)


# Steps between sections within which a key of the same name is what was meant.
_NEAR = 2


def _path_of(path: KeyPath, root: type[SettingsSection]) -> str:
    """Return the dotted path of the nearest other key below `root` with the last name of `path`; "" if none is near, or
    several are. The entries of agents count as the top: most keys are in them."""
    name, agent = to_snake(str(path[-1])), path[1] if path[0] == "agents" and len(path) > 2 else DEFAULTS
    found: dict[int, set[KeyPath]] = {}
    for other in _paths_of(name, root, ()):
        at = tuple(agent if step == DEFAULTS and other[0] == "agents" else step for step in other)
        found.setdefault(_steps(path, at), set()).add(at)
    nearest_ones = found[min(found)] if found else set()
    return dotted(nearest_ones.pop()) if len(nearest_ones) == 1 and min(found) <= _NEAR else ""


def _steps(*paths: KeyPath) -> int:
    """Return the steps from the section of one key to that of another, up and down."""
    one, other = (path[2:-1] if path[0] == "agents" else path[:-1] for path in paths)
    common = list(itertools.takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))
    return len(one) + len(other) - 2 * len(common)


def _paths_of(name: str, section: type[SettingsSection], path: KeyPath) -> Iterator[KeyPath]:
    for key, field in keys_of(section).items():
        if key == name:
            yield (*path, key)
        below, named = section_of(field.annotation), section_of(items_of(field.annotation, dict))
        if below:
            yield from _paths_of(name, below, (*path, key))
        if named:
            yield from _paths_of(name, named, (*path, key, DEFAULTS))


def respell(
    layer: Layer, schema: type[SettingsSection], spare: Spare = lambda *_: False
) -> tuple[Layer, list[ConfigProblem]]:
    """`layer` with the keys of `schema`, and a problem for each duplicate key, and each unknown one with its value that
    `spare` does not leave out."""
    speller = _Speller(layer.marks, schema, spare)
    data = speller.section(layer.data, schema, (), ())
    return Layer(data, speller.marks), speller.problems


class _Speller:
    """Walks through data and schema in parallel; `old` paths are the file's, `new` ones the schema's."""

    def __init__(self, marks: dict[KeyPath, Mark], root: type[SettingsSection], spare: Spare) -> None:
        self.old_marks = marks
        self.root = root
        self.spare = spare
        self.marks: dict[KeyPath, Mark] = {}
        self.problems: list[ConfigProblem] = []

    def section(
        self, data: dict[str, Any], schema: type[SettingsSection], old: KeyPath, new: KeyPath
    ) -> dict[str, Any]:
        fields, extras = keys_of(schema), extras_of(schema)
        result: dict[str, Any] = {}
        for key, value in data.items():
            name = key if key in fields else to_snake(key)
            if name not in fields:
                name = key
            annotation = fields[name].annotation if name in fields else extras
            if annotation is None and self.spare((*old, key), value):
                continue
            if annotation is None:
                text = unknown_key(key, list(fields), _path_of((*new, key), self.root))
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
        if isinstance(value, str) and section and section.word:
            self.marks[*new, section.word] = self.old_marks[old]
            return {section.word: value}
        if isinstance(value, dict) and section:
            return self.section(value, section, old, new)
        if isinstance(value, dict):
            return {key: self._value(item, named or Any, (*old, key), (*new, key)) for key, item in value.items()}
        if isinstance(value, list):
            return [self._value(item, listed or Any, (*old, at), (*new, at)) for at, item in enumerate(value)]
        return value

    def _problem(self, old: KeyPath, new: KeyPath, text: str) -> None:
        self.problems.append(ConfigProblem(self.old_marks[old].position, dotted(new), text))


_EXPECTED = {
    "bool_type": "true or false",
    "dict_type": "keys with values",
    "float_type": "a number",
    "int_type": "an integer",
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
# Similarity from which another key was meant.
_ALIKE = 0.75
# Maximum length of a value shown in a message.
_SHOWN = 60


def unknown_key(key: str, known: list[str], elsewhere: str) -> str:
    """The message for a key that is not among `known`; `elsewhere` is the path of an existing key of that name, which
    was meant rather than one that is similar."""
    meant = elsewhere or nearest(key, known, least=_ALIKE)
    return f"unknown key; did you mean {meant}?" if meant else f"unknown key; expected one of {', '.join(known)}"


def unknown_agent(agent_id: str, known: list[str]) -> str:
    """Return the message for an agent that is not among `known`."""
    meant = nearest(agent_id, known)
    hint = f"; did you mean {meant}?" if meant else ""
    return f"expected one of the agents {', '.join(known)}{_found(agent_id, secret=False)}{hint}"


def explain(error: ErrorDetails, *, secret: bool) -> str:
    """One sentence about `error`, without the value if it is `secret`."""
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
