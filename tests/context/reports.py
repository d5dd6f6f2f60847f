"""Reports on a small conversation with two languages, tools, a cut file and a missing one."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from clawbot.config.schema_agent import CompactionSettings
from clawbot.context.bootstrap import Bootstrap, BootstrapFile
from clawbot.context.counting import TokenCounter
from clawbot.context.prompt import PromptInputs, build_system_prompt
from clawbot.context.report import ContextReport, LastFlush, ReportInputs, build_report
from clawbot.context.startup import HEAD
from clawbot.context.window import NextRequest, Report, Window, measure, plan_budget
from clawbot.messages import Message, TextBlock, ToolResultMessage, ToolSpec, UserMessage

TOOLS = (ToolSpec("read", "Read a file.", {"type": "object"}), ToolSpec("a|b`c", "Odd. " * 20, {"type": "object"}))
FILES = (
    BootstrapFile("AGENTS.md", Path("/ws/AGENTS.md"), False, 26_000, "the rules " * 200, truncated=True),
    BootstrapFile("用户.md", Path("/ws/用户.md"), False, 120, "喜欢制表符。" * 20, truncated=False),
    BootstrapFile("SOUL.md", Path("/ws/SOUL.md"), True, 0, "[MISSING]", truncated=False),
)
INPUTS = PromptInputs(Path("/ws"), TOOLS, Bootstrap(FILES), datetime(2026, 11, 20, tzinfo=UTC), "openai/gpt-5")
MESSAGES: tuple[Message, ...] = (
    UserMessage("the summary " * 40),
    UserMessage("我们用哪个端口？"),
    ToolResultMessage("1", "read", [TextBlock("line\n" * 400)]),
)
QUOTE = UserMessage(
    f"{HEAD}\n\n`memory/2026-11-20.md`:\n```text\n- port 3128\n```\n\n`memory/2026-11-19-代理.md`:\n```text\n"
    f"{'用户：代理用哪个端口？' * 20}\n```"
)
BERLIN = ZoneInfo("Europe/Berlin")
FLUSH = LastFlush("2026-11-20T09:12:44.000Z", "written", "memory/2026-11-20.md", 12, 14, 180)


def made(
    *,
    window: int = 32_000,
    surplus: int | None = None,
    source: Window | None = None,
    messages: tuple[Message, ...] = MESSAGES,
    **more: Any,
) -> ContextReport:
    """A report on `messages`, of which the provider counted `surplus` more than we do (None: nothing)."""
    counter = TokenCounter()
    view = NextRequest(build_system_prompt(INPUTS), TOOLS, messages, has_summary=True, fresh_from=0)
    counted = measure(view, counter).counted
    report = None if surplus is None else Report(counted + surplus, counted)
    found = measure(view, counter, report)
    given = ReportInputs(
        request=view,
        measure=found,
        budget=plan_budget(window, CompactionSettings(), found.fixed),
        window=source or Window(window, "from the server", False),
        prompt=INPUTS,
        **more,
    )
    return build_report(given, counter)


def part(report: ContextReport, key: str) -> int:
    return next(part.tokens for part in report.parts if part.key == key)
