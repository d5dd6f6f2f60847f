"""How far the accounting of the context is from what the scripted server counts, and what it costs a turn.

Run: .venv/bin/python benchmarks/accounting.py [--turns N] [--repeats N]
"""

from __future__ import annotations

import argparse
import asyncio
import random
import statistics
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from tables import Table, show

from clawbot.context.bootstrap import Bootstrap, BootstrapFile
from clawbot.context.counting import TokenCounter
from clawbot.context.prompt import PromptInputs, SystemPrompt, build_system_prompt
from clawbot.context.window import NextRequest, Report, measure
from clawbot.llm.protocol import ChatRequest, FinalPart
from clawbot.llm.scripted import ScriptEngine, parse_script
from clawbot.messages import (
    AssistantMessage,
    Message,
    TextBlock,
    ToolCallBlock,
    ToolResultMessage,
    ToolSpec,
    Usage,
    UserMessage,
)
from clawbot.testing.fixture import ScriptedModel

SCRIPT = "turns:\n  - {reply: Noted., repeat: forever}\n"
HISTORY_TOKENS = 150_000
SINCE = 6  # messages since the report
ENGLISH = (
    "The staging proxy moved to port 8443 because 8080 clashed with grafana. We decided to keep tabs over spaces. "
    "Could you check whether the nightly backup of db-2 ran? It has failed twice since Tuesday, and nobody was told. "
    "The certificates renew on the first of the month; the key lies in /etc/ssl/private/stg.pem. "
)
CHINESE = (
    "测试环境的代理改到了八四四三端口，因为八零八零和监控冲突。我们决定继续用制表符缩进。"
    "你能看一下昨晚数据库的备份有没有成功吗？从周二起已经失败两次了，没有人收到通知。"
    "证书每个月一号自动更新，密钥放在服务器的私有目录里，不要写进日志。"
)
CODE = (
    "def resolve(path: Path, *, follow: bool = False) -> Path:\n"
    '    """Where `path` leads."""\n'
    "    return path.resolve() if follow else path.absolute()\n\n"
    '2026-11-20T09:12:44Z INFO proxy[1421]: upstream="10.0.4.17:8443" status=502 took=0.132s id=7f3a9c\n'
)
TOOLS = tuple(
    ToolSpec(
        name,
        f"{what} Paths are relative to the workspace. A long result is cut; read on from the line that it names.",
        {
            "type": "object",
            "properties": {
                "path": {"type": "string", "description": "The file or folder."},
                "limit": {"type": "integer", "minimum": 1, "description": "The most lines to return."},
            },
            "required": ["path"],
            "additionalProperties": False,
        },
    )
    for name, what in (("read", "Read a file."), ("list", "List a folder."), ("grep", "Search files for a pattern."))
)


class Case(NamedTuple):
    """A kind of conversation."""

    name: str
    messages: Callable[[int], list[Message]]


def words(text: str, dice: random.Random, sentences: int) -> str:
    """Some sentences of `text`, not always the same."""
    mark = "。" if "。" in text else ". "
    parts = [part for part in text.split(mark) if part.strip()]
    return mark.join(dice.choice(parts) for _ in range(sentences)) + mark


def talk(text: str) -> Callable[[int], list[Message]]:
    """Questions and answers."""

    def messages(turns: int) -> list[Message]:
        dice = random.Random(turns)
        made: list[Message] = []
        for _ in range(turns):
            made += [UserMessage(words(text, dice, 1 + dice.randrange(3)))]
            made += [AssistantMessage([TextBlock(words(text, dice, 2 + dice.randrange(6)))])]
        return made

    return messages


def work(turns: int) -> list[Message]:
    """Questions that take several tools, at times two at once, with results from a few words to a page."""
    dice = random.Random(turns)
    made: list[Message] = []
    for turn in range(turns):
        made.append(UserMessage(words(ENGLISH, dice, 1)))
        for step in range(1 + dice.randrange(3)):
            names = [dice.choice(TOOLS).name for _ in range(1 + dice.randrange(2))]
            calls = [
                ToolCallBlock(
                    f"call_{dice.getrandbits(96):024x}", name, {"path": f"src/{turn}/笔记.md", "limit": 40 + step}
                )
                for name in names
            ]
            made.append(AssistantMessage(list(calls), stop_reason="toolUse"))
            made += [
                ToolResultMessage(call.id, call.name, [TextBlock(CODE * dice.choice((0, 1, 4, 20)) or "ok")])
                for call in calls
            ]
        made.append(AssistantMessage([TextBlock(words(ENGLISH, dice, 2))]))
    return made


