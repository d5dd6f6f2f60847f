"""The search in the memory: what is asked when, what is shown of it, where Enter leads."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from textual.containers import VerticalScroll
from textual.pilot import Pilot
from textual.widgets import Input, OptionList, Static

from clawbot.errors import ClawbotError
from clawbot.history.blame import LineAuthor
from clawbot.memory.values import EVERY_SOURCE, Fallback, Progress, SearchResult, Source, session_of
from clawbot.sessions.text import Spoken
from clawbot.tui.screens import memory, passages
from clawbot.tui.screens.editor import EditorScreen
from clawbot.tui.screens.memory import MemoryScreen, is_note
from clawbot.tui.screens.passages import SessionTarget
from tests.tui.chat_host import PENDING, FixedClock, Host, Runtime, seen, showing, until
from tests.tui.fake_runtime import FakeMemory, Hold, found, hit, told

DAY = "# 2026-10-02\n\n- staging proxy moved to 8443;\n  8080 clashed with grafana\n- 数据库端口改成 5433\n"
FACTS = "".join(f"- fact {number}\n" for number in range(1, 201))
FILES = {"memory/2026-10-02.md": DAY, "memory/2025-09-18.md": "proxy on 8080\n", "MEMORY.md": FACTS, "AGENTS.md": ""}
PROXY = found(
    hit("memory/2026-10-02.md", 3, "- staging proxy moved to 8443;\n  8080 clashed with grafana", 0.934, last=4),
    hit("memory/2025-09-18.md", 1, "proxy on 8080", 0.5),
    hit("MEMORY.md", 150, "- fact 150", 0.25),
)
CHINESE = found(hit("memory/2026-10-02.md", 5, "- 数据库端口改成 5433", 0.9))
WIDE = (120, 30)
NEVER, AT_ONCE = 3_600.0, 0.01  # seconds


def runtime(**answers: Any) -> Runtime:
    below = Runtime(files=dict(FILES))
    below.memories = {"proxy": PROXY, "端口": CHINESE, **answers}
    return below


def screen(below: Runtime, query: str = "") -> MemoryScreen:
    return MemoryScreen(below, query, clock=FixedClock())


def retype(host: Host, query: str) -> None:
    host.screen.query_one(Input).value = query


def preview(host: Host) -> str:
    return "\n".join(str(part.content) for part in host.screen.query("#preview Static").results(Static) if part.display)


async def shows_first(host: Host, pilot: Pilot[None], words: str) -> None:
    await until(pilot, lambda: words in preview(host))


async def test_a_query_is_answered_with_score_day_and_place() -> None:
    async with showing(screen(runtime(), "proxy"), WIDE) as (host, pilot):
        await until(pilot, lambda: "MEMORY.md:150" in seen(host))
        page = seen(host)
        assert "0.93  memory/2026-10-02.md:3 " in page
        assert "Fri 2 Oct  staging proxy moved to " in page
        assert "Thu 18 Sep 2025  proxy on 8080" in page
        assert "3 results · 0 ms · hybrid" in page


async def test_one_search_is_made_for_what_was_typed_in_one_go(monkeypatch: pytest.MonkeyPatch) -> None:
    below = runtime()
    async with showing(screen(below), WIDE) as (host, pilot):
        # The typing never pauses before its last letter, however slow the machine is.
        monkeypatch.setattr(passages, "SEARCH_DELAY", NEVER)
        await pilot.press(*"prox")
        monkeypatch.setattr(passages, "SEARCH_DELAY", AT_ONCE)
        await pilot.press("y")
        await until(pilot, lambda: "0.93" in seen(host))
        monkeypatch.setattr(passages, "SEARCH_DELAY", NEVER)
        await pilot.press("space", "backspace")
        monkeypatch.setattr(passages, "SEARCH_DELAY", AT_ONCE)
        retype(host, "端口")
        await until(pilot, lambda: "0.90" in seen(host))
        assert below.searches == ["proxy", "端口"]


async def test_a_late_answer_never_replaces_a_newer_one() -> None:
    below = runtime(old=found(hit("MEMORY.md", 1, "the old answer")))
    old = below.search_holds["old"] = Hold()
    async with showing(screen(below, "old"), WIDE) as (host, pilot):
        await old.reached.wait()
        retype(host, "proxy")
        await until(pilot, lambda: "0.93" in seen(host))
        old.release()
        retype(host, "端口")
        await until(pilot, lambda: "0.90" in seen(host))
        assert below.searches == ["old", "proxy", "端口"]
        assert "the old answer" not in seen(host)


class Stubborn(FakeMemory):
    """A search that answers although it was given up, when `late` is released."""

    def __init__(self, runtime: Runtime) -> None:
        super().__init__(runtime)
        self.late = Hold()

    async def search(self, query: str, limit: int = 30, sources: Sequence[Source] = EVERY_SOURCE) -> SearchResult:
        try:
            return await super().search(query, limit, sources)
        except asyncio.CancelledError:
            await self.late.released.wait()
            self.late.reached.set()
            return found(hit("MEMORY.md", 1, "the old answer"))


async def test_a_search_that_does_not_give_up_changes_nothing() -> None:
    below = Runtime(files=dict(FILES))
    below.memory = stubborn = Stubborn(below)
    below.memories["proxy"] = PROXY
    old = below.search_holds["old"] = Hold()
    async with showing(screen(below, "old"), WIDE) as (host, pilot):
        await old.reached.wait()
        retype(host, "proxy")
        await until(pilot, lambda: "0.93" in seen(host))
        stubborn.late.release()
        await until(pilot, lambda: stubborn.late.reached.is_set() and not host.workers)
        assert "the old answer" not in seen(host)
        assert "3 results" in seen(host)


async def test_a_search_that_was_given_up_does_not_say_that_it_is_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its time is over when the answer to the next one stands there."""
    shown: list[int] = []
    show_slow = MemoryScreen._show_slow

    def record(own: MemoryScreen, number: int) -> None:
        show_slow(own, number)
        shown.append(number)

    monkeypatch.setattr(MemoryScreen, "_show_slow", record)
    below = Runtime(files=dict(FILES))
    below.memory = stubborn = Stubborn(below)
    below.memories["proxy"] = PROXY
    old = below.search_holds["old"] = Hold()
    async with showing(screen(below, "old"), WIDE) as (host, pilot):
        await old.reached.wait()
        retype(host, "proxy")
        await until(pilot, lambda: "3 results" in seen(host) and bool(shown))
        assert "searching" not in seen(host)
        stubborn.late.release()


