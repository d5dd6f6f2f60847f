"""The choices of a model, of a key, of an agent, of an earlier message."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from textual.widgets import Input

from clawbot.agent.events import Event, ModelLoading, PromptRead
from clawbot.agent.status import AgentInfo
from clawbot.errors import ClawbotError
from clawbot.sessions.errors import SessionStoreError
from clawbot.tui.screens.choices import AgentsScreen, ModelsScreen, key_problem
from tests.tui.chat_host import (
    PENDING,
    Runtime,
    StepClock,
    chatting,
    page_text,
    screen_text,
    seen,
    send,
    showing,
    until,
)
from tests.tui.fake_runtime import FakeRuntime, Hold, conversation, reply

SECRET = "sk-test-123456"


async def test_models_are_listed_with_the_reason_why_they_can_be_used() -> None:
    async with showing(ModelsScreen(Runtime())) as (host, pilot):
        await until(pilot, lambda: "add a key" in seen(host))
        page = seen(host)
        assert "OPENAI_API_KEY is set · 400k tokens · in use" in page
        assert "Ollama answers on port 11434 · 41k tokens" in page
        assert "offline" in page


async def test_the_model_in_use_is_highlighted_and_another_can_be_picked() -> None:
    async with showing(ModelsScreen(Runtime())) as (host, pilot):
        await until(pilot, lambda: "add a key" in seen(host))
        await pilot.press("down", "enter")
        assert host.result == "anthropic/claude-sonnet-4-5"


async def test_a_found_model_can_be_filtered_for() -> None:
    async with showing(ModelsScreen(Runtime())) as (host, pilot):
        await until(pilot, lambda: "add a key" in seen(host))
        await pilot.press(*"qwen", "enter")
        assert host.result == "ollama_chat/qwen3:8b"


async def test_any_other_name_can_be_typed() -> None:
    async with showing(ModelsScreen(Runtime())) as (host, pilot):
        await until(pilot, lambda: "add a key" in seen(host))
        host.screen.query_one(Input).value = "  mistral/mistral-large-latest "
        await until(pilot, lambda: "use “mistral/mistral-large-latest”" in seen(host))
        await pilot.press("enter")
        assert host.result == "mistral/mistral-large-latest"


async def test_a_name_can_be_typed_when_the_models_cannot_be_found_out() -> None:
    below = Runtime()
    below.faults["models"] = ClawbotError("The settings are broken.")
    async with showing(ModelsScreen(below)) as (host, pilot):
        await until(pilot, lambda: host.notices == ["The settings are broken."])
        await pilot.press(*"a/b", "enter")
        assert host.result == "a/b"


async def test_a_whole_name_is_picked_rather_than_a_longer_one() -> None:
    async with showing(ModelsScreen(Runtime())) as (host, pilot):
        await until(pilot, lambda: "add a key" in seen(host))
        host.screen.query_one(Input).value = "openai/gpt-5"
        await until(pilot, lambda: "1 of 4" in seen(host))
        assert "use “" not in seen(host)
        await pilot.press("enter")
        assert host.result == "openai/gpt-5"


async def test_escape_gives_nothing() -> None:
    async with showing(ModelsScreen(Runtime())) as (host, pilot):
        await pilot.press("escape")
        assert host.result is None


@pytest.mark.few(1)
@pytest.mark.parametrize("way", [["ctrl+k"], ["tab", "k"], [*"zzz", "down", "enter"]])
async def test_a_key_is_saved_and_never_shown(way: list[str]) -> None:
    below = Runtime()
    async with showing(ModelsScreen(below)) as (host, pilot):
        await until(pilot, lambda: "add a key" in seen(host))
        await pilot.press(*way)
        await until(pilot, lambda: "DEEPSEEK_API_KEY" in seen(host))
        await pilot.press(*"deep", "enter")
        await until(pilot, lambda: "paste DEEPSEEK_API_KEY" in seen(host))
        assert "/home/ada/.clawbot/.env" in seen(host)
        await pilot.press(*SECRET)
        assert SECRET not in seen(host)
        await pilot.press("enter")
        await until(pilot, lambda: below.saved_keys == {"DEEPSEEK_API_KEY": SECRET})
        await until(pilot, lambda: host.screen is host.shown and bool(host.notices))
        assert SECRET not in "".join(host.notices)


async def test_after_the_key_the_model_of_the_provider_is_highlighted() -> None:
    models = ModelsScreen(Runtime())
    async with showing(models) as (host, pilot):
        await until(pilot, lambda: "add a key" in seen(host))
        await pilot.press("ctrl+k")
        await until(pilot, lambda: "ANTHROPIC_API_KEY ·" in seen(host))
        await pilot.press("enter")
        await until(pilot, lambda: "paste ANTHROPIC_API_KEY" in seen(host))
        await pilot.press(*SECRET, "enter")
        await until(pilot, lambda: bool(host.notices))
        await until(pilot, lambda: getattr(models.current, "id", "") == "anthropic/claude-sonnet-4-5")
        await pilot.press("enter")
        assert host.result == "anthropic/claude-sonnet-4-5"


async def test_without_a_key_nothing_is_saved() -> None:
    below = Runtime()
    async with showing(ModelsScreen(below)) as (host, pilot):
        await until(pilot, lambda: "add a key" in seen(host))
        await pilot.press("ctrl+k")
        await until(pilot, lambda: "DEEPSEEK_API_KEY" in seen(host))
        await pilot.press("enter")
        await until(pilot, lambda: "paste ANTHROPIC_API_KEY" in seen(host))
        await pilot.press("enter")
        await until(pilot, lambda: "Nothing was typed." in seen(host))
        await pilot.press("escape")
        await until(pilot, lambda: host.screen is host.shown)
        assert below.saved_keys == {}


async def test_a_key_that_cannot_be_saved_is_told_without_the_key() -> None:
    below = Runtime()
    below.faults["save_key"] = OSError(30, "Read-only file system", "/home/ada/.clawbot/.env")
    async with showing(ModelsScreen(below)) as (host, pilot):
        await until(pilot, lambda: "add a key" in seen(host))
        await pilot.press("ctrl+k")
        await until(pilot, lambda: "DEEPSEEK_API_KEY" in seen(host))
        await pilot.press("enter")
        await until(pilot, lambda: "paste ANTHROPIC_API_KEY" in seen(host))
        await pilot.press(*SECRET, "enter")
        await until(pilot, lambda: bool(host.notices))
        assert "Read-only file system" in host.notices[0]
        assert SECRET not in host.notices[0]


@pytest.mark.parametrize("value", ["", "two words", "键", "a\x1bb", "a\tb"])
def test_what_cannot_be_a_key_is_told_without_repeating_it(value: str) -> None:
    problem = key_problem(value)
    assert problem
    assert not value or value not in problem


def test_a_key_is_taken_as_it_is() -> None:
    assert key_problem("sk-ant_A1+/=.") == ""


def agents() -> AgentsScreen:
    below = Runtime()
    below.agents = [
        AgentInfo("main", Path("/home/ada/.clawbot/workspace"), "openai/gpt-5", current=False),
        AgentInfo("work", Path("/home/ada/工作"), "offline", current=True),
        AgentInfo("study", Path("/home/ada/study"), "auto", current=False),
    ]
    return AgentsScreen(below)


async def test_each_agent_is_told_with_its_model_and_its_workspace() -> None:
    async with showing(agents()) as (host, pilot):
        await until(pilot, lambda: "study" in seen(host))
        assert "openai/gpt-5 · /home/ada/.clawbot/workspace" in seen(host)
        assert "● work" in seen(host)
        assert "this one · offline · /home/ada/工作" in seen(host)
        assert "only agent" not in seen(host)


async def test_another_agent_is_given_back() -> None:
    async with showing(agents()) as (host, pilot):
        await until(pilot, lambda: "study" in seen(host))
        await pilot.press("down", "enter")
        assert host.result == "study"


async def test_the_one_that_is_talked_to_changes_nothing() -> None:
    async with showing(agents()) as (host, pilot):
        await until(pilot, lambda: "study" in seen(host))
        await pilot.press("enter")
        assert host.result is None


async def test_with_one_agent_it_is_said_how_there_can_be_another() -> None:
    async with showing(AgentsScreen(Runtime()), (100, 24)) as (host, pilot):
        await until(pilot, lambda: "this is the only agent" in seen(host))
        assert "write `agents: {work: {}}` into /home/ada/.clawbot/config.yaml, then /agent work" in seen(host)
        await pilot.press("down", "enter")
        assert host.result is PENDING


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


TITLE = "Go back to · 3"


def runtime(home: Path) -> FakeRuntime:
    return FakeRuntime(home, history=conversation(3))


@pytest.mark.few(2)
@pytest.mark.parametrize("size", [(80, 24), (100, 30), (120, 36), (50, 14)])
async def test_esc_twice_lists_the_messages_and_says_what_becomes_of_the_rest(
    tmp_path: Path, size: tuple[int, int]
) -> None:
    async with chatting(runtime(tmp_path), size) as (app, pilot):
        await pilot.press("escape")
        await until(pilot, lambda: "esc again" in screen_text(app))
        await pilot.press("escape")
        await until(pilot, lambda: "question 0" in screen_text(app) and "nothing is deleted" in screen_text(app))

        def rows() -> list[str]:
            frame = app.screen.query_one("#frame").region
            return [line[: frame.right].rstrip(" │") for line in screen_text(app).splitlines()[frame.y : frame.bottom]]

        def row() -> str:
            return next(line for line in rows() if "question 1" in line)

        assert "\n".join(rows()).index("question 2") < "\n".join(rows()).index("question 1")
        # Its age stands at the end of the row, once the frame is laid out.
        await until(pilot, lambda: min(size[0], 104) - 10 < len(row()) and not row().endswith("…"))


async def test_the_chosen_message_is_in_the_prompt_and_the_page_ends_before_it(tmp_path: Path) -> None:
    below = runtime(tmp_path)
    async with chatting(below, (100, 30)) as (app, pilot):
        await pilot.press("escape", "escape")
        await until(pilot, lambda: TITLE in screen_text(app))
        await pilot.press("down", "enter")
        await until(pilot, lambda: app.chat.composer.prompt.text == "question 1")
        assert "question 0" in page_text(app)
        assert "question 1" not in page_text(app)
        assert "files are unchanged" in page_text(app)
        await pilot.press(*" again", "enter")
        await until(pilot, lambda: below.submitted == ["question 1 again"])


async def test_esc_leaves_the_list_and_the_conversation_as_it_was(tmp_path: Path) -> None:
    below = runtime(tmp_path)
    async with chatting(below, (100, 30)) as (app, pilot):
        await send(app, pilot, "/rewind")
        await until(pilot, lambda: TITLE in screen_text(app))
        await pilot.press("escape")
        await until(pilot, lambda: app.screen is app.chat)
        assert len(below.items) == 6
        assert app.chat.composer.is_empty


async def test_two_esc_that_are_far_apart_do_nothing(tmp_path: Path) -> None:
    async with chatting(runtime(tmp_path), (100, 30)) as (app, pilot):
        assert isinstance(app.clock, StepClock)
        await pilot.press("escape")
        app.clock.seconds += 5
        await pilot.press("escape")
        await pilot.pause()
        assert app.screen is app.chat


async def test_esc_that_stops_a_turn_is_not_the_first_of_two(tmp_path: Path) -> None:
    hold = Hold()
    below = FakeRuntime(tmp_path, turns=[[hold]])
    async with chatting(below, (100, 30)) as (app, pilot):
        await send(app, pilot, "hello")
        await until(pilot, hold.reached.is_set)
        await pilot.press("escape")
        await until(pilot, lambda: not app.chat.turns.busy)
        await pilot.press("escape")
        await pilot.pause()
        assert app.screen is app.chat


async def test_with_text_in_the_prompt_esc_twice_does_nothing(tmp_path: Path) -> None:
    async with chatting(runtime(tmp_path), (100, 30)) as (app, pilot):
        await pilot.press(*"abc", "escape", "escape")
        await pilot.pause()
        assert app.screen is app.chat
        assert app.chat.composer.prompt.text == "abc"


async def test_what_can_not_be_done_is_said(tmp_path: Path) -> None:
    below = runtime(tmp_path)
    below.faults["rewind"] = SessionStoreError("The disk is full.")
    async with chatting(below, (100, 30)) as (app, pilot):
        await pilot.press("escape", "escape")
        await until(pilot, lambda: TITLE in screen_text(app))
        await pilot.press("enter")
        await until(pilot, lambda: "The disk is full." in screen_text(app))
        assert "question 2" in page_text(app)


@pytest.mark.parametrize("keys", [("down", "ctrl+b"), ("down", "tab", "f")])
async def test_a_fork_begins_before_the_chosen_message(tmp_path: Path, keys: tuple[str, ...]) -> None:
    below = runtime(tmp_path)
    async with chatting(below, (100, 30)) as (app, pilot):
        await pilot.press("escape", "escape")
        await until(pilot, lambda: TITLE in screen_text(app) and "fork here" in screen_text(app))
        await pilot.press(*keys)
        await until(pilot, lambda: app.chat.composer.prompt.text == "question 1")
        assert len(below.forked) == 1
        assert "question 0" in page_text(app)
        assert "question 1" not in page_text(app)
        assert "Continuing from here" not in page_text(app)


async def test_a_fork_that_fails_says_why(tmp_path: Path) -> None:
    below = runtime(tmp_path)
    below.faults["rewind"] = SessionStoreError("The disk is full.")
    async with chatting(below, (100, 30)) as (app, pilot):
        await pilot.press("escape", "escape")
        await until(pilot, lambda: TITLE in screen_text(app))
        await pilot.press("ctrl+b")
        await until(pilot, lambda: "The disk is full." in screen_text(app))
        assert "question 2" in page_text(app)