CASES = (Case("English", talk(ENGLISH)), Case("Chinese", talk(CHINESE)), Case("tool-heavy", work))


def make_prompt() -> SystemPrompt:
    """A system prompt with workspace files of a usual size."""
    files = tuple(
        BootstrapFile(name, Path("/ws") / name, False, len(text), text, truncated=False)
        for name, text in (("AGENTS.md", ENGLISH * 20), ("USER.md", CHINESE * 5), ("MEMORY.md", ENGLISH * 30))
    )
    now = datetime(2026, 11, 20, 9, 12, tzinfo=UTC)
    return build_system_prompt(PromptInputs(Path("/ws"), TOOLS, Bootstrap(files), now, "script"))


async def served(model: ScriptedModel, prompt: SystemPrompt, messages: list[Message]) -> Usage:
    """What the scripted server reports for a call with `messages`."""
    request = ChatRequest(prompt.text, tuple(messages), TOOLS, prompt.stable_prefix)
    async for part in model.stream(request):
        if isinstance(part, FinalPart) and part.message.usage is not None:
            return part.message.usage
    raise RuntimeError("the scripted model reported nothing")


async def errors(case: Case, turns: int) -> tuple[int, float, float]:
    """The server's count, and how far it is missed in percent: without a report, and with one of an earlier call."""
    model = ScriptedModel(ScriptEngine(parse_script(SCRIPT, Path("accounting.yaml"))))
    prompt, messages = make_prompt(), case.messages(turns)
    truth = (await served(model, prompt, messages)).prompt_tokens
    alone = measure(NextRequest(prompt, TOOLS, messages), TokenCounter()).used
    cut = max(index for index in range(len(messages) - SINCE) if isinstance(messages[index], UserMessage)) + 1
    earlier, counter = messages[:cut], TokenCounter()
    said = await served(model, prompt, earlier)
    report = Report(said.prompt_tokens, measure(NextRequest(prompt, TOOLS, earlier), counter).counted)
    since = measure(NextRequest(prompt, TOOLS, messages), counter, report).used
    return truth, 100 * (alone - truth) / truth, 100 * (since - truth) / truth


def time_turns(repeats: int) -> tuple[int, float, list[float]]:
    """The tokens of a long history, the milliseconds of its first accounting, and those of each turn after it."""
    prompt, messages = make_prompt(), work(400)
    counter = TokenCounter()
    total, kept = 0, []
    for message in messages:
        total += counter.of(message)
        kept.append(message)
        if total >= HISTORY_TOKENS:
            break
    fresh = TokenCounter()
    began = time.perf_counter()
    report = Report(total, measure(NextRequest(prompt, TOOLS, kept), fresh).counted)
    first = (time.perf_counter() - began) * 1000
    spent = []
    for number in range(repeats):
        kept += [UserMessage(f"{number}: {ENGLISH}"), AssistantMessage([TextBlock(f"{number}: {ENGLISH * 3}")])]
        began = time.perf_counter()
        measure(NextRequest(prompt, TOOLS, kept), fresh, report)
        spent.append((time.perf_counter() - began) * 1000)
    return total, first, spent


async def main() -> int:
    """Measure and print both tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=60)
    parser.add_argument("--repeats", type=int, default=200)
    options = parser.parse_args()
    with Table("token count", "server", "counted alone", "with a report", "at most") as table:
        for case in CASES:
            for turns in (4, options.turns):
                truth, alone, since = await errors(case, turns)
                table.row(f"{case.name}, {turns} turns", f"{truth:,}", f"{alone:+.2f} %", f"{since:+.2f} %", "2 %")
    total, first, spent = time_turns(options.repeats)
    rows = [
        ("accounting of a turn, median", f"{statistics.median(spent):.2f} ms", "5 ms"),
        ("the same, 95th percentile", f"{statistics.quantiles(spent, n=20)[18]:.2f} ms", "-"),
        ("the first one of a process", f"{first:.0f} ms", "-"),
    ]
    show((f"a history of {total:,} tokens", "measured", "at most"), rows)
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
