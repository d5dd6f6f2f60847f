"""Batches within a provider's limits, and smaller ones after a refusal."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from clawbot.llm.batches import SHORTEST_CUT, Batches
from clawbot.llm.providers import EmbeddingLimits
from clawbot.llm.tokens import estimate_tokens


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
    assert [piece.place for piece in batches.take()] == [1, 3]


def test_a_refused_batch_comes_back_in_halves_and_in_order() -> None:
    batches = Batches([str(number) for number in range(10)], EmbeddingLimits(8, 1000, 1000))
    first = batches.take()
    assert batches.put_back(first)
    assert taken(batches) == [["0", "1", "2", "3"], ["4", "5", "6", "7"], ["8", "9"]]
    assert batches.limits.texts == 4


def test_a_refused_text_is_halved_until_it_is_short() -> None:
    batches = Batches(["x" * 1000], EmbeddingLimits())
    lengths = []
    while batch := batches.take():
        lengths.append(len(batch[0].text))
        if not batches.put_back(batch):
            break
    assert lengths == [1000, 500, 250]
    assert lengths[-1] <= SHORTEST_CUT


@given(st.lists(st.text(max_size=50), max_size=40), st.integers(1, 9), st.integers(1, 200), st.integers(5, 100))
def test_each_text_with_words_is_handed_out_once(texts: list[str], most: int, tokens: int, each: int) -> None:
    batches = Batches(texts, EmbeddingLimits(most, tokens, each))
    places = []
    while batch := batches.take():
        assert len(batch) <= most
        assert len(batch) == 1 or sum(estimate_tokens(piece.text) for piece in batch) <= tokens
        places += [piece.place for piece in batch]
    assert places == [place for place, text in enumerate(texts) if text.strip()]
