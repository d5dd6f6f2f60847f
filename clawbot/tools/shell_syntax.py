"""What a shell command consists of: its simple commands, what flows into each, and the files that they write.

The grammar is tree-sitter's of bash, which also reads what is broken, and reports that. Nothing is run or
expanded.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

_ESCAPED = re.compile(r"\\(?:\n|(.))", re.DOTALL)
_ESCAPED_IN_QUOTES = re.compile(r'\\(?:\n|(["\\$`]))')
_QUOTED = "\0"  # replaces each quoted character; no command holds one
# The shell expands `~` where a word begins, and behind `=` and `:` in a possible assignment.
_TILDE = re.compile(r"(?:^|[=:])~")
_FOUND = frozenset({"command", "file_redirect", "heredoc_redirect", "herestring_redirect"})
_KEPT = frozenset({"variable_assignment", "raw_string", "ansi_c_string"})
_BRANCHING = "|(<["
BRANCHES = 1500  # the time of the parser grows with their square; these take 0.2 s at worst
PIPES = 40  # around a command; who nests deeper is not followed
Range = tuple[int, int]
_LISTS = frozenset({"program", "list", "&&", ";", "\n"})
_JOINED = frozenset({"concatenation", "variable_assignment", "command_name", "translated_string"})
_BARE = frozenset({"word", "number", "brace_expression", "variable_name", "=", "+=", "=="})
_OPERATORS = frozenset("();<>|&'\"\\")
_WRITING = (">", ">>", ">|", "&>", "&>>", "<>")


class ScriptWord(Struct, frozen=True):
    """A word as the shell hands it on; with `known` false it holds something that only the shell works out. `bare` is
    the text with every quoted character blotted out."""

    text: str
    known: bool = True
    bare: str = ""

    def part(self, begin: int, end: int | None = None) -> ScriptWord:
        return ScriptWord(self.text[begin:end], self.known, self.bare[begin:end])

    @property
    def has_globs(self) -> bool:
        """Whether the shell may make other words of it: names of files, or those in braces."""
        bare = self.bare
        return any(mark in bare for mark in "*?[") or ("{" in bare and ("," in bare or ".." in bare))

    def is_inert(self, but: str = "") -> bool:
        """Whether the shell passes it on unchanged, also if the marks in `but` meant nothing to it."""
        rest = ScriptWord("", self.known, "".join("_" if mark in but else mark for mark in self.bare))
        return self.known and not (rest.has_globs or rest.bare.startswith("#") or _TILDE.search(rest.bare))


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
    redirections, each with the byte where it begins. `kept` are assignments (`NAME=value`), and what is quoted outside
    of commands. `readable` is false where the grammar could not follow."""

    calls: tuple[SimpleCommand, ...] = ()
    texts: tuple[tuple[int, ScriptWord], ...] = ()
    written: tuple[tuple[int, ScriptWord], ...] = ()
    kept: tuple[ScriptWord, ...] = ()
    readable: bool = False


def parse_script(command: str) -> ParsedScript:
    """`command` in its parts; of one that is nested beyond reason nothing but that."""
    root = _tree(command)
    if root is None:
        return ParsedScript()
    calls: list[SimpleCommand] = []
    texts: list[tuple[int, ScriptWord]] = []
    written: list[tuple[int, ScriptWord]] = []
    kept: list[ScriptWord] = []
    for node, fed_by, behind in _found(root):
        if node.type == "command":
            words = *node.children_by_field_name("name"), *node.children_by_field_name("argument"), *behind
            calls.append(SimpleCommand(tuple(map(_word, words)), node.start_byte, (*fed_by, node.byte_range)))
        elif node.type == "heredoc_redirect":
            parts = {child.type: child for child in node.named_children}
            start, body = _text(parts.get("heredoc_start")), parts.get("heredoc_body")
            texts.append((node.start_byte, ScriptWord(_text(body), known=not (body and body.named_child_count))))
            # The grammar misses substitutions in backticks, and behind a tab.
            kept += [texts[-1][1]] if re.search(r"`|\$\(", _text(body)) and not re.search(r"['\"\\]", start) else []
        elif node.type == "herestring_redirect":
            texts += [(node.start_byte, _word(child)) for child in node.named_children[-1:]]
        elif node.type == "variable_assignment":  # what the shell expands in it has nodes of its own
            kept.append(ScriptWord(re.sub(r"[$`]", " ", _text(node))))
        elif node.type != "file_redirect":
            kept.append(ScriptWord(_text(node)))
        elif any(child.type in _WRITING for child in node.children):
            written += [(node.start_byte, _word(child)) for child in node.children_by_field_name("destination")[:1]]
    return ParsedScript(tuple(calls), tuple(texts), tuple(written), tuple(kept), readable=not root.has_error)