async def test_typing_goes_on_while_a_search_runs() -> None:
    below = runtime()
    hold = below.search_holds["proxy"] = Hold()
    async with showing(screen(below, "proxy"), WIDE) as (host, pilot):
        await hold.reached.wait()
        await pilot.press(*" port")
        assert host.screen.query_one(Input).value == "proxy port"


async def test_a_slow_search_says_that_it_runs() -> None:
    below = runtime()
    hold = below.search_holds["proxy"] = Hold()
    async with showing(screen(below, "proxy"), WIDE) as (host, pilot):
        await until(pilot, lambda: "searching …" in seen(host))
        hold.release()
        await until(pilot, lambda: "3 results" in seen(host))


async def test_enter_opens_nothing_that_was_found_for_other_words() -> None:
    below = runtime()
    hold = below.search_holds["端口"] = Hold()
    async with showing(screen(below, "proxy"), WIDE) as (host, pilot):
        await until(pilot, lambda: "0.93" in seen(host))
        retype(host, "端口")
        await hold.reached.wait()
        await pilot.press("enter")
        assert not isinstance(host.screen, EditorScreen)
        hold.release()
        await until(pilot, lambda: "0.90" in seen(host))
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(host.screen, EditorScreen))


async def test_enter_opens_the_file_at_the_line_and_an_edit_is_searched_anew() -> None:
    below = runtime()
    async with showing(screen(below, "proxy"), WIDE) as (host, pilot):
        await until(pilot, lambda: "0.93" in seen(host))
        await pilot.press("down", "down", "enter")
        await until(pilot, lambda: isinstance(host.screen, EditorScreen) and not host.screen.area.disabled)
        editor = host.screen
        assert isinstance(editor, EditorScreen)
        await until(pilot, lambda: editor.area.cursor_location == (149, 0))
        assert editor.file == "MEMORY.md"
        await pilot.press("x", "ctrl+s")
        await until(pilot, lambda: "x- fact 150" in below.files["MEMORY.md"])
        await pilot.press("escape")
        await until(pilot, lambda: below.searches == ["proxy", "proxy"] and "x- fact 150" in preview(host))
        assert host.result is PENDING


