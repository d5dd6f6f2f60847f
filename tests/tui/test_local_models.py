"""F3: a model on this machine is chosen, got and answers; or the words say what is missing."""

from __future__ import annotations

import re
from pathlib import Path

from clawbot.agent.events import Event, ModelLoading, PromptRead
from clawbot.errors import ClawbotError
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
        await until(pilot, lambda: runtime.status.model.ref == "local/tiny" and "local/tiny" in page_text(app))
        assert runtime.local_models.pulled == ["tiny"]
        await pilot.press("f3")
        await until(pilot, lambda: "large" in screen_text(app))
        await pilot.press("down", "enter")
        await until(pilot, lambda: "The disk is full. Make room there." in screen_text(app))
        assert runtime.status.model.ref == "local/tiny"


async def test_enter_installs_what_is_missing_and_the_choice_follows(tmp_path: Path) -> None:
    runtime, loads = FakeRuntime(tmp_path), Hold()
    runtime.local_models.problem = "Not installed (xllamacpp). Install it with: clawbot extras install local"
    runtime.local_models.installs = ["Downloading xllamacpp", loads]
    async with chatting(runtime, (100, 24)) as (app, pilot):
        await pilot.press("f3")
        await until(pilot, lambda: "clawbot extras install local" in screen_text(app))
        await pilot.press("enter", "enter")
        await until(pilot, lambda: "Downloading xllamacpp" in screen_text(app))
        loads.release()
        await until(pilot, lambda: "to be had" in screen_text(app))


async def test_a_failed_installation_says_why_and_can_be_tried_again(tmp_path: Path) -> None:
    runtime = FakeRuntime(tmp_path)
    runtime.local_models.problem = "Not installed."
    runtime.local_models.installs = [ClawbotError("pipx manages this installation.", hint="pipx runpip x")]
    async with chatting(runtime, (100, 24)) as (app, pilot):
        await pilot.press("f3")
        await until(pilot, lambda: "Not installed." in screen_text(app))
        await pilot.press("enter")
        await until(pilot, lambda: "pipx runpip x" in screen_text(app))
        runtime.local_models.installs = []
        await pilot.press("enter")
        await until(pilot, lambda: "to be had" in screen_text(app))


async def test_esc_stops_an_installation(tmp_path: Path) -> None:
    runtime, hangs = FakeRuntime(tmp_path), Hold()
    runtime.local_models.problem = "Not installed."
    runtime.local_models.installs = [hangs]
    async with chatting(runtime, (100, 24)) as (app, pilot):
        await pilot.press("f3")
        await until(pilot, lambda: "Not installed." in screen_text(app))
        await pilot.press("enter")
        await hangs.reached.wait()
        await pilot.press("escape")
        await until(pilot, lambda: hangs.cancelled and "Not installed." not in screen_text(app))
    assert runtime.local_models.problem


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
