"""The keys and commands at a glance."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from textual.binding import Binding, BindingType
from textual.widgets import TextArea

from clawbot.tui.app import ClawbotApp
from clawbot.tui.screens.chat import ChatScreen
from clawbot.tui.screens.help import CHAT_KEYS, HelpScreen
from clawbot.tui.widgets.prompt import Prompt
from tests.tui.screens.host import Runtime, seen, showing, until


async def test_wide_terminals_have_keys_and_commands_side_by_side() -> None:
    async with showing(HelpScreen(Runtime()), (140, 60)) as (host, pilot):
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


# How the page writes a key that textual calls otherwise.
BOUND_AS = {"↑": "up", "↓": "down", "esc": "escape"}
# Taken by the prompt's own handler, or by the app: no bindings of the screen.
ELSEWHERE = {"enter", "tab", ClawbotApp.COMMAND_PALETTE_BINDING}
# Second names of keys that are shown.
ALSO = {"shift+up", "shift+down"}


def keys_of(bindings: Iterable[BindingType]) -> set[str]:
    return {key for binding in bindings if isinstance(binding, Binding) for key in binding.key.split(",")}


def test_the_keys_that_are_shown_are_those_that_work() -> None:
    words = " ".join(name for name, _ in CHAT_KEYS).replace(" twice", "").replace(",", "").split()
    shown = {BOUND_AS.get(word, word) for word in words}
    of_the_chat = keys_of(ChatScreen.BINDINGS)
    works = of_the_chat | keys_of(Prompt.BINDINGS) | keys_of(TextArea.BINDINGS) | ELSEWHERE
    assert shown <= works
    assert of_the_chat - ALSO <= shown
