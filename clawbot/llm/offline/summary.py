"""An extractive summary: the sentences and names of a conversation that the next turns will need, word for word."""

from __future__ import annotations

import re

from clawbot.llm.offline.language import clean
from clawbot.llm.offline.markers import asks, holds_secret, marks, sentences
from clawbot.llm.offline.material import Material, Said
from clawbot.llm.offline.naming import names
from clawbot.llm.offline.quoting import one_line
from clawbot.llm.offline.tokens import cut_to
from clawbot.llm.offline.words import normalise
from clawbot.llm.tokens import weigh_tokens

MAX_TOKENS = 2_000
"""The length of a summary when the request sets none."""

LEAST_TOKENS = 120
"""Below this not even the headings and one line each would fit."""

LEAST_LINE = 8
"""A line that would be cut to less than this, in tokens, says nothing."""

ASK_CHARS = 800
LINE_CHARS = 400
SENTENCES_OF_PASTE = 400
"""Of one message so many sentences are looked at."""

DECISIONS, TODOS, CONSTRAINTS = "Decisions", "Open TODOs", "Constraints"
ASKS, NAMES, TALK = "Pending user asks", "Exact identifiers", "Progress"
TURN = "Turn in progress"
SHARES = {DECISIONS: 0.2, TODOS: 0.15, CONSTRAINTS: 0.15, ASKS: 0.1, NAMES: 0.15, TALK: 0.25}
"""Section -> its part of the length; what one leaves over goes to those after it."""

NOTHING = "(none)"

_NO_ITEMS = ("none", NOTHING, "[...]")
_LENGTH = re.compile(r"\bat most (\d{1,6}) tokens\b")
_TURN_ASKED = re.compile(rf"^#+ {TURN}", re.MULTILINE)
_TURN_BEGINS = re.compile(r"\s*the unfinished turn begins here", re.IGNORECASE)
_HEADING = re.compile(r"^#{1,4}\s+(.+?)\s*:?\s*$")
_ITEM = re.compile(r"^\s*(?:[-*+]|\d+\.)\s+(?:\[[ xX]\]\s+)?")
_ALIASES = (
    (DECISIONS, re.compile(r"decision|决定", re.IGNORECASE)),
    (TODOS, re.compile(r"to-?do|next step|待办|下一步", re.IGNORECASE)),
    (CONSTRAINTS, re.compile(r"constraint|rule|preference|约束|规则|偏好", re.IGNORECASE)),
    (ASKS, re.compile(r"ask|request|请求|未答", re.IGNORECASE)),
    (NAMES, re.compile(r"identifier|critical context|标识", re.IGNORECASE)),
)
_MARKED = ((TODOS, {"todo"}), (DECISIONS, {"decision"}), (CONSTRAINTS, {"rule", "preference", "personal"}))

_Sections = dict[str, list[str]]


def summarise(given: Material, max_tokens: int | None) -> str:
    """The summary of `given` in Markdown, under the headings of `SHARES`, in at most `max_tokens` (estimated), or less
    when the instruction says so. It may ask for the turn that goes on, too."""
    sections = _carried_on(given.previous)
    for said in given.said:
        _sort_in(said, sections)
    sections[ASKS] = _pending(given.said) or sections[ASKS]
    sections[NAMES] = names(sections[NAMES], given.said)
    named = _LENGTH.search(given.instruction)
    room = max(min(max_tokens or MAX_TOKENS, int(named[1]) if named else MAX_TOKENS), LEAST_TOKENS)
    if not _TURN_ASKED.search(given.instruction):
        return _written(sections, room)
    turn = cut_to(_turn(given.said), room // 4)
    return f"{_written(sections, room - weigh_tokens(turn))}\n\n{turn}"


def _carried_on(previous: str) -> _Sections:
    """The lines of an earlier summary under the sections that they belong to now."""
    sections: _Sections = {name: [] for name in SHARES}
    current = TALK
    for line in clean(previous).splitlines():
        heading = _HEADING.match(line)
        if heading:
            current = next((name for name, alias in _ALIASES if alias.search(heading[1])), TALK)
        elif (item := _ITEM.sub("", line).strip()) and item.lower() not in _NO_ITEMS:
            sections[current].append(item)
    return sections


def _sort_in(said: Said, sections: _Sections) -> None:
    """Put the sentences of one message where they belong; what else was said leaves its beginning."""
    if said.role == "tool":
        return
    rest: list[str] = []
    for count, sentence in enumerate(sentences(clean(said.text))):
        if count >= SENTENCES_OF_PASTE:
            break
        if holds_secret(sentence):
            continue
        section = _section_of(sentence) if said.role == "user" or "decision" in marks(sentence) else None
        if section is None:
            rest.append(sentence)
        else:
            sections[section].append(one_line(sentence, LINE_CHARS))
    if rest:
        who = "User" if said.role == "user" else "Assistant"
        sections[TALK].append(f"{who}: {one_line(rest[0], LINE_CHARS)}")


def _section_of(sentence: str) -> str | None:
    if asks(sentence):
        return None
    found = marks(sentence)
    return next((section for section, wanted in _MARKED if found & wanted), None)


def _pending(said: list[Said]) -> list[str]:
    """What the user asked last."""
    asked = [entry.text for entry in said if entry.role == "user" and not holds_secret(entry.text)]
    return [one_line(asked[-1], ASK_CHARS)] if asked else []


def _turn(said: list[Said]) -> str:
    """The section of the turn that goes on: what was asked in it, and what was said last."""
    begin = next((at for at in range(len(said) - 1, -1, -1) if _TURN_BEGINS.match(said[at].text)), len(said))
    turn = [entry for entry in said[begin:] if not holds_secret(entry.text)]
    asked = [f"User: {one_line(entry.text, LINE_CHARS)}" for entry in turn if entry.role == "user"]
    done = [f"Assistant: {one_line(entry.text, LINE_CHARS)}" for entry in turn if entry.role == "assistant"]
    lines = [*asked[-1:], *done[-1:]] or [NOTHING]
    return "\n".join([f"## {TURN}", "", *(f"- {line}" for line in lines)])


def _written(sections: _Sections, max_tokens: int) -> str:
    headings = sum(weigh_tokens(f"## {name}\n\n- {NOTHING}\n\n") for name in SHARES)
    room = float(max_tokens - headings)
    share_left = sum(SHARES.values())
    parts: list[str] = []
    for name, share in SHARES.items():
        lines = _last_that_fit(sections[name], room * share / share_left, may_cut=name != NAMES)
        room -= sum(weigh_tokens(f"- {line}\n") for line in lines)
        share_left -= share
        body = "\n".join(f"- {line}" for line in lines) or f"- {NOTHING}"
        parts.append(f"## {name}\n\n{body}")
    return cut_to("\n\n".join(parts), max_tokens)


def _last_that_fit(lines: list[str], room: float, *, may_cut: bool) -> list[str]:
    """The last lines of all within `room` tokens, in their order, each once: a later one replaces its repeat. When not
    even the last one fits, it is cut, if it may be; lines that may not are passed over when they are too long."""
    latest = {normalise(line): line for line in reversed(lines)}
    kept: list[str] = []
    for line in latest.values():
        size = weigh_tokens(f"- {line}\n")
        if size > room:
            if may_cut:
                break
            continue
        room -= size
        kept.append(line)
    if not kept and latest and may_cut and room >= LEAST_LINE:
        return [cut_to(next(iter(latest.values())), int(room) - 2)]
    return kept[::-1]
