"""How the screens look: light and dark, small and large, with wide characters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.screen import Screen
from textual.widgets import Input, TextArea

from clawbot.context.report import ContextPart, FileSize, LastFlush, Tokens
from clawbot.context.window import ASSUMED
from clawbot.memory.values import Fallback
from clawbot.messages import AssistantMessage, TextBlock, UserMessage
from clawbot.sessions.conversation import HistoryItem
from clawbot.tui.screens.choices import ModelsScreen
from clawbot.tui.screens.common import HelpScreen
from clawbot.tui.screens.context import ContextScreen
from clawbot.tui.screens.editor import EditorScreen
from clawbot.tui.screens.hooks import HooksScreen
from clawbot.tui.screens.memory import MemoryScreen
from clawbot.tui.screens.sessions import SessionsScreen
from tests.tui.chat_host import FixedClock, Host, Runtime, seen, until
from tests.tui.fake_runtime import RuntimeStatus, context_report, conversation, found, hit, summary
from tests.tui.screens.test_hooks import screen

SMALL, LARGE = (80, 24), (140, 45)
DAY = (
    "# 2026-10-02\n\n## 15:20\n\n- 晚饭吃了面条\n- staging proxy moved to **8443**; 8080 clashed\n  with grafana\n"
    "- certificates renew on the 1st\n\n## 17:05\n\n- 我们把数据库端口改成 5433 🎉，因为代理也要用 5432\n"
)
NOTE = "# Rules\n\n- 用户喜欢制表符 🎉\n- staging proxy: **8443**\n\n## Hosts\n\nproxy.stg\tdb.stg \x1b[31m\n"


def sessions() -> SessionsScreen:
    titles = ["which port did the staging proxy use, and why did we change it?", "记住我喜欢用制表符 🎉", "the README"]
    ends = ["open", "/new", "daily"]
    found = [summary(hours * 9, title, ended=ends[hours], locked=hours == 2) for hours, title in enumerate(titles)]
    talk = [
        *conversation(1),
        HistoryItem("x", 0, UserMessage(content="我喜欢什么？")),
        HistoryItem("y", 0, AssistantMessage(content=[TextBlock("制表符 🎉 (memory/2026-10-02.md:14)")])),
    ]
    below = Runtime(history=talk, sessions=found, status=RuntimeStatus(session_id=found[0].session_id))
    return SessionsScreen(below, clock=FixedClock())


def editor() -> EditorScreen:
    return EditorScreen(Runtime(files={"AGENTS.md": NOTE}), "AGENTS.md", 4)


def memory(query: str = "staging proxy port 端口", **values: object) -> MemoryScreen:
    hits = [
        hit("memory/2026-10-02.md", 6, "- staging proxy moved to **8443**; 8080 clashed\n  with grafana", 0.93, last=7),
        hit("memory/2026-10-02.md", 12, "- 我们把数据库端口改成 5433 🎉，因为代理也要用 5432", 0.88),
        hit("memory/2025-09-18-hosts.md", 3, "- the proxies answer on 8080", 0.81),
        hit("MEMORY.md", 31, "- the hosts of the staging area are proxy.stg and db.stg", 0.4),
    ]
    below = Runtime(files={"memory/2026-10-02.md": DAY, "MEMORY.md": "", "memory/2025-09-18-hosts.md": ""})
    below.memories[query] = found(*hits, **values)
    return MemoryScreen(below, query, clock=FixedClock())


def memory_words() -> MemoryScreen:
    return memory(mode="fts-only", fallback=Fallback("openai", "the key was refused"), partial=True)


def context(*, detail: bool = False, **values: object) -> ContextScreen:
    below = Runtime()
    below.report = context_report(**values)
    screen = ContextScreen(below, clock=FixedClock())
    screen.detail = detail
    return screen


def context_tiny() -> ContextScreen:
    """A local model of 8k tokens, of which nobody knows that; its context is past the flush."""
    amounts = {"system": 1_500, "bootstrap": 1_100, "tools": 600, "messages": 2_400, "toolResults": 240, "free": 304}
    parts = [ContextPart(key, {"toolResults": "tool results"}.get(key, key), size) for key, size in amounts.items()]
    files = {"MEMORY.md": 480, "规则.md": 400, "关于端口与代理的一份很长的记忆文件.md": 220}
    return context(
        model="ollama_chat/qwen3:8b",
        window=8_192,
        window_source=ASSUMED,
        assumed=True,
        parts=(*parts, ContextPart("reserve", "reserve", 2_048)),
        used=5_840,
        exact=False,
        stale=True,
        flush_at=4_700,
        compact_at=6_144,
        pruned=3,
        last_flush=LastFlush("2026-11-18T09:12:00+00:00", "nothing"),
        bootstrap_files=tuple(Tokens(name, tokens) for name, tokens in files.items()),
        files=tuple(FileSize(name, name, False, 4 * tokens, 4 * tokens, False) for name, tokens in files.items()),
    )


def hooks_screen() -> HooksScreen:
    shown = screen()
    shown.chosen = "greet"
    return shown


CASES: list[tuple[str, Callable[[], Screen[Any]], tuple[int, int], str, str]] = [
    ("sessions_dark", sessions, SMALL, "textual-dark", "memory/2026"),
    ("sessions_light", sessions, LARGE, "textual-light", "memory/2026"),
    ("models", lambda: ModelsScreen(Runtime()), SMALL, "textual-light", "add a key"),
    ("editor", editor, SMALL, "textual-dark", "tokens · saved"),
    ("memory_dark", memory, LARGE, "clawbot-dark", "with grafana"),
    ("memory_small", memory_words, SMALL, "clawbot-light", "with grafana"),
    # In view when the preview has scrolled to the place, not before.
    ("memory_narrow", memory, (60, 30), "clawbot-dark", "5433 🎉，因为代理也要用 5432"),
    ("memory_recent", lambda: memory(""), SMALL, "clawbot-dark", "with grafana"),
    ("context_dark", context, SMALL, "clawbot-dark", "compactions"),
    ("context_light", lambda: context(detail=True), LARGE, "clawbot-light", "Memory Recall"),
    ("context_tiny", context_tiny, (60, 24), "clawbot-light", "2 compactions"),
    ("context_detail", lambda: context(detail=True), SMALL, "clawbot-light", "d less"),
    ("hooks", hooks_screen, (100, 24), "clawbot-dark", "GITHUB_TOKEN"),
    ("help", lambda: HelpScreen(Runtime()), (140, 60), "textual-dark", "Commands"),
]


@pytest.mark.few(5)
@pytest.mark.parametrize(("name", "screen", "size", "theme", "ready"), CASES, ids=[case[0] for case in CASES])
def test_look(
    snap_compare: Callable[..., bool],
    name: str,
    screen: Callable[[], Screen[Any]],
    size: tuple[int, int],
    theme: str,
    ready: str,
) -> None:
    host = Host(screen(), theme)

    async def settle(pilot: Pilot[None]) -> None:
        await until(pilot, lambda: ready in seen(host))
        for area in (*host.screen.query(Input), *host.screen.query(TextArea)):
            area.cursor_blink = False
        await pilot.pause()

    assert snap_compare(host, terminal_size=size, run_before=settle)
