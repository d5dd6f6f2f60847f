"""What is selected by clicks, and copied: words and paragraphs, without times and lines."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual.geometry import Offset
from textual.selection import SELECT_ALL

from clawbot.tui.app import ClawbotApp
from tests.tui.chat_host import chatting, page_text, send, until
from tests.tui.fake_runtime import FakeRuntime, conversation, reply

ANSWER = (
    "The proxy is at `10.0.0.3:8443`, see docs/a-b.md, 端口是对的。\n\nA second paragraph that is long "
    + "and long " * 20
)


def selected(app: ClawbotApp) -> str:
    return app.screen.get_selected_text() or ""


@pytest.mark.parametrize(
    ("word", "times", "copied"),
    [
        ("proxy", 2, "proxy"),
        ("10.0.0.3", 2, "10.0.0.3:8443"),
        ("a-b.md", 2, "docs/a-b.md"),
        ("端口", 2, "端口是对的"),
        ("second", 3, ANSWER.partition("\n\n")[2].strip()),
        ("where", 3, "where is it?"),
    ],
)
async def test_two_clicks_select_a_word_and_three_a_paragraph(
    tmp_path: Path, word: str, times: int, copied: str
) -> None:
    async with chatting(FakeRuntime(tmp_path, turns=[reply(ANSWER)]), (90, 30)) as (app, pilot):
        await send(app, pilot, "where is it?")
        await until(pilot, lambda: not app.chat.turns.busy and word in page_text(app))
        page = app.chat.page
        row, text = next((row, text) for row, text in enumerate(page_text(app).split("\n")) if word in text)
        await pilot.click(page, Offset(text.index(word) + 1, row - page.scroll_offset.y), times=times)
        await until(pilot, lambda: selected(app) != "")
        assert " ".join(selected(app).split()) == copied


async def test_copying_leaves_out_times_and_lines(tmp_path: Path) -> None:
    async with chatting(FakeRuntime(tmp_path, history=conversation(2))) as (app, pilot):
        await until(pilot, lambda: "Answer 1" in page_text(app))
        app.screen.selections = {app.chat.page: SELECT_ALL}
        assert selected(app) == "question 0\n\nAnswer 0, in a sentence.\n\nquestion 1\n\nAnswer 1, in a sentence."