@pytest.mark.long
async def test_a_note_outside_the_workspace_is_for_the_users_own_editor(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[tuple[str, int | None]] = []

    async def edit(app: object, path: Path, line: int | None = None) -> bool:
        opened.append((f"{path}", line))
        return True

    monkeypatch.setattr(memory, "edit_external", edit)
    below = runtime(wiki=found(hit("../wiki/hosts.md", 7, "a host"), hit("/srv/wiki/hosts.md", 8, "another")))
    below.files |= {"../wiki/hosts.md": "a host\n" * 9, "/srv/wiki/hosts.md": "another\n" * 9}
    async with showing(screen(below, "wiki"), WIDE) as (host, pilot):
        await until(pilot, lambda: "/srv/wiki/hosts.md:8" in seen(host))
        await pilot.press("enter")
        await until(pilot, lambda: below.searches == ["wiki", "wiki"])
        await pilot.press("down", "enter")
        await until(pilot, lambda: len(opened) == 2)
        workspace = below.status.workspace
        assert opened == [(f"{workspace}/../wiki/hosts.md", 7), ("/srv/wiki/hosts.md", 8)]


async def test_escape_gives_nothing() -> None:
    async with showing(screen(runtime(), "proxy")) as (host, pilot):
        await pilot.press("escape")
        assert host.result is None


async def test_a_place_in_a_conversation_leads_there() -> None:
    said = hit("sessions/0a1b.jsonl", 12, "User: which port does the proxy use?", 0.4, source="sessions")
    below = runtime(port=found(said))
    async with showing(screen(below, "port"), WIDE) as (host, pilot):
        await shows_first(host, pilot, "User: which port does the proxy use?")
        assert below.reads == []
        await pilot.press("enter")
        assert host.result == SessionTarget("0a1b", "", "port")


# The preview


@pytest.mark.parametrize(
    ("author", "target", "message"),
    [
        (LineAuthor("flush", "5adf", "main", "e7"), SessionTarget("5adf", "e7", "proxy"), ""),
        (LineAuthor("", "5adf", "main", "e7", guess=True), SessionTarget("5adf", "e7", "proxy"), "A guess"),
        (LineAuthor("user"), None, "You wrote this line."),
        (None, None, "No conversation is known"),
    ],
)
async def test_ctrl_b_opens_the_conversation_that_made_the_line(
    author: LineAuthor | None, target: SessionTarget | None, message: str
) -> None:
    below = runtime()
    if author is not None:
        below.authors["memory/2026-10-02.md:3"] = author
    async with showing(screen(below, "proxy"), WIDE) as (host, pilot):
        await until(pilot, lambda: "0.93" in seen(host))
        await pilot.press("ctrl+b")
        await until(pilot, lambda: host.result is not PENDING or bool(host.notices))
        assert host.result == (target or PENDING)
        assert message in " ".join(host.notices)


async def test_the_preview_marks_the_lines_and_dims_what_is_around_them() -> None:
    async with showing(screen(runtime(), "proxy"), WIDE) as (host, pilot):
        await shows_first(host, pilot, "8080 clashed with grafana")
        parts = [str(host.screen.query_one(name, Static).content) for name in ("#before", "#match", "#after")]
        assert parts == [
            "# 2026-10-02\n",
            "- staging proxy moved to 8443;\n  8080 clashed with grafana",
            "- 数据库端口改成 5433\n",
        ]


async def test_the_preview_shows_the_place_deep_in_a_file() -> None:
    async with showing(screen(runtime(), "proxy"), WIDE) as (host, pilot):
        await shows_first(host, pilot, "8080 clashed")
        await pilot.press("down", "down")
        await until(pilot, lambda: "fact 150" in seen(host) and "fact 147" in seen(host))
        rows = [line.split("│")[2].strip() for line in seen(host).splitlines() if line.count("│") > 2]
        assert rows[:4] == ["- fact 147", "- fact 148", "- fact 149", "▌ - fact 150"]
        await pilot.press("shift+down")
        await until(pilot, lambda: "▌ - fact 150" not in seen(host) and "- fact 174" in seen(host))
        await pilot.press("shift+up")
        await until(pilot, lambda: "▌ - fact 150" in seen(host))


@pytest.mark.long
async def test_only_the_note_where_the_list_rests_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    def rests(seconds: float) -> None:
        monkeypatch.setattr(passages, "PREVIEW_DELAY", seconds)

    below = runtime()
    async with showing(screen(below, "proxy"), WIDE) as (host, pilot):
        await shows_first(host, pilot, "8080 clashed")
        rests(NEVER)
        await pilot.press("down", "down", "up", "up", "down")
        rests(AT_ONCE)
        await pilot.press("down")
        await shows_first(host, pilot, "fact 150")
        rests(NEVER)
        await pilot.press("up")
        rests(AT_ONCE)
        await pilot.press("up")
        await shows_first(host, pilot, "8080 clashed")
        assert list(dict.fromkeys(below.reads)) == ["memory/2026-10-02.md", "MEMORY.md"]


async def test_a_note_that_is_gone_is_shown_by_its_snippet() -> None:
    below = runtime()
    del below.files["memory/2026-10-02.md"]
    async with showing(screen(below, "proxy"), WIDE) as (host, pilot):
        await shows_first(host, pilot, "8080 clashed with grafana")
        assert "memory/2026-10-02.md" in seen(host)


async def test_a_note_that_was_deleted_meanwhile_leaves_the_list_and_the_place_stays() -> None:
    below = runtime()
    async with showing(screen(below, "proxy"), WIDE) as (host, pilot):
        await shows_first(host, pilot, "8080 clashed with grafana")
        del below.files["memory/2025-09-18.md"]
        below.memories["proxy"] = found(PROXY.hits[0], PROXY.hits[2])
        await pilot.press("down")
        await shows_first(host, pilot, "fact 150")
        assert "memory/2025-09-18.md" not in seen(host)
        assert host.screen.query_one(OptionList).highlighted == 1
        assert below.searches == ["proxy", "proxy"]


async def test_a_note_that_is_gone_for_good_is_searched_anew_only_once() -> None:
    below = runtime()
    del below.files["memory/2026-10-02.md"]
    async with showing(screen(below, "proxy"), WIDE) as (host, pilot):
        await until(pilot, lambda: len(below.searches) == 2 and len(below.reads) == 2)
        await shows_first(host, pilot, "8080 clashed with grafana")
        await until(pilot, lambda: not host.screen.workers)
        assert below.searches == ["proxy", "proxy"]


async def test_a_note_that_can_not_be_read_is_told_and_shown_by_its_snippet() -> None:
    below = runtime()
    below.faults["read_memory"] = ClawbotError("memory/2026-10-02.md is not valid UTF-8.")
    async with showing(screen(below, "proxy"), WIDE) as (host, pilot):
        await shows_first(host, pilot, "8080 clashed with grafana")
        assert host.notices == ["Not read: memory/2026-10-02.md is not valid UTF-8."]


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("size", "beside", "below"), [((80, 20), True, False), ((60, 30), False, True), ((60, 20), False, False)]
)
async def test_the_preview_stands_where_there_is_room(size: tuple[int, int], beside: bool, below: bool) -> None:
    async with showing(screen(runtime(), "proxy"), size) as (host, pilot):
        await until(pilot, lambda: "0.93" in seen(host))
        rows, note = host.screen.query_one("#rows").region, host.screen.query_one("#preview", VerticalScroll)
        assert (note.display and note.region.x >= rows.right) == beside
        assert (note.display and note.region.y >= rows.bottom) == below
        await pilot.resize_terminal(140, 40)
        await until(pilot, lambda: note.region.x >= host.screen.query_one("#rows").region.right)


