"""Keeps MEMORY.md below its size: what has ended moves first, then the oldest lines, each to the file of its topic."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import date

from clawbot.llm.tokens import weigh_tokens
from clawbot.memory.dates.validity import validity_of
from clawbot.plugins.dreaming.applying import MAIN
from clawbot.plugins.dreaming.book import Book, SourceLine
from clawbot.plugins.dreaming.lines import bare
from clawbot.plugins.dreaming.proposals import Proposal, identified
from clawbot.plugins.dreaming.rules import EARLIER, MAX_OLD, OTHERS, pointer, topic_path
from clawbot.text.interface import _
from clawbot.text.topics import topics

_SLACK = 0.15
"""The part of the size that moves leave free, so that not every dream moves something."""

_FEWEST = 3  # lines that make a topic


def make_room(book: Book, max_tokens: int) -> list[Proposal]:
    """Return the moves that bring the MEMORY.md of `book` below `max_tokens`: of all that has ended, and of the oldest
    lines as far as needed."""
    excess = weigh_tokens("\n".join(book.files.get(MAIN, ()))) - max_tokens
    if excess <= 0:
        return []
    excess += int(max_tokens * _SLACK)
    entries = [entry for entry in book.entries if entry.path == MAIN and entry.number]
    subjects = {entry.text: topics([bare(entry.text)], 4) for entry in entries}
    counts = Counter(word for found in subjects.values() for word in found)
    targets: dict[str, list[str]] = {}
    for entry in sorted(entries, key=_rank):
        has_ended = validity_of(entry.text).until is not None
        if excess <= 0 and not has_ended:
            break
        excess -= weigh_tokens(f"{entry.text}\n")
        targets.setdefault(EARLIER if has_ended else _target(subjects[entry.text], counts), []).append(entry.text)
    reason = _("MEMORY.md has grown beyond its size.")
    return [
        identified(
            Proposal("", "move", MAIN, pointer(target), (), reason, tuple(old[at : at + MAX_OLD]), target=target)
        )
        for target, old in targets.items()
        for at in range(0, len(old), MAX_OLD)
    ]


def _rank(entry: SourceLine) -> tuple[bool, date]:
    """What has ended comes first, by its end, then the others by their beginning; those of no day are the oldest."""
    validity = validity_of(entry.text)
    return validity.until is None, validity.until or validity.since or date.min


def _target(words: Sequence[str], counts: Counter[str]) -> str:
    """Return the topic file of the most frequent of `words`, if it has some more lines."""
    best = max(words, key=lambda word: counts[word], default="")
    path = f"memory/{best}.md"
    return path if best and counts[best] >= _FEWEST and topic_path(path) else OTHERS
