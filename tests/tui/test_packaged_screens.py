"""Screens of packages: when the output of a command opens one, and when it is text."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any, ClassVar

import pytest
from textual.app import ComposeResult
from textual.binding import Binding
from textual.screen import Screen
from textual.widgets import Static

from clawbot.agent.events import CommandOutput
from clawbot.clock import Clock
from clawbot.entry_points import Extension
from tests.tui.chat_host import chatting, page_text, screen_text, send, until
from tests.tui.fake_runtime import FakeRuntime, Hold

OUTPUT = CommandOutput(command="/tide", text="High water at **six**.", screen="tide")


class Tide(Screen[str]):
    """A screen of a package."""

    BINDINGS: ClassVar = [Binding("escape", "dismiss('The tide turned.')"), Binding("q", "dismiss(None)")]

    def __init__(self, runtime: Any, *, clock: Clock) -> None:
        super().__init__()

    def compose(self) -> ComposeResult:
        yield Static("the tide table")


def broken(_runtime: Any, *, clock: Clock) -> Screen[str]:
    raise KeyError("the tide")


@pytest.fixture(autouse=True)
def package(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """A package with the screen `tide`; a test may let it name another object."""

    def name(value: str) -> None:
        point = EntryPoint("tide", f"{__name__}:{value}", "clawbot.screens")
        monkeypatch.setattr("clawbot.entry_points.find", lambda _group, _name: Extension("tide", "acme", point))

    name("Tide")
    return name


@pytest.mark.parametrize(("key", "line"), [("escape", "The tide turned."), ("q", "")])
async def test_the_output_of_a_command_opens_the_screen_of_its_package(tmp_path: Path, key: str, line: str) -> None:
    async with chatting(FakeRuntime(tmp_path, turns=[[OUTPUT]])) as (app, pilot):
        await send(app, pilot, "the tide")
        await until(pilot, lambda: "the tide table" in screen_text(app))
        await pilot.press(key)
        await until(pilot, lambda: app.screen is app.chat and line in page_text(app))
        assert "High water" not in page_text(app)


async def test_who_types_gets_the_text(tmp_path: Path) -> None:
    hold = Hold()
    async with chatting(FakeRuntime(tmp_path, turns=[[hold, OUTPUT]])) as (app, pilot):
        await send(app, pilot, "the tide")
        await hold.reached.wait()
        await pilot.press("y", "e")
        hold.release()
        await until(pilot, lambda: "High water at six." in page_text(app))
        assert app.screen is app.chat


@pytest.mark.parametrize("name", ["Ebb", "broken"])
async def test_a_screen_that_can_not_be_used_leaves_the_text(
    tmp_path: Path, package: Callable[[str], None], name: str
) -> None:
    package(name)
    async with chatting(FakeRuntime(tmp_path, turns=[[OUTPUT]])) as (app, pilot):
        await send(app, pilot, "the tide")
        await until(pilot, lambda: "High water at six." in page_text(app))
        await until(
            pilot,
            lambda: any(f"{name} of the package acme can't be used" in each.message for each in app._notifications),
        )


async def test_each_key_shows_that_the_user_is_there(tmp_path: Path) -> None:
    runtime = FakeRuntime(tmp_path)
    async with chatting(runtime) as (_app, pilot):
        before = runtime.touched
        await pilot.press("a", "b", "down")
        assert runtime.touched >= before + 3
