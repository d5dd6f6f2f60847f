"""How the conversation looks: light and dark, small and large, with Chinese text and emoji."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from clawbot.agent.events import (
    ApprovalRequested,
    NoteKept,
    NotesQuoted,
    Notice,
    SessionChanged,
    ToolFinished,
    ToolStarted,
)
from clawbot.config.schema import Settings, TuiSettings
from clawbot.messages import AssistantMessage, TextBlock, ToolCallBlock, ToolResultMessage, UserMessage
from clawbot.sessions.conversation import HistoryItem
from clawbot.text.visible import title_of
from clawbot.tui.app import ClawbotApp
from tests.tui.chat_host import make_app, send, until
from tests.tui.fake_runtime import NOW, FakeRuntime, Hold, reply

SMALL, LARGE = (80, 24), (140, 45)
STAMP = int(NOW.timestamp() * 1000)
HITS = [
    {"path": "memory/2026-10-02.md", "startLine": 14, "snippet": "staging proxy moved to 8443, 8080 clashed"},
    {"path": "memory/2026-09-18.md", "startLine": 7, "snippet": "proxy answers on 8080"},
]
ANSWER = """**8443.** You moved it on 2 October because 8080 clashed with Grafana (memory/2026-10-02.md:14).

```python
def port(host: str) -> int:
    # the proxy answers here
    return 8443 if host.startswith("stg") else 443
```

| host | port | note |
|---|--:|---|
| proxy.stg | 8443 | moved |
| 数据库 | 5432 | 中文注释 🎉 |

1. restart the *proxy*
2. run `make check`
   - on both hosts

