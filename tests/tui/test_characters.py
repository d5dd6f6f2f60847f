"""The cursor, Backspace, Delete, selection, the mouse and wrapping go by what a reader calls a character."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest
from textual.app import App, ComposeResult
from textual.events import Key

from clawbot.text.graphemes import edge, edges
from clawbot.tui.vi import NORMAL, Vi, press
from clawbot.tui.widgets.fields import Area, Line
from tests.tui.chat_host import chatting, until
from tests.tui.fake_runtime import FakeRuntime

FAMILY, ACCENT, FLAG, HANGUL, SKIN, KEYCAP = "👨‍👩‍👧‍👦", "e\u0301", "🇩🇪", "\u1112\u1161\u11ab", "👍🏽", "1\ufe0f\u20e3"
CHARACTERS = (FAMILY, ACCENT, FLAG, HANGUL, SKIN, KEYCAP, "中", "x")

# What is there, the keys, and what is there then.
EDITS: list[tuple[str, Sequence[str], str]] = [
    ("ab{}", ["backspace"], "ab"),
    ("ab{}{}", ["backspace"], "ab{}"),
    ("a{}b", ["left", "backspace"], "ab"),
    ("a{}b", ["left", "left", "delete"], "ab"),
    ("a{}b", ["left", "left", "X"], "aX{}b"),
    ("a{}b", ["home", "right", "right", "X"], "a{}Xb"),
    ("a{}b", ["left", "shift+left", "X"], "aXb"),
    ("a{}b", ["home", "right", "shift+right", "X"], "aXb"),
    ("{}", ["home", "delete"], ""),
]


def holds(field: Area | Line, text: str) -> bool:
    return text == (field.text if isinstance(field, Area) else field.value)


async def play(app: App[object], keys: Sequence[str]) -> None:
    for key in keys:
        app.post_message(Key(key, key if len(key) == 1 else None))


@pytest.mark.parametrize("character", CHARACTERS)
async def test_a_key_moves_by_or_deletes_one_character(character: str, tmp_path: Path) -> None:
    async with chatting(FakeRuntime(tmp_path)) as (app, pilot):
        prompt = app.chat.composer.prompt
        for field in ("prompt", "filter"):
            for before, keys, after in EDITS:
                expected = after.format(character, character)
                if field == "prompt":
                    prompt.take(before.format(character, character))
                    await play(app, keys)
                    await until(pilot, partial(holds, prompt, expected))
                    continue
                line = app.screen.query_one("#filter", Line)
                line.value = before.format(character, character)
                line.action_end()
                await play(app, keys)
                await until(pilot, partial(holds, line, expected))
            if field == "prompt":
                prompt.take("")
                await pilot.press("ctrl+l")
                await until(pilot, lambda: isinstance(app.focused, Line))


class Fields(App[None]):
    CSS = "Area { width: 20; height: 12; border: none; padding: 0 } Line { border: none; padding: 0; height: 1 }"

    def compose(self) -> ComposeResult:
        yield Line("x" + FAMILY * 3 + ACCENT, compact=True)
        yield Area("x" + FAMILY * 3 + ACCENT + "\n" + FAMILY * 30, compact=True)


async def test_a_click_and_a_step_down_lead_to_the_edge_of_a_character() -> None:
    app = Fields()
    async with app.run_test(size=(60, 20)) as pilot:
        area, line = app.query_one(Area), app.query_one(Line)
        for cell, characters in ((0, 0), (1, 1), (2, 1), (3, 2), (4, 2), (5, 3), (7, 4)):
            offset = 1 + (characters - 1) * len(FAMILY) if characters else 0
            await pilot.click(Area, (cell, 0))
            assert area.cursor_location == (0, offset)
            await pilot.click(Line, (cell, 0))
            assert line.cursor_position == offset
        await pilot.click(Area, (3, 0))
        area.action_cursor_down()
        assert area.cursor_location == (1, len(FAMILY))
        sections = area.wrapped_document.get_sections(1)
        assert all(section == FAMILY * (len(section) // len(FAMILY)) for section in sections)
        assert [len(section) // len(FAMILY) for section in sections][:3] == [9, 9, 9]


@pytest.mark.parametrize("character", CHARACTERS)
@pytest.mark.parametrize(
    ("keys", "after"), [("x", "ab"), ("X", "{}b"), ("ix", "a{}b"), ("lx", "a{}"), ("hx", "{}b"), ("s", "ab")]
)
def test_vi_takes_whole_characters(character: str, keys: str, after: str) -> None:
    vi, text, cursor = Vi(mode=NORMAL), f"a{character}b", 1
    for key in keys:
        step = press(vi, text, cursor, key)
        vi, text, cursor = step.vi, step.text, step.cursor
    assert text == after.format(character)


def test_edges_are_those_of_characters() -> None:
    text = "".join(CHARACTERS)
    assert list(edges(text)) == [len("".join(CHARACTERS[:at])) for at in range(len(CHARACTERS) + 1)]
    assert [edge(text, at) for at in (0, 3, len(FAMILY), len(text), len(text) + 5, -2)] == [
        0,
        0,
        len(FAMILY),
        len(text),
        len(text),
        0,
    ]
    assert edge(text, 3, after=True) == len(FAMILY)
