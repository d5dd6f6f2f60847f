"""The first lines of an empty page: the first start, later ones, and where their lines lead."""

from __future__ import annotations

from pathlib import Path

import pytest
from inline_snapshot import snapshot

from clawbot.llm.protocol import ModelInfo
from clawbot.text.sanitize import tilde
from clawbot.tui.render.items import Page
from clawbot.tui.render.lines import short_model, width_of
from clawbot.tui.render.markdown_blocks import Lexers
from clawbot.tui.render.start import RecentTalk, StartItem, answering
from tests.tui.chat_host import chatting, page_text, screen_text, until
from tests.tui.fake_runtime import FakeRuntime, conversation, summary

OFFLINE = ModelInfo(ref="offline", reason="no key and no local server was found")
GPT = ModelInfo(ref="openai/gpt-5", reason="OPENAI_API_KEY is set")
LOCAL = [ModelInfo(ref=f"ollama/m{number}") for number in range(5)]


def text(model: ModelInfo, found: list[ModelInfo], width: int = 90, rows: int = 40) -> str:
    told = answering(model, found, 9, "f3")
    item = StartItem(rows, told, "~/.clawbot/workspace", "~/.clawbot/agents/main/sessions")
    return "\n".join(line.text.rstrip() for line in item.lines(Page(width, Lexers())))


def test_with_nothing_it_runs_offline_and_says_what_was_looked_for() -> None:
    assert text(OFFLINE, [OFFLINE]) == snapshot("""\

   ╱╱╱ clawbot  an agent that does not forget

   ❯ remember that I prefer tabs over spaces
   ❯ what do I prefer?
   ❯ show USER.md

   notes     ~/.clawbot/workspace, plain Markdown
   sessions  ~/.clawbot/agents/main/sessions

   model     offline: no key and no local server was found
             it remembers, finds and quotes your notes, and reads files
             /model chooses another · found here: none · keys looked for: 9
             f3 runs one on this machine, without a key
""")


def test_a_small_pane_gets_all_of_it_in_eight_lines() -> None:
    shown = text(OFFLINE, [OFFLINE], width=39, rows=8)
    assert shown == snapshot("""\
   ╱╱╱ clawbot  an agent that does not…
   ❯ remember that I prefer tabs over …
   ❯ what do I prefer?
   ❯ show USER.md
   notes     ~/.clawbot/workspace
   model     offline: no key and no lo…
             /model chooses another
             f3 runs one on this machi…\
""")
    assert max(map(width_of, shown.split("\n"))) <= 39


def test_with_a_key_it_names_the_model_and_why() -> None:
    shown = text(GPT, [GPT, OFFLINE])
    assert "model     openai/gpt-5: OPENAI_API_KEY is set" in shown
    assert "f3" not in shown


def test_offline_by_choice_names_what_else_is_there() -> None:
    shown = text(ModelInfo(ref="offline", reason="chosen"), [*LOCAL, OFFLINE], width=118)
    assert "found here: ollama/m0, ollama/m1, ollama/m2 and 2 more · keys looked for: 9" in shown


def test_a_model_that_lies_here_is_one_key_away() -> None:
    here = ModelInfo(ref="local/qwen3-4b")
    assert "f3 runs one" in text(OFFLINE, [here, OFFLINE])
    assert "f3 runs one" not in text(OFFLINE, [here, *LOCAL, OFFLINE])


def test_odd_signs_in_names_are_made_visible() -> None:
    assert "\x1b" not in tilde(Path("/data/odd\x1b[0m"), Path("/home/ada"))


@pytest.mark.parametrize(
    ("ref", "shown"),
    [
        ("openai/gpt-5", "openai/gpt-5"),
        ("openrouter/moonshotai/kimi-k2", "openrouter/moonshotai/kimi-k2"),
        ("llamafile//tmp/m/Qwen3-4B-Q4_K_M.gguf", "llamafile/Qwen3-4B-Q4_K_M"),
        ("openai/models/qwen3.gguf", "openai/qwen3"),
        ("openai/C:\\models\\qwen3.gguf", "openai/qwen3"),
        ("offline", "offline"),
        ("openai//", "openai//"),
    ],
)
def test_a_model_out_of_a_file_goes_by_the_name_of_the_file(ref: str, shown: str) -> None:
    assert short_model(ref) == shown


@pytest.mark.parametrize("size", [(40, 12), (80, 24), (200, 50)])
async def test_the_first_page_fits_and_an_example_goes_into_the_prompt(tmp_path: Path, size: tuple[int, int]) -> None:
    async with chatting(FakeRuntime(tmp_path, first_start=True), size) as (app, pilot):
        await until(pilot, lambda: "╱╱╱ clawbot" in screen_text(app) and "/model" in screen_text(app))
        rows = screen_text(app).splitlines()
        row = next(number for number, line in enumerate(rows) if "what do I prefer?" in line)
        await pilot.click(offset=(rows[row].index("what") + 2, row))
        await until(pilot, lambda: app.chat.composer.prompt.text == "what do I prefer?")
        assert app.focused is app.chat.composer.prompt


async def test_an_example_can_be_chosen_by_keys(tmp_path: Path) -> None:
    async with chatting(FakeRuntime(tmp_path, first_start=True)) as (app, pilot):
        await until(pilot, lambda: "/model chooses" in screen_text(app))
        await pilot.press("f6", "up", "enter")
        await until(pilot, lambda: app.chat.composer.prompt.text == "show USER.md")


async def test_the_line_of_the_model_opens_the_choice(tmp_path: Path) -> None:
    async with chatting(FakeRuntime(tmp_path, first_start=True)) as (app, pilot):
        await until(pilot, lambda: "/model chooses" in screen_text(app))
        await pilot.press("f6", "enter")
        await until(pilot, lambda: "add a key" in screen_text(app))


async def test_a_later_start_offers_the_last_sessions(tmp_path: Path) -> None:
    talks = [summary(number, title, turns=3) for number, title in enumerate(("one", "茶的笔记", "three", "four"), 1)]
    runtime = FakeRuntime(tmp_path, sessions=[summary(0, "empty", turns=0), *talks])
    async with chatting(runtime) as (app, pilot):
        await until(pilot, lambda: "❯ 茶的笔记" in screen_text(app))
        assert "four" not in screen_text(app)
        assert "empty" not in screen_text(app)
        await pilot.press("f6", "up", "enter")
        await until(pilot, lambda: runtime.resumed == ["00000002"])


async def test_a_page_with_a_conversation_begins_with_it(tmp_path: Path) -> None:
    runtime = FakeRuntime(tmp_path, history=conversation(1), sessions=[summary(1, "one", turns=3)])
    async with chatting(runtime) as (app, pilot):
        await until(pilot, lambda: "question 0" in screen_text(app))
        assert "╱╱╱" not in page_text(app)


def test_a_session_without_room_is_cut_with_a_sign() -> None:
    item = StartItem(40, talks=[RecentTalk("1", "我们为什么要换端口？" * 9, "2 h · 3 turns")])
    lines = [line.text for line in item.lines(Page(40, Lexers()))]
    assert all(width_of(line) <= 40 for line in lines)
    assert any("…" in line and "3 turns" in line for line in lines)