async def test_what_could_steer_the_terminal_is_not_shown() -> None:
    below = runtime(evil=found(hit("memory/\x1b[2Jx.md", 1, "\x1b]0;owned\x07[b]evil[/b]")))
    below.files["memory/\x1b[2Jx.md"] = "\x1b]0;owned\x07[b]evil[/b]\n"
    async with showing(screen(below, "evil"), WIDE) as (host, pilot):
        await until(pilot, lambda: seen(host).count("[b]evil[/b]") == 2)
        assert "owned" not in seen(host)
        assert "\x1b" not in seen(host)


# What the search says of itself


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("values", "line"),
    [
        (
            {"mode": "fts-only", "fallback": Fallback("openai", "the key was refused")},
            "words only: the key was refused",
        ),
        ({"fallback": Fallback("openai", "no answer")}, "openai is not used: no answer"),
        ({"partial": True}, "not everything was searched"),
        ({"warnings": ("3 files wait.", "3 files wait.")}, "3 files wait."),
    ],
)
async def test_what_the_search_could_not_do_is_told(values: dict[str, Any], line: str) -> None:
    below = runtime(proxy=found(*PROXY.hits, **values))
    async with showing(screen(below, "proxy"), WIDE) as (host, pilot):
        await until(pilot, lambda: line in seen(host))
        assert seen(host).count(line) == 1
        assert ("words only" in seen(host)) == ("mode" in values)


