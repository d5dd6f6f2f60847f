"""Every screen at every size, in both languages: nothing is cut without a sign, nothing lies over another, and the
way out is in view."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from textual.app import App
from textual.containers import ScrollableContainer
from textual.geometry import Size
from textual.pilot import Pilot
from textual.screen import Screen
from textual.scroll_view import ScrollView
from textual.widget import Widget
from textual.widgets import Input, OptionList, Static

from clawbot.agent.events import Event, Notice, ToolFinished, ToolStarted
from clawbot.plugins.dreaming.screen import ReviewScreen
from clawbot.text.interface import InterfaceLanguage, set_language
from clawbot.tui.app import ClawbotApp
from clawbot.tui.render.lines import width_of
from clawbot.tui.screens.choices import (
    AgentsScreen,
    InstallScreen,
    KeyScreen,
    LocalModelsScreen,
    ModelsScreen,
    ProvidersScreen,
    RewindScreen,
)
from clawbot.tui.screens.common import AskScreen, HelpScreen, KeyLine
from clawbot.tui.screens.editor import FilesScreen
from clawbot.tui.screens.palette import PaletteScreen, ThemesScreen
from clawbot.tui.screens.sessions import TitleScreen
from tests.plugins.dreaming.stage import SUPERSEDE, Desk
from tests.tui.chat_host import FixedClock, Runtime, StepClock, chatting, screen_text, send, showing, skip_timers, until
from tests.tui.fake_runtime import PROVIDERS, FakeRuntime, Hold, conversation, reply, summary
from tests.tui.screens.test_snapshots import context, context_tiny, editor, hooks_screen, memory, memory_words, sessions
from tests.tui.test_small_screens import ASKED

pytestmark = pytest.mark.long
SIZES = [(40, 12), (60, 20), (80, 24), (120, 36), (200, 50)]
LONG = "memory/2026-11-22-dog-summarize-conversation-run-again-and-again.md"


@pytest.fixture(params=["en", "zh"])
def language(request: pytest.FixtureRequest) -> Iterator[str]:
    chosen: InterfaceLanguage = request.param
    set_language(chosen)
    yield chosen
    set_language("en")


def leaves(screen: Screen[Any]) -> list[Widget]:
    """What is drawn by itself."""
    shown = [widget for widget in screen.walk_children(Widget) if widget.is_on_screen and widget.region.area]
    return [widget for widget in shown if not any(child.display for child in widget.children)]


def cut(screen: Screen[Any]) -> list[str]:
    """Texts that don't say that they are cut."""
    found = []
    for widget in leaves(screen):
        styles = widget.styles
        if isinstance(widget, OptionList) and (styles.text_wrap, styles.text_overflow) != ("nowrap", "ellipsis"):
            found.append(f"{widget} cuts its rows")
        if isinstance(widget, Static) and not isinstance(widget, KeyLine):
            width, height = widget.content_size
            text = str(widget.visual)
            wide = max(map(width_of, text.split("\n")), default=0) > width
            if styles.text_wrap == "nowrap" and wide and styles.text_overflow != "ellipsis":
                found.append(f"{widget} cuts {text!r}")
            rolls = styles.overflow_y == "auto" and height > 0
            rolls = rolls or any(isinstance(parent, ScrollableContainer | ScrollView) for parent in widget.ancestors)
            needed = widget.get_content_height(widget.container_size, screen.size, width) if width else 0
            if styles.text_wrap != "nowrap" and not rolls and needed > height:
                found.append(f"{widget} has {height} rows for {needed}: {text!r}")
    return found


def overlaps(screen: Screen[Any]) -> list[str]:
    """Widgets that lie over each other, or beyond the edge."""
    shown = leaves(screen)
    found = [
        f"{one} beyond the edge" for one in shown if not screen.region.contains_region(one.region) and not rolled(one)
    ]
    for one, other in itertools.combinations([each for each in shown if not rolled(each)], 2):
        docked = {one.parent, other.parent} & set(screen.query("#bottom, #gap"))  # covers the end of the page
        if one.layer == other.layer and not docked and one.region.intersection(other.region).area:
            found.append(f"{one} lies over {other}")
    return found


