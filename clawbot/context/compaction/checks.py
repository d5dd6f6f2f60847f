"""Judges a summary that a model wrote, and mends what a retry did not: a weak model must not stop a conversation.

Reference sheet 7.6, with one difference: there a summary that stays bad is thrown away and nothing is compacted; here
that happens to an answer that is none (`is_no_summary`), and others get what they lack. Pure.
"""

from __future__ import annotations

import re
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

LEAST_CHARS = 20
"""A text without sections that is shorter says nothing."""

REFUSAL_CHARS = 600
"""A longer text without sections is prose that may begin with an apology."""

OPENING_CHARS = 300
"""What a model says before the first heading is no part of the summary, if it is short: `Here is the summary:`"""

_OURS = frozenset(heading.removeprefix("## ") for heading in (LAST_HEADING, FILES_HEADING))
_THOUGHT = re.compile(r"\A\s*<think(?:ing)?>.*?(?:</think(?:ing)?>|\Z)", re.DOTALL | re.IGNORECASE)
_WRAPPED = re.compile(
    r"\A\s*(?:```(?:markdown|md)?[ \t]*\n(?P<fenced>.*)\n```|<summary>(?P<tagged>.*)</summary>)\s*\Z",
    re.DOTALL | re.IGNORECASE,
)
_REFUSAL = re.compile(
    r"\bI(?:'m| am) (?:sorry|unable|not able)\b|\bI (?:can(?:no|')t|cannot|won't|will not|must decline)\b|"
    r"\bas an ai\b|\b(?:unable|not able) to (?:assist|help|comply|summari[sz]e)\b|抱歉|对不起|我(?:无法|不能)|"
    r"作为(?:一个)?(?:AI|人工智能)",
    re.IGNORECASE,
)


def tidy(answer: str) -> str:
    """The summary in what a model answered: without thoughts and wrappings, our headings as we spell them, each once
    and in order. Sections that this program writes are left out, and so are others with nothing in them."""
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
    text = _THOUGHT.sub("", answer.replace("\r\n", "\n"))
    wrapped = _WRAPPED.match(text)
    return (wrapped["fenced"] or wrapped["tagged"] or "") if wrapped else text


def is_no_summary(answer: str) -> str:
    """Why `answer` can't stand for a conversation; "" when it can."""
    text = _unwrapped(answer)
    opening, sections = parse(text)
    if any(section.title in SECTIONS and not _left_open(section) for section in sections):
        return ""
    if len(opening) < LEAST_CHARS and all(map(_left_open, sections)):
        return "the answer was too short to be one" if opening.strip() else "the answer was empty"
    if len(text) < REFUSAL_CHARS and _REFUSAL.search(text.replace("’", "'")):
        return "the model declined"
    return ""


def problems(answer: str, wanted: Sequence[str], *, split: bool = False, cut_off: bool = False) -> list[str]:
    """What is wrong with `answer`, as the model is to be told: sections that are missing, empty or there twice, names
    of `wanted` that do not stand in it, an end that was cut off. Empty when it is good."""
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
    if not any(map(_tells, sections.values())):
        reasons.append("It says nothing about the conversation.")
    return [*reasons, "It was cut off at its end: write a shorter one."] if cut_off else reasons


def mend(answer: str, wanted: Sequence[str], *, split: bool = False) -> str:
    """`answer` as a summary that has all sections and names all of `wanted`: `(none)` stands under a heading that was
    missing, and prose before the first heading goes under `Progress`."""
    by_title = {section.title: section for section in folded(*parse(tidy(answer)))}
    for name in [*REQUIRED, TURN] if split else REQUIRED:
        by_title.setdefault(name, SummarySection(name, (NOTHING,)))
    if lost := missing_identifiers(wanted, render(by_title.values())):
        lines = [line for line in by_title[IDENTIFIERS].lines if line.strip() and line.strip("- ") != NOTHING]
        by_title[IDENTIFIERS] = SummarySection(IDENTIFIERS, (*lines, *(f"- {name}" for name in lost)))
    return render(by_title.values())


def _left_open(section: SummarySection) -> bool:
    """Whether nothing was filled in."""
    return all(line.strip(" -*") in ("", "...", "…") for line in section.lines)


def _tells(section: SummarySection) -> bool:
    """Whether it says more than that there is nothing."""
    return not all(line.strip(" -*().").lower() in ("", "none", "n/a", "…", "无") for line in section.lines)
