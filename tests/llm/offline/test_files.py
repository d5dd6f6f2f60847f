"""Files and commands by plain requests, and small talk."""

from __future__ import annotations

import pytest

from clawbot.llm.offline.turn import done_words
from clawbot.text.statements import is_refusal
from tests.llm.cases import read_cases
from tests.llm.offline.talk import Files, Talk
from tests.tables import load_table

CASES = read_cases("offline/files")


def some() -> Files:
    texts = {"AGENTS.md": "# Rules\n\nBe kind.\n", "notes.md": "hello\n", "memory/2026-11-01.md": "- a proxy\n"}
    return Files(texts, given={"shell": "total 4"})


@pytest.mark.parametrize(
    ("said", "held"),
    load_table(__file__, "what_a_tool_answers_is_shown_fenced"),
)
async def test_what_a_tool_answers_is_shown_fenced(said: str, held: str) -> None:
    assert f"```text\n{held}\n```" in await Talk(some()).say(said)


@pytest.mark.parametrize(
    ("said", "path", "text"),
    load_table(__file__, "files_are_written_and_none_is_replaced"),
)
async def test_files_are_written_and_none_is_replaced(said: str, path: str, text: str) -> None:
    files = some()
    reply = await Talk(files).say(said)
    assert files.texts[path] == text
    assert ("exists already" in reply) == (text == "hello\n")


async def test_what_the_tools_refuse_is_told() -> None:
    assert "did not work" in await Talk(some()).say("show ../../etc/passwd.txt")
    assert "not today" in await Talk().say("run touch x")


async def test_long_output_is_shortened_with_a_notice() -> None:
    files = Files({"long.md": "\n".join(f"line {n}" for n in range(500)), "wide.md": "x" * 50_000})
    reply = await Talk(files).say("show long.md")
    assert "60 of 500 lines" in reply
    assert "line 59\n```" in reply
    reply = await Talk(files).say("show wide.md")
    assert len(reply) < 5_000
    assert "Shortened" in reply


async def test_a_fence_in_a_file_does_not_end_the_block() -> None:
    reply = await Talk(Files({"x.md": "````\ncode\n````\n# not a heading of the reply"})).say("show x.md")
    assert "`````text\n````\ncode" in reply
    assert reply.endswith("`````")


@pytest.mark.parametrize(
    ("said", "tool"),
    load_table(__file__, "a_tool_that_is_missing_or_fails_is_named"),
)
async def test_a_tool_that_is_missing_or_fails_is_named(said: str, tool: str) -> None:
    assert f"`{tool}`" in await Talk(tools=()).say(said)
    reply = await Talk(Files(failing={tool: "The user refused: not now"})).say(said)
    assert "did not work" in reply
    assert "> The user refused: not now" in reply


@pytest.mark.parametrize(
    ("said", "part"),
    load_table(__file__, "small_talk_is_one_short_line_that_no_note_keeps"),
)
async def test_small_talk_is_one_short_line_that_no_note_keeps(said: str, part: str) -> None:
    talk = Talk()
    reply = await talk.say(said)
    assert part in reply
    assert "\n" not in reply
    assert len(reply) < 320
    assert is_refusal(reply)
    assert not talk.files.calls


@pytest.mark.parametrize(("told", "chinese", "english"), CASES["what_was_done_to_a_file_is_told_in_one_language"])
def test_what_was_done_to_a_file_is_told_in_one_language(told: str, chinese: str, english: str) -> None:
    assert done_words("zh", told) == chinese
    assert done_words("en", told) == english
