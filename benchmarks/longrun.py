"""A talk of thousands of turns in a small window: what it costs in the end, and whether anything was lost.

The model is scripted: answers in two languages, tool calls, silent replies, overflows at random; flushes that write,
that have nothing to write and that fail; summaries that are good, bad and fail. Now and then the program is restarted
or killed. At the end the transcript is read, and what stands in it is compared with what was said.

Run: .venv/bin/python benchmarks/longrun.py [--turns N] [--window TOKENS] [--seed N]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import resource
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any

import msgspec
from opening import open_with
from tables import show

from clawbot.agent.events import CompactionFinished, ToolFinished, TurnEnded
from clawbot.context.compaction.prompts import REQUIRED
from clawbot.llm.protocol import ChatRequest, ModelInfo, StreamPart
from clawbot.llm.scripted import ScriptEngine, parse_script
from clawbot.runtime import Runtime
from clawbot.sessions.entries import FINAL, OFFER, Offer
from clawbot.testing.fixture import ScriptedModel

ENGLISH = (
    "the staging proxy moved to port 8443 because 8080 clashed with grafana, and the backup of db-2 ran at night; "
)
CHINESE = "测试环境的代理改到了八四四三端口，因为八零八零和监控冲突，昨晚的备份没有成功。"
SAMPLE = 100  # turns that one figure of cost is the median of
RESTARTS = 400  # turns between two restarts, every second of which is a kill
SILENT = "NO_REPLY"
SUMMARY = "\n\n".join(f"## {heading}\n- as it stood, port 8443" for heading in REQUIRED)


class LongRunModel:
    """A scripted model that draws the next turn of its script when it is asked."""

    def __init__(self, chance: random.Random, window: int) -> None:
        self._chance = chance
        self.info = ModelInfo(ref="script:longrun", window=window)
        self.calls: Counter[str] = Counter()

    async def stream(self, request: ChatRequest) -> AsyncGenerator[StreamPart, None]:
        """Answer `request` as its purpose and chance want it."""
        self.calls[request.purpose] += 1
        turn = {"reply": self._draw(request)}
        engine = ScriptEngine(parse_script(json.dumps({"turns": [turn]}), Path("longrun.yaml")))
        async with aclosing(ScriptedModel(engine).stream(request)) as parts:
            async for part in parts:
                yield part

    async def warm(self) -> None:
        """Nothing has to be loaded."""

    async def aclose(self) -> None:
        """Nothing has to be let go of."""

    def _draw(self, request: ChatRequest) -> Any:
        luck = self._chance.random()
        match request.purpose:
            case "flush":
                return self._flush(request, luck)
            case "summary":
                return {"fault": {"status": 500}} if luck < 0.1 else "It went well." if luck < 0.3 else SUMMARY
            case _:
                return self._chat(request, luck)

    def _flush(self, request: ChatRequest, luck: float) -> Any:
        if request.messages[-1].__class__.__name__ == "ToolResultMessage" or luck < 0.4:
            return SILENT
        if luck < 0.6:
            return {"fault": {"status": 500}}
        path = "MEMORY.md" if luck < 0.7 else request.messages[-1].text.split("memory/")[1].split(".md")[0]
        path = path if path.endswith(".md") else f"memory/{path}.md"
        content = f"- fact {self._chance.randrange(10**9)}"
        return {"tool_calls": [{"name": "append", "arguments": {"path": path, "content": content}}]}

    def _chat(self, request: ChatRequest, luck: float) -> Any:
        if luck < 0.02:
            return {"fault": {"overflow": "openai"}}
        if luck < 0.05:
            return SILENT
        if luck < 0.2 and request.messages[-1].__class__.__name__ == "UserMessage":
            return {"tool_calls": [{"name": "read", "arguments": {"path": "AGENTS.md"}}]}
        return (CHINESE if luck < 0.5 else ENGLISH) * self._chance.randrange(1, 4)


class Run:
    """One talk, and what is measured of it."""

    def __init__(self, turns: int, window: int, seed: int) -> None:
        self._turns = turns
        self._chance = random.Random(seed)
        self._model = LongRunModel(self._chance, window)
        self.cpu: list[float] = []  # milliseconds of each turn
        self.memory: list[int] = []  # peak of the process in KiB, after each turn
        self.ends: Counter[str] = Counter()
        self.compactions: Counter[str] = Counter()
        self.spilt = 0  # events that show the token
        self.said: list[str] = []

    async def play(self) -> Runtime:
        """Talk; the runtime is open when this returns."""
        runtime = await open_with(self._model)
        for turn in range(self._turns):
            if turn and turn % RESTARTS == 0:
                await self._end(runtime, killed=turn // RESTARTS % 2 == 1)
                runtime = await open_with(self._model)
            text = f"<{turn}> " + (CHINESE if turn % 3 == 0 else ENGLISH) * self._chance.randrange(1, 3)
            self.said.append(f"<{turn}>")
            began = time.process_time()
            async with aclosing(runtime.agent.submit(text)) as events:
                async for event in events:
                    self._take(event)
            self.cpu.append((time.process_time() - began) * 1000)
            self.memory.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
        return runtime

    async def _end(self, runtime: Runtime, *, killed: bool) -> None:
        if killed:
            # What a kill leaves: files as they are, and locks that the system takes back.
            runtime.agent.conversation.session.close()
            await runtime.services.close()
        else:
            await runtime.close()

    def _take(self, event: object) -> None:
        if isinstance(event, TurnEnded):
            self.ends[event.status] += 1
        if isinstance(event, CompactionFinished):
            self.compactions[f"{event.trigger} {event.status}"] += 1
        # AGENTS.md, which a tool reads, explains the token.
        if not isinstance(event, ToolFinished):
            self.spilt += SILENT in msgspec.json.encode(event).decode()

    @property
    def calls(self) -> Counter[str]:
        """How often the model was asked, by purpose."""
        return self._model.calls


def lost(runtime: Runtime, said: Sequence[str]) -> list[str]:
    """What is wrong with the transcript: messages that were lost, left without having been offered, or were offered
    twice."""
    transcript = runtime.agent.conversation.session.transcript
    lines = [json.loads(line) for line in transcript.path.read_text().splitlines()]
    order = [line["id"] for line in lines if line["type"] == "message"]
    place = {ident: number for number, ident in enumerate(order)}
    texts = "\n".join(json.dumps(line["message"], ensure_ascii=False) for line in lines if line["type"] == "message")
    problems = [f"{mark} is not in the transcript" for mark in said if mark not in texts]
    compactions = [line for line in lines if line["type"] == "compaction"]
    gone = place[compactions[-1]["firstKeptEntryId"]] if compactions else 0
    offered: Counter[int] = Counter()
    for line in lines:
        if line.get("customType") == OFFER:
            offer = msgspec.convert(line["data"], Offer)
            if offer.phase == "end" and offer.result in FINAL:
                offered.update(range(place[offer.first], place[offer.last] + 1))
    problems += [f"message {at} left and was offered {offered[at]} times" for at in range(gone) if offered[at] != 1]
    problems += [f"message {at} was offered {times} times" for at, times in offered.items() if at >= gone and times > 1]
    kept = {item.entry_id for item in runtime.agent.conversation.items}
    problems += [
        f"message {at} is neither kept nor summarised" for at in range(gone, len(order)) if order[at] not in kept
    ]
    return problems


def main() -> None:
    """Talk, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=10_000)
    parser.add_argument("--window", type=int, default=8_000)
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as home:
        os.environ["CLAWBOT_HOME"] = home
        asyncio.run(_measure(chosen.turns, chosen.window, chosen.seed))


