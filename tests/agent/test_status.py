"""What `/status` says, of good and of damaged sessions, to people and to programs."""

from __future__ import annotations

from datetime import UTC
from pathlib import Path
from typing import Any

import msgspec
import pytest

from clawbot.agent.status import RuntimeStatus, other_model, render_status, status_data
from clawbot.context.prefix import CacheUse
from clawbot.context.report import LastFlush
from clawbot.llm.protocol import ModelInfo
from clawbot.messages import AssistantMessage, TextBlock, UserMessage
from clawbot.sessions.conversation import ContextItem
from tests.context.reports import FLUSH, made
from tests.tables import load_table

REPORT = made()


def status(**changes: Any) -> RuntimeStatus:
    now = RuntimeStatus(
        agent_id="main",
        session_key="main",
        session_id="0199",
        model=ModelInfo(ref="openai/gpt-5"),
        workspace=Path("/ws"),
        tokens=8_000,
        window=32_000,
        exact=True,
        cost=None,
        busy=False,
        notes=3,
    )
    return msgspec.structs.replace(now, **changes)


def said(**changes: Any) -> str:
    return render_status(status(**changes), REPORT, UTC)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({}, "- **context** 8,000 of 32,000 tokens (25%)\n"),
        ({"exact": False}, "(25%), estimated\n"),
        ({"exact": False, "stale": True}, "(25%), estimated until the next answer\n"),
        ({"window": 0}, "8,000 of 0 tokens (0%)"),
        ({"window": 100}, "(999%)"),
        ({"window_source": "assumed: 中文"}, " · window assumed: 中文\n"),
        ({"tokens": 0}, f"memory flush in {REPORT.flush_at:,} tokens · compaction in {REPORT.compact_at:,} tokens"),
        ({"tokens": REPORT.compact_at}, f"- **next** reserve {REPORT.reserve:,} · compactions 0\n"),
        ({"cost": 0.12345}, "- **cost** $0.1235"),
        ({}, "- **memory** nothing to save yet"),
        ({"memory_problem": "words only: why"}, "- **memory** words only: why · nothing to save yet"),
        (
            {"cache": CacheUse(4_311, 4_280)},
            "- **cache** prompt cache: 99 %",
        ),
        (
            {"cache": CacheUse(4_311, 12, "an edit of MEMORY.md", "2026-11-20T09:12:00+00:00")},
            "% · broken last 2026-11-20 09:12 by an edit of MEMORY.md\n",
        ),
        ({"last_flush": FLUSH}, "asked last 2026-11-20 09:12: 3 lines (180 bytes) to memory/2026-11-20.md:12"),
        ({"last_flush": msgspec.structs.replace(FLUSH, end_line=12)}, ": 1 line ("),
        ({"last_flush": LastFlush(FLUSH.at, "nothing")}, "09:12: nothing to write"),
        ({"last_flush": LastFlush(FLUSH.at, "abandoned")}, "09:12: failed, and the conversation went on"),
        ({"last_flush": LastFlush("", "failed")}, "asked last once: failed"),
        ({"last_flush": LastFlush("some day", "failed")}, "asked last `some day`: failed"),
    ],
)
def test_what_it_says(change: dict[str, Any], says: str) -> None:
    assert says in said(**change)


def test_the_same_for_programs() -> None:
    data = status_data(status(last_flush=FLUSH, compactions=2), REPORT)
    assert msgspec.json.decode(msgspec.json.encode(data)) == data
    assert (data["flushAt"], data["compactAt"]) == (REPORT.flush_at, REPORT.compact_at)
    assert (data["lastFlush"]["endLine"], data["compactions"]) == (14, 2)
    assert status_data(status(), REPORT)["lastFlush"] is None
    assert status_data(status(cache=CacheUse(9, 4)), REPORT)["cache"]["cached"] == 4


def answered(provider: str, model: str) -> list[ContextItem]:
    answer = AssistantMessage([TextBlock("Hi.")], provider=provider, model=model)
    return [ContextItem("a", answer), ContextItem("b", UserMessage("go on"))]


@pytest.mark.parametrize(
    ("items", "now", "before"),
    [
        (answered("offline", "offline"), "llamafile/qwen", "offline"),
        (answered("llamafile", "qwen"), "offline", "llamafile/qwen"),
        (answered("openrouter", "openai/gpt-5"), "openrouter/openai/gpt-5", ""),
        (answered("ollama_chat", "qwen3"), "ollama/qwen3", ""),
        (answered("offline", "offline"), "offline", ""),
        (answered("", ""), "offline", ""),
        ([ContextItem("b", UserMessage("hello"))], "offline", ""),
    ],
)
def test_it_names_the_model_that_answered_before_when_it_is_another_one(
    items: list[ContextItem], now: str, before: str
) -> None:
    assert other_model(items, now) == before


@pytest.mark.parametrize(
    ("changes", "label"),
    load_table(__file__, "a_conversation_is_called_by_its_title_and_never_by_a_stamp"),
)
def test_a_conversation_is_called_by_its_title_and_never_by_a_stamp(changes: dict[str, str], label: str) -> None:
    assert status(**changes).label == label
