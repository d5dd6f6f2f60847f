"""Validates a model's summary, and repairs what a retry did not fix: a weak model must not stop a conversation.

Unlike reference sheet 7.6, where a bad summary is discarded and nothing is compacted, only an answer that is no summary
at all (`is_no_summary`) is discarded here; others are completed. Pure.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from clawbot.context.compaction.carried import FILES_HEADING, LAST_HEADING, missing_identifiers
from clawbot.context.compaction.prompts import (
    IDENTIFIERS,
    NOTHING,
    REQUIRED,
    SECTIONS,
    TURN,
    SummarySection,
    folded,
    neutral,
    parse,
    render,
)
from clawbot.languages.tables import pattern_in, words_in
from clawbot.text.patterns import lazy_re
from clawbot.text.thoughts import without_thoughts

MIN_CHARS = 20
"""A shorter text without sections has no content."""

REFUSAL_CHARS = 600
"""A longer text without sections is prose that may start with an apology."""

OPENING_CHARS = 300
"""A short text before the first heading is not part of the summary: `Here is the summary:`"""

_OURS = frozenset(heading.removeprefix("## ") for heading in (LAST_HEADING, FILES_HEADING))
_WRAPPED = lazy_re(
    r"\A\s*(?:```(?:markdown|md)?[ \t]*\n(?P<fenced>.*)\n```|<summary>(?P<tagged>.*)</summary>)\s*\Z",
    re.DOTALL | re.IGNORECASE,
)
_REFUSAL = lazy_re(pattern_in("no_summary"), re.IGNORECASE)


MAX_SAME = 10
"""So many equal lines of some length are junk. A summary may note under each heading that there is nothing."""
MIN_WORDS = 30
"""Different words of a text, below which their origin proves nothing."""
MIN_SHARE, MIN_SHARE_CUT = 0.1, 0.4
"""The share of them that must be in the conversation. It may be in another language, so that only names are shared;
an answer that was cut off was the model's last word on nothing, and is held to more."""
_LONG_LINE = 12
_WORD = lazy_re(r"[^\W\d_\u2e80-\uffff]{4,}|[\u2e80-\uffff]")


def junk(text: str, source: str, *, cut_off: bool = False) -> str:
    """Why `text`, which a model wrote about `source`, is of no use to anybody; "" when it may be. `cut_off`: it was cut
    off although the model was asked for a shorter one."""
    lines = Counter(line.strip() for line in text.splitlines() if len(line.strip()) >= _LONG_LINE)
    if max(lines.values(), default=0) >= MAX_SAME:
        return "it says the same over and over"
    stems = _stems(text)
    if len(stems) < MIN_WORDS:
        return ""
    share = len(stems & _stems(source)) / len(stems)
    return "" if share >= (MIN_SHARE_CUT if cut_off else MIN_SHARE) else "its words are not the conversation's"


def _stems(text: str) -> set[str]:
    """Return the words of `text` by their beginning, since forms of a word differ at the end."""
    return {word[:5] for word in _WORD.findall(text.lower())}


def tidy(answer: str) -> str:
    """The summary in a model's answer: without reasoning and wrappers, with our headings spelled correctly, each once
    and in order. Sections written by this program are removed, as are other empty ones."""
    opening, sections = parse(_unwrapped(answer))
    sections = [
        section
        for section in sections
        if section.title in SECTIONS or not (section.title in _OURS or _left_open(section))
    ]
    if not sections:
        return neutral(opening)
    shown = opening if len(opening) > OPENING_CHARS else ""
    return neutral("\n\n".join(filter(None, [shown, render(sections)])))


def _unwrapped(answer: str) -> str:
    text = without_thoughts(answer.replace("\r\n", "\n"))
    wrapped = _WRAPPED.match(text)
    return (wrapped["fenced"] or wrapped["tagged"] or "") if wrapped else text


def is_no_summary(answer: str, *, headed: bool = False) -> str:
    """Return why `answer` can't replace a conversation; "" if it can. `headed`: not without one of the headings."""
    text = _unwrapped(answer)
    opening, sections = parse(text)
    if any(section.title in SECTIONS and not _left_open(section) for section in sections):
        return ""
    if len(opening) < MIN_CHARS and all(map(_left_open, sections)):
        return "the answer was too short to be one" if opening.strip() else "the answer was empty"
    if len(text) < REFUSAL_CHARS and _REFUSAL.search(text.replace("’", "'")):
        return "the model declined"
    return "it had none of the headings" if headed else ""


def problems(answer: str, wanted: Sequence[str], *, split: bool = False, cut_off: bool = False) -> list[str]:
    """Return the problems of `answer`, as feedback for the model: missing, empty or repeated sections, missing names of
    `wanted`, truncation. Empty if it is good."""
    if reason := is_no_summary(answer):
        return [f"It was no summary: {reason}."]
    sections = {section.title: section for section in parse(answer)[1]}
    required = [*REQUIRED, TURN] if split else list(REQUIRED)
    absent = [name for name in required if name not in sections]
    empty = [name for name in required if name in sections and sections[name].empty]
    twice = [name for name in required if name in sections and sections[name].times > 1]
    lost = missing_identifiers(wanted, tidy(answer))
    found = [
        (absent, "These headings are missing: {}."),
        (empty, f"Nothing stands under these headings, not even {NOTHING}: {{}}."),
        (twice, "These headings are there more than once: {}."),
        (lost, "These names must appear exactly as in the conversation: {}."),
    ]
    reasons = [words.format(", ".join(names)) for names, words in found if names]
    if not any(map(_is_informative, sections.values())):
        reasons.append("It says nothing about the conversation.")
    return [*reasons, "It was cut off at its end: write a shorter one."] if cut_off else reasons


def mend(answer: str, wanted: Sequence[str], *, split: bool = False) -> str:
    """`answer` completed with all sections and all names of `wanted`: `(none)` under a missing heading, and leading
    prose under `Progress`."""
    by_title = {section.title: section for section in folded(*parse(tidy(answer)))}
    for name in [*REQUIRED, TURN] if split else REQUIRED:
        by_title.setdefault(name, SummarySection(name, (NOTHING,)))
    if lost := missing_identifiers(wanted, render(by_title.values())):
        lines = [line for line in by_title[IDENTIFIERS].lines if line.strip() and line.strip("- ") != NOTHING]
        by_title[IDENTIFIERS] = SummarySection(IDENTIFIERS, (*lines, *(f"- {name}" for name in lost)))
    return render(by_title.values())


def _left_open(section: SummarySection) -> bool:
    """Return whether nothing was filled in."""
    return all(line.strip(" -*") in ("", "...", "…") for line in section.lines)


def _is_informative(section: SummarySection) -> bool:
    """Return whether it holds more than a note that there is nothing."""
    nothing = {"", "none", "n/a", "…", *words_in("nothing")}
    return not all(line.strip(" -*().").lower() in nothing for line in section.lines)
