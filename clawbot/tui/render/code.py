"""Syntax colours for code. Pygments' lexers are loaded in a thread; until then code is shown plain."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from importlib import import_module
from typing import Protocol

from clawbot.tui.render.lines import Span

# Token types of pygments, from the special to the general, and the style each gets.
STYLES = (
    ("Token.Comment", "code-comment"),
    ("Token.Literal.String", "code-string"),
    ("Token.Literal.Number", "code-number"),
    ("Token.Keyword", "code-keyword"),
    ("Token.Operator.Word", "code-keyword"),
    ("Token.Name.Function", "code-name"),
    ("Token.Name.Class", "code-name"),
    ("Token.Name.Tag", "code-keyword"),
    ("Token.Generic.Inserted", "code-string"),
    ("Token.Generic.Deleted", "code-deleted"),
    ("Token.Generic.Heading", "code-name"),
)
PLAIN = ("", "text", "txt", "plain", "plaintext", "output", "console-output")


class Lexer(Protocol):
    """What is used of a lexer of pygments."""

    def get_tokens(self, text: str) -> Iterable[tuple[object, str]]:
        """The token types and texts of `text`."""
        ...


class Lexers:
    """The languages that are loaded, and those that somebody asked for."""

    def __init__(self) -> None:
        self._loaded: dict[str, Lexer | None] = {}
        self.wanted: set[str] = set()

    def spans(self, code: str, language: str) -> list[Span]:
        """`code` in colours if its language is loaded; else plain, and the language is noted in `wanted`."""
        language = language.lower()
        if language in PLAIN:
            return [Span(code, "code")]
        if language not in self._loaded:
            self.wanted.add(language)
            return [Span(code, "code")]
        lexer = self._loaded[language]
        if lexer is None:
            return [Span(code, "code")]
        return [Span(text, style_of(str(kind))) for kind, text in lexer.get_tokens(code)]

    def load(self) -> bool:
        """Load what is wanted: imports, so it belongs in a thread. True when something new can be coloured."""
        found = False
        for language in list(self.wanted):
            self._loaded[language] = lexer = _find(language)
            self.wanted.discard(language)
            found = found or lexer is not None
        return found


@lru_cache(maxsize=512)
def style_of(token: str) -> str:
    """The style names of a pygments token type."""
    return next((f"code {style}" for prefix, style in STYLES if token.startswith(prefix)), "code")


def _find(language: str) -> Lexer | None:
    # Here and not above: pygments is no part of the first paint.
    lexers = import_module("pygments.lexers")
    try:
        lexer: Lexer = lexers.get_lexer_by_name(language, stripnl=False, ensurenl=False)
    except lexers.ClassNotFound:
        return None
    # The tables of a lexer are compiled at its first use.
    list(lexer.get_tokens("x"))
    return lexer
