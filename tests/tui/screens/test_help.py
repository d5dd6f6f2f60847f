"""The keys and commands at a glance."""

from __future__ import annotations

import pytest

from clawbot.tui.screens.help import CHAT_KEYS, HelpScreen
from tests.tui.screens.host import Runtime, seen, showing, until


async def test_wide_terminals_have_keys_and_commands_side_by_side() -> None:
    async with showing(HelpScreen(Runtime()), (140, 45)) as (host, pilot):
        await until(pilot, lambda: "/quit" in seen(host))
        page = seen(host)
        assert next(line for line in page.splitlines() if "Keys" in line).split() == ["Keys", "Commands"]
        for name, meaning in CHAT_KEYS:
            assert name in page
            assert meaning in page


async def test_narrow_terminals_scroll_down_to_the_commands() -> None:
    async with showing(HelpScreen(Runtime()), (80, 24)) as (host, pilot):
        await until(pilot, lambda: "shift+enter" in seen(host))
        assert "/quit" not in seen(host)
        await pilot.press("end")
        await until(pilot, lambda: "/quit" in seen(host))


@pytest.mark.parametrize("key", ["escape", "q", "enter"])
async def test_it_is_left_by_any_usual_key(key: str) -> None:
    async with showing(HelpScreen(Runtime(), [("f1", "help me")])) as (host, pilot):
        await until(pilot, lambda: "help me" in seen(host))
        await pilot.press(key)
        assert host.result is None