def rolled(widget: Widget) -> bool:
    return any(isinstance(parent, ScrollableContainer) for parent in widget.ancestors)


def check(app: App[Any]) -> None:
    shown = screen_text(app)
    assert cut(app.screen) + overlaps(app.screen) == [], shown
    assert all(width_of(row) <= app.size.width for row in shown.splitlines())


def provider_key() -> KeyScreen:
    return KeyScreen(PROVIDERS[0], "")


ABOVE: dict[str, Callable[[], Screen[Any]]] = {
    "sessions": sessions,
    "editor": editor,
    "memory": memory,
    "memory_words": memory_words,
    "memory_recent": lambda: memory(""),
    "memory_nothing": lambda: memory("nothing"),
    "context": context,
    "context_detail": lambda: context(detail=True),
    "context_tiny": context_tiny,
    "hooks": hooks_screen,
    "review": lambda: ReviewScreen(Desk(Path.cwd(), SUPERSEDE).runtime(), clock=FixedClock()),
    "help": lambda: HelpScreen(Runtime()),
    "models": lambda: ModelsScreen(Runtime()),
    "local_models": lambda: LocalModelsScreen(Runtime()),
    "install": lambda: InstallScreen(Runtime(), "It is not installed. Install it with: clawbot extras install local"),
    "providers": lambda: ProvidersScreen(Runtime()),
    "key": provider_key,
    "agents": lambda: AgentsScreen(Runtime()),
    "files": lambda: FilesScreen(Runtime(files={LONG: "x", "AGENTS.md": "y"})),
    "themes": lambda: ThemesScreen(Runtime()),
    "rewind": lambda: RewindScreen(Runtime(history=conversation(30)), clock=FixedClock()),
    "title": lambda: TitleScreen("which port did the staging proxy use, and why did we change it at all?"),
    "ask": lambda: AskScreen(
        "There are unsaved changes in a file with a long name. Save them?", [("s", "save"), ("d", "discard")]
    ),
}


def _has_size(app: App[Any], size: Size) -> bool:
    return bool(app.screen.outer_size == size)


async def at_every_size(app: App[Any], pilot: Pilot[Any], look: Callable[[], None]) -> None:
    """`look` at the screen at one size after the other."""
    for width, height in SIZES:
        await pilot.resize_terminal(width, height)
        await until(pilot, partial(_has_size, app, Size(width, height)))
        await pilot.pause()
        look()


@pytest.mark.parametrize("name", ABOVE)
async def test_a_screen_above_the_talk(name: str, language: str) -> None:
    async with showing(ABOVE[name](), SIZES[-1]) as (host, pilot):
        await until(pilot, lambda: host.screen is host.shown and "esc " in screen_text(host))

        def look() -> None:
            check(host)
            assert "esc " in screen_text(host), screen_text(host)
            for line in host.screen.query(Input):
                assert line.region.height > 0
                assert line.region.width >= 10

        await at_every_size(host, pilot, look)


async def test_a_size_is_followed_whose_timer_is_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    async with showing(ABOVE["title"](), SIZES[-1]) as (host, pilot):
        skip_timers(monkeypatch)
        for width, height in SIZES:
            await pilot.resize_terminal(width, height)
            await until(pilot, partial(_has_size, host, Size(width, height)))


async def test_the_palette(tmp_path: Path, language: str) -> None:
    async with chatting(FakeRuntime(tmp_path)) as (app, pilot):
        await pilot.press("f2")
        await until(pilot, lambda: isinstance(app.screen, PaletteScreen) and "/context" in screen_text(app))

        def look() -> None:
            check(app)
            assert "esc " in screen_text(app), screen_text(app)

        await at_every_size(app, pilot, look)


def in_view(app: ClawbotApp) -> None:
    """The prompt and the status, and no line of the page that is wider than it."""
    shown = screen_text(app)
    assert "❯" in shown, shown
    assert " main" in shown, shown
    check(app)
    stack = app.chat.page.stack
    for line in (line for index in range(len(stack)) for line in stack.lines(index)):
        assert width_of(line.text.rstrip()) <= app.chat.page.page_width, line.text


