"""Decides which part of a reply is shown to the user, by the tokens NO_REPLY and HEARTBEAT_OK. Pure.

A reply that contains nothing but a token, however the model decorates it, is silent. A token before or after a real
answer is removed. A sentence about the token is kept: if both readings are possible, the text is shown.

The patterns avoid possessive quantifiers and atomic groups, which `re` gets wrong before Python 3.11.5: what follows a
repetition starts with other characters than the repeated ones.
"""

from __future__ import annotations

import re
import unicodedata
from itertools import product

from msgspec import structs

from clawbot.languages.tables import text_in, words_in
from clawbot.messages import AssistantBlock, AssistantMessage, TextBlock, text_of
from clawbot.text.patterns import lazy_re


def begun(*parts: str) -> str:
    """A pattern for every non-empty prefix of the sequence of patterns `parts`."""
    pattern = parts[-1]
    for part in reversed(parts[:-1]):
        pattern = f"{part}(?:{pattern})?"
    return pattern


# Some models escape the underscore, as in Markdown.
_LINE = r"\\?"
TOKEN = rf"(?:NO{_LINE}_REPLY|HEARTBEAT{_LINE}_OK)"
TOKEN_BEGUN = f"(?:{begun(*'NO', _LINE, *'_REPLY')}|{begun(*'HEARTBEAT', _LINE, *'_OK')})"
# Markdown and punctuation close around a token. What may stand on either side of the next one belongs to the one before
# it, so that there is one way only to read a row of tokens: with several for each, a long row would never end.
OPENING = "[*_\"'“”`]{0,3}"
_CLOSES = "[*_\"'“”`.!。！…]"
CLOSING = f"(?:{_CLOSES}{{4}}|{_CLOSES}{{0,3}}(?!{_CLOSES}))"

_CUT = lazy_re(rf"(?<!\w)(?:NO_(?:{begun(*'REPL')})?|HEARTBEAT_O?)\Z")


def completed(text: str) -> str:
    """`text`, which was truncated, with the rest of the token that it ends in."""
    found = _CUT.search(text)
    if found is None:
        return text
    whole = "NO_REPLY" if found[0].startswith("NO") else "HEARTBEAT_OK"
    return text + whole[len(found[0]) :]


CONTEXT = 24
"""Number of characters before a possible token that determine its role."""

# Match this many characters at a time: a model may repeat a token endlessly.
_WINDOW = 2_000
_GAP = r"(?:(?<!\s)\s+|(?<=[。！？…]))"
_LAST = lazy_re(rf"{_GAP}(?:{OPENING}{TOKEN}{CLOSING}\s*)+\Z", re.IGNORECASE)
_MAYBE_LAST = lazy_re(rf"{_GAP}(?:{OPENING}{TOKEN}{CLOSING}\s*)*{OPENING}(?:{TOKEN_BEGUN})?\Z", re.IGNORECASE)
_ONE = lazy_re(rf"(?P<opening>{OPENING})(?P<token>{TOKEN})(?P<closing>{CLOSING})", re.IGNORECASE)
_LIST_MARK = lazy_re(r"(?:\A|\n)[ \t]*\d+[.)]\Z")
_LAST_WORD = lazy_re(r"[^\s,;:()\"'“”]+\Z")

# Punctuation that announces a token on this or the next line: `the answer is:`.
_ANNOUNCES = frozenset(":：,，、;；(（")
_ENDS_SENTENCE = frozenset(".!?。！？…~～\ufe0f")
# After these words the token is the object of a sentence.
_WANTS_OBJECT = words_in("wants_object", "en") | {"=", "==", "->", "→"}
_WANTS_OBJECT_CJK = frozenset(text_in("wants_object_last"))


