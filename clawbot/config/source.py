"""Reads a settings file into plain data, with a table of where each value was written.

YAML follows version 1.2 (`off` and `04:00` are text, not a boolean and the number 240); JSON, with or without comments,
is read as a subset.
"""

from __future__ import annotations

import re
import textwrap
from pathlib import Path, PurePath
from typing import Any, NamedTuple

import yaml

from clawbot.config.errors import ConfigError, ConfigProblem, config_error, read_text
from clawbot.text.secrets import redact

WIDTH = 116
"""The longest line of settings that are written."""
_SUFFIXES = (".json", ".json5", ".jsonc")
_STRING = r"\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])*'"
_COMMENT = r"//[^\n\r]*|/\*.*?\*/|\#[^\n\r]*"
_STRINGS_AND_COMMENTS = re.compile(f"(?P<string>{_STRING})|(?P<comment>{_COMMENT})", re.DOTALL)
_STRINGS_AND_KEYS = re.compile(rf"(?P<string>{_STRING})|(?P<key>[^\W\d][\w$]*|\$[\w$]*):(?=\S)", re.DOTALL)
_ESCAPED = re.compile(r"\\(.)|(\")", re.DOTALL)
# Escapes that double-quoted strings of YAML have as well.
_SAME_IN_YAML = '"\\/bfnrtv0xu\r\n'
_SURROGATES = re.compile(r"(?<!\\)((?:\\\\)*)\\u(d[89ab][0-9a-f]{2})\\u(d[c-f][0-9a-f]{2})", re.IGNORECASE)


def is_json(name: str) -> bool:
    """Return whether the file name is one of JSON rather than YAML."""
    return PurePath(name).suffix in _SUFFIXES


def without_comments(text: str) -> str:
    """Return `text` with comments and tabs replaced by spaces: every other character keeps its position."""

    def blank(found: re.Match[str]) -> str:
        return found[0] if found["string"] else re.sub(r"[^\n\r]", " ", found[0])

    return _STRINGS_AND_COMMENTS.sub(blank, text).replace("\t", " ")


def as_yaml(text: str) -> str:
    """Convert JSON or JSON5 to what YAML readers accept, keeping line numbers."""

    def respell(found: re.Match[str]) -> str:
        return f"{found['key']}: " if found["key"] else _quoted(found["string"])

    return _SURROGATES.sub(_joined, _STRINGS_AND_KEYS.sub(respell, without_comments(text)))


def _quoted(string: str) -> str:
    """Return a double-quoted string with escapes that YAML knows."""

    def escape(found: re.Match[str]) -> str:
        if found[2]:
            return '\\"'
        return found[0] if found[1] in _SAME_IN_YAML else found[1]

    return f'"{_ESCAPED.sub(escape, string[1:-1])}"'


def _joined(found: re.Match[str]) -> str:
    pair = bytes.fromhex(found[2] + found[3])
    return found[1] + pair.decode("utf-16-be")


KeyPath = tuple[str | int, ...]

# Far above any real file; they stop exponential aliases.
_MAX_VALUES = 100_000
_MAX_DEPTH = 100
# libyaml's parser crashes on tens of thousands of nested brackets.
_MAX_OPENINGS = 5_000

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
    """The origin of a value: `origin` for the user, `position` (file and line) for errors, and the dotted `key` in the
    file if it was moved from there."""

    origin: str
    position: str
    key: str = ""


class Layer(NamedTuple):
    """One source of settings: nested plain data, and the mark of each path in it."""

    data: dict[str, Any]
    marks: dict[KeyPath, Mark]


def resolvers() -> dict[str, list[tuple[str, re.Pattern[str]]]]:
    """Return the meaning of plain words by YAML 1.2, in the form of PyYAML's loaders."""
    table: dict[str, list[tuple[str, re.Pattern[str]]]] = {}
    for name, pattern, first in _RULES:
        for character in first:
            key = "" if character == "\0" else character
            table.setdefault(key, []).append((f"{_YAML_TAG}{name}", re.compile(rf"(?:{pattern})\Z")))
    return table


