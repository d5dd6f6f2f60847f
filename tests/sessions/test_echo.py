"""Notes of sessions hold what was said, and no echo of tools and notes."""

from __future__ import annotations

import json

import pytest

from clawbot.messages import AssistantMessage, Message, TextBlock, ToolCallBlock
from clawbot.sessions.envelopes import without_echo

from .helpers import result, said

LISTING = "Makefile\nREADME.md\nsrc\ntests"
FOUND = {
    "results": [{"path": "memory/2026-11-20.md", "startLine": 4, "snippet": "- 港口 opens at six\n- the ferry at ten"}]
}


def turn(tool: str, printed: str, **arguments: str) -> list[Message]:
    calling = AssistantMessage([TextBlock("Let me look."), ToolCallBlock("1", tool, dict(arguments))])
    return [calling, result("1", printed)]


def heard(text: str, messages: list[Message], *, quotes_only: bool = False) -> str:
    answer = said(text)
    return without_echo(answer, [*messages, answer], quotes_only=quotes_only)


def test_what_a_tool_printed_is_told_in_a_word() -> None:
    text = f"There are four:\n\n```text\n{LISTING}\n```\n\nThe tests are new."
    messages = turn("shell", LISTING, command="ls")
    assert heard(text, messages) == "There are four: [output of shell: 4 lines]\n\nThe tests are new."
    listing = turn("list", LISTING, path=".")
    assert heard(f"`.` holds：\n\n```text\n{LISTING}\n```", listing) == "`.` holds： [output of list: 4 lines]"


def test_a_file_that_was_read_is_told_by_its_name() -> None:
    messages = turn("read", "# Plan\n\nshell the nuts\n", path="notes/计划.md")
    text = "It says:\n\n~~~md\n# Plan\n\nshell the nuts\n~~~"
    assert heard(text, messages) == "It says: [quoted: notes/计划.md]"


def test_code_that_the_model_made_itself_stays() -> None:
    text = "Try this:\n\n```python\nprint('港口')\n```"
    assert heard(text, turn("shell", LISTING)) == text
    assert heard(text, []) == text


def test_code_that_it_wrote_into_a_file_is_told_by_the_file() -> None:
    messages = turn("write", "Created src/x.py (+2 lines).", path="src/x.py", content="import os\nprint(os.name)\n")
    assert heard("Done:\n```python\nimport os\nprint(os.name)\n```", messages) == "Done: [quoted: src/x.py]"


@pytest.mark.parametrize(
    ("quote", "place"),
    [
        ("> the ferry at ten", "memory/2026-11-20.md:5"),
        ("> - 港口 opens at six\n> - the ferry at ten", "memory/2026-11-20.md:4"),
        ("> > **港口 opens at six**\n>\n> — `memory/2026-11-19.md:7`", "memory/2026-11-19.md:7"),
        ("> whatever\n> — memory/a.md#L3-L5", "memory/a.md#L3-L5"),
    ],
)
def test_a_quote_of_a_note_is_its_place(quote: str, place: str) -> None:
    messages = turn("memory_search", json.dumps(FOUND, ensure_ascii=False), query="harbour")
    assert heard(f"You noted:\n\n{quote}\n\nSo at six.", messages) == f"You noted: [quoted: {place}]\n\nSo at six."


def test_lines_that_were_searched_for_have_their_places() -> None:
    messages = turn("grep", "./notes.md:12:- tulips need water\nsrc/a.py:3:import os", pattern="tulips")
    assert heard("> tulips need water", messages) == "[quoted: ./notes.md:12]"


def test_a_quote_of_somebody_else_stays() -> None:
    text = "As Kant has it:\n\n> Sapere aude!\n> 要敢于认识"
    assert heard(text, turn("memory_search", json.dumps(FOUND))) == text


@pytest.mark.parametrize("empty", [">", "> \n>", "> >\n> > >"])
def test_empty_quotes_go(empty: str) -> None:
    assert heard(f"one\n\n{empty}\n\ntwo", []) == "one\n\ntwo"


def test_who_says_nothing_of_its_own_in_quotes_only_quotes() -> None:
    text = "The note of our last conversation, `memory/2026-11-20-a.md`, ends with:\n\n> user: hi\n> assistant: ho"
    told = "The note of our last conversation, `memory/2026-11-20-a.md`, ends with: [quoted: memory/2026-11-20-a.md]"
    assert heard(text, [], quotes_only=True) == told
    assert heard(text, []) == text
    assert heard("You said at 14:02:\n\n> tea", [], quotes_only=True) == "You said at 14:02: [quoted: the conversation]"


def test_an_answer_of_many_quotes_takes_no_long_time() -> None:
    """A pattern that looks at all ways to share out the lines would not end."""
    text = "\n".join("> " * (number % 40 + 1) + "```" for number in range(3_000)) + "\n```" * 3_000
    assert heard(text, turn("shell", text))