def end_of(text: str, *, ended: bool, before: str = "") -> int:
    """The number of characters of `text` for the user; the rest is tokens and spaces.

    With `ended` false more text may follow, and the result holds whatever it is. `before` is the preceding text, or its
    last `CONTEXT` characters.
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
    """The position of the first token from `start` to `end` that is not part of a sentence; `end` if there is none."""
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


# Decoration around a token: punctuation, Markdown, emoji, tags like <b>.
_EDGE = r"[\W_]*(?:(?:(?<=<)|(?<=</))[a-z]{1,10}>[\W_]*)*"
# A fence may name its language, and the token may be the value of a JSON object's one key `action`.
_LANGUAGE = r"(?<=```)[a-z]{1,10}[ \t]*\r?"
_DRESS = rf'{_EDGE}(?:{_LANGUAGE}\n{_EDGE})?(?:(?<=")action"{_EDGE})?'
_SILENT = lazy_re(rf"{_DRESS}(?:{TOKEN}{_EDGE})+\Z", re.IGNORECASE)
_ACTION_BEGUN, _TAG_BEGUN = rf"""(?<="){begun(*'action"')}""", "(?<=[</])[a-z]{1,10}"
_MAYBE_SILENT = lazy_re(
    rf"{_DRESS}(?:{TOKEN}{_EDGE})*(?:{TOKEN_BEGUN}|{_LANGUAGE}|{_ACTION_BEGUN}|{_TAG_BEGUN})?\Z", re.IGNORECASE
)

_WHO = ("i will", "i'll", "i am going to", "i'm going to", "i shall", "i should")
_QUIET = tuple(f"{verb} {how}" for verb, how in product(("stay", "remain", "keep", "be"), ("silent", "quiet")))
_DOES = (*_QUIET, "not reply", "not respond", "not answer", "say nothing")
_IS = ("staying silent", "remaining silent", "keeping silent", "staying quiet", "remaining quiet", "keeping quiet")
_WHEN = ("", " now", " here", " for now", " this time")
_CHINESE = (*text_in("who_is_silent").split(), ""), tuple(text_in("is_silent").split())
# Sentences such as "I will stay silent now".
_SENTENCES = (
    *(f"{who} {does}{when}" for who, does, when in product(_WHO, _DOES, _WHEN)),
    *(f"{does}{when}" for does, when in product(_IS, _WHEN)),
    *(who + does for who, does in product(*_CHINESE)),
)
_ENGLISH = rf"(?:(?:{'|'.join(_WHO)}) (?:{'|'.join(_DOES)})|{'|'.join(_IS)})(?:{'|'.join(_WHEN[:0:-1])})?"
_SENTENCE = lazy_re(rf"(?:{_ENGLISH}|(?:{'|'.join(_CHINESE[0])})(?:{'|'.join(_CHINESE[1])}))(?!\w)")
_HEAD = 60
# Text that begins with more punctuation than this is a drawing.
_MOST_EDGE = 400
_LEADING_EDGE = lazy_re(r"[\W_]*")

_LABELS = sorted(words_in("reasoning"))
_LABEL = lazy_re(rf"\s*(?:{'|'.join(_LABELS)})[ \t]*[:：][^\n]*(\n)?", re.IGNORECASE)
_LABEL_BEGUN = lazy_re(rf"\s*(?:{'|'.join([*_LABELS, *(begun(*label) for label in _LABELS)])})[ \t]*\Z", re.IGNORECASE)


def is_only_token(text: str) -> bool:
    """Whether `text` is nothing but a token, with or without a sentence like "I will stay silent." before it."""
    text = text.lstrip()
    start, head = _head(text)
    if start > _MOST_EDGE:
        return False
    if _SILENT.match(text):
        return True
    sentence = _SENTENCE.match(head)
    return sentence is not None and _SILENT.match(text, start + sentence.end()) is not None


def may_be_only_token(text: str) -> bool:
    """Whether `text` could continue so that it would be nothing but a token."""
    text = text.lstrip()
    start, head = _head(text)
    if start > _MOST_EDGE:
        return False
    if _MAYBE_SILENT.match(text) or any(sentence.startswith(head) for sentence in _SENTENCES):
        return True
    sentence = _SENTENCE.match(head)
    return sentence is not None and _MAYBE_SILENT.match(text, start + sentence.end()) is not None


def reasoning_end(text: str, *, ended: bool) -> int | None:
    """The end of reasoning written as text, a line `thinking: …`; 0 without any. Blocks in tags were taken out before.

    None while more of `text` may follow and the result is open.
    """
    label = _LABEL.match(text)
    if label is not None:
        return label.end() if label[1] else 0 if ended else None
    return None if _LABEL_BEGUN.match(text) and not ended else 0


def _head(text: str) -> tuple[int, str]:
    """The position of the first letter of `text`, and the lower-case text from there, longer than any such sentence."""
    edge = _LEADING_EDGE.match(text)
    start = edge.end() if edge else 0
    head = text[start : start + _HEAD].replace("’", "'")
    return start, "".join(char.lower() if char.isascii() else char for char in head)


_OWN_LINES = lazy_re(rf"(?:\s*{OPENING}{TOKEN}{CLOSING}[ \t]*\r?\n)+", re.IGNORECASE)
# On the answer's line only a bare upper-case token counts: `no_reply: false` is a setting.
_BARE = lazy_re(rf"(?:\s*{TOKEN})+")
_STOP = lazy_re(r"[.!]+\s+|[。！…]+\s*")
_DASH = lazy_re(r"[ \t]*[—–]+\s*|[ \t]+-+[ \t]+")
_BLANKS = lazy_re(r"[ \t]*[:：][ \t]*|[ \t]*")
# Suffixes with which a token becomes an ordinary word.
_ENDINGS = frozenset({"s", "d", "ed", "er", "ing"})
# Words that continue a sentence with the token as its subject, where neither space nor capital tells.
_CONTINUES = frozenset(text_in("continues"))


# Limit the tokens examined: each is compared with all text after it.
_MOST = 64


def start_of(text: str, *, ended: bool) -> int | None:
    """The number of characters at the start of `text` that are not for the user: all of a silent reply, 0 of an
    ordinary one.

    With `ended` false more may follow, and the result holds whatever it is; None while it is open.
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
    """The start of the answer after a token; 0 if there is no token before it, or if the text is about the token."""
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
    gap = _BLANKS.match(after)
    blank = gap.end() if gap else 0
    anew = _begins_anew(after[blank:], glued=blank == 0, ended=ended)
    return None if anew is None else token.end() + blank if anew else 0


def _begins_anew(text: str, *, glued: bool, ended: bool) -> bool | None:
    """Whether `text`, directly after a token, begins a new sentence; None while that is open."""
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


_HINT = lazy_re(r"NO\\?_|HEARTBEAT\\?_", re.IGNORECASE)
_NAMED = lazy_re(rf"(?<!\w){TOKEN}(?!\w)")
_ASKS = lazy_re(
    rf"pre-compaction memory flush|\b(?:reply|answer|respond)\b[^.\n]{{0,40}}\b{TOKEN}(?!\w)", re.IGNORECASE
)
# Prompts of programs begin with their purpose.
_ASKS_WITHIN = 2_000


def spoken(text: str, *, cut: bool = False) -> str:
    """The part of the reply `text` for the user, stripped; "" if the reply is silent.

    `cut`: the reply was truncated, so an incomplete token at its end (`NO_RE`) counts as one.
    """
    if not _HINT.search(text):
        return text.strip()
    whole = completed(text) if cut else text
    start, end = _bounds(whole)
    if start < end and end > len(text):
        start, end = _bounds(text)
    return text[start:end].strip()


def is_silent(text: str, *, cut: bool = False) -> bool:
    """Whether the reply `text` contains a token and nothing for the user. An empty reply is not silent."""
    return bool(text.strip()) and not spoken(text, cut=cut)


def spoken_message(message: AssistantMessage) -> AssistantMessage | None:
    """`message` for the reader, without tokens; None if no text, call or error remains.

    Reasoning before a silent reply is removed too. A reply that was cut off before its first word stays, one that was
    cut off within a token does not.
    """
    text = message.text
    cut = was_cut(message)
    said = spoken(text, cut=cut)
    if said != text_of(message.content).strip():
        message = structs.replace(message, content=_blocks(message, said))
    if said or message.tool_calls or message.error_message:
        return message
    return message if cut and not text.strip() else None


def was_cut(message: AssistantMessage) -> bool:
    """Whether `message` was cut off."""
    return message.stop_reason in ("aborted", "length", "error")


def names_token(text: str) -> bool:
    """Whether `text` contains a token."""
    return _NAMED.search(text) is not None


def asks_for_silence(text: str) -> bool:
    """Whether `text` looks like a prompt by which a program asks for a silent reply."""
    return _ASKS.search(text[:_ASKS_WITHIN]) is not None


def _blocks(message: AssistantMessage, said: str) -> list[AssistantBlock]:
    """The blocks of `message` with its text replaced by `said`."""
    blocks: list[AssistantBlock] = []
    left = said
    for block in message.content:
        if isinstance(block, TextBlock):
            blocks += [TextBlock(left)] if left else []
            left = ""
        else:
            blocks.append(block)
    return blocks


def _bounds(text: str) -> tuple[int, int]:
    start = start_of(text, ended=True) or 0
    return start, start + end_of(text[start:], ended=True)
