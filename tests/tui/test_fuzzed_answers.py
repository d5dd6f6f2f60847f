"""Answers from a grammar of all that a model may write: each is drawn, none of them as a last resort."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clawbot.messages import AssistantMessage, TextBlock, UserMessage
from clawbot.sessions.conversation import HistoryItem
from clawbot.text.sanitize import clean, without_isolates
from clawbot.tui.render import lines as lines_module
from clawbot.tui.render.items import MarkdownItem, MarkItem, NoticeItem, Page, UserItem, drawn
from clawbot.tui.render.lines import width_of
from clawbot.tui.render.markdown import markdown_blocks
from clawbot.tui.render.markdown_blocks import Lexers, MarkdownBlock
from clawbot.tui.render.stream import MarkdownStream
from tests.tables import load_table
from tests.tui.chat_host import chatting, screen_text, send, until
from tests.tui.fake_runtime import FakeRuntime, reply

EXAMPLES = 10_000 if settings.get_current_profile_name() == "random" else 100
FAILED = "Shown as plain text"

DIGITS = st.sampled_from(["3", "²", "٣", "９", "①", "1" * 4301, "9" * 20, "0", "00012", "-1", "1e999", "१२३"])
SCRIPTS = [
    "word",
    "中文",
    "שלום",
    "العربية",
    "ก็",
    "ﷺ",
    "e\u0301",
    "\u0301" * 30,
    "\U0001f468\u200d\U0001f469",
    "x" * 3000,
]
SIGNS = ["\u202e", "\u2066", "\u200b", "\ufeff", "\x1b[31m", "\x00", "\t", "\xa0", "\u2028", "\r", "\ud800", "\\", " "]
ENTITIES = ["&amp;", "&#0;", "&#27;[31m", "&#1114112;", "&#x202E;", "&#x1F600;", "&#x2066;", "&#7;", "&#55296;"]
TARGETS = [
    "memory/x.md:",
    "a.md#L",
    "http://h:",
    "https://[::",
    "note:",
    "mailto:",
    "javascript:",
    "a/" * 300 + "b.md:",
]
MARKS = ["*", "**", "__", "~~", "`", "``", "[", "](", ")", "![", "<", ">", "|", "---", "[x] ", "\\|", "[^1]", "$"]
STARTS = load_table(__file__, "STARTS")
NESTED = ["- [ ] ", "***", "[a]: ", "  - ", "> - > ", "<b>", "===", "   1) "]
LINKED = st.builds(str.__add__, st.sampled_from(TARGETS), DIGITS)
ATOMS = st.one_of(DIGITS, LINKED, st.sampled_from([*SCRIPTS, *SIGNS, *ENTITIES, *MARKS]), st.text(max_size=8))
LINES = st.lists(ATOMS, max_size=8).map("".join)
ROWS = st.builds(str.__add__, st.sampled_from([*STARTS, *NESTED]), LINES)
ANSWERS = st.lists(st.one_of(ROWS, st.just("")), max_size=12).map("\n".join)


def streamed(text: str, size: int) -> list[MarkdownBlock]:
    stream = MarkdownStream()
    blocks: list[MarkdownBlock] = []
    for at in range(0, len(text), size):
        stream.feed(text[at : at + size])
        blocks += stream.flush()[0]
    return [*blocks, *stream.finish()]


@pytest.mark.timeout(3600 if EXAMPLES > 1000 else 120)
@settings(max_examples=EXAMPLES)
@given(text=ANSWERS, size=st.sampled_from([7, 300, 10**6]), width=st.sampled_from([24, 60, 120]))
def test_every_answer_of_the_grammar_is_drawn_within_its_width(text: str, size: int, width: int) -> None:
    page = Page(width, Lexers())
    items = list(map(MarkdownItem, [*streamed(text, max(size, len(text) // 30)), *markdown_blocks(clean(text))]))
    for item in [*items, UserItem(text), NoticeItem("error", text), MarkItem(text)]:
        for line in drawn(item, page):
            assert FAILED not in line.text
            assert width_of(without_isolates(line.text)) <= width
            assert not any(character in line.text for character in "\x1b\x00\x07\u202e")


class BrokenError(RuntimeError):
    """The renderer has a fault."""


def breaking(monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    """Let the renderer fail at a word."""
    sound = getattr(lines_module, place)

    def broken(first: object, *rest: object) -> object:
        if "BREAKS" in str(first):
            raise BrokenError("no such glyph")
        return sound(first, *rest)

    for module in ("lines", "markdown", "markdown_blocks", "items"):
        monkeypatch.setattr(f"clawbot.tui.render.{module}.{place}", broken, raising=False)


@pytest.mark.parametrize("place", ["plain_spans", "wrap"])
async def test_an_answer_that_cannot_be_drawn_is_plain_text_live_and_at_opening(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, place: str
) -> None:
    breaking(monkeypatch, place)
    runtime = FakeRuntime(tmp_path, turns=[reply("See BREAKS here\n\nand below")])
    async with chatting(runtime) as (app, pilot):
        await send(app, pilot, "go")
        await until(pilot, lambda: not app.chat.turns.busy)
        await until(pilot, lambda: "See BREAKS here" in screen_text(app) and FAILED in screen_text(app))
        assert "and below" in screen_text(app)
        assert "no such glyph" in caplog.text


STORED = [
    HistoryItem("u1", 1, UserMessage("what is it?")),
    HistoryItem("a1", 1, AssistantMessage([TextBlock("See BREAKS here")])),
    HistoryItem("u2", 2**53 - 1, UserMessage("from the year 287396")),
    HistoryItem("a2", 2, AssistantMessage([TextBlock(f"See memory/x.md:{'7' * 5000}")])),
    HistoryItem("a3", 3, AssistantMessage([TextBlock("the end")])),
]


async def test_a_stored_conversation_opens_whatever_is_in_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    breaking(monkeypatch, "plain_spans")
    async with chatting(FakeRuntime(tmp_path, history=STORED)) as (app, pilot):
        await until(pilot, lambda: "the end" in screen_text(app))
        stack = app.chat.page.stack
        shown = "\n".join(line.text for index in range(len(stack)) for line in stack.lines(index))
        for part in ("what is it?", "See BREAKS here", "from the year 287396", "777777", "the end"):
            assert part in shown, part
        assert shown.count("no such glyph") == 1