@pytest.mark.parametrize(
    ("query", "hits", "mode", "is_told"),
    [
        ("zzzqqq", (hit("MEMORY.md", 1, "- fact 1", 0.09),), "hybrid", True),
        ("没有的词", (hit("MEMORY.md", 1, "- fact 1", 0.09),), "hybrid", True),
        ("last Tuesday", (hit("MEMORY.md", 1, "- fact 1", 0.62),), "hybrid", False),
        ("facts", (hit("MEMORY.md", 2, "- none", 0.2), hit("MEMORY.md", 1, "- fact 1", 0.09)), "hybrid", False),
        ("zzzqqq", (hit("MEMORY.md", 1, "- fact 1", 0.09),), "fts-only", False),
        ("zzzqqq", (), "hybrid", False),
    ],
)
def test_places_without_a_word_of_the_question_are_told_as_such(
    query: str, hits: tuple[Any, ...], mode: str, is_told: bool
) -> None:
    assert memory.is_by_meaning(found(*hits, mode=mode), query) == is_told


async def test_a_long_reason_is_told_whole() -> None:
    reason = "the server at http://127.0.0.1:9/v1 does not answer. " * 2 + "Set memory_search.provider to offline."
    below = runtime(proxy=found(*PROXY.hits, mode="fts-only", fallback=Fallback("openai", reason)))
    async with showing(screen(below, "proxy"), (80, 24)) as (host, pilot):
        await until(pilot, lambda: "memory_search.provider" in seen(host) and "offline." in seen(host))


