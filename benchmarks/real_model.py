"""How much of the prompt a real model server reads again, turn by turn: llama.cpp with two layers of a real model.

Twenty turns, twenty seconds of the program's clock between them, three flushes and an edit of MEMORY.md in it, and a
`/compact` at the end. What was read is the server's own count; the new text of a call is what its prompt has beyond the
last one and the answer to it, or of a summary, whatever its prompt has behind the conversation.

Run: make test-real, then .venv/bin/python benchmarks/real_model.py [--turns N]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import sys
import tempfile
from collections.abc import AsyncGenerator
from contextlib import aclosing
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import check
from tables import Table, show

from clawbot import services
from clawbot.llm.factory import open_model
from clawbot.llm.protocol import ChatModel, ChatRequest, FinalPart, StreamPart
from clawbot.messages import Usage
from clawbot.runtime import Runtime, RuntimeOptions
from tests.clocks import StillClock
from tests.real.server import MISSING, PYTHON, QWEN, ModelServer, small_model

WINDOW = 16_384
CAP = 24  # tokens of an answer: the model talks junk
PAUSE = 20  # seconds between two turns
FLUSHES = 3
SAYING = "The staging proxy listens on port {port}; write that down, and tell me what else runs there."


class Call(NamedTuple):
    """One call of the model, in tokens: its prompt, what of that is new, and what the server read."""

    turn: int
    clock: str
    purpose: str
    prompt: int
    new: int
    read: int


class CountedModel:
    """A model of `server` that counts what each call makes the server read."""

    def __init__(self, model: ChatModel, server: ModelServer, clock: StillClock) -> None:
        self._model, self._server, self._clock = model, server, clock
        self._known = 0  # tokens of the talk that the server has seen
        self.info = model.info
        self.turn = 0
        self.calls: list[Call] = []

    async def stream(self, request: ChatRequest) -> AsyncGenerator[StreamPart, None]:
        """Answer `request`, and count."""
        before = self._server.tokens_read
        async with aclosing(self._model.stream(request)) as parts:
            async for part in parts:
                yield part
        usage = part.message.usage if isinstance(part, FinalPart) and part.message.usage else Usage()
        read, new = self._server.tokens_read - before, usage.prompt_tokens - self._known
        clock = f"{self._clock.now():%H:%M:%S}"
        self.calls.append(Call(self.turn, clock, request.purpose, usage.prompt_tokens, new, read))
        if request.purpose == "chat":
            self._known = usage.prompt_tokens + usage.output

    async def warm(self) -> None:
        """Load what the first call needs."""
        await self._model.warm()

    async def aclose(self) -> None:
        """Let go of the model."""
        await self._model.aclose()


def configure(home: Path, server: ModelServer, turns: int) -> None:
    """Settings under which three flushes come in so many turns."""
    grown = turns * 1_000 // (FLUSHES + 1)  # bytes; a turn takes about a thousand
    flush = {"force_flush_transcript_bytes": grown}
    asked = {"model": "openai/small", "api_base": server.base, "max_output_tokens": server.cap}
    defaults = {**asked, "compaction": {"memory_flush": flush}}
    (home / "config.yaml").write_text(json.dumps({"agents": {"defaults": defaults}}), encoding="utf-8")


async def talk(home: Path, server: ModelServer, turns: int) -> list[Call]:
    """Every call of a talk of so many turns, and of its compaction; MEMORY.md is edited before the turn at three
    quarters of it."""
    clock = StillClock(datetime(2026, 11, 21, 10, 2, tzinfo=UTC))
    counted: list[CountedModel] = []

    async def open_counted(*arguments: object, **named: object) -> ChatModel:
        counted.append(CountedModel(await open_model(*arguments, **named), server, clock))
        return counted[-1]

    with patch.object(services, "open_model", open_counted), patch.object(services, "SystemClock", lambda _: clock):
        runtime = await Runtime.open(RuntimeOptions().unattended())
        (model,) = counted
        for turn in range(1, turns + 1):
            model.turn = turn
            if turn == edited(turns):
                with (home / "workspace" / "MEMORY.md").open("a", encoding="utf-8") as memory:
                    memory.write("- The staging proxy has moved.\n")
            async for _ in runtime.agent.submit(SAYING.format(port=8_000 + turn)):
                pass
            clock.forward(seconds=PAUSE)
        model.turn = turns + 1
        async for _ in runtime.agent.submit("/compact"):
            pass
        await runtime.close()
    return model.calls


def edited(turns: int) -> int:
    """The turn before which MEMORY.md is edited."""
    return turns * 3 // 4 + 1


def show_calls(calls: list[Call], turns: int) -> None:
    """Print the table of all calls, and the one of the figures that count."""
    with Table("turn", "clock", "what", "prompt", "new text", "read", "beside the new text") as table:
        for call in calls:
            what = "edit of MEMORY.md" if (call.turn, call.purpose) == (edited(turns), "chat") else call.purpose
            compared = ("–", call.read, "–") if call.purpose == "summary" else (call.new, call.read, beside(call))
            table.row(call.turn, call.clock, what, call.prompt, *compared)
    plain = [beside(call) for call in calls if call.purpose == "chat" and call.turn not in (1, edited(turns))]
    flushes = [beside(call) for call in calls if call.purpose == "flush"]
    read, prompts = sum(call.read for call in calls), sum(call.prompt for call in calls)
    rows = [
        ("a turn, median and largest", f"{statistics.median(plain)}, {max(plain)}"),
        (f"{len(flushes)} calls of flushes, largest", max(flushes, default=0)),
        *(("a summary, of its prompt", f"{one.read:,} of {one.prompt:,}") for one in calls if one.purpose == "summary"),
        ("all calls, of their prompts", f"{read:,} of {prompts:,}"),
    ]
    show(("tokens that a real server reads again", "number"), rows)


def beside(call: Call) -> int:
    """What was read that had been read before."""
    return call.read - call.new if call.turn > 1 else 0


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=20)
    turns = parser.parse_args().turns
    if not PYTHON.exists():
        print(MISSING, file=sys.stderr)
        sys.exit(check.MISSING)
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        os.environ["CLAWBOT_HOME"] = folder
        with ModelServer(small_model(home), home, window=WINDOW, cap=CAP, template=QWEN) as server:
            configure(home, server, turns)
            calls = asyncio.run(talk(home, server, turns))
    show_calls(calls, turns)


if __name__ == "__main__":
    main()
