from __future__ import annotations

import numpy as np

from clawbot.memory.search.question import RAREST, Alternative, Matches, WantedWord, WordFinder


class Postings:
    def __init__(self, **ids: list[int]) -> None:
        self.ids = ids
        self.asked: list[str] = []

    def __call__(self, match: str, limit: int) -> list[int]:
        self.asked.append(match)
        return self.ids.get(match, [])[:limit]


def find(postings: Postings, *wanted: WantedWord) -> list[Matches]:
    return WordFinder(postings, 1_000).find(wanted, lambda: False)[0]


def test_rare_words_count_more() -> None:
    reader = Postings(rare=[1], often=list(range(500)), always=list(range(1_000)))
    rare, often, always, absent = find(
        reader, *(WantedWord(word, 1.0) for word in ("rare", "often", "always", "absent"))
    )
    assert RAREST >= absent.rarity > rare.rarity > often.rarity > always.rarity > 0
    assert always.rarity < 0.1


def test_another_word_counts_by_its_weight_and_no_more_than_it_is_rare() -> None:
    reader = Postings(word=[5], rare=[7], often=list(range(100, 600)))
    (found,) = find(reader, WantedWord("word", 1.0, (Alternative("rare", 0.7), Alternative("often", 0.7))))
    value = dict(zip(found.ids.tolist(), found.values.tolist(), strict=True))
    assert value[5] == 1
    assert round(value[7], 5) == 0.7
    assert 0 < value[100] < 0.35


def test_the_better_of_two_counts_where_both_are() -> None:
    (found,) = find(Postings(word=[5, 6], other=[6, 7]), WantedWord("word", 1.0, (Alternative("other", 0.5),)))
    assert found.ids.tolist() == [5, 6, 7]
    assert found.values.tolist()[:2] == [1, 1]


def test_each_expression_is_asked_for_once() -> None:
    reader = Postings(a=[1], b=[2])
    find(reader, WantedWord("a", 1.0, (Alternative("b", 0.5),)), WantedWord("b", 1.0, (Alternative("a", 0.5),)))
    assert sorted(reader.asked) == ["a", "b"]


def test_stops_between_words() -> None:
    answers = iter([False, True])
    found, stopped = WordFinder(Postings(a=[1]), 10).find(
        [WantedWord("a", 1.0), WantedWord("b", 1.0)], lambda: next(answers)
    )
    assert stopped
    assert len(found) == 1


def test_within_keeps_what_is_in_both() -> None:
    (found,) = find(Postings(a=[1, 5, 9]), WantedWord("a", 1.0))
    places, values = found.within(np.array([2, 5, 8, 9]))
    assert places.tolist() == [1, 3]
    assert values.tolist() == [1, 1]
    assert found.within(np.array([], np.int64))[0].tolist() == []


def test_of_too_many_postings_those_of_the_rarest_words_are_read() -> None:
    reader = Postings(often=list(range(0, 1_000, 2)), rare=[3, 900], few=list(range(0, 1_000, 20)))
    finder = WordFinder(reader, 1_000, limits=(600, 200))
    wanted = [WantedWord(word, 1.0) for word in ("often", "few", "rare")]
    finder.choose(wanted)
    often, few, rare = finder.find(wanted, lambda: False)[0]
    assert (len(few.ids), len(rare.ids)) == (50, 2)
    # Its first postings would favour the oldest notes: it is no part of the question.
    assert (len(often.ids), often.rarity) == (0, 0)


def test_one_word_is_found_however_frequent_all_are() -> None:
    reader = Postings(often=list(range(0, 1_000, 2)), always=list(range(1_000)))
    finder = WordFinder(reader, 1_000, limits=(600, 700))
    wanted = [WantedWord(word, 1.0) for word in ("always", "often")]
    finder.choose(wanted)
    always, often = finder.find(wanted, lambda: False)[0]
    assert (len(always.ids), len(often.ids)) == (0, 500)