async def test_while_the_index_is_built_its_progress_is_told_and_then_it_is_searched_anew() -> None:
    below = runtime()
    below.memory.progress = Progress("text", 1, 1000, "files")
    heard: list[bool] = []
    below.memory.on_progress = lambda: heard.append(True)
    async with showing(screen(below, "proxy"), WIDE) as (host, pilot):
        await until(pilot, lambda: "indexing 1 of 1,000 files" in seen(host) and "0.93" in seen(host))
        below.index(Progress("text", 420, 1000, "files", 35.0, 12.4))
        await until(pilot, lambda: "indexing 420 of 1,000 files, 12 s left" in seen(host))
        await pilot.press("down")
        below.memories["proxy"] = found(hit("MEMORY.md", 1, "proxy, new"), *PROXY.hits)
        below.index(None, changed=True)
        await until(pilot, lambda: "proxy, new" in seen(host))
        assert "indexing" not in seen(host)
        assert host.screen.query_one(OptionList).highlighted == 2
        await pilot.press("escape")
        below.index(None)
        assert heard == [True] * 3


async def test_what_is_written_while_the_screen_is_open_is_found_and_nothing_else_searches() -> None:
    below = runtime()
    async with showing(screen(below, "端口"), WIDE) as (host, pilot):
        await until(pilot, lambda: "0.90" in seen(host) and "5433" in preview(host))
        for _ in range(3):
            below.index(None)
        below.files["memory/2026-10-02.md"] = DAY.replace("5433", "5434")
        below.memories["端口"] = found(hit("memory/2026-10-02.md", 5, "- 数据库端口改成 5434", 0.9))
        below.index(None, changed=True)
        await until(pilot, lambda: len(below.searches) == 2 and "改成 5434" in seen(host) and "5434" in preview(host))
        below.index(None)
        await until(pilot, lambda: is_told(host))
        assert below.searches == ["端口", "端口"]


def is_told(host: Host) -> bool:
    """Whether the screen has heard of all that the index did."""
    assert isinstance(host.screen, MemoryScreen)
    return host.screen.watch_index._due is False


def has(host: Host, text: str, not_this: str = "nowhere") -> bool:
    return text in seen(host) and not_this not in seen(host)


async def test_a_change_while_a_search_runs_is_searched_for_after_it() -> None:
    below = runtime()
    hold = below.search_holds["proxy"] = Hold()
    async with showing(screen(below, "proxy"), WIDE) as (host, pilot):
        await hold.reached.wait()
        below.index(None, changed=True)
        await until(pilot, lambda: is_told(host))
        hold.release()
        await until(pilot, lambda: below.searches == ["proxy", "proxy"])


async def test_a_long_path_is_cut_in_its_middle_and_keeps_its_line() -> None:
    path = "memory/projects/2026/the-house-in-the-mountains/notes-on-heating.md"
    chinese = "memory/项目/山里的房子/暖气和热水的笔记和想法.md"
    below = runtime(proxy=found(hit(path, 1234, "- proxy", 0.9), hit(chinese, 7, "- proxy", 0.8)))
    async with showing(screen(below, "proxy"), (34, 20)) as (host, pilot):
        await until(pilot, lambda: "…heating.md:1234" in seen(host))
        assert "0.80  memory…" in seen(host)
        assert "想法.md:7" in seen(host)
        options = host.screen.query_one(OptionList)
        await pilot.press("down")
        await until(pilot, lambda: options.highlighted == 1)
        await pilot.resize_terminal(200, 20)
        await until(pilot, lambda: "0.90  memory/" in seen(host) and "/notes-on-heating.md:1234" in seen(host))
        await until(pilot, lambda: options.highlighted == 1)


async def test_nothing_found_says_so() -> None:
    async with showing(screen(runtime(), "什么都没有")) as (host, pilot):
        await until(pilot, lambda: "Nothing is remembered about “什么都没有”." in seen(host))


