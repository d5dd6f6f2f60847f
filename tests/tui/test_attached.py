"""What is attached to a message, on the page: chips, also after a resume."""

from __future__ import annotations

from pathlib import Path

from clawbot.agent.events import TurnEnded, TurnStarted
from clawbot.agent.status_types import HistoryItem
from clawbot.messages import TextBlock, UserMessage
from clawbot.tui.render.items import ChipsItem, Page
from clawbot.tui.render.markdown_blocks import Lexers
from tests.tui.chat_host import chatting, page_text, screen_text, until
from tests.tui.fake_runtime import FakeRuntime


async def test_a_chip_tells_what_went_along_and_the_content_is_not_shown(tmp_path: Path) -> None:
    async with chatting(FakeRuntime(tmp_path)) as (app, _):
        app.chat.order.submitted(
            TurnStarted(
                text="sum up @a.py", session_key="main", session_id="s", model="x", attached=("a.py · 12 lines",)
            )
        )
        app.chat.order.submitted(TurnEnded(status="done"))
        assert "@a.py · 12 lines" in page_text(app)


async def test_chips_are_there_after_a_resume(tmp_path: Path) -> None:
    content = [TextBlock("sum up @a.py"), TextBlock("Attached file a.py", attached="a.py · 12 lines")]
    history = [HistoryItem("u1", 1, UserMessage(content=[*content]))]
    async with chatting(FakeRuntime(tmp_path, history=history)) as (app, pilot):
        await until(pilot, lambda: "@a.py · 12 lines" in screen_text(app))
        assert "Attached file" not in page_text(app)


def test_chips_fill_the_width_and_a_long_name_is_cut_with_a_sign() -> None:
    item = ChipsItem(("one.md · 3 lines", "two.md · 3 lines", "a/" * 40))
    lines = [line.text for line in item.lines(Page(40, Lexers()))]
    assert [line.strip() for line in lines[:2]] == ["@one.md · 3 lines", "@two.md · 3 lines"]
    assert "…" in lines[2]
    assert all(len(line) <= 40 for line in lines)
