"""A settings file read into plain data, and a table of where each value of it was written.

YAML by the rules of version 1.2 (`off` and `04:00` are text, not a switch and the number 240); JSON is a part of it.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from clawbot.config.errors import ConfigError, Problem, config_error
from clawbot.logs import redact

KeyPath = tuple[str | int, ...]

# Far above any real file; they stop /dev/zero and aliases that multiply.
_MAX_BYTES = 1024**2
_MAX_VALUES = 100_000
_MAX_DEPTH = 100
# libyaml's parser does not survive ten thousands of brackets inside each other.
_MAX_OPENINGS = 5_000

_SURROGATES = re.compile(r"(?<!\\)((?:\\\\)*)\\u(d[89ab][0-9a-f]{2})\\u(d[c-f][0-9a-f]{2})", re.IGNORECASE)
_YAML_TAG = "tag:yaml.org,2002:"
_SCALARS = {f"{_YAML_TAG}{name}" for name in ("str", "int", "float", "bool", "null")}
_RULES = (
    ("merge", r"<<", "<"),
    ("null", r"~|null|Null|NULL|", "~nN\0"),
    ("bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
    ("int", r"[-+]?(?:0|[1-9][0-9]*)", "-+0123456789"),
    ("float", r"[-+]?(?:[0-9]+\.[0-9]*|\.[0-9]+|[0-9]+(?=[eE]))(?:[eE][-+]?[0-9]+)?|[-+]?\.inf|\.nan", "-+.0123456789"),
)


class Mark(NamedTuple):
    """Where a value comes from: `origin` for the user to read, `place` (file and line) for errors."""

    origin: str
    place: str


class Layer(NamedTuple):
    """One source of settings: nested plain data, and the mark of each path in it."""

    data: dict[str, Any]
    marks: dict[KeyPath, Mark]


def _resolvers() -> dict[str, list[tuple[str, re.Pattern[str]]]]:
    table: dict[str, list[tuple[str, re.Pattern[str]]]] = {}
    for name, pattern, first in _RULES:
        for character in first:
            key = "" if character == "\0" else character
            table.setdefault(key, []).append((f"{_YAML_TAG}{name}", re.compile(rf"(?:{pattern})\Z")))
    return table


# libyaml's loader where PyYAML was built with it: ten times as fast.
_Loader: Any = type(
    "_Loader", (getattr(yaml, "CSafeLoader", yaml.SafeLoader),), {"yaml_implicit_resolvers": _resolvers()}
)


def read_text(path: Path, *, limit: int = _MAX_BYTES) -> str:
    """The text of `path`. Raises FileNotFoundError, and ConfigError for what cannot be read as UTF-8."""
    place = str(path)
    try:
        with path.open("rb") as stream:
            data = stream.read(limit + 1)
    except FileNotFoundError:
        raise
    except IsADirectoryError as error:
        raise config_error(place, "is a folder; expected a file") from error
    except NotADirectoryError as error:
        raise config_error(
            place,
            "cannot be read: a file stands where a folder should be",
            hint="Move that file away, or name another folder (CLAWBOT_HOME, --config).",
        ) from error
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise config_error(place, f"cannot be read: {reason}") from error
    if len(data) > limit:
        raise config_error(place, f"is larger than {limit // 1024} KB")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise config_error(f"{place}:{line}", "is not UTF-8 text", hint="Save the file as UTF-8.") from error


def read_layer(path: Path, *, origin: str | None = None) -> tuple[Layer, list[Problem]]:
    """Read a YAML or JSON file, and say which keys are written twice or are no text.

    The origin of its values is `origin`, or file and line. Raises FileNotFoundError, and ConfigError when the file is
    no settings file at all.
    """
    return parse_layer(read_text(path), str(path), origin=origin)


def parse_layer(text: str, name: str, *, origin: str | None = None) -> tuple[Layer, list[Problem]]:
    """As `read_layer`, for the text of the file `name`."""
    if name.endswith(".json"):
        text = _as_yaml(text)
    builder = _Builder(name, origin)
    if sum(map(text.count, ("[", "{", "- ", "? "))) > _MAX_OPENINGS:
        raise config_error(name, f"has more than {_MAX_OPENINGS} lists and mappings")
    try:
        data = builder.run(text)
    except yaml.YAMLError as error:
        raise _syntax_error(error, text, name) from error
    except RecursionError as error:
        raise config_error(name, "is nested too deeply, or refers to itself") from error
    if data is not None and not isinstance(data, dict):
        raise config_error(f"{name}:1", "expected keys with values (`key: value`) at the top of the file")
    return Layer(data or {}, builder.marks), builder.problems


def _as_yaml(text: str) -> str:
    """JSON in the spelling that YAML readers take: no tabs between tokens, no surrogate pairs."""

    def join(found: re.Match[str]) -> str:
        pair = bytes.fromhex(found[2] + found[3])
        return found[1] + pair.decode("utf-16-be")

    return _SURROGATES.sub(join, text.replace("\t", " "))


class _Builder:
    """Turns the nodes of one file into data, marks and problems."""

    def __init__(self, name: str, origin: str | None) -> None:
        self.name = name
        self.origin = origin
        self.marks: dict[KeyPath, Mark] = {}
        self.problems: list[Problem] = []
        self.loader: Any = None

    def run(self, text: str) -> Any:
        self.loader = _Loader(text)
        try:
            node = self.loader.get_single_node()
            return None if node is None else self._value(node, ())
        finally:
            self.loader.dispose()

    def _place(self, node: yaml.Node) -> str:
        return f"{self.name}:{node.start_mark.line + 1}"

    def _mark(self, node: yaml.Node, path: KeyPath) -> None:
        place = self._place(node)
        self.marks[path] = Mark(self.origin or place, place)

    def _value(self, node: yaml.Node, path: KeyPath) -> Any:
        if len(path) > _MAX_DEPTH or len(self.marks) > _MAX_VALUES:
            raise RecursionError
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, path)
        if isinstance(node, yaml.SequenceNode):
            for index, item in enumerate(node.value):
                self._mark(item, (*path, index))
            return [self._value(item, (*path, index)) for index, item in enumerate(node.value)]
        if node.tag not in _SCALARS:
            self._problem(node, path, f"the tag {node.tag.removeprefix(_YAML_TAG)} has no meaning here")
            return None
        return self.loader.construct_object(node)

    def _mapping(self, node: yaml.MappingNode, path: KeyPath) -> dict[str, Any]:
        self._drop_duplicates(node, path)
        # Puts what `<<` refers to in front, so that the mapping's own keys win.
        self.loader.flatten_mapping(node)
        result: dict[str, Any] = {}
        for key_node, value_node in node.value:
            if not isinstance(key_node, yaml.ScalarNode):
                self._problem(key_node, path, "expected a word as key")
                continue
            key = str(key_node.value)
            self._mark(key_node, (*path, key))
            result[key] = self._value(value_node, (*path, key))
        return result

    def _drop_duplicates(self, node: yaml.MappingNode, path: KeyPath) -> None:
        lines: dict[str, int] = {}
        kept = []
        for key_node, value_node in node.value:
            name = key_node.value if isinstance(key_node, yaml.ScalarNode) else ""
            if name in lines:
                self._problem(key_node, (*path, name), f"is written twice, first in line {lines[name]}")
            else:
                kept.append((key_node, value_node))
            if name:
                lines.setdefault(name, key_node.start_mark.line + 1)
        node.value = kept

    def _problem(self, node: yaml.Node, path: KeyPath, text: str) -> None:
        self.problems.append(Problem(self._place(node), dotted(path), text))


def dotted(path: KeyPath) -> str:
    """`path` as users write it: `agents.defaults.fallbacks[0]`."""
    text = ""
    for step in path:
        text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else step
    return text


def _syntax_error(error: yaml.YAMLError, text: str, name: str) -> ConfigError:
    """Broken YAML with its line. The line itself is not shown: it may hold a key."""
    if isinstance(error, yaml.reader.ReaderError):
        line, what = (
            text.count("\n", 0, error.position) + 1,
            f"the character U+{int(error.character):04X} is not allowed",
        )
    elif isinstance(error, yaml.MarkedYAMLError) and error.problem_mark:
        line, what = error.problem_mark.line + 1, str(error.problem)
        if error.context and error.context_mark and error.context_mark.line + 1 != line:
            what += f" ({error.context} that starts in line {error.context_mark.line + 1})"
    else:
        return config_error(name, "is no YAML")
    return config_error(
        f"{name}:{line}", f"broken YAML: {redact(what)}", hint="Check quotes, brackets and indentation."
    )
