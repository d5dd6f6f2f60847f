"""Decides which part of a reply is for the user, by the tokens NO_REPLY and HEARTBEAT_OK. Pure.

A reply of tokens alone is silent, however the model decorates them, also after a line of reasoning or a sentence such
as "I will stay silent". A token before or after an answer is removed if it is on a line of its own, or set off from the
answer by a stop or a space; next to a word that makes it the subject or object of a sentence it is kept. If both
readings are possible, the text is shown. The words are data: `silence.toml` of each language.

The patterns avoid possessive quantifiers and atomic groups, which `re` gets wrong before Python 3.11.5: what follows a
repetition starts with other characters than the repeated ones.
"""

from __future__ import annotations

import re
import unicodedata
from functools import cache
from itertools import product

from msgspec import structs

from clawbot.languages.tables import LANGUAGES, table
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
# Markdown and punctuation close around a token. What may be on either side of the next one belongs to the one before
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
    full = "NO_REPLY" if found[0].startswith("NO") else "HEARTBEAT_OK"
    return text + full[len(found[0]) :]


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

# Punctuation that introduces a token on this or the next line: `the answer is:`.
_INTRODUCES = frozenset(":：,，、;；(（")
_ENDS_SENTENCE = frozenset(".!?。！？…~～\ufe0f")


@cache
def _words(name: str) -> frozenset[str]:
    """The words of the list `name` of all languages, or the characters of a text without spaces."""
    lists = (table(language, "silence").get(name, "") for language in LANGUAGES)
    return frozenset(word for each in lists for word in (each.split() if " " in each else each))


def end_of(text: str, *, ended: bool, before: str = "") -> int:
    """The number of characters of `text` for the user; the rest is tokens and spaces. With `ended` false more text may
    follow, and the result holds whatever it is. `before` is the preceding text, or its last `CONTEXT` characters."""
    full = before + text
    at = len(full)
    while at > len(before):
        from_ = len(full[: max(0, at - _WINDOW)].rstrip())
        found = (_LAST if ended else _MAYBE_LAST).search(full, from_, at)
        cut_at = at if found is None else _first_apart(full, found.start(), at) if ended else found.start()
        if cut_at == at:
            break
        at = cut_at
    return max(0, at - len(before))


def _first_apart(text: str, start: int, end: int) -> int:
    """The position of the first token from `start` to `end` that is not part of a sentence; `end` if there is none."""
    starts = (one.start() for one in _ONE.finditer(text, start, end) if _is_apart(text[: one.start()], one))
    return next(starts, end)


def _is_apart(before: str, one: re.Match[str]) -> bool:
    kept = before.rstrip()
    if not kept:
        return True
    last, word = kept[-1], _LAST_WORD.search(kept[-CONTEXT:])
    wants_object = last in _words("object_chars") or (word is not None and word[0].lower() in _words("before_object"))
    wants_object = wants_object or _LIST_MARK.search(kept[-CONTEXT:]) is not None
    if "\n" in before[len(kept) :]:
        return last not in _INTRODUCES
    if last in _ENDS_SENTENCE or unicodedata.category(last) == "So":
        return not wants_object and not set(one["opening"]) - set("*_")
    bare = not one["opening"] and not one["closing"] and one["token"].isupper()
    return bare and len(kept) < len(before) and (last.isalnum() or last == ")") and not wants_object


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


@cache
def _sentences() -> tuple[str, ...]:
    """The sentences of silence in all languages, the longest first."""
    found: list[str] = []
    for each in (table(language, "silence") for language in LANGUAGES):
        starts = [
            who + (" " if who.isascii() and who else "") + does
            for who, does in product(each.get("who", ()), each.get("does", ()))
        ]
        found += map("".join, product([*starts, *each.get("alone", ())], each.get("when", ("",))))
    return tuple(sorted(found, key=len, reverse=True))


_HEAD = 60
# Text that begins with more punctuation than this is a drawing.
_MAX_EDGE = 400
_LEADING_EDGE = lazy_re(r"[\W_]*")
_WORD = lazy_re(r"\w")


def _is_alone(text: str, *, ended: bool) -> bool:
    """Whether `text` is nothing but tokens, with or without a sentence of silence before them; with `ended` false,
    whether it could continue so that it would be."""
    text = text.lstrip()
    edge = _LEADING_EDGE.match(text)
    start = edge.end() if edge else 0
    if start > _MAX_EDGE:
        return False
    tokens = _SILENT if ended else _MAYBE_SILENT
    head = "".join(char.lower() if char.isascii() else char for char in text[start : start + _HEAD].replace("’", "'"))
    if tokens.match(text) or (not ended and any(sentence.startswith(head) for sentence in _sentences())):
        return True
    kept = next((each for each in _sentences() if head.startswith(each) and not _WORD.match(head, len(each))), None)
    return kept is not None and tokens.match(text, start + len(kept)) is not None


@cache
def _labels() -> tuple[tuple[str, ...], re.Pattern[str]]:
    """The labels of reasoning in all languages, and the pattern of a line with one."""
    labels = tuple(label for language in LANGUAGES for label in table(language, "silence").get("labels", ()))
    return labels, re.compile(rf"\s*(?:{'|'.join(labels)})[ \t]*[:：][^\n]*(\n)?", re.IGNORECASE)


