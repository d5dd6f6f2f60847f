"""The card of a sub-agent: what it does now, its calls, its report; several side by side."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from clawbot.agent.events import ApprovalRequested, Event, SubagentStep, ToolFinished, ToolStarted
from clawbot.text.interface import InterfaceLanguage, set_language
from clawbot.tui.render.cards import SubagentRun, ToolItem, take_details
from clawbot.tui.render.items import Page
from clawbot.tui.render.lines import width_of
from clawbot.tui.render.markdown_blocks import Lexers
from clawbot.tui.render.question import Seen, view_of
from tests.tables import load_table
from tests.tui.chat_host import chatting, screen_text, send, until
from tests.tui.fake_runtime import FakeRuntime, reply

DETAILS = load_table(__file__, "DETAILS")


def begins(call: str, name: str) -> ToolStarted:
    return ToolStarted(call_id=call, name="task", title=f"task {name}", arguments={"description": name, "prompt": "go"})


def step(call: str, event: Any, calls: int = 1, tokens: int = 0) -> SubagentStep:
    return SubagentStep(parent_call_id=call, session_id="s1", description="x", calls=calls, tokens=tokens, step=event)


def reads(path: str) -> ToolStarted:
    return ToolStarted(call_id=f"u-{path}", name="read", title=f"read {path}")


def item(**values: Any) -> ToolItem:
    return ToolItem("task", "task find the todos", {"description": "find the todos"}, **values)


def lines_of(card: ToolItem, width: int = 80) -> list[str]:
    return [line.text.strip() for line in card.lines(Page(width, Lexers()))]


@pytest.mark.parametrize(
    ("language", "head", "working"),
    [
        ("en", "● Sub-agent at work: find the todos", "read a.py · 2 calls · 12,400 tokens"),
        ("zh", "● 子代理正在处理：find the todos", "read a.py · 2 次调用 · 12,400 token"),
    ],
)
def test_while_it_works_one_line_tells_what_it_does(language: InterfaceLanguage, head: str, working: str) -> None:
    set_language(language)
    card = item()
    card.subagent = SubagentRun()
    card.subagent.take(step("t", reads("b.py"), calls=1))
    card.subagent.take(step("t", ToolFinished(call_id="u-b.py", name="read", output="x"), calls=1))
    card.subagent.take(step("t", reads("a.py"), calls=2, tokens=12_400))
    lines = lines_of(card)
    assert lines[1].startswith(head)
    assert lines[2] == working


@pytest.mark.parametrize("width", [40, 60, 200])
def test_no_line_is_wider_than_the_page_and_the_figures_stay(width: int) -> None:
    card = item(unfolded=True)
    card.subagent = SubagentRun()
    card.subagent.take(step("t", reads("很长的" * 60), calls=12, tokens=400_000))
    shown = card.lines(Page(width, Lexers()))
    assert all(width_of(line.text) <= width for line in shown)
    assert shown[2].text.endswith("12 calls · 400,000 tokens")


def test_done_it_tells_how_much_it_did_and_unfolds_to_calls_and_report() -> None:
    card = item(output="All is **well**.", summary="5 calls, 12,400 tokens", state="done", milliseconds=3_400)
    take_details(card, DETAILS)
    assert lines_of(card)[1:] == [lines_of(card)[1]]
    assert lines_of(card)[1].startswith("✓ Sub-agent done: find the todos")
    assert lines_of(card)[1].endswith("5 calls · 12,400 tokens · 3.4 s")
    card.unfolded = True
    lines = lines_of(card)
    assert "✓ grep TODO  3 matches" in lines
    assert "✕ read a.py  failed" in lines
    assert "… 3 more calls" in lines
    assert lines[-1] == "All is **well**."


@pytest.mark.parametrize("found", [None, {}, {"subagent": 3}, {"subagent": {"calls": [1, {}], "count": "x"}}])
def test_foreign_details_break_nothing(found: Any) -> None:
    card = item(output="x", state="done", unfolded=True)
    take_details(card, found)
    assert lines_of(card)


@pytest.mark.parametrize("diff", ["", "--- a\n+++ b\n@@ -1 +1 @@\n-x\n+y\n"])
def test_a_question_names_the_sub_agent(diff: str) -> None:
    asked = ApprovalRequested(
        request_id="r",
        call_id="t",
        tool="shell",
        command="make",
        folder="/w",
        pattern="",
        diff=diff,
        by="find the todos",
    )
    assert "the sub-agent “find the todos” asks to" in view_of(asked, 80, 20, Seen()).lines[0].text


async def test_two_cards_run_side_by_side_and_unfold(tmp_path: Path) -> None:
    events: list[Event] = [
        begins("t0", "find the todos"),
        begins("t1", "count the tests"),
        step("t0", reads("a.py")),
        step("t1", reads("b.py")),
        step("nobody", reads("c.py")),
        ToolFinished(call_id="t1", name="task", output="There are 12.", duration_ms=1_000, details=DETAILS),
        ToolFinished(
            call_id="t0", name="task", output="It failed.", is_error=True, summary="failed", duration_ms=1_000
        ),
        *reply("Here it is."),
    ]
    async with chatting(FakeRuntime(tmp_path, turns=[events])) as (app, pilot):
        await send(app, pilot, "go")
        await until(pilot, lambda: "Here it is." in screen_text(app) and not app.chat.turns.busy)
        text = screen_text(app)
        assert "✓ Sub-agent done: count the tests" in text
        assert "✕ Sub-agent: find the todos" in text
        assert "c.py" not in text
        await pilot.press("ctrl+o")
        await until(pilot, lambda: "There are 12." in screen_text(app))
        assert "✓ grep TODO" in screen_text(app)
