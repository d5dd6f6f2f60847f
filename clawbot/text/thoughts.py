"""Separates the reasoning that a model writes into its answer from the answer. Pure.

Servers without a parser for it, and many gateways, leave it in the text between the tags that the model was trained
with. Blocks at the beginning are reasoning; a tag in the middle of an answer, in backticks or in a fence is text.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Literal, NamedTuple

from clawbot.languages.tables import text_in
from clawbot.text.patterns import lazy_re

_NAMES = (
    "think thinking thought thoughts reasoning reflection seed:think mm:think longcat_think antthinking scratchpad "
    "reasoning_scratchpad reasoning_content thought_process thinking_process internal_thought inner_monologue "
    + text_in("think_tag")
)
_TOKENS = ("{} begin_{} begin_of_{} start_{} {}_start", "/{} end_{} end_of_{} {}_end")
_OPEN, _CLOSE = (
    [f"<|{one.format(name)}|>" for name in _NAMES.split()[:5] for one in words.split()] for words in _TOKENS
)
_ENDS = (*(f"</{name}>" for name in _NAMES.split()), *_CLOSE)
_HARMONY = ("<|end|>", "<|channel|>final<|message|>")
_START = "<|start|>assistant"
_BLOCKS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys((*(f"<{name}>" for name in _NAMES.split()), *_OPEN), _ENDS),
    "◁think▷": ("◁/think▷",),
    "[think]": ("[/think]",),
    "<|inner_prefix|>": ("<|inner_suffix|>",),
    "<|think|>": ("<|end|>", *_ENDS),
    "<|channel>thought": ("<channel|>",),
    "<unused94>thought": ("<unused95>",),
    "[unused16]": ("[unused17]",),
    "<|channel|>analysis<|message|>": _HARMONY,
    f"{_START}<|channel|>analysis<|message|>": _HARMONY,
}
"""What begins a block, in lower case, and what ends it."""
_ANSWER = (
    *(f"{start}<|channel|>{name}<|message|>" for start in ("", _START) for name in ("final", "commentary")),
    *("<|begin|>assistant<|content|>", "<|begin_of_solution|>", "<|start_response|>", "<answer>"),
    *("<|im_start|>assistant", "<|assistant|>"),
)
_STOPS = ("<|im_end|>", "<|eot_id|>", "<|endoftext|>", "<|end_of_sentence|>")
_TAILS = ("<|return|>", "<|end|>", "<|end_of_solution|>", "<|end_response|>", "</answer>", *_STOPS)
"""What encloses an answer, behind a block or, but for `<answer>`, without one."""
_LONE = (*_ENDS, "◁/think▷", "[/think]", "<channel|>")
"""Ends of blocks that a template may open in the prompt: all text before one is reasoning."""
_LEADS, _ENDINGS = (*_BLOCKS, *_ANSWER, *_LONE), (*_LONE, *_TAILS)
_MARKS = "<◁["  # every tag begins with one of these
_LONGEST = 120  # characters of a tag with its attributes
_ATTRIBUTES = lazy_re(r"\A(</?[\w:]+)\s[^<>]{0,80}>?\Z")
_MAX_MENTIONS = 20  # of ends, after which the text is taken to be about them
_OPENING = lazy_re("|".join(map(re.escape, _BLOCKS)), re.IGNORECASE)
_FENCE = lazy_re(r"^ {0,3}(?:```|~~~)", re.MULTILINE)
_QUOTES, _SENTENCE_ENDS = frozenset("\"'“‘«»「『(（|`"), frozenset(".!?…。！？:：)）")


class Segment(NamedTuple):
    """A part of an answer. `withdrawn`: all `text` before it was reasoning, too."""

    kind: Literal["thought", "text", "withdrawn"]
    text: str = ""


class ThoughtSplitter:
    """Reads an answer as it comes, in chunks of any size."""

    def __init__(self) -> None:
        self._held = ""
        self._leads = True  # nothing but blocks and blanks so far
        self._ends: tuple[str, ...] = ()  # of the open block
        self._framed = False  # a block or the beginning of a frame came
        self._last = ""  # character of the open block
        self._text: list[str] = []
        self._mentions = 0

    def feed(self, chunk: str) -> list[Segment]:
        """Take the next chunk and return what is certain by now."""
        text, self._held = self._held + chunk, ""
        segments: list[Segment] = []
        while text:
            text = (self._think if self._ends else self._lead if self._leads else self._answer)(text, segments)
        return segments

    def end(self) -> list[Segment]:
        """Return what was held back at the end of the answer."""
        held, self._held = self._held, ""
        if self._ends:
            return [Segment("thought", held)] if held else []
        key, last = _key(held.strip()), "".join(self._text[-1:])[-1:]
        if not self._leads and key in _LONE and self._ends_thought(""):
            return [Segment("withdrawn")]
        is_frame = (self._framed and key in ("", *_TAILS)) or (key in _STOPS and last not in ("", " ", *_QUOTES))
        return [Segment("text", held)] if held and not is_frame else []

    def _lead(self, text: str, _: list[Segment]) -> str:
        body = text.lstrip().lstrip("\ufeff\u200b")
        found = _any_of(_LEADS).match(_plain(body))
        if found and ((key := _key(found[0])) != "<answer>" or self._framed):
            self._ends, self._framed, self._last = _BLOCKS.get(key, ()), True, ""
            return body[found.end() :]
        if not found and _open_end(body, _LEADS) == len(body):
            self._held = text
            return ""
        self._leads = False
        return body if self._framed else text

    def _think(self, text: str, segments: list[Segment]) -> str:
        found = _any_of(self._ends).search(_plain(text))
        at = found.start() if found else len(text) - _open_end(text, self._ends)
        if thought := text[:at] if self._last else text[:at].lstrip():
            self._last = thought[-1]
            segments.append(Segment("thought", thought))
        rest = text[found.end() :] if found else ""
        in_code = self._last == "`"
        if found is None or (in_code and not rest):
            self._held = text[at:]
            return ""
        if in_code and rest[0] == "`":
            self._last = "`"
            segments.append(Segment("thought", found[0]))
        else:
            self._ends = ()
        return rest

    def _answer(self, text: str, segments: list[Segment]) -> str:
        found = _any_of(_ENDINGS).search(_plain(text)) if any(mark in text for mark in _MARKS) else None
        at, rest = (found.start(), text[found.end() :]) if found else (len(text) - _open_end(text, _ENDINGS), "")
        is_tail = found is not None and _key(found[0]) in _TAILS
        if shown := text[:at]:
            self._text.append(shown)
            segments.append(Segment("text", shown))
        if not rest or (is_tail and _START.startswith(rest.strip().lower())):
            self._held = text[at:]
            return ""
        if is_tail and self._framed and rest.lower().startswith(_START):
            self._leads = True
            segments.append(Segment("text", "\n\n"))
            return rest
        if not is_tail and self._ends_thought(rest[0]):
            self._leads = self._framed = True
            self._text.clear()
            segments.append(Segment("withdrawn"))
        else:
            mention = text[at : len(text) - len(rest)]
            self._text.append(mention)
            segments.append(Segment("text", mention))
        return rest

    def _ends_thought(self, after: str) -> bool:
        """Whether the end of a block, between the text so far and the character `after`, is more than mentioned."""
        self._mentions += 1
        prose = "".join(self._text) if self._mentions <= _MAX_MENTIONS else ""
        line = prose[prose.rfind("\n") + 1 :]
        code = len(_FENCE.findall(prose)) % 2 or line.count("`") % 2 or (len(line) > 3 and line.isspace())
        if code or not prose.strip() or _OPENING.search(prose):
            return False
        last = line.rstrip()[-1:]
        if not line[-1:].isspace():
            return last not in _QUOTES or (last in "\"'`" and line.count(last) % 2 == 0)
        return not last or last in _SENTENCE_ENDS or after.isalnum()


@lru_cache(maxsize=64)
def _any_of(tokens: tuple[str, ...]) -> re.Pattern[str]:
    patterns = "|".join(map(re.escape, sorted(tokens, key=len, reverse=True)))
    patterns = re.sub(r"(</?[\w:]+)>", r"\1(?:\\s[^<>]{0,80})?>", patterns).replace("</", "</+")
    return re.compile(patterns, re.IGNORECASE)


def _plain(text: str) -> str:
    """Return `text` with the bars and blanks of DeepSeek's tags as others spell them."""
    return text.replace("｜", "|").replace("▁", "_")


def _key(tag: str) -> str:
    """Return `tag`, or the beginning of one, as the tables have it: without attributes."""
    return _ATTRIBUTES.sub(r"\1>", _plain(tag).lower().replace("<//", "</"))


def _open_end(text: str, tokens: tuple[str, ...]) -> int:
    """Return the number of characters at the end of `text` with which one of `tokens` may begin."""
    tail = text[-_LONGEST:]
    for at in range(len(text) - len(tail), len(text)) if any(mark in tail for mark in _MARKS) else ():
        if text[at] in _MARKS and (key := _key(text[at:])) and any(token.startswith(key) for token in tokens):
            return len(text) - at
    return 0


def without_thoughts(text: str) -> str:
    """Return the answer in `text`, a complete answer with its reasoning."""
    if not any(mark in text for mark in _MARKS):
        return text
    splitter, kept = ThoughtSplitter(), list[str]()
    for kind, part in (*splitter.feed(text), *splitter.end()):
        if kind == "text":
            kept.append(part)
        elif kind == "withdrawn":
            kept.clear()
    return "".join(kept)
