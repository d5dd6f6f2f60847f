"""What of a chunk and of a question is embedded."""

from __future__ import annotations

import pytest

from clawbot.memory.embeddings.embedding_text import chunk_embedding_text, query_embedding_text, split_speaker


@pytest.mark.parametrize(
    ("text", "speaker", "said"),
    [
        ("Anna: I moved to Oslo", "Anna", "I moved to Oslo"),
        ("Anna Maria: hello", "Anna Maria", "hello"),
        ("**Anna**: hello", "Anna", "hello"),
        ("[12:30] Anna: hello", "Anna", "hello"),
        ("> Anna: hello", "Anna", "hello"),
        ("小王：明天出发", "小王", "明天出发"),
        ("no speaker here", None, "no speaker here"),
        ("12:30 is the time", None, "12:30 is the time"),
    ],
)
def test_speakers(text: str, speaker: str | None, said: str) -> None:
    assert split_speaker(text) == (speaker, said)


def test_words_that_say_nothing_are_left_out_of_offline_vectors() -> None:
    assert (
        chunk_embedding_text("She moved to the Oslo office.", "prose", "# Work", remote=False) == "moved Oslo office."
    )
    assert chunk_embedding_text("Anna: I've moved to Oslo", "dialogue", "", remote=False) == "moved Oslo"
    assert query_embedding_text("Where did she move to?", remote=False) == "move"


def test_an_item_stands_under_its_heading() -> None:
    assert chunk_embedding_text("- port 8443", "item", "## Proxy", remote=False).startswith("Proxy ")
    assert chunk_embedding_text("- 端口 8443", "item", "代理\n===", remote=True) == "代理\n- 端口 8443"


def test_a_heading_is_its_words() -> None:
    assert chunk_embedding_text("## Staging proxy", "heading", "# Setup", remote=False) == "Staging proxy"


def test_models_get_the_text_as_it_stands() -> None:
    assert chunk_embedding_text("She said it.", "prose", "", remote=True) == "She said it."
    assert query_embedding_text("Where did she move to?", remote=True) == "Where did she move to?"


def test_nothing_but_such_words_is_kept() -> None:
    assert chunk_embedding_text("It is what it is.", "prose", "", remote=False) == "It is what it is."
    assert query_embedding_text("what is it", remote=False) == "what is it"
    assert query_embedding_text("", remote=False) == ""
