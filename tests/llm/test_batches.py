"""How texts are packed into calls of an embedding model, and what becomes of a batch that was refused as too large."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clawbot.llm.providers import EmbeddingLimits
from clawbot.llm.tokens import estimate_tokens
from clawbot.llm.vectors import SHORTEST_CUT, Batches, BatchText, Excess


def taken(batches: Batches) -> list[list[str]]:
    found = []
    while batch := batches.take():
        found.append([piece.text for piece in batch])
    return found


def test_a_batch_ends_at_the_number_of_texts() -> None:
    assert taken(Batches(["a", "b", "c", "d", "e"], EmbeddingLimits(2, 1000, 1000))) == [["a", "b"], ["c", "d"], ["e"]]


def test_a_batch_ends_at_the_number_of_tokens() -> None:
    texts = ["茶" * 40, "word " * 40, "茶" * 40]
    for batch in taken(Batches(texts, EmbeddingLimits(10, 100, 1000))):
        assert sum(map(estimate_tokens, batch)) <= 100


def test_a_long_text_is_cut_to_its_beginning() -> None:
    text = "一二三四五六七八九十" * 100
    ((cut,),) = taken(Batches([text], EmbeddingLimits(10, 1000, 100)))
    assert text.startswith(cut)
    assert 80 < estimate_tokens(cut) <= 101


def test_blank_texts_are_left_out_and_places_kept() -> None:
    batches = Batches(["", "a", " \n", "b"], EmbeddingLimits())
    assert [piece.position for piece in batches.take()] == [1, 3]


def test_a_refused_batch_comes_back_in_halves_and_in_order() -> None:
    batches = Batches([str(number) for number in range(10)], EmbeddingLimits(8, 1000, 1000))
    first = batches.take()
    assert batches.put_back(first, Excess())
    assert taken(batches) == [["0", "1", "2", "3"], ["4", "5", "6", "7"], ["8", "9"]]
    assert batches.limits.texts == 4


@pytest.mark.parametrize(
    ("excess", "lengths"),
    [
        (Excess(), [1000, 500, 250, 125, SHORTEST_CUT]),
        (Excess(limit=300), [1000, 500, 250, 125, SHORTEST_CUT]),
        (Excess(limit=300, size=600), [1000, 475, 225, 106, SHORTEST_CUT]),
        (Excess(limit=1, size=900), [1000, SHORTEST_CUT]),
    ],
)
def test_a_refused_text_is_cut_to_what_is_said_until_it_is_short(excess: Excess, lengths: list[int]) -> None:
    batches = Batches(["x" * 1000], EmbeddingLimits())
    found = []
    while batch := batches.take():
        found.append(len(batch[0].text))
        if not batches.put_back(batch, excess):
            break
    assert found == lengths


def test_one_text_too_long_makes_no_batch_smaller() -> None:
    batches = Batches(["short"] * 3 + ["long " * 400], EmbeddingLimits(4, 10_000, 10_000))
    assert batches.put_back(batches.take(), Excess(limit=512, size=1500))
    assert [len(batch) for batch in taken(batches)] == [2, 2]
    assert (batches.limits.texts, batches.limits.each) == (4, 512)


def test_many_texts_that_are_too_much_together_make_batches_smaller() -> None:
    batches = Batches(["short"] * 8, EmbeddingLimits(8, 10_000, 10_000))
    assert batches.put_back(batches.take(), Excess(limit=512, size=1500))
    assert batches.limits.texts == 4
    # Until one alone is refused: then how many they are was not to blame.
    assert batches.put_back([BatchText(0, "long " * 400)], Excess())
    assert batches.limits.texts == 8


@given(st.lists(st.text(max_size=50), max_size=40), st.integers(1, 9), st.integers(1, 200), st.integers(5, 100))
def test_each_text_with_words_is_handed_out_once(texts: list[str], most: int, tokens: int, each: int) -> None:
    batches = Batches(texts, EmbeddingLimits(most, tokens, each))
    places = []
    while batch := batches.take():
        assert len(batch) <= most
        assert len(batch) == 1 or sum(estimate_tokens(piece.text) for piece in batch) <= tokens
        places += [piece.position for piece in batch]
    assert places == [place for place, text in enumerate(texts) if text.strip()]
