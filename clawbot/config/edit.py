"""Sets one key in the user's settings file. Comments, order, quotes and indentation of everything else stay.

Nothing is written before it is proved: the new text is read like the old one, and the two must differ in this key and
in nothing else. Files that are too unusual for that are left alone, and the error says what to write by hand.
"""

from __future__ import annotations

import contextlib
import fcntl
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from clawbot.config.errors import ConfigError
from clawbot.config.legacy import modernise, older_places
from clawbot.config.schema import Settings
from clawbot.config.source import KeyPath, Layer, dotted, parse_layer, read_text
from clawbot.config.spelling import Step, extras_of, items_of, keys_of, respell, section_of
from clawbot.config.yaml_text import NotEditableError, Place, Scalar, YamlText
from clawbot.errors import ClawbotError
from clawbot.files import ensure_private_dir, write_atomic

_BOM = b"\xef\xbb\xbf"


def set_value(path: Path, keys: Sequence[str], value: Scalar) -> None:
    """Let the settings file `path` say `value` at `keys`, which are spelled as in the schema.

    A key that stands there in camelCase or in an older place is changed where it is. Makes a missing file (0600);
    a symlink stays one. Raises ConfigError when the file can't be read as settings, ClawbotError with the line to
    write by hand when it can't be changed safely, OSError when it can't be written; it is untouched then. Blocks.
    """
    ensure_private_dir(path.parent)
    with _alone(path):
        try:
            old = read_text(path)
            bom = _BOM if path.read_bytes().startswith(_BOM) else b""
        except FileNotFoundError:
            old, bom = "", b""
        new = with_value(old, path, keys, value)
        if new != old:
            write_atomic(path, bom + new.encode())


def with_value(text: str, path: Path, keys: Sequence[str], value: Scalar) -> str:
    """`text`, the content of `path`, with `value` at `keys`. Errors as in `set_value`."""
    before = _Reading.of(text, str(path))
    if before.problems:
        raise ConfigError(before.problems)
    as_json = path.suffix == ".json"
    try:
        document = YamlText(text, as_json=as_json)
        place = _best_place(document, keys)
        new = document.put(place, value)
        if _proved(before, _Reading.of(new, str(path)), (*place.found, *place.rest), (tuple(keys), value)):
            return new
    except (NotEditableError, ConfigError):
        pass
    by_hand = YamlText("", as_json=as_json).flow(keys, value)
    raise ClawbotError(
        f"{path} is written in a way that can't be changed without risk for the rest of it.",
        hint=f"Set {dotted(tuple(keys))} in it by hand: {by_hand if as_json else by_hand[1:-1]}",
    )


class _Reading(NamedTuple):
    """A file's text as data, and what it means: older keys moved, all keys in the spelling of the schema."""

    data: dict[str, Any]
    meaning: dict[str, Any]
    problems: Sequence[Any]
    unknown: int

    @classmethod
    def of(cls, text: str, name: str) -> _Reading:
        layer, problems = parse_layer(text, name)
        data = parse_layer(text, name)[0].data  # moving keys changes the layer
        moved, conflicts, _ = modernise(layer)
        spelled, unknown = respell(Layer(moved.data, moved.marks), Settings)
        return cls(data, spelled.data, problems, len(conflicts) + len(unknown))


def _proved(before: _Reading, after: _Reading, written: KeyPath, wanted: tuple[KeyPath, Scalar]) -> bool:
    keys, value = wanted
    return (
        not after.problems
        and after.unknown <= before.unknown
        and _same(after.data, _with_key(before.data, written, value))
        and _same(after.meaning, _with_key(before.meaning, keys, value))
    )


def _best_place(document: YamlText, keys: Sequence[str]) -> Place:
    """Where most of `keys` exists already: in their place of today, or in one of older programs."""
    today = _steps(keys)
    ways = [today]
    for old, length in older_places(keys):
        ways.append([*old, *today[length:]])
    return min((document.find(way) for way in ways), key=lambda place: len(place.rest))


def _steps(keys: Sequence[str]) -> list[Step]:
    """`keys` with what the schema says of each: names that users choose have one spelling only."""
    steps: list[Step] = []
    annotation: Any = Settings
    for key in keys:
        section = section_of(annotation)
        field = keys_of(section).get(key) if section else None
        steps.append(Step(key, field is not None))
        free = extras_of(section) if section else items_of(annotation, dict)
        annotation = field.annotation if field else free
    return steps


def _with_key(data: Any, keys: KeyPath, value: Scalar) -> Any:
    if not keys:
        return value
    below = dict(data) if isinstance(data, Mapping) else {}
    below[str(keys[0])] = _with_key(below.get(str(keys[0])), keys[1:], value)
    return below


def _same(one: Any, other: Any) -> bool:
    """Equality that tells true from 1, and takes one nan for another."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(_same(item, other[key]) for key, item in one.items())
    if isinstance(one, list):
        return len(one) == len(other) and all(map(_same, one, other))
    return one == other or (isinstance(one, float) and math.isnan(one) and math.isnan(other))


@contextlib.contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Let others who set a value in a file of the same folder wait."""
    folder = os.open(path.resolve().parent, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)
