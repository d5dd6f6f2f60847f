"""Replies that are silent as a whole: a token and nothing else, however a model dresses it up (reference sheet 9.3)."""

from __future__ import annotations

import re
from itertools import product

from clawbot.sessions.silence.tokens import TOKEN, TOKEN_BEGUN, begun

# What may stand around a token without saying anything: punctuation, Markdown, emoji, tags like <b>.
_EDGE = r"(?:[^\w<]++|_|</?[a-z]{1,10}>|<)*+"
# A fence may name its language, and the token may be the value of a JSON object's one key `action`.
_LANGUAGE = r"(?<=```)[a-z]{1,10}[ \t]*+\r?"
_DRESS = rf'{_EDGE}(?:{_LANGUAGE}\n{_EDGE})?(?:(?<=")action"{_EDGE})?'
_SILENT = re.compile(rf"{_DRESS}(?:{TOKEN}{_EDGE})++\Z", re.IGNORECASE)
_ACTION_BEGUN, _TAG_BEGUN = rf"""(?<="){begun(*'action"')}""", "(?<=[</])[a-z]{1,10}"
_MAYBE_SILENT = re.compile(
    rf"{_DRESS}(?:{TOKEN}{_EDGE})*+(?:{TOKEN_BEGUN}|{_LANGUAGE}|{_ACTION_BEGUN}|{_TAG_BEGUN})?\Z", re.IGNORECASE
)

_WHO = ("i will", "i'll", "i am going to", "i'm going to", "i shall", "i should")
_QUIET = tuple(f"{verb} {how}" for verb, how in product(("stay", "remain", "keep", "be"), ("silent", "quiet")))
_DOES = (*_QUIET, "not reply", "not respond", "not answer", "say nothing")
_IS = ("staying silent", "remaining silent", "keeping silent", "staying quiet", "remaining quiet", "keeping quiet")
_WHEN = ("", " now", " here", " for now", " this time")
_CHINESE = ("我会", "我将", "我选择", "我", ""), ("保持沉默", "保持安静", "不回复", "不作回复")
# "I will stay silent now", "保持沉默" and their like.
_SENTENCES = (
    *(f"{who} {does}{when}" for who, does, when in product(_WHO, _DOES, _WHEN)),
    *(f"{does}{when}" for does, when in product(_IS, _WHEN)),
    *(who + does for who, does in product(*_CHINESE)),
)
_ENGLISH = rf"(?:(?:{'|'.join(_WHO)}) (?:{'|'.join(_DOES)})|{'|'.join(_IS)})(?:{'|'.join(_WHEN[:0:-1])})?"
_SENTENCE = re.compile(rf"(?:{_ENGLISH}|(?:{'|'.join(_CHINESE[0])})(?:{'|'.join(_CHINESE[1])}))(?!\w)")
_HEAD = 60
# What begins with more punctuation than this is a drawing.
_MOST_EDGE = 400
_LEADING_EDGE = re.compile(r"[\W_]*+")

_TAG = re.compile(r"\s*+<(think|thinking|thought|reasoning)>", re.IGNORECASE)
_LABEL = re.compile(r"\s*+(?:thinking|thought|reasoning|思考|推理)[ \t]*[:：][^\n]*(\n)?", re.IGNORECASE)
_LABEL_BEGUN = re.compile(
    rf"\s*+(?:thinking|thought|reasoning|思考|推理|{begun(*'thinking')}|{begun(*'thought')}|{begun(*'reasoning')}|思|推)"
    r"[ \t]*\Z",
    re.IGNORECASE,
)


def is_only_token(text: str) -> bool:
    """Whether `text` is nothing but a token, with a sentence like "I will stay silent." before it or without."""
    text = text.lstrip()
    start, head = _head(text)
    if start > _MOST_EDGE:
        return False
    if _SILENT.match(text):
        return True
    sentence = _SENTENCE.match(head)
    return sentence is not None and _SILENT.match(text, start + sentence.end()) is not None


def may_be_only_token(text: str) -> bool:
    """Whether there is an end for `text` with which it would be nothing but a token."""
    text = text.lstrip()
    start, head = _head(text)
    if start > _MOST_EDGE:
        return False
    if _MAYBE_SILENT.match(text) or any(sentence.startswith(head) for sentence in _SENTENCES):
        return True
    sentence = _SENTENCE.match(head)
    return sentence is not None and _MAYBE_SILENT.match(text, start + sentence.end()) is not None


def reasoning_end(text: str, *, ended: bool) -> int | None:
    """Where reasoning that a model wrote out as text ends: a tagged block, or a line `thinking: …`; 0 without any.

    None while more of `text` may come and it is open whether there is any.
    """
    tag = _TAG.match(text)
    if tag is not None:
        close = f"</{tag[1]}>"
        at = text.find(close, tag.end())
        return at + len(close) if at >= 0 else 0 if ended else None
    label = _LABEL.match(text)
    if label is not None:
        return label.end() if label[1] else 0 if ended else None
    return None if _LABEL_BEGUN.match(text) and not ended else 0


def _head(text: str) -> tuple[int, str]:
    """Where the first letter of `text` is, and more from there than any sentence has, in small letters."""
    edge = _LEADING_EDGE.match(text)
    start = edge.end() if edge else 0
    head = text[start : start + _HEAD].replace("’", "'")
    return start, "".join(char.lower() if char.isascii() else char for char in head)
