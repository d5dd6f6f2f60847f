"""Measures the screen: resume of a long session, a search in it, streamed answers, a large paste, motion.

Runs headless on a scripted runtime: .venv/bin/python benchmarks/tui.py [--tiny]
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import itertools
import resource
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tables import show
from textual.events import Paste

from clawbot.agent.events import Event
from clawbot.tui.app import ClawbotApp
from tests.tui.fake_runtime import FakeRuntime, Hold, conversation, reply

DELTA_CHARS = 20
WIDTH, HEIGHT = 120, 40


class Sizes(NamedTuple):
    """How much is measured with."""

    messages: int = 2000
    stream_chars: int = 20_000
    long_chars: int = 200_000
    motion_seconds: float = 10.0
    paste_chars: int = 1_048_576


TINY = Sizes(40, 400, 800, motion_seconds=0.3, paste_chars=4096)

PARAGRAPH = "Some **bold** words, `code`, a [link](https://example.org) and memory/2026-10-02.md:14; then 中文 and 🎉. "
BLOCKS = {
    "mixed Markdown": "## Part\n\n"
    + PARAGRAPH * 3
    + "\n\n- one\n- two\n  - three\n\n"
    + "```python\ndef f(x):\n    return x + 1  # comment\n```\n\n"
    + "| a | b |\n|---|--:|\n| x | 1 |\n\n",
    "one list": "- an item with **bold** words and `code`\n",
    "one paragraph": PARAGRAPH,
    "one block of code": "    value = compute(first, 'second')  # why\n",
    "one table": "| cell one | cell **two** |\n",
}
HEADS = {"one block of code": "```python\n", "one table": "| a | b |\n|---|---|\n"}

Row = tuple[str, str, str]


class Stalls:
    """Measures how long the event loop is kept from a task that wants to run all the time."""

    def __init__(self) -> None:
        self.longest = 0.0
        self._task: asyncio.Task[None] | None = None

    async def _watch(self) -> None:
        last = time.perf_counter()
        while True:
            await asyncio.sleep(0.001)
            now = time.perf_counter()
            self.longest = max(self.longest, now - last - 0.001)
            last = now

    def __enter__(self) -> Stalls:
        self._task = asyncio.create_task(self._watch())
        return self

    def __exit__(self, *_: object) -> None:
        if self._task is not None:
            self._task.cancel()


class Paced(FakeRuntime):
    """Streams without waiting, but lets the loop breathe between two deltas as a network does."""

    async def _play(self, text: str) -> AsyncGenerator[Event, None]:
        async for event in super()._play(text):
            yield event
            await asyncio.sleep(0.002)


async def _until(condition: Callable[[], bool]) -> None:
    """Look every millisecond."""
    for _ in itertools.count():
        if condition():
            return
        await asyncio.sleep(0.001)


async def _with_app(runtime: FakeRuntime, act: Callable[[ClawbotApp], Awaitable[list[Row]]]) -> list[Row]:
    async def open_runtime(agent: str | None = None) -> FakeRuntime:
        return runtime

    app = ClawbotApp(open_runtime)
    async with app.run_test(size=(WIDTH, HEIGHT)) as pilot:
        while app.runtime is None:
            await pilot.pause()
        await pilot.pause()
        # What earlier measurements left behind is not this one's.
        gc.collect()
        return await act(app)


async def resume(home: Path, messages: int) -> list[Row]:
    """From the start of the app to a prompt over the end of a long session."""
    runtime = FakeRuntime(home, history=conversation(messages // 2))
    started, cpu = time.perf_counter(), time.process_time()

    async def act(app: ClawbotApp) -> list[Row]:
        await _until(lambda: len(app.chat.page.stack) > 0)
        seconds, used = time.perf_counter() - started, time.process_time() - cpu
        with Stalls() as stalls:
            while app.chat.earlier.has_more:
                app.chat.page.scroll_home(animate=False)
                app.chat.action_scroll_page(1)
                app.chat.action_scroll_page(-1)
                await asyncio.sleep(0.005)
        return [
            (f"resume {messages:,} messages to a ready prompt", f"{seconds:.2f} s", "1 s"),
            ("resume: CPU", f"{used:.2f} s", "–"),
            ("scroll up through all of them, longest stall", f"{stalls.longest * 1000:.0f} ms", "100 ms"),
        ]

    return await _with_app(runtime, act)


async def search(home: Path, messages: int) -> list[Row]:
    """A word in all of a long session, of which the end is loaded; then another one."""
    runtime = FakeRuntime(home, history=conversation(messages // 2))

    async def act(app: ClawbotApp) -> list[Row]:
        page = app.chat.page

        async def find(word: str) -> float:
            cpu = time.process_time()
            app.chat.search.search(word)
            await _until(lambda: not app.chat.earlier.has_more)
            await _until(lambda: not list(page.stack.unsearched(range(len(page.stack)))))
            return time.process_time() - cpu

        with Stalls() as stalls:
            app.chat.search.open()
            first = await find("answer")
            other = await find("sentence")
        return [
            (f"search {messages:,} messages, loading them: CPU", f"{first:.2f} s", "3 s"),
            ("search for another word in them: CPU", f"{other * 1000:.0f} ms", "100 ms"),
            ("search: longest stall", f"{stalls.longest * 1000:.0f} ms", "100 ms"),
        ]

    return await _with_app(runtime, act)


async def stream(home: Path, name: str, size: int) -> list[Row]:
    """One long answer in small pieces."""
    head = HEADS.get(name, "")
    text = head + BLOCKS[name] * (size // len(BLOCKS[name]) + 1)
    runtime = Paced(home, turns=[reply(text[:size], pieces=size // DELTA_CHARS)])

    async def act(app: ClawbotApp) -> list[Row]:
        cpu = time.process_time()
        longest = 0.0
        show = app.chat.turns.show

        def timed(event: Event) -> None:
            nonlocal longest
            before = time.perf_counter()
            show(event)
            longest = max(longest, time.perf_counter() - before)

        app.chat.turns.show = timed
        with Stalls() as stalls:
            app.chat.turns.submit("go")
            await _until(lambda: not app.chat.turns.busy)
        used = time.process_time() - cpu
        return [
            (f"stream {size:,} characters, {name}: CPU", f"{used:.2f} s", f"{size // 10_000} s"),
            (
                f"stream, {name}: longest delta / longest stall",
                f"{longest * 1000:.0f} / {stalls.longest * 1000:.0f} ms",
                "50 / 100 ms",
            ),
        ]

    return await _with_app(runtime, act)


async def motion(home: Path, seconds: float) -> list[Row]:
    """A turn in which nothing comes for a while: what the signs that move cost over those that stand still."""
    shares = []
    for moves in (False, True):
        hold = Hold()

        async def act(app: ClawbotApp, moves: bool = moves, hold: Hold = hold) -> list[Row]:
            sign = getattr(app.chat.writer, "motion", None)  # states before it have none
            if sign is not None:
                sign.is_on = moves
            app.chat.turns.submit("go")
            await _until(hold.reached.is_set)
            await asyncio.sleep(0.5)
            cpu = time.process_time()
            await asyncio.sleep(seconds)
            shares.append((time.process_time() - cpu) / seconds * 100)
            hold.release()
            await _until(lambda: not app.chat.turns.busy)
            return []

        await _with_app(FakeRuntime(home, history=conversation(20), turns=[[hold, *reply("done")]]), act)
    still, moving = shares
    return [("waiting for an answer, signs still / moving: CPU", f"{still:.2f} / {moving:.2f} %", "1 % between")]


async def paste(home: Path, size: int) -> list[Row]:
    """A megabyte into the prompt, and off it goes."""
    runtime = FakeRuntime(home, turns=[[Hold()]])

    async def act(app: ClawbotApp) -> list[Row]:
        text = ("word 中文 " * (size // 8 + 1))[:size]
        with Stalls() as stalls:
            app.post_message(Paste(text))
            await _until(lambda: not app.chat.composer.is_empty)
            await asyncio.sleep(0.1)
        pasted = stalls.longest
        with Stalls() as stalls:
            app.chat.composer.prompt.submit()
            await _until(lambda: bool(runtime.submitted))
            await asyncio.sleep(0.3)
        whole = runtime.submitted == [text]
        return [
            (f"paste {size:,} characters, longest stall", f"{pasted * 1000:.0f} ms", "100 ms"),
            (
                f"send them ({'complete' if whole else 'LOST'}), longest stall",
                f"{stalls.longest * 1000:.0f} ms",
                "100 ms",
            ),
        ]

    return await _with_app(runtime, act)


def _peak() -> str:
    return f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB"


async def measure(sizes: Sizes) -> None:
    """Run all, print the table."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        rows = await resume(home, sizes.messages)
        for name in BLOCKS:
            rows += await stream(home, name, sizes.stream_chars)
        rows += await stream(home, "mixed Markdown", sizes.long_chars)
        rows += await paste(home, sizes.paste_chars)
        rows += await motion(home, sizes.motion_seconds)
        rows.append(("peak memory", _peak(), "100 MB"))
        rows += await search(home, sizes.messages)
        rows.append(("peak memory with the search", _peak(), "120 MB"))
    show(("screen", "measured", "at most"), rows)


def main() -> None:
    """Measure as much as is asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tiny", action="store_true", help="a moment of each: that it runs, not what it costs")
    asyncio.run(measure(TINY if parser.parse_args().tiny else Sizes()))


if __name__ == "__main__":
    main()