HITS = [
    {"path": LONG, "startLine": 1033, "snippet": "很长的一行" * 30},
    {"path": "MEMORY.md", "startLine": 4, "snippet": "x"},
]
TURN: list[Event | Hold] = [
    ToolStarted(call_id="c1", name="memory_search", title="memory_search dog", arguments={"query": "dog"}),
    ToolFinished(
        call_id="c1", name="memory_search", output="", summary="2 notes", details={"results": HITS, "notes": []}
    ),
    Notice(
        level="warning", text="A long notice that says something of an index which is not there any more.", path=LONG
    ),
    *reply(f"It is called Bruno ({LONG}:1033). " * 4),
]


@pytest.mark.parametrize("first", [True, False])
async def test_the_page_of_a_start(tmp_path: Path, language: str, first: bool) -> None:
    title = "which port did the staging proxy use, and why did we change it at all? " * 2
    runtime = FakeRuntime(tmp_path, sessions=[] if first else [summary(n, title) for n in range(1, 5)])
    async with chatting(runtime) as (app, pilot):
        await until(pilot, lambda: len(app.chat.page.stack) > 0)
        await at_every_size(app, pilot, lambda: in_view(app))


async def test_a_talk_with_menus_and_what_waits(tmp_path: Path, language: str) -> None:
    hold = Hold()
    runtime = FakeRuntime(tmp_path, turns=[TURN, [hold, *reply("done")]])
    async with chatting(runtime) as (app, pilot):
        await send(app, pilot, "what is the dog called?")
        await until(pilot, lambda: not app.chat.turns.busy and "Bruno" in screen_text(app))
        await at_every_size(app, pilot, lambda: in_view(app))
        await pilot.press("/")
        await until(pilot, lambda: "/new" in screen_text(app))
        await at_every_size(app, pilot, lambda: in_view(app))
        await pilot.press("escape", "backspace")
        await send(app, pilot, "go")
        await until(pilot, hold.reached.is_set)
        for number in range(6):
            await send(app, pilot, f"a message that waits for its turn, and is long enough to be cut {number} " * 3)
        await until(pilot, lambda: len(app.chat.turns.queued) == 6)
        await at_every_size(app, pilot, lambda: in_view(app))
        hold.release()
        await until(pilot, lambda: not app.chat.turns.busy)
        await pilot.press("ctrl+underscore")
        await until(pilot, lambda: app.chat.bar.display)
        await at_every_size(app, pilot, lambda: in_view(app))


async def test_a_question_and_its_editor(tmp_path: Path, language: str) -> None:
    started = ToolStarted(call_id="c1", name="shell", title="shell make test")
    async with chatting(FakeRuntime(tmp_path, turns=[[started, ASKED, *reply("done")]])) as (app, pilot):
        await send(app, pilot, "test it")
        await until(pilot, lambda: "make test" in screen_text(app) and app.chat.approval.question.was_read)

        def look() -> None:
            check(app)
            shown = screen_text(app)
            assert "make" in shown, shown
            assert app.chat.approval.editing or all(f"{key} " in shown for key in "yne"), shown

        await at_every_size(app, pilot, look)
        assert isinstance(app.clock, StepClock)
        app.clock.seconds += 60  # an answer that is typed at once is taken for text
        await pilot.press("e")
        await until(pilot, lambda: app.chat.approval.editing)
        await at_every_size(app, pilot, look)


async def test_what_was_not_sent(tmp_path: Path, language: str) -> None:
    runtime = FakeRuntime(tmp_path)
    await runtime.outbox.add("a text that was typed before the program ended " * 8)
    await runtime.outbox.add("and another one")
    async with chatting(runtime) as (app, pilot):
        await until(pilot, lambda: app.chat.question.display)

        def look() -> None:
            check(app)
            assert " main" in screen_text(app)

        await at_every_size(app, pilot, look)
