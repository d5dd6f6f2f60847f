"""What happens beside the turns: resets by the clock, notes that are kept and renamed, notes that are quoted."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec import structs

from clawbot.agent.events import (
    CommandOutput,
    Event,
    MemoryWritten,
    MessageFinished,
    MessageQueued,
    NoteKept,
    NotesQuoted,
    Notice,
    SessionChanged,
    TextDelta,
    TurnEnded,
    TurnStarted,
)
from clawbot.config.schema import ResetSettings, SessionSettings, Settings
from clawbot.sessions.conversation import NOTES, HistoryItem
from clawbot.sessions.entries import CustomMessageEntry
from clawbot.tui.app import ClawbotApp
from clawbot.tui.earlier import load_items
from clawbot.tui.render.housekeeping import KeptItem, QuoteItem
from clawbot.tui.render.items import Page
from clawbot.tui.render.lines import width_of
from clawbot.tui.render.markdown import markdown_blocks
from clawbot.tui.render.markdown_blocks import Lexers
from clawbot.tui.screens.editor import EditorScreen
from clawbot.tui.transcript import session_line
from clawbot.tui.turns import EventOrder
from tests.tui.chat_host import chatting, page_text, screen_text, send, until
from tests.tui.fake_runtime import NOW, FakeRuntime, Hold, RuntimeStatus, conversation, reply

NOTE = "memory/2026-11-20-api-plan.md"
CHINESE_NOTE = "memory/2026-11-20-代理端口.md"
QUOTE = "**memory/2026-11-19.md**\n\n> the proxy moved to 8443\n\n**memory/2026-11-18.md**\n\n> 我喜欢制表符 🎉\n"
QUOTED = NotesQuoted(entry_id="q1", files=("memory/2026-11-19.md", "memory/2026-11-18.md"), text=QUOTE)
FOLDED = f"notes: 2 files, {len(QUOTE)} characters · ctrl+o to read"
STAMP = int(NOW.timestamp() * 1000)


def changed(reason: str = "daily", session_id: str = "1a2b3c4d5e6f") -> SessionChanged:
    return SessionChanged(session_key="main", session_id=session_id, reason=reason)


def kept(path: str = NOTE, was: str = "") -> NoteKept:
    return NoteKept(session_id="5f0c1d2e", path=path, was=was)


def in_order(app: ClawbotApp, *texts: str) -> bool:
    """Whether all of `texts` stand on the page, each once and in this order."""
    page = page_text(app)
    places = [page.find(text) for text in texts]
    return -1 not in places and places == sorted(places) and all(page.count(text) == 1 for text in texts)


# When it is shown


async def test_a_reset_by_the_clock_is_a_divider_and_what_is_typed_stays(tmp_path: Path) -> None:
    runtime = FakeRuntime(tmp_path, history=conversation(1))
    async with chatting(runtime, (100, 24)) as (app, pilot):
        await until(pilot, lambda: runtime.measures == 1)
        app.chat.composer.prompt.take("half a sentence, 半句话")
        runtime.measured = RuntimeStatus(tokens=9_000)
        runtime.tell(changed())
        runtime.tell(kept())
        await until(pilot, lambda: in_order(app, "Answer 0", f"─ new day, new conversation · kept: {NOTE} ──"))
        await until(pilot, lambda: "4% 9.0k/200k" in screen_text(app))
        assert runtime.measures == 2
        assert app.chat.composer.prompt.text == "half a sentence, 半句话"


async def test_what_happens_during_a_turn_is_told_after_it(tmp_path: Path) -> None:
    hold = Hold()
    runtime = FakeRuntime(tmp_path, turns=[[*reply("first half"), hold, *reply("second half")]])
    async with chatting(runtime) as (app, pilot):
        await send(app, pilot, "go")
        await hold.reached.wait()
        runtime.tell(Notice(level="warning", text="the hook greet failed"))
        runtime.tell(kept())
        await pilot.pause()
        assert "greet" not in page_text(app)
        hold.release()
        await until(pilot, lambda: in_order(app, "first half", "second half", "the hook greet failed", NOTE))


async def test_what_comes_in_the_middle_of_an_answer_stands_below_it(tmp_path: Path) -> None:
    answer = MessageFinished(entry_id="m1", text="one sentence", stop_reason="stop")
    notice = Notice(level="warning", text="the hook greet failed")
    turn = [TextDelta(text="one "), notice, kept(), TextDelta(text="sentence"), answer, *reply("the rest")]
    async with chatting(FakeRuntime(tmp_path, turns=[turn])) as (app, pilot):
        await send(app, pilot, "go")
        await until(pilot, lambda: "the rest" in page_text(app))
        assert in_order(app, "one sentence", "greet", NOTE, "the rest")


async def test_it_is_told_between_two_turns_though_the_next_one_waits(tmp_path: Path) -> None:
    hold = Hold()
    runtime = FakeRuntime(tmp_path, turns=[[hold, *reply("answer one")], reply("answer two")])
    async with chatting(runtime) as (app, pilot):
        await send(app, pilot, "one")
        await hold.reached.wait()
        app.chat.turns.submit("two")
        await until(pilot, lambda: bool(app.chat.turns.queued))
        runtime.tell(kept())
        hold.release()
        await until(pilot, lambda: in_order(app, "answer one", NOTE, "answer two"))


def test_what_happened_before_a_turn_stands_above_it_though_the_screen_comes_to_it_later() -> None:
    shown: list[Event] = []
    order = EventOrder(shown.append, lambda: False, lambda catch_up: None)
    started = TurnStarted(text="hi", session_key="main", session_id="s", model="offline")
    order.out_of_band(changed())
    order.submitted(started)
    order.out_of_band(kept())
    assert shown == [changed(), started]
    ended = TurnEnded(status="done")
    order.submitted(ended)
    assert shown == [changed(), started, ended, kept()]


async def test_a_new_session_at_the_next_message_is_told_before_the_words_that_open_it(tmp_path: Path) -> None:
    runtime = FakeRuntime(tmp_path, history=conversation(1))
    runtime.settings = Settings(session=SessionSettings(reset=ResetSettings(mode="idle")))
    runtime.before = [changed("idle"), kept(), QUOTED]
    async with chatting(runtime, (100, 30)) as (app, pilot):
        await send(app, pilot, "早上好")
        await until(pilot, lambda: "You said: 早上好" in page_text(app))
        line = "new conversation after 60 quiet minutes · kept: "
        assert in_order(app, "Answer 0", line, "plan.md · notes: 2 files ─", "▌ 早上好")
        assert "8443" not in page_text(app)
        await pilot.press("ctrl+o")
        await until(pilot, lambda: "the proxy moved to 8443" in page_text(app))


async def test_words_are_seen_while_memory_takes_what_came_before_them(tmp_path: Path) -> None:
    hold = Hold()
    runtime = FakeRuntime(tmp_path)
    runtime.before = [MessageQueued(text="早上好", position=0, unsent_id="kept"), hold, changed("idle")]
    async with chatting(runtime) as (app, pilot):
        await send(app, pilot, "早上好")
        await hold.reached.wait()
        assert "早上好" not in screen_text(app)
        runtime.save(True)
        await until(pilot, lambda: "sending: 早上好" in screen_text(app) and "esc skips" in screen_text(app))
        app.chat.turns.submit("and this")
        await until(pilot, lambda: "queued: and this   alt+up takes it back" in screen_text(app))
        assert app.chat.turns.recall() == "and this"
        assert app.chat.turns.recall() is None
        runtime.save(False)
        hold.release()
        await until(pilot, lambda: "You said: 早上好" in page_text(app))
        assert "sending" not in screen_text(app)


async def test_words_that_are_not_on_disk_yet_are_not_seen_while_memory_is_asked(tmp_path: Path) -> None:
    hold, asked = Hold(), Hold()
    runtime = FakeRuntime(tmp_path)
    runtime.before = [asked, MessageQueued(text="早上好", position=0, unsent_id="kept"), hold]
    async with chatting(runtime) as (app, pilot):
        runtime.save(True)
        await send(app, pilot, "早上好")
        await asked.reached.wait()
        await pilot.pause()
        assert "早上好" not in screen_text(app)
        asked.release()
        await until(pilot, lambda: "sending: 早上好" in screen_text(app))
        hold.release()
        await until(pilot, lambda: "You said: 早上好" in page_text(app))


async def test_words_whose_turn_was_stopped_before_it_began_go_back_into_the_prompt(tmp_path: Path) -> None:
    hold = Hold()
    runtime = FakeRuntime(tmp_path)
    runtime.before = [changed("idle"), hold]
    async with chatting(runtime) as (app, pilot):
        await send(app, pilot, "my words")
        await hold.reached.wait()
        await pilot.press("escape")
        await until(pilot, lambda: app.chat.composer.prompt.text == "my words")
        assert "   my words" not in page_text(app)


@pytest.mark.parametrize(
    ("reason", "minutes", "text"),
    [
        ("daily", None, "new day, new conversation"),
        ("idle", 60, "new conversation after 60 quiet minutes"),
        ("idle", 1, "new conversation after 1 quiet minute"),
        ("idle", 1_440, "new conversation after 1,440 quiet minutes"),
        ("idle", None, "new conversation after a quiet while"),
        ("/new", 60, "new conversation"),
        ("resume", None, "conversation resumed"),
    ],
)
def test_why_a_session_begins(reason: str, minutes: int | None, text: str) -> None:
    assert session_line(changed(reason), minutes) == text


async def test_the_pause_is_the_one_of_the_settings(tmp_path: Path) -> None:
    runtime = FakeRuntime(tmp_path)
    runtime.settings = Settings(session=SessionSettings(reset=ResetSettings(mode="daily+idle", idle_minutes=90)))
    async with chatting(runtime) as (app, pilot):
        runtime.tell(changed("idle"))
        await until(pilot, lambda: "after 90 quiet minutes" in page_text(app))


@pytest.mark.few(1)
@pytest.mark.parametrize("note_first", [True, False])
async def test_new_says_it_by_its_line_and_then_the_note_and_the_words(tmp_path: Path, note_first: bool) -> None:
    written = MemoryWritten(path="memory/2026-11-20.md", line=1, end_line=3, bytes=90)
    ending: list[Event] = [kept(), changed("/new")] if note_first else [changed("/new"), kept()]
    async with chatting(FakeRuntime(tmp_path)) as (app, pilot):
        started = TurnStarted(text="/new fix the tests", session_key="main", session_id="s", model="offline")
        events: list[Event] = [started, written, *ending]
        for event in (*events, CommandOutput(command="/new", text="New conversation started.")):
            app.chat.order.submitted(event)
        app.chat.order.submitted(structs.replace(started, text="fix the tests"))
        app.chat.order.submitted(TurnEnded(status="done"))
        await pilot.pause()
        memory, line = "memory: 3 lines", "new conversation"
        assert in_order(app, "▌ /new\n", memory, f"{line} · kept: {NOTE}", "▌ fix the tests")
        assert "New session started" not in page_text(app)


async def test_each_note_stands_below_the_line_that_ended_its_session(tmp_path: Path) -> None:
    runtime = FakeRuntime(tmp_path)
    async with chatting(runtime) as (app, pilot):
        for event in (kept("memory/a.md"), changed("daily", "11111111"), changed("idle", "22222222")):
            runtime.tell(event)
        runtime.tell(kept("memory/b.md"))
        await until(pilot, lambda: in_order(app, "new day, new conversation · kept", "memory/a.md", "quiet", "b.md"))


# The line of a note


async def test_a_kept_note_opens_with_enter_and_with_a_click(tmp_path: Path) -> None:
    runtime = FakeRuntime(tmp_path, files={NOTE: "# Session\n"})
    async with chatting(runtime) as (app, pilot):
        runtime.tell(kept())
        await until(pilot, lambda: NOTE in screen_text(app))
        await pilot.press("f6", "enter")
        await until(pilot, lambda: isinstance(app.screen, EditorScreen) and "# Session" in screen_text(app))
        await pilot.press("escape")
        await until(pilot, lambda: app.screen is app.chat)
        rows = screen_text(app).split("\n")
        row = next(number for number, line in enumerate(rows) if NOTE in line)
        await pilot.click(offset=(rows[row].index("api-plan"), row))
        await until(pilot, lambda: isinstance(app.screen, EditorScreen))


async def test_a_note_that_gets_another_name_is_told_in_its_line(tmp_path: Path) -> None:
    runtime = FakeRuntime(tmp_path, files={CHINESE_NOTE: "# 会话\n"})
    async with chatting(runtime) as (app, pilot):
        runtime.tell(kept("memory/2026-11-20-1041.md"))
        await until(pilot, lambda: "2026-11-20-1041" in page_text(app))
        runtime.tell(Notice(level="info", text="something else"))
        runtime.tell(kept(CHINESE_NOTE, was="memory/2026-11-20-1041.md"))
        await until(pilot, lambda: in_order(app, f"kept: {CHINESE_NOTE}", "something else"))
        assert "1041" not in page_text(app)
        await pilot.press("f6", "enter")
        await until(pilot, lambda: isinstance(app.screen, EditorScreen) and "# 会话" in screen_text(app))


async def test_the_new_name_of_a_note_whose_line_is_gone_is_no_line(tmp_path: Path) -> None:
    runtime = FakeRuntime(tmp_path)
    async with chatting(runtime) as (app, pilot):
        runtime.tell(kept(was="memory/2026-11-20-1041.md"))
        runtime.tell(Notice(level="info", text="the end"))
        await until(pilot, lambda: "the end" in page_text(app))
        assert "kept" not in page_text(app)


@pytest.mark.parametrize("width", [20, 60, 200])
@pytest.mark.parametrize("path", [NOTE, CHINESE_NOTE, "memory/" + "very-" * 50 + "long.md"])
def test_the_line_of_a_note_is_as_wide_as_the_page(path: str, width: int) -> None:
    (line,) = KeptItem("s", path, joined=True).lines(Page(width, Lexers()))
    assert width_of(line.text) <= width
    assert any(span.link == f"note:{path}:1" for span in line.spans)


# The quote of notes


async def test_quoted_notes_are_one_line_that_unfolds(tmp_path: Path) -> None:
    async with chatting(FakeRuntime(tmp_path)) as (app, pilot):
        app.chat.order.submitted(QUOTED)
        await until(pilot, lambda: FOLDED in page_text(app))
        assert "8443" not in page_text(app)
        await pilot.press("ctrl+o")
        await until(pilot, lambda: "the proxy moved to 8443" in page_text(app) and "我喜欢制表符 🎉" in page_text(app))
        await pilot.press("ctrl+o")
        await until(pilot, lambda: "8443" not in page_text(app))
        rows = screen_text(app).split("\n")
        row = next(number for number, line in enumerate(rows) if FOLDED in line)
        await pilot.click(offset=(8, row))
        await until(pilot, lambda: "8443" in page_text(app))


def test_quoted_notes_look_the_same_when_they_are_restored() -> None:
    entry = CustomMessageEntry(custom_type=NOTES, content=QUOTE, details={"files": list(QUOTED.files)})
    (item,) = load_items([HistoryItem("q1", STAMP, note="notes", quote=entry)], None)
    assert isinstance(item, QuoteItem)
    item.unfolded = True
    live = QuoteItem(markdown_blocks(QUOTE), files=2, characters=len(QUOTE), unfolded=True)
    assert [line.text for line in item.lines(Page(80, Lexers()))] == [
        line.text for line in live.lines(Page(80, Lexers()))
    ]


@pytest.mark.parametrize(
    ("files", "said"),
    [(1, "notes: 1 file, 5 characters"), (0, "notes: 5 characters"), (12, "notes: 12 files, 5 characters")],
)
def test_how_much_is_quoted(files: int, said: str) -> None:
    item = QuoteItem(markdown_blocks("hello"), files=files, characters=5)
    assert item.texts() == [said]
    assert all(width_of(line.text) <= 24 for line in item.lines(Page(24, Lexers())))
