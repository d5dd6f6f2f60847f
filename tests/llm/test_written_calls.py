"""Calls that a model writes as text are calls, and no other text is."""

from __future__ import annotations

from typing import Any

import pytest

from clawbot.llm.calls import MAX_HELD, WrittenCalls
from clawbot.messages import ToolSpec
from tests.llm.cases import read_cases


def tool(name: str, **properties: str) -> ToolSpec:
    fields = {field: {"type": kind} for field, kind in properties.items()}
    return ToolSpec(name, "", {"type": "object", "properties": fields})


TOOLS = [tool("read", path="string", limit="integer"), tool("append", path="string", content="string"), tool("status")]
CASES = read_cases("written_calls")
CALLS = [(text, [tuple(call) for call in calls]) for text, calls in CASES["calls"]]
TEXTS = CASES["texts"]


def read(text: str, size: int, tools: list[ToolSpec] = TOOLS, *, complete: bool = True) -> tuple[str, str, list[Any]]:
    written = WrittenCalls(tools)
    shown = "".join(written.feed(text[at : at + size]) for at in range(0, len(text), size))
    rest, calls = written.end(complete=complete)
    return shown, shown + rest, [(call.name, call.arguments) for call in calls]


@pytest.mark.parametrize("size", [1, 4, 1000])
@pytest.mark.parametrize(("text", "calls"), CALLS)
def test_an_answer_that_is_a_call(text: str, calls: list[Any], size: int) -> None:
    assert read(text, size) == ("", "", calls)


@pytest.mark.parametrize("size", [1, 4, 1000])
@pytest.mark.parametrize(("text", "tried"), TEXTS)
def test_an_answer_that_is_text(text: str, tried: bool, size: int) -> None:
    _shown, complete, calls = read(text, size)
    assert (complete, calls) == (text, [])
    assert WrittenCalls(TOOLS).resembles_call(text) is tried
    assert not WrittenCalls([]).resembles_call(text)


@pytest.mark.parametrize(("text", "_calls"), CALLS)
def test_without_tools_or_before_the_end_nothing_is_a_call(text: str, _calls: list[Any]) -> None:
    assert read(text, 4, []) == (text, text, [])
    assert read(text, 4, complete=False)[1:] == (text, [])


@pytest.mark.parametrize(
    "text",
    ['{"host"', "[1", "[link]", "```python\nx", "<p>", "Yes", '```json\n{"host":', "<title>", '{\n  "a"', "``` \nx"],
)
def test_what_can_be_no_call_is_shown_at_once(text: str) -> None:
    assert WrittenCalls(TOOLS).feed(text) == text


def test_what_is_held_back_is_bounded() -> None:
    text = '{"name": "append", "arguments": {"path": "A", "content": "' + "x" * MAX_HELD
    assert read(text, 1000)[0] == text
