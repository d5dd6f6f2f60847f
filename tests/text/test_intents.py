"""Standing intents by words: tables of sentences, lines of the file and messages in seven languages."""

from __future__ import annotations

import tomllib
from datetime import date
from pathlib import Path

import pytest
from msgspec import structs

from clawbot.text.intents import (
    MAX_INTENTS,
    MAX_LINE,
    Intent,
    brought_up,
    intents_in,
    is_done_word,
    stated_in,
    with_done,
)

TABLE = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
LINES = TABLE["lines"]


@pytest.mark.parametrize(("message", "topic", "what"), TABLE["states"])
def test_a_sentence_that_states_an_intent(message: str, topic: str, what: str) -> None:
    found = stated_in(message)
    assert (found and (found.topic, found.what)) == ((topic, what) if topic else None)
    assert not found or intents_in(f"- {found.text}\n") == [structs.replace(found, line=1)]


@pytest.mark.parametrize(("message", "line"), TABLE["written"])
def test_its_line_begins_in_the_language_of_the_user(message: str, line: str) -> None:
    found = stated_in(message)
    assert found is not None
    assert found.text == line


@pytest.mark.parametrize("message", TABLE["states_none"])
def test_questions_quotes_and_code_state_none(message: str) -> None:
    assert stated_in(message) is None


def test_the_lines_of_the_file_are_read_but_those_that_are_done() -> None:
    found = intents_in(LINES)
    assert [each.topic for each in found] == TABLE["read"]
    lines = LINES.split("\n")
    assert all(each.what in lines[each.line - 1] for each in found)


@pytest.mark.parametrize(("message", "topics"), TABLE["finds"])
def test_a_message_brings_up_the_topics_of_which_it_has_all_words(message: str, topics: list[str]) -> None:
    assert [each.topic for each in brought_up(message, intents_in(LINES))] == topics


@pytest.mark.parametrize("message", [*TABLE["done"], *TABLE["done_not"]])
def test_the_word_that_ends_an_intent_is_the_whole_message(message: str) -> None:
    assert is_done_word(message) is (message in TABLE["done"])


def test_what_is_done_is_marked_and_no_longer_read() -> None:
    text = "- when a dentist: b\r\n- when a bank: d\r\n"
    done = with_done(text, 2, date(2026, 11, 27))
    assert done == "- when a dentist: b\r\n- when a bank: d (done 2026-11-27)\r\n"
    assert intents_in(done) == [Intent("a dentist", "b", 1)]


def test_what_is_written_is_read() -> None:
    stated = stated_in("When the dentist comes up, remind me to ask: how much?")
    assert stated is None
    stated = stated_in("When the dentist comes up, remind me to ask him: money first")
    assert stated is not None
    assert intents_in(f"- {stated.text}\n") == [Intent("the dentist", "ask him: money first", 1)]


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("- when x: y\n" * (MAX_INTENTS + 9), MAX_INTENTS),
        (f"- when x: {'y' * MAX_LINE}\n", 0),
        ("- when " + "a: " * 100 + "\n", 1),
        ("\0" * 100, 0),
    ],
)
def test_a_hostile_file_is_bounded(text: str, count: int) -> None:
    assert len(intents_in(text)) == count
