"""Displays text so that every character is visible: what a terminal would not show is replaced by a sign.

A sign is `⟦U+001B⟧`, `⟦12×U+FFFD⟧`, `⟦tab⟧`, `⟦400×space⟧` or, on one line, `⟦↵⟧`. Brackets of signs in the text
itself, and lookalikes, are shown as signs too, so that the result can be read back without colours: `reveal` undoes
`visible`.

Signs replace, by Unicode category: controls, format, private, unassigned and surrogate characters (C*), all separators
except the space (Z*), marks without a base letter, and characters invisible because of Default_Ignorable_Code_Point or
an empty glyph.

Also one-line names and counted words for titles and messages.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from typing import Literal, NamedTuple

from clawbot.text.interface import ngettext
from clawbot.text.patterns import lazy_re

OPEN, CLOSE = "⟦", "⟧"
LONG = 8  # so many spaces in a row are counted: fewer can be seen to be few
MARKS = 3  # on one letter; more can cover what is around it

SignKind = Literal["", "blank", "odd"]

_RUN = lazy_re(r" +|\t+|\n+|[!-~]+|([^ -~\t\n])\1*")
_SIGN = lazy_re(r"⟦(?:([1-9]\d{0,4})×)?(space|tab|↵|U\+(?:10|[0-9A-F])?[0-9A-F]{4})⟧")
_BLANKS = {"space": " ", "tab": "\t", "↵": "\n"}
# Invisible, empty or changing what is before them, though their category is that of a letter, a mark or a symbol.
_UNSEEN = lazy_re(
    "[\u034f\u115f-\u11ff\u17b4\u17b5\u180b-\u180f\u2800\u3164\ud7b0-\ud7ff\ufe00-\ufe0f\uffa0\ufffc\ufffd"
    "\U00013441\U00013442\U00016fe4\U0001d159\U0001f3fb-\U0001f3ff\U000e0100-\U000e01ef⟦⟧〚〛⟬⟭]"
)
# Format characters that people write: joiners of emoji and Indic and Persian script, directions of a single letter.
_WRITTEN = frozenset("\u200c\u200d\u200e\u200f\u061c\u0600\u0601\u0602\u0603\u0604\u0605\u06dd\u070f\u08e2")

# Joiners that join nothing, selectors of a glyph but those of an emoji, fillers: text can be hidden in rows of them.
_HIDING = lazy_re(
    "(?:(?<=[\x00-\x7f])|\\A)[\u200c\u200d]+|[\u200c\u200d]+(?=[\x00-\x7f\u200c\u200d]|\\Z)"
    "|(?<![\xa9\xae\u203c-\u3299\U0001f000-\U0001faff])[\ufe0e\ufe0f](?!(?<=[#*0-9].)\u20e3)"
    "|[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufe00-\ufe0d\uffa0\U000e0100-\U000e01ef]"
)


class VisibleSpan(NamedTuple):
    """A stretch of shown text: plain characters, or one sign: `blank` for white space, else `odd`."""

    text: str
    kind: SignKind


class Unwritten(NamedTuple):
    """A character that no honest text holds, and its position, counted in characters from 1."""

    character: str
    position: int

    @property
    def name(self) -> str:
        """`U+202E (RIGHT-TO-LEFT OVERRIDE)`; controls have no name in Unicode."""
        name = unicodedata.name(self.character, "")
        return f"{_code(self.character)} ({name})" if name else _code(self.character)


def visible(text: str, *, one_line: bool = False, blanks: bool = True) -> str:
    """Return `text` with a sign for whatever could not be seen.

    Line breaks remain, unless all is put on `one_line`. With `blanks`, spaces are counted where they are many or end a
    line; without, they remain.
    """
    shown: list[str] = []
    room = 0  # how many marks the last character still carries
    for found in _RUN.finditer(text):
        run, first = found.group(), found.group()[0]
        if first == " ":
            ends = found.end() == len(text) or text[found.end()] == "\n"
            shown.append(_sign("space", len(run)) if blanks and (ends or len(run) >= LONG) else run)
        elif first == "\t":
            shown.append(_sign("tab", len(run)))
        elif first == "\n":
            shown.append(_sign("↵", len(run)) if one_line else run)
        elif not found.group(1):
            shown.append(run)
        elif is_odd(first):
            shown.append(_sign(_code(first), len(run)))
        elif unicodedata.category(first)[0] == "M":
            carried = min(len(run), room)
            room -= carried
            shown.append(run[:carried] + (_sign(_code(first), len(run) - carried) if carried < len(run) else ""))
            continue
        else:
            shown.append(run)
        room = MARKS if run[-1].isalpha() and not is_odd(run[-1]) else 0
    return "".join(shown)


def visible_name(name: str) -> str:
    """A file's name or path in a line of its own: what could break the line or mislead is shown as a sign, and the
    rest, also what emoji are made of, as it is."""
    is_plain = unwritten(name) is None and not ("\n" in name or "\t" in name)
    return name if is_plain else visible(name, one_line=True, blanks=False)


def reveal(shown: str) -> str:
    """Return the text that `visible` showed as `shown`.

    Raises ValueError with a text for the user where a bracket belongs to no sign.
    """
    rest = _SIGN.sub("", shown)
    if OPEN in rest or CLOSE in rest:
        raise ValueError(f"{OPEN} and {CLOSE} enclose signs only, such as {OPEN}U+200D{CLOSE} and {OPEN}3×tab{CLOSE}.")
    return _SIGN.sub(_revealed, shown)


def split_spans(shown: str) -> Iterator[VisibleSpan]:
    """What `visible` made, cut into plain stretches and signs."""
    at = 0
    for found in _SIGN.finditer(shown):
        if found.start() > at:
            yield VisibleSpan(shown[at : found.start()], "")
        yield VisibleSpan(found.group(), "blank" if found[2] in _BLANKS else "odd")
        at = found.end()
    if at < len(shown):
        yield VisibleSpan(shown[at:], "")


def is_odd(character: str) -> bool:
    """Return whether `character` could not be seen, or be taken for another one or for a sign, at any position."""
    return character != " " and (unicodedata.category(character)[0] in "CZ" or _UNSEEN.match(character) is not None)


def unwritten(text: str) -> Unwritten | None:
    """The first character of `text` that nobody writes and that could mislead who reads it or steer their terminal:
    controls but line break and tab, line separators, surrogates, noncharacters, and format characters but those that
    scripts and emoji need."""
    if text.isascii() and text.isprintable():
        return None
    for position, character in enumerate(text, 1):
        if character not in "\n\t" and _is_unwritten(character):
            return Unwritten(character, position)
    return None


def only_seen(text: str) -> str:
    """`text` of a program that nobody vouches for, without what a model reads and a user does not see: characters that
    are `unwritten`, and those in which text can be hidden."""
    return "".join(each for each in _HIDING.sub("", text) if each in "\n\t" or not _is_unwritten(each))


def _is_unwritten(character: str) -> bool:
    category = unicodedata.category(character)
    if category == "Cf":
        return character not in _WRITTEN
    code = ord(character)
    return category in ("Cc", "Cs", "Zl", "Zp") or code & 0xFFFE == 0xFFFE or 0xFDD0 <= code <= 0xFDEF


def _code(character: str) -> str:
    return f"U+{ord(character):04X}"


def _sign(what: str, count: int) -> str:
    return f"{OPEN}{what}{CLOSE}" if count == 1 else f"{OPEN}{count}×{what}{CLOSE}"


def _revealed(found: re.Match[str]) -> str:
    what = found[2]
    character = _BLANKS.get(what) or chr(int(what.removeprefix("U+"), base=16))
    return character * int(found[1] or 1)


TITLE_CHARS = 100  # about what fits on one line of a wide terminal
SCANNED = 10_000  # characters of a text that may be of any length


def one_line(text: str, limit: int = TITLE_CHARS) -> str:
    """Return `text` on one line, with signs for what could not be seen.

    Where that takes more than `limit` characters, the line ends with the number of characters that `text` has. No sign
    is cut in two.
    """
    shown = list(split_spans(visible(text[:SCANNED], one_line=True)))
    if len(text) <= SCANNED and sum(len(span.text) for span in shown) <= limit:
        return "".join(span.text for span in shown)
    if len(text) > SCANNED:
        del shown[-1]  # it may go on: its count would be wrong
    ending = f"… ({len(text):,} characters)"
    kept, room = "", limit - len(ending)
    for span in shown:
        part = span.text if span.kind else span.text[: room - len(kept)]
        if len(kept) + len(part) > room:
            break
        kept += part
    return kept + ending


def title_of(name: str, subject: object = "") -> str:
    """Return `name subject` on one line, from a call's arguments that nobody has checked yet."""
    return one_line(f"{name} {subject}" if subject else name)


def messages(count: int) -> str:
    """Return `1 message`, `48 messages`."""
    return ngettext("{n:,} message", "{n:,} messages", count).format(n=count)


def were_not_sent(count: int) -> str:
    """Return `1 message was not sent`, `48 messages were not sent`."""
    return ngettext("{n:,} message was not sent", "{n:,} messages were not sent", count).format(n=count)