def plain_commands(command: str) -> list[list[ScriptWord]] | None:
    """The words of the simple commands of which `command` consists, one after the other, assignments before a program
    included; None where there is anything else: redirections, pipes, functions, expansions of variables, and what is
    not a blank between words or an operator in one: what separates words is then the same here as in a shell."""
    root, source = _tree(command), command.encode("utf-8", "replace")
    if root is None or root.has_error:
        return None
    found: list[list[ScriptWord]] = []
    waiting = [root]
    while waiting:
        node = waiting.pop()
        if node.type == "command":
            found.append([_word(child) for child in node.children])
            gaps = [source[one.end_byte : other.start_byte] for one, other in pairwise(node.children)]
            if not all(gap and not gap.strip(b" \t") for gap in gaps) or not all(map(_is_one, found[-1])):
                return None
        elif node.type in _LISTS:
            waiting += reversed(node.children)
        else:
            return None
    return found


def _is_one(word: ScriptWord) -> bool:
    return word.known and _OPERATORS.isdisjoint(word.bare) and not (word.text and _OPERATORS.issuperset(word.text))


def simple_command(command: str) -> list[ScriptWord] | None:
    """The words of `command` when it is one simple command without variables and control characters, else None."""
    odd = any(char in "$`" or not (char.isprintable() or char == "\t") for char in command)
    found = None if odd or command.rstrip(" \t").endswith(";") else plain_commands(command)
    return found[0] if found and len(found) == 1 else None


@cache
def _parser() -> Parser:
    # A compiled grammar: nobody who runs no command waits for it.
    import tree_sitter
    import tree_sitter_bash

    return tree_sitter.Parser(tree_sitter.Language(tree_sitter_bash.language()))


def _tree(command: str) -> Node | None:
    if sum(map(command.count, _BRANCHING)) > BRANCHES:
        return None
    return _parser().parse(command.encode("utf-8", "replace")).root_node


def _found(root: Node) -> Iterator[tuple[Node, tuple[Range, ...], tuple[Node, ...]]]:
    """The nodes that matter in the order of the text, each with what flows into it: the stages before it in each pipe
    that it is in, and the redirections around it; and with its words behind a redirection (`git > x push`).
    Nesting may be as deep as a command is long."""
    waiting: list[tuple[Node, tuple[Range, ...], tuple[Node, ...], bool]] = [(root, (), (), False)]
    while waiting:
        node, fed_by, behind, is_word = waiting.pop()
        # In a word of an expansion the grammar sees no command, and what is escaped may be expanded later.
        odd = node.type in ("word", "regex") and re.search(r"`|\$\(", _text(node))
        kept = node.type in _KEPT or (node.type == "string" and "\\" in _text(node))
        if node.type in _FOUND or odd or (kept and not is_word):
            yield node, fed_by, behind
        heir = node.children[-1:]
        if node.type == "redirected_statement":
            redirects, heir = node.children_by_field_name("redirect"), node.children[:1]
            fed_by = (*fed_by, *(child.byte_range for child in redirects))
            for one in redirects:
                words = one.children_by_field_name("destination")[1:] + one.children_by_field_name("argument")
                behind = (*behind, *words)
        is_word = node.type in ("command", "command_name") or (is_word and node.type == "concatenation")
        piped = node.type in ("pipeline", "heredoc_redirect")  # the rest of a pipe is in the heredoc of its stage
        for child in reversed(node.children):
            before = ((node.start_byte, child.start_byte),) if piped else ()
            held = is_word and child.type != "variable_assignment"
            waiting.append((child, (*fed_by, *before)[-PIPES:], behind if child in heir else (), held))


def _word(node: Node) -> ScriptWord:
    """What the shell makes of a word, as far as its text shows that."""
    text = _text(node)
    if node.type in _BARE and not node.named_children:
        bare = _ESCAPED.sub(lambda found: _QUOTED * bool(found[1]), text)
        return ScriptWord(_ESCAPED.sub(r"\1", text), not re.search(r"\s", bare), bare)
    if node.type == "raw_string":
        return _quoted(text[1:-1])
    if node.type == "ansi_c_string" and "\\" not in text:
        return _quoted(text[2:-1])
    if node.type == "string":
        inner = _ESCAPED_IN_QUOTES.sub(r"\1", text[1:-1])
        return _quoted(inner, known=all(child.type == "string_content" for child in node.named_children))
    size = sum(child.end_byte - child.start_byte for child in node.children)
    if node.type in _JOINED and size == node.end_byte - node.start_byte:
        parts = [_word(child) for child in node.children]
        known = all(part.known for part in parts)
        return ScriptWord("".join(part.text for part in parts), known, "".join(part.bare for part in parts))
    return ScriptWord(text, known=False, bare=text)


def _quoted(text: str, *, known: bool = True) -> ScriptWord:
    return ScriptWord(text, known, _QUOTED * len(text))


def _text(node: Node | None) -> str:
    return ((node and node.text) or b"").decode("utf-8", "replace")
