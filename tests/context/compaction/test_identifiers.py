"""How far names are looked for. Which names are kept to the letter is in `test_checks.py` (`TestIdentifiers`)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clawbot.context.compaction.identifiers import (
    LINE_CHARS,
    LOOKED_AT,
    MOST,
    MOST_CHARS,
    missing_identifiers,
    wanted_identifiers,
)
from clawbot.context.startup import HEAD
from clawbot.llm.tokens import estimate_tokens
from clawbot.messages import Message, UserMessage
from tests.context.compaction.talk import answer, result, user


def wanted(*messages: Message) -> list[str]:
    return wanted_identifiers(messages, 10_000, estimate_tokens)


def test_names_in_quoted_notes_are_not_what_was_talked_about() -> None:
    quote = UserMessage(f"{HEAD}\n\n`memory/2026-11-20.md`:\n```text\nsee src/proxy_server.py\n```")
    assert wanted(user("open src/main_window.py"), answer("done")) == ["src/main_window.py"]
    assert wanted(quote, user("open src/main_window.py"), answer("done")) == ["src/main_window.py"]


FILLER = "x y\n" * (LOOKED_AT // 4)


@pytest.mark.parametrize(
    ("messages", "names"),
    [
        ([user("读 src/old.py"), user(FILLER)], []),
        ([user("src/first.py\n" + FILLER + "src/last.py")], ["src/last.py"]),
        ([user("src/first.py"), user("src/last.py\n" + FILLER[1_000:])], ["src/first.py", "src/last.py"]),
        ([user("src/first.py"), result(FILLER), answer("src/last.py")], ["src/first.py", "src/last.py"]),
    ],
    ids=["a message too far back", "the end of a long one", "just within", "results take no room"],
)
def test_only_the_end_of_a_long_conversation_is_looked_at(messages: list[Message], names: list[str]) -> None:
    assert wanted(*messages) == names


def test_only_the_beginning_of_a_long_line_is_looked_at() -> None:
    assert wanted(user("src/a.py " + "x " * LINE_CHARS + "src/b.py 《计划》\nsrc/c.py")) == ["src/a.py", "src/c.py"]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("fix #1 and #12", ["#12"]),
        (f"{'d' * 60}/{'f' * (MOST_CHARS - 64)}.py", [f"{'d' * 60}/{'f' * (MOST_CHARS - 64)}.py"]),
        (f"{'d' * 60}/{'f' * (MOST_CHARS - 63)}.py", []),
        ("`cat src/a.py` prints it", []),
        ("`src/a.py`", ["src/a.py"]),
        ("port 8443 and port: 9090, 12 of 345", ["8443", "9090"]),
    ],
)
def test_what_is_a_name(text: str, names: list[str]) -> None:
    assert wanted(user(text)) == names


def test_what_a_silent_reply_thought_is_not_asked_for() -> None:
    assert wanted(user("src/a.py"), answer("<think>see src/b.py</think>\nNO_REPLY")) == ["src/a.py"]


def test_what_is_said_in_two_messages_outweighs_what_is_said_once() -> None:
    """Within a message it counts once, however often it stands there."""
    once = [user(f"src/once{number}.py " * 3) for number in range(MOST)]
    names = wanted(answer("src/often.py"), *once, answer("src/often.py"))
    assert names[-1] == "src/often.py"
    assert len(names) == MOST


def test_what_is_missing() -> None:
    assert missing_identifiers(["a/b.py", "端口", "v1.2"], "a/b.py 的端口") == ["v1.2"]


KEY = "sk-abcdef0123456789abcdef"
_words = st.sampled_from(["src/a.py", "v1.2.3", "《部署手册》", "3f2a9c1d", "port 8443", "看看", "NO_REPLY", KEY])
_texts = st.lists(_words, max_size=20).map(" ".join)
_messages = st.one_of(st.builds(user, _texts), st.builds(answer, _texts), st.builds(result, _texts))


@given(st.lists(_messages, max_size=8), st.integers(0, 60))
def test_names_are_few_and_were_said(messages: list[Message], most: int) -> None:
    names = wanted_identifiers(messages, most, estimate_tokens)
    said = "\n".join(message.text for message in messages)
    assert len(names) == len(set(names)) <= MOST
    assert sum(estimate_tokens(f"- {name}\n") for name in names) <= most
    assert missing_identifiers(names, said) == []
    assert [name for name in names if name in ("NO_REPLY", KEY)] == []
