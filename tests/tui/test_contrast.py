"""All text outside the page can be read in both themes: header, prompt, status, footer, menus, questions, toasts, the
screens above the conversation."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.color import ColorSystem
from rich.segment import Segment
from rich.style import Style
from textual.color import Color
from textual.pilot import Pilot
from textual.screen import Screen
from textual.strip import Strip
from textual.theme import BUILTIN_THEMES, Theme
from textual.widgets import Input, OptionList

from clawbot.plugins.dreaming.screen import ReviewScreen
from clawbot.sessions.unsent import Unsent
from clawbot.tui.app import ClawbotApp
from clawbot.tui.screens.choices import (
    AgentsScreen,
    InstallScreen,
    KeyScreen,
    LocalModelsScreen,
    ModelsScreen,
    ProvidersScreen,
    RewindScreen,
)
from clawbot.tui.screens.common import AskScreen
from clawbot.tui.screens.palette import PaletteScreen
from clawbot.tui.themes import DARK, INKS, LIGHT, adapted
from clawbot.tui.widgets.prompt import INVITATIONS, invitation
from tests.plugins.dreaming.stage import SUPERSEDE, Desk
from tests.tui.chat_host import FixedClock, Host, Runtime, chatting, screen_text, seen, send, until
from tests.tui.contrast import ENOUGH, contrast, pale, pale_texts
from tests.tui.fake_runtime import PROVIDERS, FakeRuntime, Hold, RuntimeStatus, conversation
from tests.tui.screens.test_snapshots import LARGE, SMALL, context, editor, hooks_screen, memory, sessions
from tests.tui.test_approval import press
from tests.tui.test_small_screens import ASKED

THEMES = ["clawbot-dark", "clawbot-light"]
ALL_THEMES = [DARK, LIGHT, *(theme for theme in BUILTIN_THEMES.values() if not theme.ansi)]
GROUNDS = ("background", "surface", "panel")
Chat = Callable[[ClawbotApp, Pilot[object]], Any]


async def idle(app: ClawbotApp, pilot: Pilot[object]) -> None:
    await until(pilot, lambda: INVITATIONS[0] in screen_text(app))


async def menu(app: ClawbotApp, pilot: Pilot[object]) -> None:
    await pilot.press("/")
    await until(pilot, lambda: "/new" in screen_text(app))


async def toasts(app: ClawbotApp, pilot: Pilot[object]) -> None:
    for severity in ("information", "warning", "error"):
        app.notify(f"This is {severity}.", title="A title", severity=severity)
    await until(pilot, lambda: "This is error." in screen_text(app))


async def busy(app: ClawbotApp, pilot: Pilot[object]) -> None:
    await send(app, pilot, "go")
    app.chat.turns.submit("and then this")
    app.chat.status.show(indexing="indexing 42%")
    await until(pilot, lambda: "queued: and then this" in screen_text(app))


async def unsent(app: ClawbotApp, pilot: Pilot[object]) -> None:
    await until(pilot, lambda: "left behind" in screen_text(app))


async def question(app: ClawbotApp, pilot: Pilot[object]) -> None:
    await send(app, pilot, "go")
    await until(pilot, lambda: app.chat.approval.question.view is not None and "make test" in screen_text(app))


async def editing(app: ClawbotApp, pilot: Pilot[object]) -> None:
    await question(app, pilot)
    await until(pilot, lambda: app.chat.approval.question.was_read)
    await press(app, pilot, "e")
    await until(pilot, lambda: app.chat.approval.has_class("editing"))


CHATS: dict[str, Chat] = {
    "idle": idle, "menu": menu, "toasts": toasts, "busy": busy, "unsent": unsent, "question": question,
    "editing": editing,
}  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("name", CHATS)
async def test_what_stands_around_the_page_can_be_read(tmp_path: Path, name: str, theme: str) -> None:
    turn = [ASKED] if name in ("question", "editing") else [Hold()]
    runtime = FakeRuntime(tmp_path, turns=[turn])
    runtime.unsent = [Unsent("k1", "left behind")] if name == "unsent" else []
    async with chatting(runtime, (120, 30)) as (app, pilot):
        app.theme = theme
        await CHATS[name](app, pilot)
        await pilot.pause()
        assert pale_texts(app) == {}


def rewind() -> RewindScreen:
    return RewindScreen(Runtime(history=conversation(3)), clock=FixedClock())


SCREENS: dict[str, tuple[Callable[[], Screen[Any]], tuple[int, int], str]] = {
    "sessions": (sessions, LARGE, "memory/2026"),
    "models": (lambda: ModelsScreen(Runtime()), SMALL, "add a key"),
    "local": (lambda: LocalModelsScreen(Runtime()), SMALL, "tiny"),
    "install": (lambda: InstallScreen(Runtime(), "not installed"), SMALL, "not installed"),
    "providers": (lambda: ProvidersScreen(Runtime()), SMALL, "Anthropic"),
    "key": (lambda: KeyScreen(PROVIDERS[0], "~/.clawbot/.env"), SMALL, "paste"),
    "agents": (lambda: AgentsScreen(Runtime()), SMALL, "main"),
    "ask": (lambda: AskScreen("Over it?", [("y", "yes")]), SMALL, "Over it?"),
    "editor": (editor, SMALL, "tokens · saved"),
    "memory": (memory, LARGE, "with grafana"),
    "no hits": (lambda: memory("nothing at all"), SMALL, "nothing at all"),
    "context": (lambda: context(detail=True), LARGE, "Memory Recall"),
    "hooks": (hooks_screen, (100, 24), "GITHUB_TOKEN"),
    "review": (
        lambda: ReviewScreen(Desk(Path.cwd(), SUPERSEDE).runtime(), clock=FixedClock()),
        (100, 24),
        "answers on 8443",
    ),
    "rewind": (rewind, SMALL, "question 1"),
}


@pytest.mark.long
@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("name", SCREENS)
async def test_the_screens_above_the_conversation_can_be_read(name: str, theme: str) -> None:
    make, size, ready = SCREENS[name]
    host = Host(make(), theme)
    async with host.run_test(size=size) as pilot:
        await until(pilot, lambda: ready in seen(host))
        for area in host.screen.query(Input):
            area.cursor_blink = False
        await pilot.pause()
        assert pale_texts(host) == {}


@pytest.mark.few(1)
@pytest.mark.parametrize("theme", THEMES)
async def test_the_palette_can_be_read(tmp_path: Path, theme: str) -> None:
    async with chatting(FakeRuntime(tmp_path, status=RuntimeStatus()), (120, 30)) as (app, pilot):
        app.theme = theme
        await pilot.press("f2")
        await until(pilot, lambda: isinstance(app.screen, PaletteScreen) and "ctrl+r" in screen_text(app))
        assert pale_texts(app, "#frame") == {}


@pytest.mark.parametrize("theme", ALL_THEMES, ids=lambda theme: theme.name)
def test_the_colours_of_text_can_be_read_on_each_ground_of_each_theme(theme: Theme) -> None:
    shades = {name: Color.parse(value) for name, value in _shades(adapted(theme)).items()}
    for name, opacity in INKS.items():
        for ground in (shades[each] for each in GROUNDS):
            text = ground.blend(shades[name], opacity)
            assert contrast(Style(color=text.rich_color, bgcolor=ground.rich_color)) >= ENOUGH, (name, ground)


def _shades(theme: Theme) -> dict[str, str]:
    shades = theme.to_color_system().generate()
    return {name: shades[name] for name in (*INKS, *GROUNDS)}


@pytest.mark.parametrize("theme", ALL_THEMES, ids=lambda theme: theme.name)
def test_sixteen_colours_are_enough_to_tell_them_apart(theme: Theme) -> None:
    shades = {name: Color.parse(value) for name, value in _shades(adapted(theme, sixteen=True)).items()}
    shown = [shades[name].rich_color.downgrade(ColorSystem.STANDARD).number for name in (*INKS, "background")]
    assert len(set(shown)) == len(shown)


async def test_of_sixteen_colours_the_chosen_row_is_reversed(tmp_path: Path) -> None:
    async with chatting(FakeRuntime(tmp_path), (120, 30)) as (app, pilot):
        await pilot.press("f2")
        await until(pilot, lambda: isinstance(app.screen, PaletteScreen) and "ctrl+r" in screen_text(app))
        rows = app.screen.query_one(OptionList)
        assert not rows.get_component_rich_style("option-list--option-highlighted").reverse
        app.add_class("-sixteen")
        await until(pilot, lambda: bool(rows.get_component_rich_style("option-list--option-highlighted").reverse))


@pytest.mark.long
async def test_a_chosen_theme_is_shown_with_its_adapted_colours(tmp_path: Path) -> None:
    async with chatting(FakeRuntime(tmp_path), (80, 24)) as (app, _):
        app.theme = "solarized-light"
        assert app.current_theme == adapted(BUILTIN_THEMES["solarized-light"])


def test_pale_text_is_found_and_a_sign_is_none() -> None:
    grey, black = Style.parse("#777777 on #888888"), Style.parse("#000000 on #ffffff")
    strip = Strip([Segment("pale", grey), Segment("── ", grey), Segment("dark", black)])
    assert list(pale([strip])) == ["pale"]
    assert round(contrast(black)) == 21


@pytest.mark.parametrize(("width", "number"), [(80, 0), (35, 0), (34, 1), (27, 1), (20, 2)])
def test_the_invitation_fits_the_prompt(width: int, number: int) -> None:
    assert invitation(width) == INVITATIONS[number]
    assert len(INVITATIONS[number]) <= width


@pytest.mark.parametrize("size", [(40, 12), (120, 30)])
async def test_an_empty_prompt_invites_on_a_ground_of_its_own(tmp_path: Path, size: tuple[int, int]) -> None:
    async with chatting(FakeRuntime(tmp_path), size) as (app, pilot):
        await until(pilot, lambda: "❯ Ask, or / for commands, @ for files" in screen_text(app))
        assert app.chat.composer.prompt.styles.background != app.chat.page.styles.background
        await pilot.press("h", "i")
        await until(pilot, lambda: "❯ hi" in screen_text(app) and "Ask," not in screen_text(app))
