"""Adding to the notes: the file of the day, the form of an entry, and whether something stands there already."""

from __future__ import annotations

import re
from collections.abc import Generator, Iterable
from pathlib import PurePosixPath

from clawbot.llm.offline.notes import Line, grep_call, grepped, same_words
from clawbot.llm.offline.quoting import bare
from clawbot.llm.offline.turn import Call, Outcome, Turn
from clawbot.llm.offline.words import MAX_PATTERN

DUPLICATE_WORDS = 10
"""So many words of a fact are searched for to see whether it is noted already."""

_WORD = re.compile(r"[^\W_]+")
_BETWEEN = r"[\W_]*"


class Looked:
    """What is known of the notes before something is added: lines like the new ones, and whether the file is new."""

    def __init__(self, lines: list[Line], *, is_new: bool) -> None:
        self._lines = lines
        self._is_new = is_new

    def known(self, fact: str) -> Line | None:
        """The line that says the same already."""
        first = fact.partition("\n")[0]
        return next((line for line in self._lines if same_words(bare(line.text), first)), None)

    def heading(self, path: str) -> str:
        """What the new file `path` begins with, its name (a day); nothing for one that exists."""
        return f"# {PurePosixPath(path).stem}\n\n" if self._is_new else ""


LookSteps = Generator[list[Call], list[Outcome], Looked]


def daily_file(turn: Turn) -> str:
    """The file of today, in the user's zone."""
    return f"memory/{turn.now:%Y-%m-%d}.md"


def as_item(fact: str, *, is_todo: bool = False) -> str:
    """`fact` as one item of a Markdown list; further lines are indented so that they stay in it."""
    lines = [line.rstrip() for line in fact.split("\n") if line.strip()]
    mark = "- [ ] " if is_todo else "- "
    return "\n".join([mark + lines[0], *(f"  {line}" for line in lines[1:])]) + "\n"


def look_before(turn: Turn, facts: list[str], path: str) -> LookSteps:
    """Look for `facts` in the notes and for the file at `path`, with the tools that are there.

    A look that fails stops nothing: a fact that stands twice is better than one that is lost.
    """
    regex = _any_of(facts)
    calls = [grep_call(regex, "*.md")] if regex and "grep" in turn.tools else []
    if "list" in turn.tools:
        calls.append(Call("list", {"pattern": path}))
    if not calls:
        return Looked([], is_new=False)
    outcomes = yield calls
    lines = [line for outcome in outcomes if outcome.call.name == "grep" for line in grepped(outcome)]
    listed = [outcome for outcome in outcomes if outcome.call.name == "list" and not outcome.is_error]
    is_new = any(path not in outcome.text.splitlines() for outcome in listed)
    return Looked(lines, is_new=is_new)


def _any_of(facts: Iterable[str]) -> str:
    """A regular expression for the lines that begin to say one of `facts`, as many of them as fit into a pattern."""
    parts: list[str] = []
    room = MAX_PATTERN
    for fact in facts:
        words = [re.escape(word[:40]) for word in _WORD.findall(fact)[:DUPLICATE_WORDS]]
        part = _BETWEEN.join(words)
        room -= len(part) + 1
        if words and room >= 0:
            parts.append(part)
    return "|".join(parts)
