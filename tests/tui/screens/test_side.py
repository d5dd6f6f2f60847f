"""The side panel of wide screens: what its rows say, what they open, and when it is there at all."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace
from textual.events import MouseScrollUp
from textual.pilot import Pilot

from clawbot.agent.events import Event, MessageFinished, PlanReady, SessionChanged, TextDelta, ToolFinished, ToolStarted
from clawbot.config.schema import Settings
from clawbot.errors import ClawbotError
from clawbot.messages import AssistantMessage, TextBlock, UserMessage
from clawbot.sessions.conversation import HistoryItem
from clawbot.tui.app import ClawbotApp
from clawbot.tui.render.call_titles import CardState
from clawbot.tui.render.cards import NoteHit, ToolItem
from clawbot.tui.render.housekeeping import MemoryItem
from clawbot.tui.render.items import FOLD, Item, MarkdownItem
from clawbot.tui.render.markdown import markdown_blocks
from clawbot.tui.screens.editor import EditorScreen
from clawbot.tui.screens.panel_rows import PanelState, UsedNote, changed_files, panel_rows, plan_steps, used_notes
from clawbot.tui.screens.side import NARROWEST, PAGE_COLUMNS, WIDEST, panel_width
from clawbot.tui.screens.side_panel import SidePanel
from clawbot.tui.widgets.status_line import Gauge
from tests.tui.chat_host import chatting, screen_text, send, until
from tests.tui.fake_runtime import NOW, FakeRuntime, Hold, context_report, conversation, summary

WIDE = (150, 40)
NOTE = "memory/2026-10-02.md"
HITS = [
    {"path": NOTE, "startLine": 13, "snippet": "# Proxy\n- staging moved to 8443"},
    {"path": "MEMORY.md", "startLine": 31, "snippet": "hosts: proxy.stg"},
]
SEARCH: list[Event] = [
    ToolStarted(call_id="c1", name="memory_search", title="memory_search proxy", arguments={"query": "proxy"}),
    ToolFinished(call_id="c1", name="memory_search", output="", details={"results": HITS, "notes": []}),
]
ANSWER = f"**8443** (`{NOTE}:14`)."


def said(text: str) -> list[Item]:
    return [MarkdownItem(block) for block in markdown_blocks(text)]


def searched(*hits: NoteHit) -> ToolItem:
    return ToolItem("memory_search", "memory_search x", output="", state="done", hits=hits)


def places(notes: list[UsedNote]) -> list[str]:
    return [f"{note.path}:{note.line} {note.use} {note.text}".rstrip() for note in notes]


def test_the_place_that_an_answer_names_comes_first_with_its_own_words() -> None:
    hits = searched(NoteHit(NOTE, 13, "# Proxy\n- moved to 8443"), NoteHit("MEMORY.md", 31, "hosts"))
    assert places(used_notes([hits])) == [f"{NOTE}:13 found # Proxy\n- moved to 8443", "MEMORY.md:31 found hosts"]
    assert places(used_notes([hits, *said(ANSWER)])) == [
        f"{NOTE}:14 quoted - moved to 8443",
        "MEMORY.md:31 found hosts",
    ]
    table = f"| a | b |\n|---|---|\n| x | {NOTE}:14 |"
    assert places(used_notes(said(table))) == [f"{NOTE}:14 quoted"]


def test_a_note_is_listed_once_and_as_what_it_was_used_for_most() -> None:
    hits = searched(NoteHit(NOTE, 14, "- moved"), NoteHit("sessions/x.jsonl", 2, "said"))
    again = [hits, *said(f"see {NOTE}:14"), searched(NoteHit("USER.md", 1, "Ada")), hits]
    assert places(used_notes(again)) == [f"{NOTE}:14 quoted - moved", "USER.md:1 found Ada"]


def test_what_was_read_and_written_is_used_too() -> None:
    wrote = ToolItem("append", f"append {NOTE}", {"path": NOTE}, state="done", location=NoteHit(NOTE, 9, "- new"))
    whole = ToolItem("read", "read MEMORY.md", {"path": "MEMORY.md"}, state="done")
    code = ToolItem("read", "read a.py", {"path": "a.py"}, state="done")
    failed = ToolItem("read", "read USER.md", {"path": "USER.md"}, state="failed")
    passage = ToolItem("memory_get", "memory_get x", {"path": "x"}, state="done", excerpt=NoteHit("USER.md", 7, "Ada"))
    flushed = MemoryItem("memory/2026-11-20.md", 3, 2)
    change = ToolItem("edit", "edit USER.md", {"path": "USER.md"}, state="done")
    change.diff = "--- a\n+++ b\n@@ -1,2 +1,4 @@\n # User\n-Ada\n+## Name\n+\n+Ada L.\n"
    assert places(used_notes([wrote, whole, code, failed, passage, flushed, change])) == [
        "USER.md:4 written Ada L.",
        "memory/2026-11-20.md:3 written", "USER.md:7 read Ada", "MEMORY.md:1 read", f"{NOTE}:9 written - new",
    ]  # fmt: skip


def changed(path: str, added: int, removed: int, state: CardState = "done") -> ToolItem:
    item = ToolItem("edit", f"edit {path}", {"path": path}, state=state)
    item.diff = f"--- a\n+++ b\n@@ -7,{removed} +7,{added} @@\n" + "-old\n" * removed + "+new\n" * added
    return item


def test_a_changed_file_is_listed_once_with_all_its_lines_and_no_note_is() -> None:
    items = [changed("a.py", 2, 1), changed("b.py", 1, 0), changed(NOTE, 3, 0), changed("a.py", 0, 4)]
    found = changed_files([*items, changed("c.py", 1, 1, "failed")])
    assert [f"{file.path}:{file.line} +{file.added} -{file.removed}" for file in found] == [
        "a.py:7 +2 -5",
        "b.py:7 +1 -0",
    ]


def test_the_steps_of_a_plan_are_the_entries_of_its_lists() -> None:
    plan = "# Plan\n\nFirst this:\n1. **move** the port\n2) run `make test`\n  - and look\n\nThat is all."
    assert plan_steps(plan) == ["move the port", "run make test", "and look"]


def test_the_plan_and_the_changed_files_are_above_the_notes_and_the_figures_of_the_window_are_folded() -> None:
    files = changed_files([changed("src/a.py", 2, 1)])
    state = PanelState(LONG[:1], Gauge(122_000, 200_000), context_report(), LAST, plan=["move the port"], files=files)
    texts = [row.content.plain.split("  ")[0] for row in panel_rows(state, 50, 40, NOW)]
    wanted = [
        "Plan",
        "1. move the port",
        "Changed files",
        "src/a.py",
        "Notes in this conversation",
        "▸ Context",
        "Last conversations",
    ]
    assert [text for text in texts if text in wanted] == wanted
    assert not any("system prompt" in text for text in texts)
    rows = panel_rows(replace(state, figures=True), 50, 40, NOW)
    assert any("system prompt" in row.content.plain for row in rows)


LONG = [UsedNote(f"memory/{'very-' * 12}long-name-{n}.md", 1000 + n, "很长的一行" * 20, "found") for n in range(30)]
LAST = [summary(n, "东京旅行的计划和预算" * n) for n in range(1, 9)]


@pytest.mark.parametrize("width", [24, 41, 57])
def test_no_row_is_wider_than_the_panel_and_every_line_number_can_be_read(width: int) -> None:
    state = PanelState(LONG, Gauge(122_000, 200_000, exact=False), context_report(), LAST, unfolded=True, figures=True)
    rows = panel_rows(state, width, 40, NOW)
    assert all(row.content.cell_length <= width for row in rows)
    for note in LONG:
        assert any(
            f"….md:{note.line}" in row.content.plain or f"{note.line - 1000}.md:{note.line}" in row.content.plain
            for row in rows
        )


@pytest.mark.parametrize("height", [24, 40, 60])
def test_the_notes_leave_room_for_the_rest_and_unfold(height: int) -> None:
    state = PanelState(LONG, Gauge(122_000, 200_000), context_report(), LAST, figures=True)
    rows = panel_rows(state, 40, height, NOW)
    more = next(row for row in rows if row.target == FOLD)
    hidden = int(more.content.plain.split()[1])
    assert len(rows) <= max(height, 27)
    assert sum(row.target.startswith("note:") for row in rows) == 2 * (30 - hidden)
    text = "\n".join(row.content.plain for row in rows)
    assert all(part in text for part in ("Last conversations", "next: flush in 53,955 tokens", "┊"))
    everything = panel_rows(PanelState(LONG, unfolded=True), 40, height, NOW)
    assert sum(row.target.startswith("note:") for row in everything) == 60


def test_the_talk_keeps_its_width_and_the_panel_gets_the_rest() -> None:
    assert [panel_width(columns) for columns in (80, 149, 150, 175, 200, 300)] == [
        0, 0, NARROWEST, 51, WIDEST, WIDEST,
    ]  # fmt: skip
    assert 150 - NARROWEST >= 100
    assert PAGE_COLUMNS + WIDEST <= 200


def make_runtime(home: Path) -> FakeRuntime:
    turn: list[Event | Hold] = [
        *SEARCH,
        TextDelta(text=ANSWER),
        MessageFinished(entry_id="m1", text=ANSWER, stop_reason="stop"),
    ]
    runtime = FakeRuntime(home, turns=[turn], sessions=[summary(2, "the release checklist"), summary(3, "", turns=0)])
    runtime.report = context_report()
    runtime.files = {NOTE: "line\n" * 30}
    return runtime


def panel_of(app: ClawbotApp) -> SidePanel:
    assert app.chat.side.panel is not None
    return app.chat.side.panel


async def row_of(app: ClawbotApp, pilot: Pilot[object], text: str) -> tuple[int, int]:
    """Where on the screen a row of the panel with `text` stands."""

    def found() -> list[int]:
        left = panel_of(app).region.x
        return [at for at, row in enumerate(screen_text(app).splitlines()) if text in row[left:]]

    await until(pilot, lambda: app.chat.side.panel is not None and bool(found()))
    return panel_of(app).region.x + 3, found()[0]


async def test_a_note_of_the_talk_opens_at_its_line_by_a_click(tmp_path: Path) -> None:
    async with chatting(make_runtime(tmp_path), WIDE) as (app, pilot):
        await send(app, pilot, "which port?")
        place = await row_of(app, pilot, f"{NOTE}:14")
        assert "quoted" in screen_text(app).splitlines()[place[1]]
        assert "staging moved to 8443" in screen_text(app).splitlines()[place[1] + 1]
        await pilot.click(offset=place)
        await until(pilot, lambda: isinstance(app.screen, EditorScreen))
        assert isinstance(app.screen, EditorScreen)
        assert (app.screen.file, app.screen.line) == (NOTE, 14)
        assert app.chat.focused is app.chat.composer.prompt


async def test_the_keys_get_to_the_panel_by_f6_alone_and_type_on_into_the_prompt(tmp_path: Path) -> None:
    async with chatting(make_runtime(tmp_path), WIDE) as (app, pilot):
        await send(app, pilot, "which port?")
        await row_of(app, pilot, f"{NOTE}:14")
        await pilot.press("f6")
        await until(pilot, lambda: app.chat.focused is app.chat.page)
        await pilot.press("f6")
        await until(pilot, lambda: app.chat.side.has_focus)
        await pilot.press("down", "down", "up", "enter")
        await until(pilot, lambda: isinstance(app.screen, EditorScreen))
        await pilot.press("escape")
        await until(pilot, lambda: app.screen is app.chat)
        await pilot.press("x")
        await until(pilot, lambda: app.chat.composer.prompt.text == "x")
        assert not app.chat.side.has_focus
        await pilot.press("f6", "f6", "escape")
        await until(pilot, lambda: app.chat.focused is app.chat.composer.prompt)


async def test_a_session_is_resumed_by_a_click(tmp_path: Path) -> None:
    runtime = make_runtime(tmp_path)
    async with chatting(runtime, WIDE) as (app, pilot):
        place = await row_of(app, pilot, "the release checklist")
        assert "nothing said" not in screen_text(app)
        await pilot.click(offset=place)
        await until(pilot, lambda: runtime.resumed == ["00000002"])


async def test_below_150_columns_nothing_is_made_or_asked(tmp_path: Path) -> None:
    runtime = make_runtime(tmp_path)
    runtime.faults["context_report"] = AssertionError("nobody looks")
    async with chatting(runtime, (149, 40)) as (app, pilot):
        await send(app, pilot, "which port?")
        await until(pilot, lambda: not app.chat.turns.busy and "8443" in screen_text(app))
        assert app.chat.side.panel is None
        await pilot.press("f5")
        await until(pilot, lambda: "the side panel needs 150 columns" in screen_text(app))
        runtime.faults.clear()
        await pilot.resize_terminal(150, 40)
        await row_of(app, pilot, f"{NOTE}:14")
        await pilot.resize_terminal(149, 40)
        await until(pilot, lambda: "Notes in this conversation" not in screen_text(app))


async def test_the_key_and_the_setting_hide_it(tmp_path: Path) -> None:
    runtime = make_runtime(tmp_path)
    runtime.settings = Settings.model_validate({"tui": {"panel": "off", "keys": {"panel": "f9"}}})
    async with chatting(runtime, WIDE) as (app, pilot):
        await send(app, pilot, "which port?")
        await until(pilot, lambda: not app.chat.turns.busy and "8443" in screen_text(app))
        assert "Notes in this conversation" not in screen_text(app)
        await pilot.press("f9")
        await row_of(app, pilot, f"{NOTE}:14")
        await pilot.press("f9")
        await until(pilot, lambda: "Notes in this conversation" not in screen_text(app))


async def test_what_is_slow_or_fails_holds_nobody_up(tmp_path: Path) -> None:
    runtime = make_runtime(tmp_path)
    hold = runtime.holds["context_report"] = Hold()
    runtime.items = conversation(1)
    runtime.faults["sessions"] = ClawbotError("The disk is gone.")
    async with chatting(runtime, WIDE) as (app, pilot):
        await until(pilot, hold.reached.is_set)
        await pilot.press(*"typed")
        await until(pilot, lambda: app.chat.composer.prompt.text == "typed")
        assert "61% · 122k/200k" in screen_text(app)
        await pilot.click(offset=await row_of(app, pilot, "▸ Context"))
        assert "system prompt" not in screen_text(app)
        hold.release()
        await until(pilot, lambda: "system prompt" in screen_text(app))
        assert "Last conversations" not in screen_text(app)


async def test_the_window_is_counted_anew_after_a_turn(tmp_path: Path) -> None:
    runtime = make_runtime(tmp_path)
    async with chatting(runtime, WIDE) as (app, pilot):
        await send(app, pilot, "which port?")
        await pilot.click(offset=await row_of(app, pilot, "▸ Context"))
        await row_of(app, pilot, "71,033")
        parts = [replace(part, tokens=71_999) if part.key == "messages" else part for part in runtime.report.parts]
        runtime.report = context_report(parts=tuple(parts))
        await send(app, pilot, "which port?")
        await row_of(app, pilot, "71,999")


async def test_a_plan_stays_in_the_panel_until_the_session_changes(tmp_path: Path) -> None:
    async with chatting(make_runtime(tmp_path), WIDE) as (app, pilot):
        await send(app, pilot, "which port?")
        await row_of(app, pilot, f"{NOTE}:14")
        app.chat.side.take(PlanReady(plan="- move the port", acceptance="yes"))
        await row_of(app, pilot, "1. move the port")
        app.chat.side.take(SessionChanged(session_key="main", session_id="5f0c1d2f", reason="/new"))
        await until(pilot, lambda: "1. move the port" not in screen_text(app))


async def test_a_plan_of_before_the_start_is_read_back(tmp_path: Path) -> None:
    runtime = make_runtime(tmp_path)
    plan = AssistantMessage(content=[TextBlock("## Plan\n\n1. move the port")])
    runtime.items += [
        HistoryItem("p1", 0, UserMessage(content="plan it", planning=True)),
        HistoryItem("p2", 0, plan),
        *conversation(40),
    ]
    async with chatting(runtime, WIDE) as (app, pilot):
        await row_of(app, pilot, "1. move the port")
        runtime.items.clear()
        runtime.tell(SessionChanged(session_key="main", session_id="5f0c1d2f", reason="/new"))
        await until(pilot, lambda: "1. move the port" not in screen_text(app))


async def test_another_session_has_notes_of_its_own(tmp_path: Path) -> None:
    runtime = make_runtime(tmp_path)
    async with chatting(runtime, WIDE) as (app, pilot):
        await send(app, pilot, "which port?")
        await row_of(app, pilot, f"{NOTE}:14")
        runtime.summaries.append(summary(1, "which port?"))
        runtime.tell(SessionChanged(session_key="main", session_id="5f0c1d2f", reason="/new"))
        await row_of(app, pilot, "which port?")
        await app.chat.reload()
        await until(pilot, lambda: "Context" not in screen_text(app) and "keys and commands" in screen_text(app))
        assert NOTE not in screen_text(app)


@pytest.mark.few(1)
@pytest.mark.parametrize(("columns", "left"), [(124, 0), (144, 10), (200, 7)])
async def test_the_talk_has_the_middle(tmp_path: Path, columns: int, left: int) -> None:
    async with chatting(make_runtime(tmp_path), (columns, 40)) as (app, pilot):
        await until(pilot, lambda: app.chat.side.panel is not None or columns < 150)
        await until(pilot, lambda: app.chat.header.region.x == left)
        region = app.chat.page.region
        assert region.width == 124
        right = panel_of(app).region.right if columns >= 150 else region.right
        assert abs(columns - right - left) <= 1


async def test_the_wheel_reaches_what_has_no_room(tmp_path: Path) -> None:
    async with chatting(make_runtime(tmp_path), (150, 20)) as (app, pilot):
        await send(app, pilot, "which port?")
        await row_of(app, pilot, f"{NOTE}:14")
        await pilot.click(offset=await row_of(app, pilot, "▸ Context"))
        await until(pilot, lambda: "Last conversations" not in screen_text(app))
        left = panel_of(app).region.x
        await pilot.press("f6", "f6", *["down"] * 6)
        await until(pilot, lambda: "the release checklist" in screen_text(app).splitlines()[-1][left:])
        await pilot._post_mouse_events([MouseScrollUp], offset=(left + 3, 3))
        await until(pilot, lambda: "the release checklist" not in screen_text(app).splitlines()[-1][left:])
