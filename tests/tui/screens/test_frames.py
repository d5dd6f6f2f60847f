"""The screens above the conversation have one kind of frame: in the middle, of at most 110 columns."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from clawbot.tui.screens.choices import KeyScreen, ModelsScreen
from clawbot.tui.screens.common import OverScreen
from clawbot.tui.screens.help import HelpScreen
from clawbot.tui.screens.palette import PaletteScreen
from clawbot.tui.screens.sessions import TitleScreen
from tests.tui.chat_host import chatting, screen_text
from tests.tui.fake_runtime import PROVIDERS, FakeRuntime
from tests.tui.screens.host import Runtime, showing, until
from tests.tui.screens.test_snapshots import context, hooks_screen, memory, sessions

SCREENS: dict[str, Callable[[], OverScreen[Any]]] = {
    "memory": memory,
    "context": context,
    "help": lambda: HelpScreen(Runtime()),
    "title": lambda: TitleScreen("the staging proxy"),
    "sessions": sessions,
    "hooks": hooks_screen,
    "models": lambda: ModelsScreen(Runtime()),
    "key": lambda: KeyScreen(PROVIDERS[0], "~/.clawbot/.env"),
}


@pytest.mark.parametrize("size", [(160, 45), (110, 32), (80, 24)])
@pytest.mark.parametrize("name", SCREENS)
async def test_the_frame_is_in_the_middle_of_the_dim_conversation(name: str, size: tuple[int, int]) -> None:
    async with showing(SCREENS[name](), size) as (host, pilot):
        frame = host.screen.query_one("#frame")
        await until(pilot, lambda: frame.region.width > 0 and frame.styles.border_top[0] == "round")
        assert frame.region.width <= min(110, size[0] - 4)
        left, right = frame.region.x, size[0] - frame.region.right
        above, below = frame.region.y, size[1] - frame.region.bottom
        assert min(left, right, above, below) >= 1
        assert max(abs(left - right), abs(above - below)) <= 1
        assert frame.border_title
        assert host.screen.styles.background.a < 1


@pytest.mark.parametrize("size", [(79, 24), (120, 17), (40, 12)])
@pytest.mark.parametrize("name", SCREENS)
async def test_a_small_screen_is_filled(name: str, size: tuple[int, int]) -> None:
    async with showing(SCREENS[name](), size) as (host, pilot):
        frame = host.screen.query_one("#frame")
        await until(pilot, lambda: frame.region.width == size[0])
        assert (frame.region.x, frame.region.y) == (0, 0)
        assert frame.styles.border_top[0] == ""
        assert host.screen.styles.background.a == 1
        keys = host.screen.query_one("KeyLine").region
        assert 0 < keys.bottom <= size[1]


async def test_the_palette_stays_where_it_is_while_it_is_filtered(tmp_path: Path) -> None:
    async with chatting(FakeRuntime(tmp_path), (120, 40)) as (app, pilot):
        await pilot.press("f2")
        await until(pilot, lambda: isinstance(app.screen, PaletteScreen) and "/theme" in screen_text(app))
        before = app.screen.query_one("#frame").region
        await pilot.press(*"sessions")
        await until(pilot, lambda: "/theme" not in screen_text(app))
        assert app.screen.query_one("#frame").region == before
        assert "clawbot · main" in screen_text(app)
