"""The choice of a model, and a key on the way."""

from __future__ import annotations

import pytest
from textual.widgets import Input

from clawbot.errors import ClawbotError
from clawbot.tui.screens.choices import ModelsScreen, key_problem
from tests.tui.screens.host import Runtime, seen, showing, until

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
