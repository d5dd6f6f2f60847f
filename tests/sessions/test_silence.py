"""What of a reply is for the user: silent replies, tokens beside an answer, and talk about tokens (sheet 9)."""

from __future__ import annotations

import pytest

from clawbot.messages import AssistantMessage, StopReason, TextBlock, ThinkingBlock, ToolCallBlock
from clawbot.sessions.silence import asks_for_silence, is_silent, names_token, spoken, spoken_message
from tests.tables import load_table

from .helpers import cases

CASES = cases("silence")
SILENT: dict[str, str] = CASES["silent"]
MIXED: dict[str, str] = CASES["mixed"]
SHOWN: list[str] = CASES["shown"]


@pytest.mark.parametrize("text", SILENT.values(), ids=SILENT.keys())
def test_silent(text: str) -> None:
    assert spoken(text) == ""
    assert is_silent(text)


@pytest.mark.parametrize(("text", "left"), MIXED.items())
def test_a_token_beside_an_answer_is_taken_off(text: str, left: str) -> None:
    assert spoken(text) == left
    assert not is_silent(text)


@pytest.mark.parametrize("text", SHOWN)
def test_talk_about_tokens_and_ordinary_words_are_shown(text: str) -> None:
    assert spoken(text) == text.strip()
    assert not is_silent(text)


@pytest.mark.parametrize(
    ("text", "left"),
    load_table(__file__, "a_token_that_was_cut_off_counts_where_the_reply_was"),
)
def test_a_token_that_was_cut_off_counts_where_the_reply_was(text: str, left: str) -> None:
    """Sheet 9.2: partial tokens."""
    assert spoken(text, cut=True) == left
    assert spoken(text) == text


def reply(*blocks: TextBlock | ThinkingBlock | ToolCallBlock, stop: StopReason = "stop") -> AssistantMessage:
    return AssistantMessage(list(blocks), stop_reason=stop)


THOUGHT, CALL = ThinkingBlock("hm"), ToolCallBlock("1", "read", {})


def test_messages_without_words_for_the_user_are_not_shown() -> None:
    """Sheet 9.3: nor is the reasoning that is left of one."""
    assert spoken_message(reply(TextBlock("NO_REPLY"))) is None
    assert spoken_message(reply(THOUGHT, TextBlock("no_reply."))) is None
    assert spoken_message(reply(THOUGHT)) is None
    assert spoken_message(reply()) is None
    assert spoken_message(reply(TextBlock("NO_RE"), stop="aborted")) is None
    assert spoken_message(reply(THOUGHT, TextBlock("NO_REPLY"), stop="aborted")) is None


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("<think>Nothing new. It is night.</think>\n\nNO_REPLY", None),
        ("<THINKING>\nx\n</THINKING>**NO_REPLY**", None),
        ("<think>NO_REPLY is right here.</think>HEARTBEAT_OK", None),
        ("<think>NO_REPLY", None),
        ("<think>hm</think>NO_REPLY\nHello", "Hello"),
        ("<think>Should it be NO_REPLY?</think>Hello", "Hello"),
        ("hm\n</think>\nHello", "Hello"),
    ],
)
def test_a_thought_in_the_text_of_an_old_answer_is_not_shown(text: str, left: str | None) -> None:
    assert spoken_message(reply(TextBlock(text))) == (reply(TextBlock(left)) if left else None)


def test_what_else_a_message_holds_stays() -> None:
    assert spoken_message(reply(THOUGHT, TextBlock("NO_REPLY"), CALL, stop="toolUse")) == reply(
        THOUGHT, CALL, stop="toolUse"
    )
    assert spoken_message(reply(THOUGHT, TextBlock("Done. NO_REPLY"))) == reply(THOUGHT, TextBlock("Done."))
    halves = reply(TextBlock("One."), CALL, TextBlock("Two.\nNO_REPLY"))
    assert spoken_message(halves) == reply(TextBlock("One.\nTwo."), CALL)
    for whole in (reply(TextBlock(" Hello\n")), reply(stop="aborted"), reply(THOUGHT, stop="length")):
        assert spoken_message(whole) is whole
    failed = AssistantMessage([TextBlock("NO_REPLY")], stop_reason="error", error_message="lost")
    shown = spoken_message(failed)
    assert shown is not None
    assert (shown.text, shown.error_message) == ("", "lost")


@pytest.mark.parametrize(
    ("text", "asks"),
    load_table(__file__, "prompts_that_ask_for_silence"),
)
def test_prompts_that_ask_for_silence(text: str, asks: bool) -> None:
    assert asks_for_silence(text) is asks


def test_a_token_is_named() -> None:
    assert names_token("What does NO_REPLY mean?")
    assert names_token("回复NO_REPLY。") is False
    assert not names_token("NO_REPLY_TOKEN")


@pytest.mark.parametrize("marks", ["**", "`", "***"])
def test_a_row_of_dressed_tokens_is_read_in_one_way(marks: str) -> None:
    """Each mark could belong to the token before it or to the one behind it: tried out, 100 tokens never end."""
    row = f"{marks}NO_REPLY{marks}" * 100
    assert spoken(f"Done. {row}x") == f"Done. {row}x"
    assert spoken(f"Done.\n\n{row}") == "Done."
