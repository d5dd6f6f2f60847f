"""The last texts of a conversation, as hooks are given them (list B 10 and 18)."""

from __future__ import annotations

from pathlib import Path

import pytest

from clawbot.messages import AssistantMessage, Message, TextBlock, ThinkingBlock, ToolCallBlock, UserMessage
from clawbot.sessions.conversation import NOTES
from clawbot.sessions.entries import CompactionEntry, CustomMessageEntry
from clawbot.sessions.said import last_said
from clawbot.sessions.transcript import Transcript

from .helpers import CLOCK, result, said, user


def heard(folder: Path, *messages: Message, limit: int = 15) -> list[tuple[str, str]]:
    """What is told of a conversation of `messages`."""
    with Transcript.create(folder, cwd=folder, clock=CLOCK) as transcript:
        for message in messages:
            transcript.append_message(message)
        return [(text.role, text.text) for text in last_said(transcript, limit)]


def test_all_text_of_a_message_counts(tmp_path: Path) -> None:
    """There only the first block of a message was kept."""
    question = UserMessage([TextBlock("the harbour"), TextBlock("几点开门？")], timestamp=1)
    answer = AssistantMessage([ThinkingBlock("hm"), TextBlock("At six."), TextBlock("六点。")])
    [(_, asked), (_, answered)] = heard(tmp_path, question, answer)
    assert "the harbour" in asked
    assert "几点开门？" in asked
    assert "At six." in answered
    assert "六点。" in answered
    assert "hm" not in answered


def test_tools_and_commands_are_no_conversation(tmp_path: Path) -> None:
    working = AssistantMessage([TextBlock("Let me look."), ToolCallBlock("1", "read", {"path": "x"})])
    messages = [
        user("look"),
        working,
        result("1", "what the tool printed"),
        said("Done."),
        user("/status"),
        user("/NEW"),
    ]
    assert heard(tmp_path, *messages) == [("user", "look"), ("assistant", "Let me look."), ("assistant", "Done.")]


@pytest.mark.parametrize("silence", ["NO_REPLY", "no_reply.", "**NO_REPLY**", "HEARTBEAT_OK"])
def test_a_silent_turn_was_never_said(tmp_path: Path, silence: str) -> None:
    job = user("Look around. If nothing needs attention, reply with NO_REPLY.")
    assert heard(tmp_path, user("hello"), said("hi"), job, said(silence)) == [("user", "hello"), ("assistant", "hi")]
    assert len(heard(tmp_path, job, said("Water the plants!"))) == 2


def test_the_last_ones_are_told_oldest_first_however_long_the_conversation_is(tmp_path: Path) -> None:
    messages = [message for turn in range(100) for message in (user(f"问 {turn}"), said(f"答 {turn}"))]
    assert heard(tmp_path, *messages, limit=3) == [("assistant", "答 98"), ("user", "问 99"), ("assistant", "答 99")]
    assert len(heard(tmp_path, *messages, limit=1_000)) == 200


def test_what_was_compacted_was_said_and_what_the_program_added_was_not(tmp_path: Path) -> None:
    with Transcript.create(tmp_path, cwd=tmp_path, clock=CLOCK) as transcript:
        transcript.append(CustomMessageEntry(custom_type=NOTES, content="quoted notes", display=True))
        transcript.append_message(user("one"))
        kept = transcript.append_message(said("two"))
        transcript.append(CompactionEntry(summary="a summary", first_kept_entry_id=kept.id))
        transcript.append_message(user("three"))
        assert [text.text for text in last_said(transcript, 15)] == ["one", "two", "three"]


def test_keys_are_blacked_out(tmp_path: Path) -> None:
    key = "sk-ant-api03-" + "a1B2" * 12
    [(_, text)] = heard(tmp_path, user(f"my key is {key}"))
    assert key not in text
    assert text.startswith("my key is ")


def test_what_a_job_said_was_not_the_user(tmp_path: Path) -> None:
    asked = UserMessage("Is anything due?", scheduled=True)
    told = [user("六点开门"), said("好的"), asked, said("The harbour opens.")]
    assert heard(tmp_path, *told) == [("user", "六点开门"), ("assistant", "好的"), ("assistant", "The harbour opens.")]