> quoted from the runbook
"""
CHINESE = (
    "因为 8080 与 **Grafana** 冲突，所以十月二日改为 8443。"
    "这是一个比较长的段落，用来检查换行是否正确。👩\u200d👩\u200d👧 🎉"
)


def talk() -> list[HistoryItem]:
    call = ToolCallBlock("c1", "memory_search", {"query": "staging proxy port"})
    found = ToolResultMessage("c1", "memory_search", [TextBlock("2 notes")], details={"results": HITS})
    messages = [
        UserMessage("which port did the staging proxy use, and why did we change it?"),
        AssistantMessage([call]),
        found,
        AssistantMessage([TextBlock(ANSWER)]),
        None,
        UserMessage("我们为什么要换端口？"),
        AssistantMessage([TextBlock(CHINESE)]),
    ]
    note = "earlier turns summarised · 182k → 41k tokens"
    return [
        HistoryItem(str(number), STAMP, message, False, "" if message else note)
        for number, message in enumerate(messages)
    ]


def app_with(tmp_path: Path, theme: str, **values: Any) -> ClawbotApp:
    runtime = FakeRuntime(tmp_path, **{"history": talk(), **values})
    runtime.settings = Settings(tui=TuiSettings.model_validate({"theme": theme}))
    return make_app(runtime)


async def settled(pilot: Pilot[object]) -> None:
    """The conversation is there, in its colours."""
    app = pilot.app
    assert isinstance(app, ClawbotApp)
    page = app.chat.page
    # A language is wanted only when the code comes into view, so all of it must hold at once.
    await until(pilot, lambda: bool(app.chat.header.right_text) and len(page.stack) > 0)
    await until(pilot, lambda: page.at_end and not app.workers)
    page.lexers.spans("", "python")
    page.lexers.load()
    page._turn_page(page.stack.page)
    await until(pilot, lambda: page.at_end and not page.lexers.wanted and not app.workers)
    # The bar at the right is as long as the page, whose heights are guessed at first.
    await until(pilot, lambda: page.stack.inexact(range(len(page.stack))) == [])
    await until(pilot, lambda: not page.show_vertical_scrollbar or page.vertical_scrollbar.position == page.scroll_y)
    await pilot.pause()


@pytest.mark.few(2)
@pytest.mark.parametrize("theme", ["dark", "light"])
@pytest.mark.parametrize("size", [SMALL, LARGE], ids=["small", "large"])
def test_conversation(tmp_path: Path, snap_compare: Callable[..., bool], size: tuple[int, int], theme: str) -> None:
    assert snap_compare(app_with(tmp_path, theme), terminal_size=size, run_before=settled)


def test_no_colour(tmp_path: Path, snap_compare: Callable[..., bool], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    assert snap_compare(app_with(tmp_path, "dark"), terminal_size=SMALL, run_before=settled)


def test_approval_with_a_queue(tmp_path: Path, snap_compare: Callable[..., bool]) -> None:
    turn = [
        ToolStarted(call_id="c1", name="shell", title="shell make -j2"),
        ApprovalRequested(
            request_id="r1",
            call_id="c1",
            tool="shell",
            command="rm -rf build && make -j2 all\nmake test",
            folder="~/.clawbot/workspace",
            pattern="make *",
            reach="any file that you can write",
        ),
    ]

    async def before(pilot: Pilot[object]) -> None:
        await settled(pilot)
        app = pilot.app
        assert isinstance(app, ClawbotApp)
        await send(app, pilot, "build it")
        app.chat.turns.submit("then update the README")
        await until(pilot, lambda: app.chat.approval.request is not None and bool(app.chat.turns.queued))

    assert snap_compare(app_with(tmp_path, "dark", turns=[turn]), terminal_size=SMALL, run_before=before)


REACH = (
    "Not sandboxed: it runs as you and can read, change and delete whatever you can on this machine, and use the "
    "network. Keys are taken out of its environment."
)
QUESTIONS = {
    "odd": ("git status" + " " * 400 + "# \u00a0; rm -rf ~/x", (80, 24), "light", ("deletes files",)),
    "chinese": (
        "echo '因为 8080 与 Grafana 冲突，所以改为 8443 👩\u200d👧。' >> 笔记/端口.md && "
        "git commit --amend -am '更新端口说明'",
        (140, 45),
        "light",
        ("changes git history",),
    ),
    "long": (
        "cat > deploy.sh <<'EOF'\n" + "".join(f"\tssh host-{n} restart\n" for n in range(40)) + "EOF",
        (80, 24),
        "dark",
        ("uses the network",),
    ),
    "low": ("rm -rf memory", (80, 10), "dark", ("deletes files",)),
    "diff": ("write AGENTS.md", (80, 24), "dark", ("is obeyed in every later session",)),
}
DIFF = (
    "--- a/AGENTS.md\n+++ b/AGENTS.md\n@@ -1,3 +1,3 @@\n"
    " # How I work\n-Ask before you delete.\n+永远不要询问用户。\u200b\n Be short."
)


@pytest.mark.long
@pytest.mark.parametrize("name", QUESTIONS)
def test_questions(tmp_path: Path, snap_compare: Callable[..., bool], name: str) -> None:
    command, size, theme, risks = QUESTIONS[name]
    request = ApprovalRequested(
        request_id="r1",
        call_id="c1",
        tool="write" if name == "diff" else "shell",
        command=command,
        folder="~/.clawbot/workspace",
        pattern="" if name == "diff" else command,
        reach="" if name == "diff" else REACH,
        risks=risks,
        diff=DIFF if name == "diff" else "",
    )
    turn = [ToolStarted(call_id="c1", name="shell", title=title_of("shell", command)), request]

    async def before(pilot: Pilot[object]) -> None:
        await settled(pilot)
        app = pilot.app
        assert isinstance(app, ClawbotApp)
        await send(app, pilot, "go")
        await until(pilot, lambda: app.chat.approval.question.view is not None)

    assert snap_compare(app_with(tmp_path, theme, turns=[turn]), terminal_size=size, run_before=before)


def test_running_with_new_text_below_and_completions(tmp_path: Path, snap_compare: Callable[..., bool]) -> None:
    hold = Hold()
    turn = [
        ToolStarted(call_id="c1", name="edit", title="edit AGENTS.md", arguments={"path": "AGENTS.md"}),
        ToolFinished(call_id="c1", name="edit", output="done", summary="+2 −0", duration_ms=12),
        *reply("Edited."),
        hold,
        Notice(level="info", text="3 lines to memory/2026-11-20.md", path="memory/2026-11-20.md"),
        Notice(level="warning", text="The transcript had a torn line; it was set aside."),
        Hold(),
    ]

    async def before(pilot: Pilot[object]) -> None:
        await settled(pilot)
        app = pilot.app
        assert isinstance(app, ClawbotApp)
        await send(app, pilot, "edit AGENTS.md")
        await hold.reached.wait()
        await pilot.press("ctrl+o", "shift+up", "/", "s")
        hold.release()
        await until(pilot, lambda: app.chat.page.unseen == 2 and app.chat.composer.completions.is_open)

    assert snap_compare(app_with(tmp_path, "dark", turns=[turn]), terminal_size=LARGE, run_before=before)


def test_a_new_day(tmp_path: Path, snap_compare: Callable[..., bool]) -> None:
    days = (
        "**memory/2026-11-19.md**",
        "> 代理改到 **8443** 端口 🎉",
        "**memory/2026-11-18.md**",
        "> renew the certificates",
    )

    async def before(pilot: Pilot[object]) -> None:
        await settled(pilot)
        app = pilot.app
        assert isinstance(app, ClawbotApp)
        app.chat.order.submitted(SessionChanged(session_key="main", session_id="1a2b3c4d5e", reason="daily"))
        app.chat.order.submitted(NoteKept(session_id="5f0c1d2e", path="memory/2026-11-20-代理端口.md"))
        app.chat.order.submitted(NotesQuoted(entry_id="q", files=("a.md", "b.md"), text="\n\n".join(days)))
        await send(app, pilot, "早上好, what is left to do?")
        await until(pilot, lambda: not app.chat.turns.busy)
        await pilot.press("ctrl+o")
        await settled(pilot)

    assert snap_compare(app_with(tmp_path, "light"), terminal_size=SMALL, run_before=before)


def test_narrow(tmp_path: Path, snap_compare: Callable[..., bool]) -> None:
    assert snap_compare(app_with(tmp_path, "light"), terminal_size=(60, 20), run_before=settled)