def _reasoning_end(text: str, *, ended: bool) -> int | None:
    """The end of reasoning written as text, a line `thinking: …`; 0 without any. Blocks in tags were removed before.
    None while more of `text` may follow and the result is open."""
    labels, line = _labels()
    if found := line.match(text):
        return found.end() if found[1] else 0 if ended else None
    begun_label = text.lstrip().rstrip(" \t").casefold()
    return None if not ended and any(label.startswith(begun_label) for label in labels) else 0


_OWN_LINES = lazy_re(rf"(?:\s*{OPENING}{TOKEN}{CLOSING}[ \t]*\r?\n)+", re.IGNORECASE)
# On the answer's line only a bare upper-case token counts: `no_reply: false` is a setting.
_BARE = lazy_re(rf"(?:\s*{TOKEN})+")
_STOP = lazy_re(r"[.!]+\s+|[。！…]+\s*")
_DASH = lazy_re(r"[ \t]*[—–]+\s*|[ \t]+-+[ \t]+")
_BLANKS = lazy_re(r"[ \t]*[:：][ \t]*|[ \t]*")
# Suffixes with which a token becomes an ordinary word.
_ENDINGS = frozenset({"s", "d", "ed", "er", "ing"})
# Limit the tokens examined: each is compared with all text after it.
_MAX_TOKENS = 64


def start_of(text: str, *, ended: bool) -> int | None:
    """The number of characters at the start of `text` that are not for the user: all of a silent reply, 0 of an
    ordinary one. With `ended` false more may follow, and the result holds whatever it is; None while it is open."""
    start = 0
    for _ in range(_MAX_TOKENS):
        body = text[start:].lstrip()
        blanks = len(text) - start - len(body)
        reasoning = _reasoning_end(body, ended=ended)
        if reasoning is None:
            return None
        rest = body[reasoning:]
        if _is_alone(rest, ended=ended):
            return len(text) if ended else None
        lead = _leading(rest, ended=ended)
        if not lead:
            return start if lead == 0 else None
        start += blanks + reasoning + lead
    return start


def _leading(text: str, *, ended: bool) -> int | None:
    """The start of the answer after a token; 0 if there is no token before it, or if the text is about the token."""
    if lines := _OWN_LINES.match(text):
        return lines.end()
    token = _BARE.match(text)
    if token is None:
        return 0
    after = text[token.end() :]
    if stop := _STOP.match(after):
        return token.end() + stop.end()
    if dash := _DASH.match(after):
        return 0 if after[dash.end() : dash.end() + 1] in _words("subject_chars") else token.end() + dash.end()
    gap = _BLANKS.match(after)
    blank = gap.end() if gap else 0
    is_new = _begins_sentence(after[blank:], glued=blank == 0, ended=ended)
    return None if is_new is None else token.end() + blank if is_new else 0


def _begins_sentence(text: str, *, glued: bool, ended: bool) -> bool | None:
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
    return first.isalpha() and first not in _words("subject_chars")


_HINT = lazy_re(r"NO\\?_|HEARTBEAT\\?_", re.IGNORECASE)
_NAMED = lazy_re(rf"(?<!\w){TOKEN}(?!\w)")
_ASKS = lazy_re(
    rf"pre-compaction memory flush|\b(?:reply|answer|respond)\b[^.\n]{{0,40}}\b{TOKEN}(?!\w)", re.IGNORECASE
)
# Prompts of programs begin with their purpose.
_ASKS_WITHIN = 2_000


def spoken(text: str, *, cut: bool = False) -> str:
    """The part of the reply `text` for the user, stripped; "" if the reply is silent. `cut`: the reply was truncated,
    so an incomplete token at its end (`NO_RE`) counts as one."""
    if not _HINT.search(text):
        return text.strip()
    full = completed(text) if cut else text
    start, end = _bounds(full)
    if start < end and end > len(text):
        start, end = _bounds(text)
    return text[start:end].strip()


def is_silent(text: str) -> bool:
    """Whether the reply `text` contains a token and nothing for the user. An empty reply is not silent."""
    return bool(text.strip()) and not spoken(text)


def spoken_message(message: AssistantMessage) -> AssistantMessage | None:
    """`message` for the reader, without tokens; None if no text, call or error remains. Reasoning before a silent reply
    is removed too. A reply that was cut off before its first word is kept, one that was cut off within a token does
    not."""
    text = message.text
    cut = was_cut(message)
    kept = spoken(text, cut=cut)
    if kept != text_of(message.content).strip():
        message = structs.replace(message, content=_blocks(message, kept))
    if kept or message.tool_calls or message.error_message:
        return message
    return message if cut and not text.strip() else None


def was_cut(message: AssistantMessage) -> bool:
    """Whether `message` was cut off."""
    return message.stop_reason in ("aborted", "length", "error")


def names_token(text: str) -> bool:
    """Whether `text` contains a token."""
    return _NAMED.search(text) is not None


def asks_for_silence(text: str) -> bool:
    """Whether `text` is probably a prompt by which a program asks for a silent reply."""
    return _ASKS.search(text[:_ASKS_WITHIN]) is not None


def _blocks(message: AssistantMessage, kept: str) -> list[AssistantBlock]:
    """The blocks of `message` with its text replaced by `kept`."""
    blocks: list[AssistantBlock] = []
    left = kept
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
