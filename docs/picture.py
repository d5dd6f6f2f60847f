"""Draws docs/chat.svg: the chat as it really looks, played by a scripted model in a home of its own.

Run: .venv/bin/python docs/picture.py
"""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

from clawbot.llm.protocol import ModelInfo
from clawbot.llm.scripted import ScriptEngine, parse_script
from clawbot.runtime import Runtime, RuntimeOptions
from clawbot.testing.fixture import ScriptedModel
from clawbot.tui.app import ClawbotApp

SCRIPT = r"""
model: gpt-6.1-sol
window: 200000
turns:
  - reply:
      tool_calls: [{name: grep, arguments: {pattern: proxy, path: memory}}]
  - reply:
      text: |
        **8443.** You moved it on 2 October, because 8080 clashed with Grafana (`memory/2026-10-02.md:3`).
      usage: {prompt: 41200, completion: 60, cached: 38000}
  - reply:
      tool_calls:
        - {name: append, arguments: {path: memory/2026-11-20.md, content: "- deploys go out on Tuesdays"}}
  - reply:
      text: |
        Noted. The checklist for the next one:

        1. freeze the branch on Monday evening
        2. `make release`, then watch the proxy on **8443**
      usage: {prompt: 42100, completion: 80, cached: 41000}
"""
NOTE = "# 2026-10-02\n\n- staging proxy moved to 8443, 8080 clashed with grafana\n- certificates renew on the 1st\n"
TALK = ("which port did the staging proxy use, and why did we change it?", "remember that deploys go out on Tuesdays")


class EveningClock:
    """A clock whose date stands still, so that the picture stays the same."""

    def now(self) -> datetime:
        """Friday evening."""
        return datetime(2026, 11, 20, 18, 41, tzinfo=UTC)

    def monotonic(self) -> float:
        """Durations are real."""
        return time.monotonic()


async def draw(home: Path) -> str:
    """Play the talk and return the screen as SVG."""
    notes = home / "workspace" / "memory"
    notes.mkdir(parents=True)
    (notes / "2026-10-02.md").write_text(NOTE)

    async def open_runtime() -> Runtime:
        runtime = await Runtime.open(RuntimeOptions(model="offline"))
        model = ScriptedModel(ScriptEngine(parse_script(SCRIPT, Path("picture.yaml"))))
        model.info = ModelInfo(ref="openai/gpt-6.1-sol", window=200_000)
        await runtime.agent.deps.model.replace(model, "picture")
        return runtime

    app = ClawbotApp(open_runtime, theme="dark", clock=EveningClock())
    async with app.run_test(size=(100, 26)) as pilot:
        while app.runtime is None and app.crash is None:
            await pilot.pause()
        if app.runtime is None:
            raise RuntimeError("the runtime did not open") from app.crash
        for text in TALK:
            app.chat.turns.submit(text)
            await pilot.pause()
            async with app.runtime.agent.exclusive():
                await pilot.pause()
        await pilot.pause()
        picture = app.export_screenshot(title="clawbot")
    await app.runtime.close()
    return picture


def main() -> None:
    """Draw it."""
    target = Path(__file__).with_name("chat.svg")
    with tempfile.TemporaryDirectory() as home:
        os.environ["CLAWBOT_HOME"] = home
        target.write_text(asyncio.run(draw(Path(home))))
    print(f"drawn: {target.name}")


if __name__ == "__main__":
    main()
