"""sessions_search and sessions_read: earlier conversations for the model, where the user is alone."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest

from clawbot.context.privacy import privacy_of
from clawbot.errors import ClawbotError
from clawbot.memory.values import Hit, MessageRef, SearchResult
from clawbot.sessions.transcript import Transcript
from clawbot.tools.memory import AgentMemory
from clawbot.tools.protocol import ToolOutcome
from clawbot.tools.registry import Toolbox
from clawbot.tools.sessions import session_tools
from tests.clocks import StillClock
from tests.memory.fake_index import FakeIndex
from tests.sessions.helpers import HEADER, entry, result, said, user, write
from tests.tools.conftest import call, nobody

HIT = Hit(
    "sessions/a.jsonl",
    3,
    3,
    0.8,
    "User: 我的狗叫布鲁诺",
    "sessions",
    3,
    MessageRef("0000000a", "user", datetime(2026, 11, 20, tzinfo=UTC)),
)
NOW_OPEN = "sessions/now.jsonl"


@pytest.fixture
def talk(tmp_path: Path) -> Iterator[Path]:
    clock = StillClock(datetime(2026, 11, 20, 14, 0, tzinfo=UTC))
    with Transcript.create(tmp_path, cwd=tmp_path, clock=clock) as transcript:
        for number in range(20):
            transcript.append_message(user(f"question {number}"))
            transcript.append_message(said("", f"c{number}"))
            transcript.append_message(result(f"c{number}", "output of a tool"))
            transcript.append_message(said(f"answer {number}"))
        yield transcript.path


def toolbox(
    folder: Path, index: FakeIndex | None = None, *, output: int = 40_000, key: str = "agent:main:main"
) -> Toolbox:
    index = index or FakeIndex(SearchResult((HIT,), "hybrid", "offline", "m"))
    tools = session_tools(AgentMemory(index, 4_000), folder, lambda: NOW_OPEN, lambda: UTC, output)
    return Toolbox(tools, output).for_session(privacy_of(key))


async def ask(box: Toolbox, name: str, **arguments: Any) -> ToolOutcome:
    return await box.run(call(name, arguments), nobody)


async def read(box: Toolbox, place: str, **arguments: Any) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads((await ask(box, "sessions_read", place=place, **arguments)).text)
    return answer


@pytest.mark.parametrize(
    ("key", "offered"),
    [
        ("agent:main:main", True),
        ("agent:main:telegram:group:42", False),
        ("agent:main:cron:daily", False),
        ("agent:main:subagent:1", False),
    ],
)
async def test_they_are_there_only_where_the_user_is_alone(tmp_path: Path, key: str, offered: bool) -> None:
    box = toolbox(tmp_path, key=key)
    assert [spec.name for spec in box.specs] == (["sessions_search", "sessions_read"] if offered else [])


async def test_a_hit_says_where_who_and_when(tmp_path: Path) -> None:
    index = FakeIndex(SearchResult((HIT,), "hybrid", "offline", "m"))
    outcome = await ask(toolbox(tmp_path, index), "sessions_search", query="狗", after="2026-11", max_results=3)
    assert "\nsessions/a.jsonl#0000000a · user, 2026-11-20 00:00\n  " in outcome.text
    [found] = outcome.structured["results"]
    assert found["said"] == {"who": "user", "at": "2026-11-20T00:00+00:00", "entry": "0000000a"}
    assert found["citation"] == "sessions/a.jsonl#0000000a"
    [request] = index.requests
    assert (request.sources, request.without, request.max_results) == (("sessions",), NOW_OPEN, 3)
    assert request.after == date(2026, 11, 1)


async def test_an_index_that_can_t_be_searched_is_told(tmp_path: Path) -> None:
    outcome = await ask(toolbox(tmp_path, FakeIndex(ClawbotError("no index"))), "sessions_search", query="x")
    answer = json.loads(outcome.text)
    assert (answer["disabled"], answer["error"]) == (True, "no index")


async def test_what_was_said_around_a_place_is_read(tmp_path: Path, talk: Path) -> None:
    box = toolbox(tmp_path)
    end = await read(box, talk.name, around=1)
    assert [line["text"] for line in end["said"]] == ["answer 19"]
    whole = await read(box, f"sessions/{talk.name}", around=40)
    seventh = next(line["entry"] for line in whole["said"] if line["text"] == "question 7")
    answer = await read(box, f"sessions/{talk.name}#{seventh}", around=2)
    assert [(line["who"], line["text"]) for line in answer["said"]] == [
        ("user", "question 6"),
        ("agent", "answer 6"),
        ("user", "question 7"),
        ("agent", "answer 7"),
        ("user", "question 8"),
    ]
    assert "data" in answer["notice"]


@pytest.mark.parametrize(
    "place", ["../../etc/passwd", "sessions/../a.jsonl", "b.jsonl", "", "sessions/", "sessions.json"]
)
async def test_nothing_but_ones_own_conversations_is_read(tmp_path: Path, talk: Path, place: str) -> None:
    for file in (tmp_path / "sessions.json", tmp_path.parent / "a.jsonl"):
        write(file, HEADER, entry(1, "not for you"))
    outcome = await ask(toolbox(tmp_path), "sessions_read", place=place)
    assert outcome.is_error
    assert "sessions_search" in outcome.text


async def test_the_conversation_before_this_one_is_read_whatever_was_written_since(tmp_path: Path, talk: Path) -> None:
    """Records of the memory are written to transcripts after their end, and a job is no talk with the user."""
    for name, more in {"later": {}, "now": {}, "job": {"scheduled": True}}.items():
        message = {"role": "user", "content": name, "timestamp": 2**41, **more}
        write(tmp_path / f"{name}.jsonl", {**HEADER, "id": name}, entry(1, "", message=message))
    os.utime(tmp_path / "later.jsonl", (1, 1))
    answer = await read(toolbox(tmp_path), "last")
    assert answer["session"] == "later.jsonl"
    assert [line["text"] for line in answer["said"]] == ["later"]


async def test_there_may_be_no_conversation_before_this_one(tmp_path: Path) -> None:
    write(tmp_path / "now.jsonl", HEADER, entry(1, "this one"))
    outcome = await ask(toolbox(tmp_path), "sessions_read", place="last")
    assert outcome.is_error


async def test_an_entry_that_there_is_not_is_told(tmp_path: Path, talk: Path) -> None:
    outcome = await ask(toolbox(tmp_path), "sessions_read", place=f"{talk.name}#ffffffff")
    assert outcome.is_error


async def test_an_answer_is_no_longer_than_a_model_may_see(tmp_path: Path, talk: Path) -> None:
    outcome = await ask(toolbox(tmp_path, output=900), "sessions_read", place=talk.name, around=20)
    assert len(outcome.text) <= 900
    assert json.loads(outcome.text)["said"]
