"""What a heartbeat says, and when it is left out."""

from __future__ import annotations

from datetime import timedelta

import pytest

from clawbot.scheduling.ledger import Record
from clawbot.scheduling.runner import (
    BUSY,
    EMPTY_FILE,
    HEARTBEAT_PROMPT,
    NO_FILE,
    digest_of,
    is_duplicate,
    prompt_of,
    skip_reason,
)
from tests.scheduling.jobs import BERLIN, at, job

NOW = at("2026-11-21T08:30", BERLIN)


def test_a_heartbeat_asks_for_the_file_and_tells_the_time() -> None:
    said = prompt_of(job(kind="heartbeat", prompt="", zone=BERLIN), NOW)
    assert said == f"{HEARTBEAT_PROMPT}\n\nCurrent time: Saturday, 21 November 2026, 08:30 (Europe/Berlin)"
    assert "HEARTBEAT.md" in said
    assert "NO_REPLY" in said


def test_a_prompt_of_ones_own_is_told_with_the_time() -> None:
    assert prompt_of(job(prompt="看看", zone="Asia/Shanghai"), NOW).endswith("15:30 (Asia/Shanghai)")
    assert prompt_of(job(prompt="看看"), NOW) == "看看\n\nCurrent time: Saturday, 21 November 2026, 08:30 (CET)"


@pytest.mark.parametrize(
    "text",
    ["", "\n  \n", "# Heartbeat\n\n## 任务\n", "- \n* [ ]\n1.\n+\n", "---\n<!-- nothing yet -->\n", "\ufeff# x\r\n"],
)
def test_a_file_without_tasks_is_no_reason_for_a_turn(text: str) -> None:
    assert skip_reason(text, busy=False) == EMPTY_FILE


@pytest.mark.parametrize("text", ["- 检查邮件", "#hashtag", "# Tasks\n\n1. look\n", "- [ ] call", "<!-- a --> b", "."])
def test_a_file_with_tasks_is(text: str) -> None:
    assert skip_reason(text, busy=False) == ""


def test_a_missing_file_and_a_running_turn() -> None:
    assert skip_reason(None, busy=False) == NO_FILE
    assert skip_reason("- look", busy=True) == BUSY


def test_the_same_words_within_a_day_are_no_news() -> None:
    record = Record(timing="", since=NOW, reply_digest=digest_of("Call  mum.\n"), replied=NOW)
    assert is_duplicate(record, "Call mum.", NOW + timedelta(hours=23))
    assert not is_duplicate(record, "Call mum.", NOW + timedelta(hours=24))
    assert not is_duplicate(record, "Call mum.", NOW - timedelta(minutes=1))
    assert not is_duplicate(record, "Call dad.", NOW)
    assert not is_duplicate(Record(timing="", since=NOW), "", NOW)
    assert not is_duplicate(None, "Call mum.", NOW)
