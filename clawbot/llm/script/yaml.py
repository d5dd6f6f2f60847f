"""Reading YAML with its line numbers, so that an error in a script names file, line and the nearest valid key."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Collection
from pathlib import Path
from typing import Any, NoReturn

import yaml

from clawbot.errors import ClawbotError

NULL = "tag:yaml.org,2002:null"
TIMESTAMP = "tag:yaml.org,2002:timestamp"
BOOLEAN = "tag:yaml.org,2002:bool"


class ScriptFileError(ClawbotError):
    """A script that can't be read or makes no sense: file, line, key, what was expected, the nearest valid key."""


class _Loader(yaml.SafeLoader):
    """Safe YAML as the writer of JSON arguments means it: dates are texts, and only `true` and `false` are booleans."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag not in {TIMESTAMP, BOOLEAN}]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver(BOOLEAN, re.compile(r"^(?:true|True|TRUE|false|False|FALSE)$"), list("tTfF"))


class YamlReader:
    """Typed access to the nodes of one YAML text. Every method raises ScriptFileError with the node's line."""

    def __init__(self, text: str, path: Path) -> None:
        self.path = path
        try:
            self._loader = _Loader(text)
            root = self._loader.get_single_node()
        except yaml.MarkedYAMLError as error:
            line = error.problem_mark.line + 1 if error.problem_mark else 1
            raise ScriptFileError(f"{path}:{line}: no valid YAML: {error.problem or error.context}.") from error
        except yaml.YAMLError as error:
            raise ScriptFileError(f"{path}: no valid YAML: {' '.join(str(error).split())}.") from error
        if root is None:
            raise ScriptFileError(f"{path}: the script is empty.", hint="Give it a list of `turns:`.")
        self.root: yaml.Node = root

    def fail(self, node: yaml.Node, problem: str, hint: str = "") -> NoReturn:
        """Raise the error that `problem` is at `node`."""
        raise ScriptFileError(f"{self.path}:{line_of(node)}: {problem}.", hint=hint)

    def mapping(self, node: yaml.Node, what: str, keys: Collection[str]) -> dict[str, yaml.Node]:
        """The entries of `node`, all of them among `keys` and none given twice."""
        if not isinstance(node, yaml.MappingNode):
            self.fail(node, f"`{what}` must be a mapping with {_listed(keys)}, not {_kind(node)}")
        entries: dict[str, yaml.Node] = {}
        for key_node, value in node.value:
            key = str(key_node.value)
            if key not in keys:
                self.fail(key_node, f"`{what}` has no key {key!r}", _nearest(key, keys))
            if key in entries:
                self.fail(key_node, f"`{what}` has the key {key!r} twice")
            entries[key] = value
        return entries

    def sequence(self, node: yaml.Node, what: str) -> list[yaml.Node]:
        """The items of `node`."""
        if not isinstance(node, yaml.SequenceNode):
            self.fail(node, f"`{what}` must be a list, not {_kind(node)}")
        return list(node.value)

    def text(self, node: yaml.Node, what: str) -> str:
        """The text of `node` as it was written, so that `yes`, `1.10` and dates need no quotes."""
        if not isinstance(node, yaml.ScalarNode) or node.tag == NULL:
            self.fail(node, f"`{what}` must be a text, not {_kind(node)}")
        return str(node.value)

    def whole(self, node: yaml.Node, what: str, least: int = 0) -> int:
        """A whole number of at least `least`."""
        value = self.plain(node)
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            self.fail(node, f"`{what}` must be a whole number of at least {least}, not {_shown(value)}")
        return value

    def seconds(self, node: yaml.Node, what: str) -> float:
        """A duration in seconds, not negative."""
        value = self.plain(node)
        if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value < float("inf"):
            self.fail(node, f"`{what}` must be a number of seconds, not {_shown(value)}")
        return float(value)

    def choice(self, node: yaml.Node, what: str, choices: Collection[str]) -> str:
        """One of `choices`."""
        value = self.text(node, what)
        if value not in choices:
            self.fail(node, f"`{what}` must be one of {_listed(choices)}, not {value!r}", _nearest(value, choices))
        return value

    def plain(self, node: yaml.Node) -> Any:
        """`node` as plain JSON values."""
        try:
            value = self._loader.construct_document(node)
            json.dumps(value, allow_nan=False)
        except yaml.MarkedYAMLError as error:
            self.fail(node, f"no valid value: {error.problem}")
        except (TypeError, ValueError, RecursionError) as error:
            self.fail(node, f"can't be said in JSON: {error}")
        return value


def line_of(node: yaml.Node) -> int:
    """The line of `node` in its file, from 1."""
    return int(node.start_mark.line) + 1


def _kind(node: yaml.Node) -> str:
    if isinstance(node, yaml.MappingNode):
        return "a mapping"
    if isinstance(node, yaml.SequenceNode):
        return "a list"
    return "nothing" if node.tag == NULL else repr(node.value)


def _shown(value: Any) -> str:
    return "nothing" if value is None else repr(value)


def _listed(names: Collection[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _nearest(name: str, names: Collection[str]) -> str:
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    return f"Did you mean `{close[0]}`?" if close else f"Valid: {_listed(names)}."
