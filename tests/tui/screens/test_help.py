"""The keys and commands at a glance."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from textual.binding import Binding, BindingType

from clawbot.config.keys import ACTIONS, KeyMap
from clawbot.config.schema import Settings
from clawbot.tui.keys import help_lines
from clawbot.tui.screens.chat import ChatScreen
from clawbot.tui.screens.help import HelpScreen
from clawbot.tui.widgets.prompt import Prompt
from tests.tui.screens.host import Runtime, seen, showing, until


async def test_the_keys_stand_above_the_commands_each_on_a_line() -> None:
    async with showing(HelpScreen(Runtime()), (140, 90)) as (host, pilot):
        await until(pilot, lambda: "/quit" in seen(host))
        page = seen(host)
        assert page.index("Keys") < page.index("send") < page.index("Commands") < page.index("/new")
        for name, meaning in help_lines(KeyMap()):
            assert name.partition(",")[0] in page
            assert meaning in page


async def test_narrow_terminals_scroll_down_to_the_commands() -> None:
    async with showing(HelpScreen(Runtime()), (80, 24)) as (host, pilot):
        await until(pilot, lambda: "shift+enter" in seen(host))
        assert "/quit" not in seen(host)
        await pilot.press("end")
        await until(pilot, lambda: "/quit" in seen(host))


@pytest.mark.parametrize("key", ["escape", "q", "enter"])
async def test_it_is_left_by_any_usual_key(key: str) -> None:
    async with showing(HelpScreen(Runtime())) as (host, pilot):
        await until(pilot, lambda: "shift+enter" in seen(host))
        await pilot.press(key)
        assert host.result is None


def bound(bindings: Iterable[BindingType]) -> dict[str, tuple[str, ...]]:
    return {each.id: tuple(each.key.split(",")) for each in bindings if isinstance(each, Binding) and each.id}


def test_every_action_of_the_table_is_bound_to_the_keys_that_it_names_and_no_other_key_is() -> None:
    assert bound((*ChatScreen.BINDINGS, *Prompt.BINDINGS)) == {action.name: action.keys for action in ACTIONS}
    without_name = [
        each.key for each in (*ChatScreen.BINDINGS, *Prompt.BINDINGS) if isinstance(each, Binding) and not each.id
    ]
    assert without_name == ["ctrl+c"]


async def test_the_page_shows_the_keys_that_were_set() -> None:
    runtime = Runtime()
    runtime.settings = Settings.model_validate({"tui": {"keys": {"unfold": "ctrl+b", "recall": "none"}}})
    async with showing(HelpScreen(runtime), (140, 90)) as (host, pilot):
        await until(pilot, lambda: "/quit" in seen(host))
        lines = [line.strip("│ ") for line in seen(host).splitlines()]
        assert next(line for line in lines if "unfold tool calls" in line).startswith("ctrl+b")
        assert next(line for line in lines if "take back what is queued" in line).startswith("none")
        assert "ctrl+o" not in seen(host)
