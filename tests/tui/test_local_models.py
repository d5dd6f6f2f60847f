"""F3: a model on this machine is chosen, got and answers; or the words say what is missing."""

from __future__ import annotations

import re
from pathlib import Path

from clawbot.agent.events import Event, ModelLoading, PromptRead
from tests.tui.chat_host import chatting, page_text, screen_text, send, until
from tests.tui.fake_runtime import FakeRuntime, Hold, reply


async def test_one_key_chooses_a_model_gets_it_and_lets_it_answer(tmp_path: Path) -> None:
    runtime = FakeRuntime(tmp_path)
    async with chatting(runtime, (100, 24)) as (app, pilot):
        await pilot.press("f3")
        await until(pilot, lambda: "tiny" in screen_text(app))
        assert "to be had" in screen_text(app)
        assert "16.6 GB of memory" in screen_text(app)
        assert re.search(r"○ large +recommended", screen_text(app))
        await pilot.press("enter")
        await until(pilot, lambda: "local/tiny answers from here on" in page_text(app))
        assert runtime.local_models.pulled == ["tiny"]
        await pilot.press("f3")
        await until(pilot, lambda: "large" in screen_text(app))
        await pilot.press("down", "enter")
        await until(pilot, lambda: "The disk is full. Make room there." in screen_text(app))
        assert runtime.status.model.ref == "local/tiny"


async def test_without_the_extra_it_says_how_to_install_it(tmp_path: Path) -> None:
    runtime = FakeRuntime(tmp_path)
    runtime.local_models.problem = "Install it with: /srv/.venv/bin/python -m pip install 'xllamacpp>=2026'"
    async with chatting(runtime, (100, 24)) as (app, pilot):
        await pilot.press("f3")
        await until(pilot, lambda: "xllamacpp" in screen_text(app))


async def test_a_model_that_loads_is_told_as_long_as_it_does(tmp_path: Path) -> None:
    loads, thinks = Hold(), Hold()
    turn: list[Event | Hold] = [ModelLoading(model="tiny"), loads, ModelLoading(model="tiny", done=True), thinks]
    async with chatting(FakeRuntime(tmp_path, turns=[[*turn, *reply("hello")]])) as (app, pilot):
        await send(app, pilot, "go")
        await until(pilot, lambda: "loading tiny 0 s · esc stops" in screen_text(app))
        loads.release()
        await until(pilot, lambda: "thinking 0 s · esc stops" in screen_text(app))
        assert "loading" not in screen_text(app)
        thinks.release()
        await until(pilot, lambda: not app.chat.turns.busy)


async def test_the_status_line_shows_how_far_the_prompt_is_read_ahead(tmp_path: Path) -> None:
    read, thinks = Hold(), Hold()
    runtime = FakeRuntime(tmp_path, turns=[[PromptRead(share=7), thinks, *reply("hello")]])
    runtime.ahead = [PromptRead(), PromptRead(share=43), read]
    async with chatting(runtime, (80, 24)) as (app, pilot):
        await until(pilot, lambda: "reading the prompt 43 %" in screen_text(app))
        await send(app, pilot, "go")
        await until(pilot, lambda: "reading the prompt 7 %" in screen_text(app))
        read.release()
        thinks.release()
        await until(pilot, lambda: not app.chat.turns.busy and "reading" not in screen_text(app))
