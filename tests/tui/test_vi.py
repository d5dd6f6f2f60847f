"""vi's commands as texts: what is typed, and what becomes of the text and the cursor, which is written as ¦."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual.pilot import Pilot

from clawbot.config.schema import Settings
from clawbot.tui.app import ClawbotApp
from clawbot.tui.vi import INSERT, NORMAL, VISUAL, Step, Vi, press
from tests.tables import load_table
from tests.tui.chat_host import chatting, screen_text, send, until
from tests.tui.fake_runtime import FakeRuntime, Hold, reply

FAMILY = "👨‍👩‍👧‍👦"
NAMES = {"␛": "escape", "®": "ctrl+r", "←": "left", "→": "right"}


def play(text: str, keys: str) -> Step:
    """`keys`, typed in the mode normal; in the mode insert they are put in as the prompt does it."""
    cursor = text.index("¦")
    step = Step(Vi(mode=NORMAL), text.replace("¦", ""), cursor)
    for key in keys:
        vi, shown, at, _ = step
        if vi.mode == INSERT and key not in NAMES:
            step = Step(vi, shown[:at] + key + shown[at:], at + 1)
        else:
            step = press(vi, shown, at, NAMES.get(key, key))
    return step


def after(text: str, keys: str) -> str:
    _, shown, cursor, _ = play(text, keys)
    return f"{shown[:cursor]}¦{shown[cursor:]}"


@pytest.mark.parametrize(
    ("keys", "text", "result"),
    load_table(__file__, "motions"),
)
def test_motions(keys: str, text: str, result: str) -> None:
    assert after(text, keys) == result


@pytest.mark.parametrize(
    ("keys", "text", "result"),
    [
        ("x", "a¦bc", "a¦c"),
        ("3x", "a¦bcde", "a¦e"),
        ("x", "ab¦c", "a¦b"),
        ("X", "ab¦c", "a¦c"),
        ("dw", "¦one two", "¦two"),
        ("d2w", "¦one two three", "¦three"),
        ("2d2w", "¦a b c d e", "¦e"),
        ("dw", "one ¦two\nx", "one¦ \nx"),
        ("db", "one tw¦o", "one ¦o"),
        ("de", "¦one two", "¦ two"),
        ("d$", "a¦bc\nd", "¦a\nd"),
        ("D", "a¦bc\nd", "¦a\nd"),
        ("d0", "ab¦c", "¦c"),
        ("dd", "a\n¦b\nc", "a\n¦c"),
        ("dd", "a\n¦b", "¦a"),
        ("dd", "¦only", "¦"),
        ("2dd", "¦a\nb\nc", "¦c"),
        ("9dd", "¦a\nb\nc", "¦"),
        ("dj", "¦a\nb\nc", "¦c"),
        ("dk", "a\n¦b\nc", "¦c"),
        ("dG", "a\n¦b\nc", "¦a"),
        ("dgg", "a\nb¦\nc", "¦c"),
        ("dfx", "¦abxc", "¦c"),
        ("dtx", "¦abxc", "¦xc"),
        ("diw", "one t¦wo three", "one ¦ three"),
        ("daw", "one t¦wo three", "one ¦three"),
        ("daw", "one tw¦o", "on¦e"),
        ("dw", "¦中文 abc", "¦abc"),
        ("cwX␛", "¦one two", "¦X two"),
        ("ccX␛", "a\n  ¦b\nc", "a\n¦X\nc"),
        ("CX␛", "a¦bc", "a¦X"),
        ("sX␛", "a¦bc", "a¦Xc"),
        ("ciw新␛", "旧 o¦ld", "旧 ¦新"),
        ("ywP", "¦one two", "one¦ one two"),
        ("yyp", "¦a\nb", "a\n¦a\nb"),
        ("yyP", "a\n¦b", "a\n¦b\nb"),
        ("yy2p", "¦a", "a\n¦a\na"),
        ("ddp", "¦a\nb", "b\n¦a"),
        ("xp", "¦ab", "b¦a"),
        ("x3p", "¦ab", "baa¦a"),
        ("rX", "a¦bc", "a¦Xc"),
        ("2rX", "a¦bc", "aX¦X"),
        ("5rX", "a¦bc", "a¦bc"),
        ("~", "¦aB", "A¦B"),
        ("2~", "¦aB", "A¦b"),
        ("J", "¦a\n  b\nc", "a¦ b\nc"),
        ("3J", "¦a\nb\nc", "a b¦ c"),
        ("J", "¦a", "¦a"),
        ("iX␛", "a¦b", "a¦Xb"),
        ("aX␛", "¦ab", "a¦Xb"),
        ("IX␛", "  a¦b", "  ¦Xab"),
        ("AX␛", "¦ab\nc", "ab¦X\nc"),
        ("oX␛", "¦a\nb", "a\n¦X\nb"),
        ("OX␛", "a\n¦b", "a\n¦X\nb"),
        ("dz", "¦ab", "¦ab"),
        ("d␛x", "¦ab", "¦b"),
        ("3iX␛", "a¦b", "aXX¦Xb"),
        ("aX␛", f"¦{FAMILY}b", f"{FAMILY}¦Xb"),
        ("xp", f"a¦e\u0301{FAMILY}", f"a{FAMILY}¦e\u0301"),
        ("rX", f"a¦{FAMILY}b", "a¦Xb"),
        ("2rX", "¦e\u0301fg", "X¦Xg"),
        ("3rX", "¦e\u0301f", "¦e\u0301f"),
        ("~", "¦e\u0301f", "E\u0301¦f"),
        ("~", "¦ßa", "SS¦a"),
        ("vrX", f"a¦{FAMILY}b", "a¦Xb"),
        ("v~", "a¦e\u0301b", "a¦E\u0301b"),
        ("2AX␛", "¦a\nb", "aX¦X\nb"),
        ("2oX␛", "¦a", "a\nX\n¦X"),
        ("2OX␛", "¦a", "X\n¦X\na"),
        ("cwX␛", "¦a b", "¦X b"),
        ("c2wX␛", "¦a b c", "¦X c"),
        ("2dw", "¦a b\nc", "¦\nc"),
        ("ciwX␛", "a\n¦\nb", "a\n¦X\nb"),
        ("diw", "a\n¦\nb", "a\n¦\nb"),
    ],
)
def test_changes(keys: str, text: str, result: str) -> None:
    assert after(text, keys) == result


@pytest.mark.parametrize(
    ("keys", "text", "result"),
    load_table(__file__, "the_last_change_again"),
)
def test_the_last_change_again(keys: str, text: str, result: str) -> None:
    assert after(text, keys) == result


@pytest.mark.parametrize(
    ("keys", "text", "result"),
    load_table(__file__, "selections"),
)
def test_selections(keys: str, text: str, result: str) -> None:
    assert after(text, keys) == result


@pytest.mark.parametrize(
    ("keys", "text", "effect"),
    load_table(__file__, "what_only_the_prompt_can_do_is_left_to_it"),
)
def test_what_only_the_prompt_can_do_is_left_to_it(keys: str, text: str, effect: str) -> None:
    assert play(text, keys).effect == effect


def test_a_selection_knows_where_it_began() -> None:
    step = play("a¦bc", "vl")
    assert (step.vi.mode, step.vi.anchor, step.cursor) == (VISUAL, 1, 2)


@given(
    st.text(alphabet="ab ,.\n中文\u0301\u200d👨", max_size=20),
    st.integers(0, 20),
    st.lists(st.sampled_from([*"hjklwbeWBE0^$GgfFtT;,dcyxXrpPuiIaAoOJ~.vVDCYSs123", "escape", "ctrl+r"]), max_size=12),
)
def test_whatever_is_typed_the_cursor_stays_in_the_text(text: str, cursor: int, keys: list[str]) -> None:
    step = Step(Vi(mode=NORMAL), text, min(cursor, len(text)))
    for key in keys:
        step = press(step.vi, step.text, step.cursor, key)
        assert 0 <= step.cursor <= len(step.text)
        assert step.vi.mode in (NORMAL, INSERT) or 0 <= step.vi.anchor <= len(step.text)


@asynccontextmanager
async def vi(runtime: FakeRuntime) -> AsyncIterator[tuple[ClawbotApp, Pilot[object]]]:
    runtime.settings = Settings.model_validate({"tui": {"vi": True}})
    async with chatting(runtime) as (app, pilot):
        await until(pilot, lambda: " INSERT " in screen_text(app))
        yield app, pilot


async def test_the_prompt_is_edited_and_the_mode_is_shown(tmp_path: Path) -> None:
    async with vi(FakeRuntime(tmp_path, turns=[reply("done")])) as (app, pilot):
        prompt = app.chat.composer.prompt
        await pilot.press(*"say hallo", "escape", *"bcw", *"hello", "escape")
        await until(pilot, lambda: prompt.text == "say hello" and " NORMAL " in screen_text(app))
        assert prompt.cursor_location == (0, 8)
        await pilot.press("0", "d", "w", "u")
        await until(pilot, lambda: prompt.text == "say hello")
        await pilot.press("ctrl+r")
        await until(pilot, lambda: prompt.text == "hello")
        assert app.screen is app.chat
        await pilot.press("v", "e")
        await until(pilot, lambda: " VISUAL " in screen_text(app))
        assert prompt.selected_text == "hell"  # and the cursor stands on the last letter
        await pilot.press("escape", "o", *"你好 世界", "escape", "b", "D", "enter")
        await until(pilot, lambda: app.chat.runtime is not None and not prompt.text)
        await until(pilot, lambda: " INSERT " in screen_text(app))


async def test_escape_goes_to_normal_first_and_then_stops(tmp_path: Path) -> None:
    hold = Hold()
    runtime = FakeRuntime(tmp_path, turns=[[hold, *reply("never")]])
    async with vi(runtime) as (app, pilot):
        await send(app, pilot, "go")
        await until(pilot, hold.reached.is_set)
        await pilot.press("escape")
        await until(pilot, lambda: " NORMAL " in screen_text(app))
        assert app.chat.turns.busy
        await pilot.press("d", "escape", "escape")
        await until(pilot, lambda: not app.chat.turns.busy)


async def test_k_and_j_at_the_edges_bring_earlier_inputs(tmp_path: Path) -> None:
    async with vi(FakeRuntime(tmp_path, turns=[reply("done")])) as (app, pilot):
        await send(app, pilot, "first words")
        await until(pilot, lambda: not app.chat.turns.busy)
        await pilot.press("escape", "k")
        await until(pilot, lambda: app.chat.composer.prompt.text == "first words")
        await pilot.press("x", "j")
        await until(pilot, lambda: not app.chat.composer.prompt.text)


async def test_escape_closes_the_completions_first(tmp_path: Path) -> None:
    async with vi(FakeRuntime(tmp_path)) as (app, pilot):
        await pilot.press("/", "h")
        await until(pilot, lambda: app.chat.composer.completions.is_open)
        await pilot.press("escape")
        await until(pilot, lambda: not app.chat.composer.completions.is_open)
        assert " INSERT " in screen_text(app)


async def test_without_the_setting_escape_and_letters_are_what_they_are(tmp_path: Path) -> None:
    async with chatting(FakeRuntime(tmp_path)) as (app, pilot):
        await pilot.press("a", "escape", "x")
        await until(pilot, lambda: app.chat.composer.prompt.text == "ax")
        assert "INSERT" not in screen_text(app)