# Prefer libyaml's loader: ten times as fast.
_Loader: Any = type(
    "_Loader", (getattr(yaml, "CSafeLoader", yaml.SafeLoader),), {"yaml_implicit_resolvers": resolvers()}
)


def read_layer(path: Path, *, origin: str | None = None) -> tuple[Layer, list[ConfigProblem]]:
    """Read a YAML or JSON (also JSON5) file; also returns problems such as duplicate keys and keys that are not text.

    The origin of its values is `origin`, or file and line. Raises FileNotFoundError, and ConfigError if it is not a
    settings file at all.
    """
    return parse_layer(read_text(path), str(path), origin=origin)


def parse_layer(
    text: str, name: str, *, origin: str | None = None, reader: type[TreeReader] | None = None
) -> tuple[Layer, list[ConfigProblem]]:
    """Like `read_layer`, for the text of the file `name`; other kinds of files have their own `reader`."""
    if is_json(name):
        text = as_yaml(text)
    builder = (reader or TreeReader)(name, origin)
    if sum(map(text.count, ("[", "{", "- ", "? "))) > builder.max_openings:
        raise config_error(name, f"has more than {builder.max_openings} lists and mappings")
    try:
        data = builder.run(text)
    except yaml.YAMLError as error:
        raise _syntax_error(error, text, name) from error
    except RecursionError as error:
        raise config_error(name, "is nested too deeply, or refers to itself") from error
    if data is not None and not isinstance(data, dict):
        raise config_error(f"{name}:1", "expected keys with values (`key: value`) at the top of the file")
    return Layer(data or {}, builder.marks), builder.problems


class TreeReader:
    """Turns the nodes of one file into data, marks and problems."""

    loader_class: Any = _Loader
    max_openings = _MAX_OPENINGS
    max_values = _MAX_VALUES

    def __init__(self, name: str, origin: str | None) -> None:
        self.name = name
        self.origin = origin
        self.marks: dict[KeyPath, Mark] = {}
        self.problems: list[ConfigProblem] = []
        self.loader: Any = None

    def run(self, text: str) -> Any:
        self.loader = self.loader_class(text)
        try:
            node = self.loader.get_single_node()
            return None if node is None else self._value(node, ())
        finally:
            self.loader.dispose()

    def _position(self, node: yaml.Node) -> str:
        return f"{self.name}:{node.start_mark.line + 1}"

    def _mark(self, node: yaml.Node, path: KeyPath) -> None:
        position = self._position(node)
        self.marks[path] = Mark(self.origin or position, position)

    def _value(self, node: yaml.Node, path: KeyPath) -> Any:
        if len(path) > _MAX_DEPTH or len(self.marks) > self.max_values:
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
        return self.scalar(node, path)

    def scalar(self, node: yaml.Node, path: KeyPath) -> Any:
        """Return the value of a plain or quoted word at `path`."""
        return self.loader.construct_object(node)

    def _mapping(self, node: yaml.MappingNode, path: KeyPath) -> dict[str, Any]:
        self._drop_duplicates(node, path)
        # Puts the keys of `<<` first, so that the mapping's own keys override them.
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
        self.problems.append(ConfigProblem(self._position(node), dotted(path), text))


def dotted(path: KeyPath) -> str:
    """Return `path` in the users' notation: `agents.defaults.fallbacks[0]`."""
    text = ""
    for step in path:
        text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else step
    return text


def _syntax_error(error: yaml.YAMLError, text: str, name: str) -> ConfigError:
    """Return a YAML syntax error with its line number. The line itself is not shown: it may contain a secret."""
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


def scalar(value: Any, indent: str = "") -> str:
    """Return `value` as YAML after its key; long text as a folded block."""
    line = yaml.safe_dump(value, default_flow_style=True, allow_unicode=True, width=10**9)
    line = line.removesuffix("...\n").strip()
    if not isinstance(value, str) or len(line) + len(indent) < WIDTH or "\n" in value or "  " in value:
        return line
    wrapped = textwrap.wrap(value, WIDTH, initial_indent=f"{indent}  ", subsequent_indent=f"{indent}  ")
    return "\n".join([">-", *wrapped])