async def _measure(turns: int, window: int, seed: int) -> None:
    run = Run(turns, window, seed)
    runtime = await run.play()
    problems = await asyncio.to_thread(lost, runtime, run.said)
    size = runtime.agent.conversation.transcript_bytes
    await runtime.close()
    early = statistics.median(run.cpu[SAMPLE // 2 : SAMPLE * 3 // 2])
    late = statistics.median(run.cpu[-SAMPLE:])
    mean = [statistics.mean(part) for part in (run.cpu[SAMPLE // 2 : SAMPLE * 3 // 2], run.cpu[-SAMPLE:])]
    rows = [
        ("turns, and how they ended", named(run.ends), "-"),
        ("calls of the model", named(run.calls), "-"),
        ("compactions", named(run.compactions), "-"),
        ("messages lost, or not offered exactly once", f"{len(problems)}", "0"),
        ("events that show the silent token", f"{run.spilt}", "0"),
        ("CPU of a turn around turn 100, median", f"{early:.1f} ms", "-"),
        (f"CPU of the last {SAMPLE} turns, median", f"{late:.1f} ms ({late / early:.2f}x)", "1.2x"),
        (
            "the same as means, housekeeping with it",
            f"{mean[0]:.1f} -> {mean[1]:.1f} ms ({mean[1] / mean[0]:.2f}x)",
            "-",
        ),
        ("peak memory after a tenth of the turns", f"{run.memory[turns // 10] / 1024:.0f} MB", "-"),
        ("peak memory at the end", f"{run.memory[-1] / 1024:.0f} MB", "-"),
        ("transcript", f"{size / 2**20:.1f} MB", "-"),
    ]
    show((f"{turns:,} turns in a window of {window:,} tokens", "measured", "at most"), rows)
    for problem in problems[:20]:
        print(problem)


def named(counts: Counter[str]) -> str:
    """Return counts with their names, as a cell."""
    return ", ".join(f"{name} {count:,}" for name, count in counts.items())


if __name__ == "__main__":
    main()
