"""Which names a summary keeps, and which of them give way first when there is little room."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator, Sequence

from clawbot.llm.offline.answers import ANSWERS
from clawbot.llm.offline.identifiers import identifiers, is_exact, ports, quoted, titles
from clawbot.llm.offline.language import clean
from clawbot.llm.offline.markers import holds_secret
from clawbot.llm.offline.material import Said

MOST = 400
"""More names than any summary has room for."""

_PLAIN = re.compile(r"/?[A-Za-z]+")
_LOOSE_ASSISTANT, _LOOSE_USER, _LOOSE_CARRIED, _EXACT_ASSISTANT, _EXACT_USER, _CARRIED = range(6)


def names(carried: Sequence[str], said: Iterable[Said]) -> list[str]:
    """The names that user and assistant said, each once, behind them the lines `carried` over from an earlier summary:
    the last ones are worth most.

    Carried ones are worth more than new ones, and the user's more than the assistant's; but hosts, ports, paths,
    versions, hashes and quoted names come before numbers. Left out are results of tools, what looks like a key, what
    only the assistant said in the phrases that this model answers with, names that a line of `carried` holds with
    their meaning, and numbers that are part of another name.
    """
    ranks: dict[str, int] = {}
    for line in carried:
        ranks[line] = _LOOSE_CARRIED if _is_number(line) or _is_phrase(line) else _CARRIED
    for entry in said:
        if entry.role != "tool":
            for name, rank in _spoken(entry):
                ranks[name] = max(rank, ranks.pop(name, rank))
    found = [name for name in sorted(ranks, key=lambda name: ranks[name]) if not holds_secret(name)][-MOST:]
    exact = "\n".join(name for name in found if ranks[name] >= _EXACT_ASSISTANT)
    explained = {name for line in carried for name in (*identifiers(line), *ports(line)) if name != line}
    return [name for name in found if not (name in explained or (ranks[name] < _EXACT_ASSISTANT and name in exact))]


def _spoken(entry: Said) -> Iterator[tuple[str, int]]:
    """The names of one message with their ranks."""
    text = clean(entry.text)
    by_user = entry.role == "user"
    exact = [*ports(text), *titles(text), *(quoted(text) if by_user else ())]
    yield from ((name, _EXACT_USER if by_user else _EXACT_ASSISTANT) for name in exact)
    for name in identifiers(text):
        if by_user:
            yield name, _EXACT_USER if is_exact(name) else _LOOSE_USER
        elif not _is_phrase(name):
            yield name, _EXACT_ASSISTANT if is_exact(name) else _LOOSE_ASSISTANT


def _is_number(line: str) -> bool:
    """Whether the line is a number or a date alone."""
    return identifiers(line) == [line] and not is_exact(line) and line[:1].isdigit()


def _is_phrase(name: str) -> bool:
    """Whether the name is a bare word, a command, or part of what this model says by itself."""
    return _PLAIN.fullmatch(name) is not None or name in _own_words()


@functools.cache
def _own_words() -> frozenset[str]:
    """The names in the phrases that this model answers with, also those within backticks (`show AGENTS.md`)."""
    phrases = [text for texts in ANSWERS.values() for text in texts.values()]
    phrases += [text.replace("`", " ") for text in phrases]
    return frozenset(name for text in phrases for name in (*identifiers(text), *titles(text)))
