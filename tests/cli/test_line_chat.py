"""The chat in lines: what is read as a line, and how each event is told."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator

import pytest

from clawbot.agent import events
from clawbot.cli.line_chat import EventPrinter, TypedLines
from clawbot.cli.output import CUT_OFF


def stepped(step: events.ToolStarted | events.ToolFinished) -> events.SubagentStep:
    return events.SubagentStep(parent_call_id="1", session_id="s", description="about a", calls=1, tokens=0, step=step)


class Keyboard:
    """The other end of what `typed` reads."""

    def __init__(self) -> None:
        reading, self._writing = os.pipe()
        self.typed = TypedLines(reading)
        self.typed.start()

    def enter(self, data: str | bytes) -> None:
        os.write(self._writing, data.encode() if isinstance(data, str) else data)

    def close(self) -> None:
        os.close(self._writing)


@pytest.fixture
async def keyboard() -> AsyncIterator[Keyboard]:
    found = Keyboard()
    yield found
    found.typed.stop()


async def test_lines_come_one_by_one(keyboard: Keyboard) -> None:
    keyboard.enter("one\ntwo\n")
    assert await keyboard.typed.next() == "one"
    assert await keyboard.typed.next() == "two"


async def test_a_character_may_come_in_halves(keyboard: Keyboard) -> None:
    whole = "我喜欢茶\n".encode()
    keyboard.enter(b"tea\n" + whole[:4])
    assert await keyboard.typed.next() == "tea"
    keyboard.enter(whole[4:])
    assert await keyboard.typed.next() == "我喜欢茶"


async def test_a_backslash_joins_lines(keyboard: Keyboard) -> None:
    keyboard.enter("a list:\\\nfirst\\\n")
    waiting = asyncio.create_task(keyboard.typed.next())
    keyboard.enter("second\nanother\n")
    assert await waiting == "a list:\nfirst\nsecond"
    assert await keyboard.typed.next() == "another"


async def test_an_answer_is_not_what_was_entered_before_the_question(keyboard: Keyboard) -> None:
    keyboard.enter("go on\ny\n")
    assert await keyboard.typed.next() == "go on"
    assert keyboard.typed.waiting == 1
    answer = asyncio.create_task(keyboard.typed.next(keyboard.typed.waiting))
    keyboard.enter("n\n")
    assert await answer == "n"
    assert await keyboard.typed.next() == "y"


async def test_the_end_of_the_input_ends_the_waiting(keyboard: Keyboard) -> None:
    keyboard.enter("half")
    keyboard.close()
    assert await keyboard.typed.next() is None
    assert await keyboard.typed.next() is None


@pytest.mark.parametrize(
    ("event", "line"),
    [
        (events.ToolStarted(call_id="1", name="read", title="read notes.md"), "tool: Reading notes.md"),
        (events.ToolStarted(call_id="1", name="list", title="list"), "tool: Listing the workspace"),
        (events.ToolFinished(call_id="1", name="read", output="…", summary="3 lines"), "tool read done: 3 lines"),
        (
            events.ToolFinished(call_id="1", name="read", output="notes.md does not exist.\nmore", is_error=True),
            "tool read failed: notes.md does not exist.",
        ),
        (
            events.ToolFinished(
                call_id="1",
                name="memory_search",
                output="{}",
                summary="2 hits",
                details={"results": [{"path": "memory/a.md", "startLine": 3}, {"path": "USER.md"}, "x"]},
            ),
            "tool memory_search done: 2 hits\n  memory/a.md:3\n  USER.md:1",
        ),
        (
            events.ToolFinished(call_id="1", name="grep", output="a.py:3: x\nb.py:4: y", summary="2 matches"),
            "tool grep done: 2 matches\n  a.py:3: x\n  b.py:4: y",
        ),
        (
            events.ToolFinished(
                call_id="1",
                name="shell",
                output="0\n1\n2\n3\n4\n5\n6\n7\x1b[2J\n[exit 1]\n",
                is_error=True,
                summary="exit 1",
            ),
            "tool shell failed: exit 1\n  1\n  2\n  3\n  4\n  5\n  6\n  7\n  [exit 1]",
        ),
        (
            events.MemoryWritten(path="memory/2026-11-20.md", line=4, end_line=4, bytes=9),
            "memory: 1 line to memory/2026-11-20.md, from line 4",
        ),
        (
            events.CompactionFinished(trigger="manual", status="done", tokens_before=182_000, tokens_after=41_000),
            "earlier turns are summarised: 182,000 to 41,000 tokens",
        ),
        (
            events.CompactionFinished(trigger="manual", status="failed", error="The model is away."),
            "earlier turns could not be summarised: The model is away.",
        ),
        (events.ModelRetry(attempt=2, wait=0.25, reason="Overloaded."), "Overloaded. Trying again in 1 s."),
        (events.ModelRetry(attempt=3, wait=14.3, reason="Overloaded."), "Overloaded. Trying again in 15 s."),
        (events.Notice(level="warning", text="No key.", path="a.md", line=3), "warning: No key. (a.md:3)"),
        (events.TurnEnded(status="failed", error="No answer.", hint="/model"), "failed: No answer. /model"),
        (events.TextWithdrawn(text="hm"), "the text above was the model's thinking"),
        (events.TurnEnded(status="interrupted"), "interrupted; what was said is kept"),
        (stepped(events.ToolStarted(call_id="2", name="read", title="read a.py")), "sub-agent “about a”: read a.py"),
        (
            events.ModelChanged(model="b", reason="a failed", discard=True),
            "b answers: a failed; the text above is withdrawn",
        ),
    ],
)
def test_each_change_is_a_line(event: events.Event, line: str, capsys: pytest.CaptureFixture[str]) -> None:
    EventPrinter().print(event)
    assert capsys.readouterr().out == f"{line}\n"


@pytest.mark.parametrize(
    "event",
    [
        events.TurnEnded(status="done"),
        events.ContextUsed(tokens=1, window=2, exact=True),
        events.MessageQueued(text="a", position=1),
        stepped(events.ToolFinished(call_id="2", name="read", output="x")),
    ],
)
def test_what_means_nothing_to_the_user_is_no_line(event: events.Event, capsys: pytest.CaptureFixture[str]) -> None:
    EventPrinter().print(event)
    assert capsys.readouterr().out == ""


def test_an_answer_behind_a_thought_and_one_that_was_cut_off(capsys: pytest.CaptureFixture[str]) -> None:
    printer = EventPrinter()
    for event in (
        events.TextDelta(text="hm"),
        events.TextWithdrawn(text="hm"),
        events.MessageFinished(entry_id="1", text="It is te", stop_reason="length"),
    ):
        printer.print(event)
    lines = ["hm", "the text above was the model's thinking", "It is te", CUT_OFF]
    assert capsys.readouterr().out.splitlines() == lines


def test_an_answer_streams_and_is_told_once(capsys: pytest.CaptureFixture[str]) -> None:
    printer = EventPrinter()
    printer.prompt("> ")
    printer.entered()
    for event in (
        events.ReasoningDelta(text="hm"),
        events.ReasoningDelta(text="hm"),
        events.TextDelta(text="It is "),
        events.TextDelta(text="tea."),
        events.MessageFinished(entry_id="1", text="It is tea.", stop_reason="stop"),
        events.MessageFinished(entry_id="2", text="Without a stream.", stop_reason="stop"),
    ):
        printer.print(event)
    assert capsys.readouterr().out == "> thinking\nIt is tea.\nWithout a stream.\n"
