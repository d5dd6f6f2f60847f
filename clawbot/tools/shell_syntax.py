"""What a shell command consists of: its simple commands, what flows into each, and the files that they write.

The grammar is tree-sitter's of bash, which also reads what is broken, and says so. Nothing is run, expanded or looked
up.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

_ESCAPED = re.compile(r"\\(?:\n|(.))", re.DOTALL)
_COMMANDS = ("command", "file_redirect", "heredoc_body", "herestring_redirect")
_BRANCHING = "|(<["
BRANCHES = 1500  # the time of the parser grows with their square; these take 0.2 s at worst
PIPES = 40  # around a command; who nests deeper is not followed
Range = tuple[int, int]
# What makes other words of a word, even where it is quoted: nobody misses these in a plain command.
_EXPANDED = "$`*?[]{}~!\\\0"
_PLAIN = frozenset(
    {
        "program", "list", "command", "command_name", "word", "number", "string", "string_content", "raw_string",
        "concatenation", "&&", ";", "\n", '"',
    }
)  # fmt: skip
_WRITING = (">", ">>", ">|", "&>", "&>>", "<>")


class ScriptWord(Struct, frozen=True):
    """A word as the shell hands it on; with `known` false it holds something that only the shell works out."""

    text: str
    known: bool = True


class SimpleCommand(Struct, frozen=True):
    """A simple command. `fed_by` holds the ranges of bytes whose commands make its input or its words: its own, and
    those of the stages before it in a pipe."""

    words: tuple[ScriptWord, ...]
    start: int
    fed_by: tuple[Range, ...] = ()

    def is_fed_by(self, start: int) -> bool:
        """Whether what begins at byte `start` makes its input or its words."""
        return start != self.start and any(first <= start < end for first, end in self.fed_by)


class ParsedScript(Struct, frozen=True):
    """A command in its parts, in the order of the text. `texts` are heredocs and here-strings, `written` the targets of
    redirections, each with the byte where it begins. `readable` is false where the grammar could not follow."""

    calls: tuple[SimpleCommand, ...]
    texts: tuple[tuple[int, ScriptWord], ...]
    written: tuple[tuple[int, ScriptWord], ...]
    readable: bool


def parse_script(command: str) -> ParsedScript:
    """`command` in its parts; of one that is nested beyond reason nothing but that."""
    if sum(map(command.count, _BRANCHING)) > BRANCHES:
        return ParsedScript((), (), (), readable=False)
    source = command.encode("utf-8", "replace")
    root = _parser().parse(source).root_node
    calls: list[SimpleCommand] = []
    texts: list[tuple[int, ScriptWord]] = []
    written: list[tuple[int, ScriptWord]] = []
    for node, fed_by in _found(root):
        if node.type == "command":
            calls.append(SimpleCommand(tuple(_words(node)), node.start_byte, (*fed_by, node.byte_range)))
        elif node.type == "heredoc_body":
            texts.append((node.start_byte, ScriptWord(_text(node), known=not node.named_child_count)))
        elif node.type == "herestring_redirect":
            texts += [(node.start_byte, _word(child)) for child in node.named_children[-1:]]
        elif any(child.type in _WRITING for child in node.children):
            written += [(node.start_byte, _word(child)) for child in node.children_by_field_name("destination")]
    return ParsedScript(tuple(calls), tuple(texts), tuple(written), not root.has_error)


def plain_commands(command: str) -> list[list[str]] | None:
    """The words of the simple commands of which `command` consists, one after the other; None where there is anything
    else: assignments, redirections, pipes, functions, and words that the shell would make others of."""
    if any(mark in command for mark in _EXPANDED) or sum(map(command.count, _BRANCHING)) > BRANCHES:
        return None
    found: list[list[str]] = []
    waiting = [_parser().parse(command.encode("utf-8", "replace")).root_node]
    while waiting:
        node = waiting.pop()
        if node.type not in _PLAIN or node.is_missing:
            return None
        if node.type == "command":
            found.append([word.text for word in _words(node)])
        waiting += reversed(node.children)
    return found


@cache
def _parser() -> Parser:
    # A compiled grammar: nobody who runs no command waits for it.
    import tree_sitter
    import tree_sitter_bash

    return tree_sitter.Parser(tree_sitter.Language(tree_sitter_bash.language()))


def _found(root: Node) -> Iterator[tuple[Node, tuple[Range, ...]]]:
    """The nodes that matter in the order of the text, each with what flows into it: the stages before it in each pipe
    that it is in, and the redirections around it. Nesting may be as deep as a command is long."""
    waiting: list[tuple[Node, tuple[Range, ...]]] = [(root, ())]
    while waiting:
        node, fed_by = waiting.pop()
        if node.type in _COMMANDS:
            yield node, fed_by
        if node.type == "redirected_statement":
            fed_by = (*fed_by, *(child.byte_range for child in node.children_by_field_name("redirect")))
        piped = node.type in ("pipeline", "heredoc_redirect")  # the rest of a pipe stands in the heredoc of its stage
        for child in reversed(node.children):
            before = ((node.start_byte, child.start_byte),) if piped else ()
            waiting.append((child, (*fed_by, *before)[-PIPES:]))


def _words(command: Node) -> Iterator[ScriptWord]:
    for child in command.children_by_field_name("name"):
        yield _word(child.named_children[0] if child.named_children else child)
    for child in command.children_by_field_name("argument"):
        yield _word(child)


def _word(node: Node) -> ScriptWord:
    """What the shell makes of a word, as far as its text tells."""
    if node.type in ("word", "number", "string_content"):
        escaped = r"\1" if node.type != "string_content" else r"\g<0>"
        return ScriptWord(_ESCAPED.sub(escaped, _text(node)))
    if node.type == "raw_string":
        return ScriptWord(_text(node)[1:-1])
    if node.type == "ansi_c_string" and "\\" not in _text(node):
        return ScriptWord(_text(node)[2:-1])
    if node.type in ("string", "concatenation", "translated_string"):
        parts = [_word(child) for child in node.named_children]
        return ScriptWord("".join(part.text for part in parts), all(part.known for part in parts))
    return ScriptWord(_text(node), known=False)


def _text(node: Node) -> str:
    return (node.text or b"").decode("utf-8", "replace")
