"""Replies that stream in are held back only while they may still be silent (sheet 9.2, 9.3)."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clawbot.agent.turn import Hold
from clawbot.sessions.silence import spoken
from tests.sessions.test_silence import MIXED, SHOWN, SILENT

WORDS = r"""
NO_REPLY no_reply NO _REPLY No N NO\_REPLY HEARTBEAT_OK HEART OK _ . 。 ! … : ： - — , * ** ` ``` " “ { } {"action":
"action" action <think> </think> <b> </b> < / thinking: Thinking 思考： I'll I 我会 保持沉默 say ing Done The the answer
是 完成 x s ed 1 e.g. 🤫 é
"""
BLANKS = [" ", "\n", "\n\n", "\t", " - ", "json\n", "I will stay silent", " will", "\u200b", "\ufe0f"]
PIECES = st.lists(st.sampled_from([*WORDS.split(), *BLANKS]), max_size=14)
OTHERS = "No, NOT Nor Now NO.x NO_x NO!A None H1 Hi The It I'v 你 我们 {a"


def parts(text: str, cuts: list[int]) -> list[str]:
    ends = sorted({min(cut, len(text)) for cut in cuts} | {len(text)})
    return [text[start:end] for start, end in zip([0, *ends], ends, strict=False)]


def streamed(pieces: list[str], *, cut: bool = False) -> str:
    hold = Hold()
    return "".join([*map(hold.feed, pieces), hold.end(cut=cut)])


@given(PIECES.map("".join), st.lists(st.integers(0, 80)), st.booleans())
@settings(max_examples=300, deadline=None)
def test_however_a_reply_is_split_the_same_of_it_is_shown(text: str, cuts: list[int], cut: bool) -> None:
    shown = streamed(parts(text, cuts), cut=cut)
    assert shown.strip() == spoken(text, cut=cut)


@given(PIECES.map("".join), PIECES.map("".join))
@settings(max_examples=300, deadline=None)
def test_what_was_shown_is_never_taken_back(first: str, rest: str) -> None:
    hold = Hold()
    shown = hold.feed(first).strip()
    assert spoken(first + rest).startswith(shown)


@pytest.mark.parametrize("text", [*SILENT.values(), *MIXED, *SHOWN])
def test_letter_by_letter(text: str) -> None:
    hold = Hold()
    pieces = [hold.feed(letter) for letter in text]
    assert "".join([*pieces, hold.end()]).strip() == spoken(text)


@pytest.mark.parametrize("text", SILENT.values(), ids=SILENT.keys())
def test_nothing_of_a_silent_reply_is_ever_shown(text: str) -> None:
    hold = Hold()
    assert [hold.feed(letter) for letter in text] == [""] * len(text)
    assert hold.end() == ""


@pytest.mark.parametrize("text", [*OTHERS.split(), "I t", "- N."])
def test_what_can_no_longer_be_a_token_is_shown_at_once(text: str) -> None:
    """Sheet 9.2 and 9.3: "No", "NOT" and "Normal" must not wait."""
    assert Hold().feed(text) == text


@pytest.mark.parametrize(
    "text", ["NO", "NO_", "no_rep", "**NO_R", '"N', "```te", "I will st", "Thinking: so far", "NO_REPLY"]
)
def test_what_may_become_a_token_waits(text: str) -> None:
    assert Hold().feed(text) == ""


def test_an_answer_flows_and_only_its_last_blanks_and_letters_wait() -> None:
    hold = Hold()
    assert hold.feed("All is saved.") == "All is saved."
    assert hold.feed("\n\nN") == ""
    assert hold.feed("ow the next") == "\n\nNow the next"
    assert hold.feed(" NO_REP") == ""
    assert hold.feed("ORT") == " NO_REPORT"
    assert hold.feed(".\n\nNO_REPLY") == "."
    assert hold.end() == ""


def test_a_reply_cut_off_within_a_token() -> None:
    hold = Hold()
    assert hold.feed("NO_RE") == ""
    assert hold.end(cut=True) == ""
    assert streamed(["Saved.", " NO_", "RE"], cut=True) == "Saved."
    assert streamed(["Saved.", " NO_", "RE"]) == "Saved. NO_RE"


def test_a_flood_of_tokens_or_of_blanks_ends() -> None:
    assert streamed(["NO_REPLY\n"] * 500) == ""
    assert streamed(["Done.", *([" NO_REPLY"] * 500)]) == streamed(["Done." + " NO_REPLY" * 500]) == "Done."
    assert streamed(["Done.", *(["\n"] * 5_000)]) == "Done."
