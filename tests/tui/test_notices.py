"""Notices at the edge of the screen: every word of them is shown."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from textual.widgets._toast import Toast

from clawbot.tui.app import ClawbotApp
from tests.tui.chat_host import screen_text, until
from tests.tui.test_switching import agent, talking


def is_seen(app: ClawbotApp, text: str) -> bool:
    return text in screen_text(app)


@pytest.mark.parametrize("width", [60, 80, 99, 100])
async def test_a_notice_keeps_its_last_word_at_every_length(width: int, tmp_path: Path) -> None:
    async with talking(agent(tmp_path, "main")) as (_, app, pilot):
        await pilot.resize_terminal(width, 30)
        for length in range(48, 60):
            app.notify(f"{'x' * (length - 5)} {length}e.", markup=False, timeout=600)
            await until(pilot, partial(is_seen, app, f"{length}e."))
            assert f"{length}e." in screen_text(app)
            app.clear_notifications()
            await until(pilot, lambda: not app.screen.query(Toast))
