"""Puts one key into the text of a YAML or JSON file and leaves every other character as it is.

Pure text in, text out: where the key goes is told by the marks of PyYAML's scanner. What comes of it is to be parsed
again by the caller, since anchors and rare spellings can let a small change mean a large one.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import yaml

from clawbot.config.spelling import Step, to_snake

Scalar = bool | int | float | str | None

_BREAK = re.compile(r"\r\n|[\n\r\x85\u2028\u2029]")
_PLAIN = re.compile(r"[^\W\d_][\w-]*")
# Words that some reader of YAML takes for something else than text.
_RESERVED = re.compile(r"(?i:true|false|yes|no|on|off|y|n|null|nan|inf)")
_NULL = ("~", "null", "Null", "NULL")
_STEP = 2
_EMPTY_TOKENS = (
    yaml.StreamStartToken,
    yaml.StreamEndToken,
    yaml.BlockMappingStartToken,
    yaml.BlockSequenceStartToken,
    yaml.BlockEndToken,
)


class NotEditableError(Exception):
    """The text is of a kind that this module does not change."""


class Place(NamedTuple):
    """How far a path exists: `found` are its keys as the file spells them, `node` what stands there, `rest` the keys
    that are missing, `flow` whether the mapping around `node` is in braces."""

    found: tuple[str, ...]
    node: yaml.Node | None
    rest: tuple[str, ...]
    flow: bool


class YamlText:
    """A document as text, tokens and nodes. `as_json` spells what is put in as JSON does."""

    def __init__(self, text: str, *, as_json: bool = False) -> None:
        # JSON may be indented by tabs, which no YAML reader takes.
        readable = text.replace("\t", " ") if as_json else text
        self.text = text
        self.as_json = as_json
        try:
            tokens = list(yaml.scan(readable, Loader=yaml.SafeLoader))
            self.root = yaml.compose(readable, Loader=yaml.SafeLoader)
        except yaml.YAMLError as error:
            raise NotEditableError from error
        self.tokens = [token for token in tokens if not isinstance(token, _EMPTY_TOKENS)]
        breaks = _BREAK.search(text)
        self.newline = breaks[0] if breaks else "\n"

    def find(self, path: Sequence[Step]) -> Place:
        """How far `path` exists."""
        node, flow, found = self.root, False, list[str]()
        for step in path:
            pair = _pair(node, step)
            if pair is None:
                break
            flow = bool(node.flow_style) if isinstance(node, yaml.MappingNode) else False
            found.append(pair[0].value)
            node = pair[1]
        return Place(tuple(found), node, tuple(step.name for step in path[len(found) :]), flow)

    def put(self, place: Place, value: Scalar) -> str:
        """The text with `value` at `place`. Raises NotEditableError."""
        node = place.node
        if not place.rest:
            return self._replaced(node, self.scalar(value))
        if isinstance(node, yaml.MappingNode):
            insert = self._into_braces if node.flow_style else self._into_block
            return insert(node, place.rest, value)
        if node is None or (node is self.root and _is_null(node)):
            return self._appended(place.rest, value)
        if not _is_null(node):
            raise NotEditableError
        if node.value or place.flow:
            return self._replaced(node, self.flow(place.rest, value))
        return self._below(node, place, value)

    def flow(self, keys: Sequence[str], value: Scalar) -> str:
        """`{a: {b: value}}` on one line."""
        text = self.scalar(value)
        for key in reversed(keys):
            text = f"{{{self.scalar(key)}: {text}}}"
        return text

    def scalar(self, value: Scalar) -> str:
        """`value` so that it means itself to every reader of the file."""
        if self.as_json:
            return json.dumps(value, ensure_ascii=False)
        if not isinstance(value, str):
            return yaml.safe_dump(value).removesuffix("\n").removesuffix("...").strip()
        if _PLAIN.fullmatch(value) and not _RESERVED.fullmatch(value):
            return value
        return yaml.safe_dump(value, default_style='"', allow_unicode=True, width=10**9).removesuffix("\n")

    def _replaced(self, node: yaml.Node | None, new: str) -> str:
        if not isinstance(node, yaml.ScalarNode) or node.style in ("|", ">"):
            raise NotEditableError
        end = node.end_mark.index
        if not node.value and node.style is None:
            return f"{self.text[:end]} {new}{self.text[end:]}"
        # An anchor or a tag before it stays.
        start = next(token.start_mark.index for token in self.tokens if token.end_mark.index == end)
        return self.text[:start] + new + self.text[end:]

    def _into_braces(self, node: yaml.MappingNode, keys: Sequence[str], value: Scalar) -> str:
        last = self._last_before(node.end_mark.index - 1, commas=False)
        at = last.end_mark.index
        pair = self.flow(keys, value)[1:-1]
        if isinstance(last, yaml.FlowMappingStartToken):
            blank = " " if self.text[at : at + 1] == "#" else ""
            return f"{self.text[:at]}{pair}{blank}{self.text[at:]}"
        between = re.search(r"\{(\s*)", self.text[node.start_mark.index :])
        on_lines = between is not None and _BREAK.search(between[1])
        glue = f",{between[1]}" if between and on_lines else ", "
        return f"{self.text[:at]}{glue}{pair}{self.text[at:]}"

    def _into_block(self, node: yaml.MappingNode, keys: Sequence[str], value: Scalar) -> str:
        column = node.value[0][0].start_mark.column
        end = node.end_mark.index
        if node is self.root and end >= len(self.text):
            return self._lines_at(len(self.text), keys, value, column)
        last = self._last_before(end)
        return self._lines_at(self._next_line(last.end_mark.index), keys, value, column)

    def _below(self, node: yaml.Node, place: Place, value: Scalar) -> str:
        """Under a key with nothing behind it, before the comments that may stand there."""
        at = node.end_mark.index
        line = self.text[: at + 1].splitlines()[-1] if at else ""
        column = len(line) - len(line.lstrip(" ")) + self._step()
        return self._lines_at(self._next_line(at), place.rest, value, column)

    def _appended(self, keys: Sequence[str], value: Scalar) -> str:
        if self.as_json:
            return f"{self.text}{self.flow(keys, value)}{self.newline}"
        return self._lines_at(len(self.text), keys, value, 0)

    def _lines_at(self, at: int, keys: Sequence[str], value: Scalar, column: int) -> str:
        step = self._step()
        lines = [f"{' ' * (column + step * depth)}{self.scalar(key)}:" for depth, key in enumerate(keys)]
        lines[-1] += f" {self.scalar(value)}"
        before = self.text[:at]
        glue = "" if not before or _BREAK.fullmatch(before[-1]) else self.newline
        return before + glue + "".join(line + self.newline for line in lines) + self.text[at:]

    def _last_before(self, index: int, *, commas: bool = True) -> Any:
        """The last token that begins before `index`; what is no token is blank or a comment."""
        found = [token for token in self.tokens if token.start_mark.index < index]
        if not commas and found and isinstance(found[-1], yaml.FlowEntryToken):
            found.pop()
        if not found:
            raise NotEditableError
        return found[-1]

    def _next_line(self, index: int) -> int:
        if index and _BREAK.fullmatch(self.text[index - 1]):
            return index  # behind a block of text, whose end is the beginning of a line
        found = _BREAK.search(self.text, index)
        return found.end() if found else len(self.text)

    def _step(self) -> int:
        """The indentation of the file's first nested mapping."""
        if isinstance(self.root, yaml.MappingNode) and not self.root.flow_style:
            for key, value in self.root.value:
                if isinstance(value, yaml.MappingNode) and not value.flow_style:
                    deeper = value.value[0][0].start_mark.column - key.start_mark.column
                    return deeper if deeper > 0 else _STEP
        return _STEP


def _pair(node: yaml.Node | None, step: Step) -> tuple[yaml.ScalarNode, yaml.Node] | None:
    from_file = [
        (key, value)
        for key, value in (node.value if isinstance(node, yaml.MappingNode) else ())
        if isinstance(key, yaml.ScalarNode)
    ]
    exact = (pair for pair in from_file if pair[0].value == step.name)
    alike = (pair for pair in from_file if step.either and to_snake(pair[0].value) == step.name)
    return next(itertools.chain(exact, alike), None)


def _is_null(node: yaml.Node) -> bool:
    return isinstance(node, yaml.ScalarNode) and node.style is None and (not node.value or node.value in _NULL)
