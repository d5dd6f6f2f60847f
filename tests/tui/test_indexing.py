"""How far the memory's index is: the words for it, and the quiet line that says so."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest

from clawbot.memory.values import Progress
from clawbot.tui.status_bar import indexing_share, indexing_text
from tests.tui.chat_host import chatting, screen_text, until
from tests.tui.fake_runtime import FakeRuntime

HALF = Progress("text", 420, 1000, "files", 35.0, 12.4)


@pytest.mark.parametrize(
    ("progress", "text", "share"),
    [
        (HALF, "indexing 420 of 1,000 files, 12 s left", "indexing 42%"),
        (
            Progress("vectors", 5_000, 20_000, "pieces", 100.0, 150.0),
            "indexing the meaning of 5,000 of 20,000 pieces, 2 min 30 s left",
            "indexing 25%",
        ),
        (Progress("text", 1, 3, "files"), "indexing 1 of 3 files", "indexing 33%"),
        (Progress("text", 99, 100, "files", 50.0, 0.02), "indexing 99 of 100 files", "indexing 99%"),
        (Progress("scan", 0, 0, "files"), "looking for changed notes", "indexing"),
        (Progress("text", 0, 0, "files"), "looking for changed notes", "indexing"),
        (Progress("publish", 0, 1, "files"), "the new index is nearly ready", "indexing"),
    ],
)
def test_progress_in_words(progress: Progress, text: str, share: str) -> None:
    assert indexing_text(progress) == text
    assert indexing_share(progress) == share


async def test_the_status_line_says_that_the_memory_is_indexed(tmp_path: Path) -> None:
    runtime = FakeRuntime(tmp_path)
    async with chatting(runtime) as (app, pilot):
        assert "memory 128 notes" in screen_text(app)
        runtime.index(HALF)
        await until(pilot, lambda: "indexing 42%" in screen_text(app))
        assert "128 notes" not in screen_text(app)
        runtime.index(None)
        await until(pilot, lambda: "memory 128 notes" in screen_text(app))


async def test_what_is_indexed_at_the_start_is_told(tmp_path: Path) -> None:
    runtime = FakeRuntime(tmp_path)
    runtime.memory.progress = HALF
    async with chatting(runtime) as (app, pilot):
        await until(pilot, lambda: "indexing 42%" in screen_text(app))


async def test_a_sync_that_is_soon_over_is_not_told(tmp_path: Path) -> None:
    runtime = FakeRuntime(tmp_path)
    told: list[str] = []
    async with chatting(runtime) as (app, pilot):
        app.chat.watch(app.chat.status, "state", lambda state: told.append(state.indexing))
        phases: tuple[Literal["scan", "text"], ...] = ("scan", "text")
        for phase in phases:
            runtime.index(Progress(phase, 0, 1, "files"))
        runtime.index(None)
        runtime.index(HALF)
        await until(pilot, lambda: "indexing 42%" in screen_text(app))
        assert set(told) == {"", "indexing 42%"}
