"""Draws docs/chat.svg and the pictures of docs/screens: the program as it really looks, played by a scripted model in a
home of its own, in every look and language.

Run: .venv/bin/python docs/picture.py
"""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest.mock import patch

import msgspec
import yaml
from textual.pilot import Pilot
from textual.widgets import Input

from clawbot.config.paths import MAIN_AGENT, Paths
from clawbot.llm.protocol import ModelInfo
from clawbot.llm.scripted import ScriptEngine, parse_script
from clawbot.plugins.dreaming.proposals import Proposal, identified, proposal_store
from clawbot.runtime import Runtime, RuntimeOptions
from clawbot.testing.fixture import ScriptedModel
from clawbot.text.interface import InterfaceLanguage, set_language
from clawbot.tui.app import ClawbotApp
from clawbot.tui.screens.memory import MemoryScreen
from clawbot.tui.themes import DARK, LIGHT
from clawbot.tui.widgets.approval import Approval

FOLDER = Path(__file__).parent / "screens"
LANGUAGES: tuple[InterfaceLanguage, ...] = ("en", "zh")
LOOKS = {"dark": DARK.name, "light": LIGHT.name}
SIZE, WIDE = (100, 30), (170, 42)
REST, REPAINT, PATIENCE = 1.5, 0.3, 60.0  # seconds
EVENING = datetime(2026, 11, 20, 18, 41, tzinfo=UTC)
LOG_LINE = "2026-10-02T{:02}:{:02}:07Z proxy.stg 200 GET /health from 10.0.4.17 port {}\n"
SETTINGS = "hooks: {enabled: false}\n"


class StandingClock:
    """A clock whose date stands still, so that a picture stays the same."""

    moment = EVENING

    def now(self) -> datetime:
        """The moment that is played."""
        return StandingClock.moment

    def monotonic(self) -> float:
        """Durations are real."""
        return time.monotonic()


