"""Texts that a model writes to break the page: all of them are shown, in pieces of bounded work."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from rich.cells import chop_cells
from textual.app import App, ComposeResult
from textual.events import Key

from clawbot.text.graphemes import edge, edges
from clawbot.tui.render import markdown
from clawbot.tui.render import stream as streaming
from clawbot.tui.render.items import MarkdownItem, Page
from clawbot.tui.render.lines import StyledSpan, plain_spans, width_of, wrap
from clawbot.tui.render.markdown import FLOW_CHARS, markdown_blocks
from clawbot.tui.render.markdown_blocks import Flow, Lexers, MarkdownBlock
from clawbot.tui.render.stream import AT_ONCE, LONG_BLOCK, UNCUT, MarkdownStream
from clawbot.tui.vi import NORMAL, Vi, press
from clawbot.tui.widgets.fields import Area, Line
from tests.tui.chat_host import chatting, screen_text, send, until
from tests.tui.fake_runtime import FakeRuntime, reply

TEXTS = {
    "quotes": "> " * 10_000 + "word",
    "lists": "\n".join("  " * depth + "- word" for depth in range(400)),
    "lists in one line": "- " * 5000 + "word",
    "numbers": "1. " * 5000 + "word",
    "quotes and lists": "> - " * 3000 + "word",
    "stars": "*" * 9000 + "word" + "*" * 9000,
    "emphasis": "*a **b " * 3000 + "** word",
    "brackets": "[" * 9000 + "word",
    "links": "[a](" * 5000 + "word",
    "definitions": "\n".join(f"[{number}]: word" for number in range(4000)),
    "notes": "a/" * 20_000 + "word.md:3",
    "a long word": "word" * 200_000,
    "a long line": "word " * 200_000,
    "a long line of code": "```json\n" + "word" * 20_000 + "\n```\nword",
    "columns": "|word" * 10_000 + "|\n" + "|-" * 10_000 + "|\n" + "|word" * 10_000 + "|\n",
    "a long quote": "> word\n" * 5000,
    "marks": "word" + "\u0301" * 50_000,
}


def shown(blocks: list[MarkdownBlock]) -> str:
    page = Page(80, Lexers())
    return "\n".join(line.text for block in blocks for line in MarkdownItem(block).lines(page))


def streamed(text: str, size: int) -> list[MarkdownBlock]:
    stream = MarkdownStream()
    blocks: list[MarkdownBlock] = []
    for at in range(0, len(text), size):
        stream.feed(text[at : at + size])
        blocks += stream.flush()[0]
    return [*blocks, *stream.finish()]


def longest_flow(blocks: list[MarkdownBlock]) -> int:
    flows = [block for block in blocks if isinstance(block, Flow)]
    return max((sum(len(span.text) for span in flow.spans) for flow in flows), default=0)


def letters(text: str) -> int:
    return "".join(text.split()).count("word")


@pytest.mark.few(6)
@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("size", [3000, 10**7])
def test_every_word_is_shown_by_parts_that_are_quick_to_parse_and_to_wrap(
    name: str, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    parsed = []
    parse = markdown.parse

    def counting(text: str, env: dict[str, Any] | None = None) -> Any:
        parsed.append(len(text))
        return parse(text, env)

    monkeypatch.setattr("clawbot.tui.render.stream.parse", counting)
    text = TEXTS[name]
    blocks = streamed(text, size)
    # Definitions of links are not shown, by the rules of Markdown.
    assert letters(shown(blocks)) == letters(text) or name == "definitions"
    assert max(parsed) <= UNCUT + AT_ONCE + LONG_BLOCK
    assert longest_flow(blocks) <= FLOW_CHARS


@pytest.mark.parametrize("name", ["quotes", "lists", "lists in one line", "numbers", "quotes and lists", "a long line"])
def test_every_word_of_a_whole_text_is_shown(name: str) -> None:
    blocks = markdown_blocks(TEXTS[name])
    assert letters(shown(blocks)) == letters(TEXTS[name])
    assert longest_flow(blocks) <= FLOW_CHARS


def test_what_is_nested_too_deeply_is_shown_as_it_is_written() -> None:
    text = "before\n\n" + "> " * 30 + "deep\n\n- after"
    assert [line for line in shown(markdown_blocks(text)).split("\n") if line.strip()] == [
        "   before",
        "   " + "> " * 30 + "deep",
        "   • after",
    ]


def test_more_than_any_reply_is_not_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streaming, "PARSED_CHARS", 8000)
    text = "*word*\n\n" * 2000
    stream = MarkdownStream()
    stream.feed(text)
    blocks = stream.finish()
    assert "*word*" not in shown(blocks[:500])
    assert "*word*" in shown(blocks[-1:])
    assert letters(shown(blocks)) == letters(text)


def test_code_with_an_endless_line_stays_code_and_ends() -> None:
    blocks = streamed("```json\n" + "x" * 30_000 + "\n```\n\n*after*", 1000)
    assert shown(blocks).count("x") == 30_000
    assert "`" not in shown(blocks)
    assert isinstance(blocks[-1], Flow)
    assert blocks[-1].spans == (StyledSpan("after", "em"),)


def test_a_long_word_is_wrapped_by_looks_at_a_few_characters(monkeypatch: pytest.MonkeyPatch) -> None:
    looked = []
    chop = chop_cells

    def counting(text: str, width: int) -> list[str]:
        looked.append(len(text))
        return chop(text, width)

    monkeypatch.setattr("clawbot.tui.render.lines.chop_cells", counting)
    folded = wrap([StyledSpan("中e\u0301x" * 50_000)], 40)
    assert sum(looked) < 5 * 200_000 * 4
    assert "".join(span.text for line in folded for span in line) == "中e\u0301x" * 50_000
    assert all(width_of("".join(span.text for span in line)) <= 40 for line in folded)


@pytest.mark.parametrize("text", ["a" * 50_000 + ".md", "a/" * 25_000 + "b.md", "a.md:" * 10_000, "http://" * 7000])
def test_no_address_takes_for_ever(text: str) -> None:
    assert "".join(span.text for span in plain_spans(text)) == text


@pytest.mark.few(2)
@pytest.mark.parametrize("name", ["quotes", "lists in one line", "stars", "columns", "a long word"])
async def test_the_screen_goes_on_after_a_hostile_answer(tmp_path: Path, name: str) -> None:
    turn = [*reply(TEXTS[name], pieces=5), *reply("\n\nthe end")]
    async with chatting(FakeRuntime(tmp_path, turns=[turn])) as (app, pilot):
        await send(app, pilot, "go")
        await until(pilot, lambda: not app.chat.turns.busy)
        await until(pilot, lambda: "the end" in screen_text(app))
        await pilot.press("h", "i")
        assert app.chat.composer.prompt.text == "hi"


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


@pytest.mark.few(2)
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
