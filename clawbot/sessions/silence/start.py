"""How much of a reply's beginning is not for the user: a token before an answer, or all of a silent reply."""

from __future__ import annotations

import re

from clawbot.sessions.silence.tokens import CLOSING, OPENING, TOKEN
from clawbot.sessions.silence.whole import is_only_token, may_be_only_token, reasoning_end

_OWN_LINES = re.compile(rf"(?:\s*+{OPENING}{TOKEN}{CLOSING}[ \t]*\r?\n)+", re.IGNORECASE)
# On the line of the answer only a bare token in capitals counts: `no_reply: false` is a setting.
_BARE = re.compile(rf"(?:\s*+{TOKEN})+")
_STOP = re.compile(r"[.!]+\s+|[。！…]+\s*")
_DASH = re.compile(r"[ \t]*[—–]+\s*|[ \t]+-+[ \t]+")
_GAP = re.compile(r"[ \t]*[:：][ \t]*|[ \t]*")
# Endings of a word that a token is the stem of.
_ENDINGS = frozenset({"s", "d", "ed", "er", "ing"})
# What goes on with a sentence whose subject is the token, where no blank and no capital tells.
_CONTINUES = frozenset(
    "是表意指代用这的会应不只和或与就令标等可也在时为叫作即被将需有仅がをはとのもでに은는이가을를의와과"
)


# A model that says nothing but tokens and dashes must not keep the program busy: each is looked at with all behind it.
_MOST = 64


def start_of(text: str, *, ended: bool) -> int | None:
    """How many characters at the beginning of `text` are not for the user: all of a silent reply, 0 of an ordinary one.

    With `ended` false more may come, and the answer holds whatever does; None while that is open.
    """
    start = 0
    for _ in range(_MOST):
        body = text[start:].lstrip()
        blanks = len(text) - start - len(body)
        reasoning = reasoning_end(body, ended=ended)
        if reasoning is None:
            return None
        rest = body[reasoning:]
        if ended and is_only_token(rest):
            return len(text)
        if not ended and may_be_only_token(rest):
            return None
        lead = _leading(rest, ended=ended)
        if not lead:
            return start if lead == 0 else None
        start += blanks + reasoning + lead
    return start


def _leading(text: str, *, ended: bool) -> int | None:
    """Where the answer begins behind a token; 0 when there is none before it, or when it is what the text is about."""
    lines = _OWN_LINES.match(text)
    if lines is not None:
        return lines.end()
    token = _BARE.match(text)
    if token is None:
        return 0
    after = text[token.end() :]
    stop = _STOP.match(after)
    if stop is not None:
        return token.end() + stop.end()
    dash = _DASH.match(after)
    if dash is not None:
        return 0 if after[dash.end() : dash.end() + 1] in _CONTINUES else token.end() + dash.end()
    gap = _GAP.match(after)
    blank = gap.end() if gap else 0
    anew = _begins_anew(after[blank:], glued=blank == 0, ended=ended)
    return None if anew is None else token.end() + blank if anew else 0


def _begins_anew(text: str, *, glued: bool, ended: bool) -> bool | None:
    """Whether `text`, right behind a token, begins a sentence of its own; None while that is open."""
    first, second = text[:1], text[1:2]
    if first.isupper():
        return None if not second and not ended else not (second.isupper() or second.isdigit() or second == "_")
    if first.islower():
        word = re.match(r"[^\W\d_]*", text)
        letters = word[0] if word else ""
        if glued and letters == text and len(letters) <= 3 and not ended:
            return None
        return glued and letters not in _ENDINGS
    return first.isalpha() and first not in _CONTINUES
