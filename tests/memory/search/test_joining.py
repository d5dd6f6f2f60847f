"""What was found in notes and in talks as one list."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

import msgspec

from clawbot.memory.search.engine import JoinedRanking
from clawbot.memory.search.protocols import Budget, Ranked
from clawbot.memory.values import Hit, MessageRef, SearchResult
from clawbot.tools.memory_output import fit

BUDGET = Budget(6, 200, 0.05)


class Fixed:
    """A ranking that is known beforehand."""

    def __init__(self, *hits: Hit) -> None:
        self.hits = hits

    def texts(self, count: int) -> list[str]:
        return [hit.snippet for hit in self.hits[:count]]

    def results(self, order: Sequence[int] | None = None) -> Ranked:
        places = range(len(self.hits)) if order is None else list(order)
        return Ranked(tuple(self.hits[place] for place in places))


def note(score: float, text: str) -> Hit:
    return Hit("memory/a.md", 1, 1, score, text, "memory", 1)


def spoken(score: float, text: str, day: int = 20) -> Hit:
    said = MessageRef("e", "user", datetime(2026, 11, day, 12, tzinfo=UTC))
    return Hit("sessions/a.jsonl", 1, 1, score, text, "sessions", 1, said)


def joined(notes: Fixed | None, talks: Fixed, budget: Budget = BUDGET) -> list[tuple[str, float]]:
    found = JoinedRanking(notes, talks, 0.5 if notes else 1.0, budget).results()
    return [(hit.snippet, hit.score) for hit in found.hits]


def test_a_talk_counts_less_than_a_note() -> None:
    found = joined(Fixed(note(0.6, "n1"), note(0.3, "n2")), Fixed(spoken(0.8, "t1"), spoken(0.08, "too little")))
    assert found == [("n1", 0.6), ("t1", 0.4), ("n2", 0.3)]


def test_talks_alone_count_whole() -> None:
    assert joined(None, Fixed(spoken(0.8, "t1"))) == [("t1", 0.8)]


def test_without_talks_that_say_more_the_notes_are_as_they_are() -> None:
    notes = Fixed(note(0.6, "**User** (14:02): The dog is called Bruno."), note(0.5, "y" * 199))
    assert joined(notes, Fixed(spoken(1.0, "User: the dog is called Bruno"))) == [
        (hit.snippet, hit.score) for hit in notes.hits
    ]


def test_what_a_fork_holds_too_is_told_once() -> None:
    first, again = spoken(0.8, "t1"), msgspec.structs.replace(spoken(0.8, "t1"), path="sessions/fork.jsonl")
    other = msgspec.structs.replace(spoken(0.7, "t1", day=21), path="sessions/b.jsonl")
    assert joined(Fixed(note(0.1, "n1")), Fixed(first, again, other)) == [("t1", 0.4), ("t1", 0.35), ("n1", 0.1)]
    assert len(joined(None, Fixed(first, again))) == 2
    assert fit(SearchResult((first, again, other), "hybrid", "o", "m"), 4_000).shown == [first, other]


def test_talks_take_a_third_of_the_places_that_notes_could_fill() -> None:
    notes = Fixed(*(note(0.1, f"n{number}") for number in range(6)))
    talks = Fixed(*(spoken(0.9, f"t{number}") for number in range(6)))
    assert [text for text, _ in joined(notes, talks)] == ["t0", "t1", "n0", "n1", "n2", "n3"]
    few = Fixed(note(0.1, "n0"))
    assert [text for text, _ in joined(few, talks)] == ["t0", "t1", "t2", "t3", "t4", "n0"]


def test_what_does_not_fit_makes_room_for_what_does() -> None:
    found = joined(Fixed(note(0.6, "n" * 150), note(0.1, "m")), Fixed(spoken(0.8, "t" * 100)))
    assert [text[0] for text, _ in found] == ["n", "m"]


def test_another_order_holds_for_both() -> None:
    notes, talks = Fixed(note(0.5, "n0"), note(0.5, "n1")), Fixed(spoken(0.4, "t0"), spoken(0.4, "t1"))
    ranking = JoinedRanking(notes, talks, 1.0, Budget(9, None, 0.0))
    assert ranking.texts(6) == ["n0", "n1", "t0", "t1"]
    assert [hit.snippet for hit in ranking.results([3, 1, 0, 2]).hits] == ["n1", "n0", "t1", "t0"]


def test_a_note_before_one_with_a_higher_score_stays_there() -> None:
    notes = Fixed(note(0.45, "new"), note(0.93, "old"), note(0.2, "n"))
    assert joined(notes, Fixed(spoken(1.0, "t"))) == [("new", 0.45), ("old", 0.93), ("t", 0.5), ("n", 0.2)]
    talks = Fixed(spoken(0.3, "new"), spoken(0.6, "old"))
    assert [text for text, _ in joined(Fixed(note(0.25, "n")), talks)] == ["new", "old", "n"]
