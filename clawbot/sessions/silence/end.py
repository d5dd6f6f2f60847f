"""Where a reply ends for the user: before the tokens that a model put behind its answer (reference sheet 9.1)."""

from __future__ import annotations

import re
import unicodedata

from clawbot.sessions.silence.tokens import CLOSING, OPENING, TOKEN, TOKEN_BEGUN

CONTEXT = 24
"""So many characters before what may be a token tell what it is."""

# A model that repeats a token without end must not keep the program busy: so many characters are matched at a time.
_WINDOW = 2_000
_GAP = r"(?:(?<!\s)\s++|(?<=[。！？…]))"
_LAST = re.compile(rf"{_GAP}(?:{OPENING}{TOKEN}{CLOSING}\s*+)+\Z", re.IGNORECASE)
_MAYBE_LAST = re.compile(rf"{_GAP}(?:{OPENING}{TOKEN}{CLOSING}\s*+)*{OPENING}(?:{TOKEN_BEGUN})?\Z", re.IGNORECASE)
_ONE = re.compile(rf"(?P<opening>{OPENING})(?P<token>{TOKEN})(?P<closing>{CLOSING})", re.IGNORECASE)
_LIST_MARK = re.compile(r"(?:\A|\n)[ \t]*\d+[.)]\Z")
_LAST_WORD = re.compile(r"[^\s,;:()\"'“”]+\Z")

# What a token on the line or on the next one is named by: `the answer is:`.
_ANNOUNCES = frozenset(":：,，、;；(（")
_ENDS_SENTENCE = frozenset(".!?。！？…~～\ufe0f")
# Behind words like these the token is what the sentence is about.
_OBJECT_OF = """
    a an the this that my your its of to or and nor not no only just exactly simply by with without than in on for from
    as like about if when is are was were be been being am isn't means mean called named token string word text literal
    answer answers answered answering reply replies replied replying respond responds responded say says said saying
    send sends sent sending return returns returned returning output outputs print prints printed write writes wrote
    use uses used using emit emits get gets got see sees saw receive receives received give gives gave contain contains
    containing type types typed expect expects expected e.g. i.e. vs vs. versus equals = == -> →
"""
_WANTS_OBJECT = frozenset(_OBJECT_OF.split())
_WANTS_OBJECT_CJK = frozenset("复答说是用为出回送写叫个到成的和或与及如即现见入给含于")


def end_of(text: str, *, ended: bool, before: str = "") -> int:
    """How many characters of `text` are for the user; what is behind them is tokens and blanks.

    With `ended` false more may come, and the answer is what is certain whatever does. `before` is what came before
    `text`, or its last `CONTEXT` characters.
    """
    whole = before + text
    at = len(whole)
    while at > len(before):
        from_ = len(whole[: max(0, at - _WINDOW)].rstrip())
        found = (_LAST if ended else _MAYBE_LAST).search(whole, from_, at)
        place = at if found is None else _first_apart(whole, found.start(), at) if ended else found.start()
        if place == at:
            break
        at = place
    return max(0, at - len(before))


def _first_apart(text: str, start: int, end: int) -> int:
    """Where the first of the tokens from `start` to `end` stands that is no part of a sentence; `end` without one."""
    places = (one.start() for one in _ONE.finditer(text, start, end) if _is_apart(text[: one.start()], one))
    return next(places, end)


def _is_apart(before: str, one: re.Match[str]) -> bool:
    said = before.rstrip()
    if not said:
        return True
    last, word = said[-1], _LAST_WORD.search(said[-CONTEXT:])
    wants_object = last in _WANTS_OBJECT_CJK or (word is not None and word[0].lower() in _WANTS_OBJECT)
    wants_object = wants_object or _LIST_MARK.search(said[-CONTEXT:]) is not None
    if "\n" in before[len(said) :]:
        return last not in _ANNOUNCES
    if last in _ENDS_SENTENCE or unicodedata.category(last) == "So":
        return not wants_object and not set(one["opening"]) - set("*_")
    bare = not one["opening"] and not one["closing"] and one["token"].isupper()
    return bare and len(said) < len(before) and (last.isalnum() or last == ")") and not wants_object