class Studio:
    """One language: its `words`, the app on the screen, and where its pictures go."""

    def __init__(self, language: InterfaceLanguage) -> None:
        self.language = language
        self.words: dict[str, Any] = yaml.safe_load((FOLDER / f"{language}.yaml").read_text("utf-8"))
        self.home = Path.home() / ".clawbot"

    async def draw(self) -> None:
        """All scenes."""
        set_language(self.language)
        async with self._playing("offline", SIZE) as (_, pilot):
            await self._take(pilot, "first")
        await self._furnish()
        async with self._playing("script", SIZE) as (app, pilot):
            await self._talk(app, pilot)
            await self._screens(app, pilot)
            await self._calls(app, pilot)

    async def _furnish(self) -> None:
        """Notes, files, and earlier talks with the offline model."""
        workspace = self.home / "workspace"
        (self.home / "config.yaml").write_text(SETTINGS)
        log = "".join(LOG_LINE.format(number // 60, number % 60, 8080 + number) for number in range(900))
        for name, text in {**self.words["notes"], **self.words["files"], "logs/proxy.log": log}.items():
            (workspace / name).parent.mkdir(parents=True, exist_ok=True)
            (workspace / name).write_text(text, "utf-8")
        for number, (hours, text) in enumerate(reversed(self.words["earlier"])):
            StandingClock.moment = EVENING - timedelta(hours=hours)
            runtime = await Runtime.open(RuntimeOptions(model="offline", session=f"talk-{number}", background=False))
            async for _ in runtime.agent.submit(text):
                pass
            await runtime.close(hasty=True)
            for file in self.home.rglob("*.jsonl"):
                if file.stat().st_mtime > EVENING.timestamp():
                    os.utime(file, (StandingClock.moment.timestamp(),) * 2)
        StandingClock.moment = EVENING

    @asynccontextmanager
    async def _playing(self, model: str, size: tuple[int, int]) -> AsyncIterator[tuple[ClawbotApp, Pilot[Any]]]:
        async def open_runtime(agent: str | None = None) -> Runtime:
            runtime = await Runtime.open(RuntimeOptions(model="offline", background=False))
            if model == "script":
                script = parse_script(yaml.safe_dump(self.words["script"]), FOLDER / f"{self.language}.yaml")
                player = ScriptedModel(ScriptEngine(script), clock=StandingClock())
                player.info = ModelInfo(ref="openai/gpt-6.1-sol", window=64_000)
                await runtime.agent.deps.model.replace(player, "picture")
            return runtime

        app = ClawbotApp(open_runtime, theme="dark", clock=StandingClock())
        async with app.run_test(size=size) as pilot:
            await _until(pilot, lambda: app.runtime is not None or app.crash is not None)
            if app.runtime is None:
                raise RuntimeError("the runtime did not open") from app.crash
            await _until(pilot, lambda: len(app.chat.page.stack) > 0)
            yield app, pilot
        await app.runtime.close(hasty=True)

    async def _take(self, pilot: Pilot[Any], scene: str) -> None:
        """The picture of what is on the screen, in both looks."""
        for look, theme in LOOKS.items():
            pilot.app.theme = theme
            await asyncio.sleep(REPAINT)
            await pilot.pause()
            picture = pilot.app.export_screenshot(title="clawbot")
            (FOLDER / f"{scene}-{self.language}-{look}.svg").write_text(picture, "utf-8")
            if (scene, self.language, look) == ("talk", "en", "dark"):
                FOLDER.with_name("chat.svg").write_text(picture, "utf-8")

    async def _say(
        self, app: ClawbotApp, pilot: Pilot[Any], text: str, until: Callable[[], bool] | None = None
    ) -> None:
        app.chat.turns.submit(text)
        await pilot.pause()
        await _until(pilot, until or (lambda: not app.chat.turns.busy))
        await pilot.pause()

    # The scenes

    async def _talk(self, app: ClawbotApp, pilot: Pilot[Any]) -> None:
        for text in self.words["talk"]:
            await self._say(app, pilot, text)
        await self._take(pilot, "talk")
        for text in self.words["intent"]:
            await self._say(app, pilot, text)
        await self._take_at_rest(pilot, "intent")

    async def _screens(self, app: ClawbotApp, pilot: Pilot[Any]) -> None:
        for scene, key in (("palette", "f2"), ("sessions", "ctrl+r"), ("memory", "ctrl+f")):
            await pilot.press(key)
            await _until(pilot, lambda: app.screen is not app.chat)
            if isinstance(app.screen, MemoryScreen):
                app.screen.query_one("#filter", Input).value = self.words["find"]
                await _until(pilot, lambda: isinstance(app.screen, MemoryScreen) and app.screen.is_settled)
            await self._take_at_rest(pilot, scene)
            await pilot.press("escape")
            await _until(pilot, lambda: app.screen is app.chat)
        await self._review(app, pilot)
        app.action_show_context()
        await _until(pilot, lambda: app.screen is not app.chat)
        await self._take_at_rest(pilot, "context")
        await pilot.press("escape")
        await _until(pilot, lambda: app.screen is app.chat)

    async def _review(self, app: ClawbotApp, pilot: Pilot[Any]) -> None:
        """Proposals of a dream that wait for a decision."""
        store = proposal_store(Paths(self.home), MAIN_AGENT, StandingClock())
        store.record(identified(msgspec.convert({"id": "", **each}, Proposal)) for each in self.words["proposals"])
        app.chat.turns.submit("/dream")
        await _until(pilot, lambda: app.screen is not app.chat)
        await self._take_at_rest(pilot, "review")
        await pilot.press("escape")
        await _until(pilot, lambda: app.screen is app.chat)

    async def _calls(self, app: ClawbotApp, pilot: Pilot[Any]) -> None:
        """What tools change, ask and print; and the wide screen between them."""
        await self._say(app, pilot, self.words["change"])
        await self._take(pilot, "diff")
        await pilot.resize_terminal(*WIDE)
        await self._take_at_rest(pilot, "wide")
        await pilot.resize_terminal(*SIZE)
        question = app.chat.query_one(Approval)

        def asks() -> bool:
            return question.request is not None and question.question.was_read

        await self._say(app, pilot, self.words["danger"], asks)
        await self._take_at_rest(pilot, "approval")
        await pilot.press("n")
        await _until(pilot, lambda: not app.chat.turns.busy)
        await self._say(app, pilot, self.words["run"], asks)
        await asyncio.sleep(REST)  # an answer that is typed at once is taken for text
        await pilot.press("y")
        await _until(pilot, lambda: question.request is None)
        await self._take_at_rest(pilot, "running")
        await pilot.press("escape")
        await _until(pilot, lambda: not app.chat.turns.busy)

    async def _take_at_rest(self, pilot: Pilot[Any], scene: str) -> None:
        """The picture, once what is read in the background is there."""
        await asyncio.sleep(REST)
        await self._take(pilot, scene)


async def _until(pilot: Pilot[Any], condition: Callable[[], bool]) -> None:
    started = time.monotonic()
    while not condition():
        if time.monotonic() - started > PATIENCE:
            raise TimeoutError(pilot.app.export_screenshot())
        await pilot.pause()


def main() -> None:
    """Draw them."""
    for language in LANGUAGES:
        with tempfile.TemporaryDirectory() as home, patch("clawbot.services.SystemClock", lambda _: StandingClock()):
            os.environ.update(HOME=home, CLAWBOT_HOME=f"{home}/.clawbot")
            asyncio.run(Studio(language).draw())
    print(f"drawn: {len(list(FOLDER.glob('*.svg')))} pictures, chat.svg")


if __name__ == "__main__":
    main()