async def test_a_search_that_fails_says_why_and_the_next_one_works() -> None:
    below = runtime()
    below.faults["search"] = ClawbotError("The memory is not searched.", hint="Set memory_search.enabled to true.")
    async with showing(screen(below, "proxy"), WIDE) as (host, pilot):
        await until(pilot, lambda: "not searched. Set memory_search.enabled to true." in seen(host))
        below.faults.clear()
        retype(host, "端口")
        await until(pilot, lambda: "0.90" in seen(host))
        assert not host.screen.has_class("-failed")


async def test_without_a_query_the_last_notes_are_offered() -> None:
    below = runtime()
    async with showing(screen(below), WIDE) as (host, pilot):
        await until(pilot, lambda: "the last notes" in seen(host))
        page = seen(host)
        places = [page.index(name) for name in ("memory/2026-10-02.md", "memory/2025-09-18.md", "MEMORY.md")]
        assert places == sorted(places)
        assert "AGENTS.md" not in page
        assert below.searches == []
        await shows_first(host, pilot, "staging proxy")
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(host.screen, EditorScreen))


async def test_without_any_notes_it_says_where_they_go() -> None:
    below = Runtime(files={"AGENTS.md": "# Rules\n"})
    async with showing(screen(below)) as (host, pilot):
        await until(pilot, lambda: "remember that …" in seen(host))


@pytest.mark.parametrize(
    ("name", "kept"),
    [("MEMORY.md", True), ("memory.md", True), ("memory/a/b.md", True), ("USER.md", False), ("memory/a.json", False)],
)
def test_notes_are_the_files_of_the_memory(name: str, kept: bool) -> None:
    assert is_note(name) == kept


def test_a_transcript_is_named_by_its_session() -> None:
    assert session_of("sessions/5f0c1d2e.jsonl") == "5f0c1d2e"
    assert session_of("sessions/5f0c1d2e.jsonl.reset.2026") == "5f0c1d2e"


async def test_what_was_said_is_shown_with_who_when_and_what_was_said_around_it() -> None:
    below = runtime(
        dog=found(told("0000aaaa", "User: my dog is called Bruno", 0.6), hit("MEMORY.md", 1, "- a dog", 0.3))
    )
    below.spoken["sessions/0000aaaa.jsonl"] = [
        Spoken(1, "00000009", "agent", 1, "What is he called?"),
        Spoken(2, "0000000a", "user", 2, "my dog is called Bruno"),
        Spoken(3, "0000000b", "agent", 3, "A fine name."),
    ]
    async with showing(screen(below, "dog"), WIDE) as (host, pilot):
        await until(pilot, lambda: "A fine name." in preview(host))
        assert "You, " in seen(host)
        assert preview(host).splitlines() == [
            "Clawbot: What is he called?",
            "You: my dog is called Bruno",
            "Clawbot: A fine name.",
        ]
        assert str(host.screen.query_one("#match", Static).content) == "You: my dog is called Bruno"


async def test_notes_and_talks_are_searched_apart_in_turn() -> None:
    below = runtime(dog=found(told("0000aaaa", "User: my dog is called Bruno", 0.6), hit("MEMORY.md", 1, "- a dog")))
    async with showing(screen(below, "dog"), WIDE) as (host, pilot):
        await until(pilot, lambda: "2 results" in seen(host))
        for name, shown, hidden in (("notes", "MEMORY.md:1", "Bruno"), ("conversations", "Bruno", "MEMORY.md:1")):
            await pilot.press("ctrl+t")
            await until(pilot, partial(has, host, f"· {name}"))
            await until(pilot, partial(has, host, shown, hidden))
        await pilot.press("ctrl+t")
        await until(pilot, lambda: "2 results" in seen(host))


async def test_where_nothing_was_said_it_says_so() -> None:
    async with showing(screen(runtime(), "zebra"), WIDE) as (host, pilot):
        await until(pilot, lambda: "Nothing is remembered about “zebra”." in seen(host))
        await pilot.press("ctrl+t", "ctrl+t")
        await until(pilot, lambda: "Nothing was said about “zebra”." in seen(host))
