"""The guard over tool results (sheet 7.2), in tokens and for small windows."""

from __future__ import annotations

from itertools import pairwise

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clawbot.context.counting import IMAGE_WEIGHT, UNSPELT_WEIGHT, weigh_message
from clawbot.context.pruning import REMOVED, TOTAL_SHARE, TRUNCATED, Guard, Weigher
from clawbot.messages import (
    AssistantMessage,
    BashExecutionMessage,
    Message,
    ThinkingBlock,
    ToolCallBlock,
    ToolResultMessage,
    UserMessage,
)
from clawbot.sessions.conversation import ContextItem
from tests.context.talk import PICTURE, answer, conversations, items, result, rounds, said, user

SMALL, FIXED = 8192, 3277
ROOM = SMALL * 3 // 4 - FIXED


def guard(
    talk: list[ContextItem], *, window: int, fixed: int, share: float = TOTAL_SHARE, tokens: Weigher = weigh_message
) -> list[ContextItem]:
    """What is seen of `talk` at the first call."""
    return Guard(tokens).view(talk, window=window, fixed=fixed, share=share)


def total(view: list[ContextItem]) -> int:
    return sum(weigh_message(item.message) for item in view)


def test_what_fits_is_left_alone() -> None:
    talk = rounds("a" * 4000, "b" * 4000, ends=1)
    view = guard(talk, window=SMALL, fixed=FIXED)
    assert all(a is b for a, b in zip(view, talk, strict=True))


def test_one_result_takes_a_share_of_what_is_left_of_the_window() -> None:
    talk = rounds("word " * 4000, ends=1)
    text = guard(talk, window=SMALL, fixed=FIXED)[2].message.text
    assert text.startswith("word word ")
    assert text.endswith(f"\n{TRUNCATED}")
    assert 0.95 * 0.3 < weigh_message(result(text)) / (SMALL - FIXED) <= 0.3
    assert len(talk[2].message.text) == 20_000


def test_chinese_is_cut_by_its_tokens() -> None:
    """Sheet 6.4, GAP: by characters a Chinese result may take four times its share."""
    text = guard(rounds("中文" * 4000), window=SMALL, fixed=FIXED)[2].message.text
    assert len(text.removesuffix(TRUNCATED)) <= 0.3 * (SMALL - FIXED)  # a character has one token, about
    assert 0.95 * 0.3 < weigh_message(result(text)) / (SMALL - FIXED) <= 0.3


def test_a_cut_makes_nothing_longer() -> None:
    """The notice has fewer tokens than what it stands for, and more characters."""
    few = "中" * 1480
    text = guard(rounds(few), window=SMALL, fixed=FIXED)[2].message.text
    assert text.endswith(TRUNCATED)
    assert len(text) < len(few)


def test_a_cut_is_at_the_end_of_a_line_if_most_of_it_stays() -> None:
    lines = "".join(f"this is line {number}\n" for number in range(2000))
    kept = guard(rounds(lines), window=SMALL, fixed=FIXED)[2].message.text.removesuffix(f"\n{TRUNCATED}")
    assert lines.startswith(kept + "\n")
    one = "short\n" + "x" * 40_000
    kept = guard(rounds(one), window=SMALL, fixed=FIXED)[2].message.text.removesuffix(f"\n{TRUNCATED}")
    assert len(kept) > 4000


def test_the_oldest_results_go_first() -> None:
    talk = rounds(*[letter * 3000 for letter in "abcdef"], ends=1)
    view = guard(talk, window=SMALL, fixed=FIXED)
    texts = said(view)[2:13:2]
    gone = texts.count(REMOVED)
    assert 0 < gone < 6
    assert texts == [REMOVED] * gone + [letter * 3000 for letter in "abcdef"[gone:]]
    assert total(view) <= ROOM


def test_a_lower_share_is_for_who_compacts_later() -> None:
    talk = rounds(*["a" * 4000] * 20, ends=1)
    assert guard(talk, window=25_000, fixed=0, share=0.9) == talk
    assert guard(talk, window=25_000, fixed=0) != talk


def test_what_is_cached_changes_seldom() -> None:
    """Each call of a tool adds a result; the beginning of the prompt stays the same for many of them."""
    texts = [f"{number} {'x' * 400}" for number in range(120)]
    views = [said(guard(rounds(*texts[:count]), window=SMALL, fixed=FIXED)) for count in range(1, 121)]
    changes = sum(after[: len(before)] != before for before, after in pairwise(views))
    assert REMOVED in views[-1]
    assert changes < 40


def test_what_the_model_has_not_seen_is_cut_and_not_removed() -> None:
    calls = [f"c{number}" for number in range(4)]
    large = [result(f"{call} " * 2000, call) for call in calls[:3]]
    talk = items(user(), answer("", *calls), *large, result("all is well", "c3"))
    view = guard(talk, window=SMALL, fixed=FIXED)
    assert view[5] is talk[5]
    for index in (2, 3, 4):
        text = view[index].message.text
        assert text.startswith(f"c{index - 2} c{index - 2}")
        assert text.endswith(TRUNCATED)
    assert 0.95 * ROOM < total(view) <= ROOM


def test_the_unseen_are_cut_after_all_others_are_gone() -> None:
    talk = [*rounds(*["a" * 4000] * 3), *items(result("b" * 9000))]
    view = guard(talk, window=SMALL, fixed=FIXED)
    assert view[-1].message.text.startswith("b" * 4000)
    assert said(view)[2] == REMOVED


def test_a_crowd_of_unseen_results_fits_as_well() -> None:
    calls = [f"c{number}" for number in range(150)]
    talk = items(user(), answer("", *calls), *[result("x" * 3000, call) for call in calls])
    view = guard(talk, window=SMALL, fixed=1000)
    assert said(view)[2:] == [REMOVED] * 150
    assert total(view) <= SMALL * 3 // 4


def test_pictures_are_removed_whole_or_stay() -> None:
    one = items(user(), answer("", "c1"), result("a view", picture=True))
    assert guard(one, window=SMALL, fixed=FIXED) == one
    many = [*items(*[result("a view", picture=True)] * 3, answer()), *one]
    view = guard(many, window=SMALL, fixed=FIXED)
    assert said(view)[:3] == [REMOVED] * 3
    assert view[-1] is many[-1]
    crowd = items(user(), answer("", "c1", "c2"), *[result("a view", picture=True)] * 2)
    assert said(guard(crowd, window=SMALL, fixed=FIXED))[2:] == [REMOVED] * 2


def test_a_counter_tells_what_characters_do_not() -> None:
    """Digits make more tokens than words, and here they stand at the beginning."""

    def dense(message: Message) -> int:
        return weigh_message(message) + message.text.count("7")

    talk = rounds("7" * 2000 + "word " * 3000)
    rough = guard(talk, window=SMALL, fixed=FIXED)[2].message
    exact = guard(talk, window=SMALL, fixed=FIXED, tokens=dense)[2].message
    assert dense(exact) <= 0.3 * (SMALL - FIXED) < dense(rough)
    assert exact.text.startswith("7" * 1000)


def test_a_guard_keeps_its_objects() -> None:
    talk = rounds("x" * 40_000, ends=1)
    kept = Guard()
    first = kept.view(talk, window=SMALL, fixed=FIXED)
    second = kept.view(list(talk), window=SMALL, fixed=FIXED)
    assert first[2].message is not talk[2].message
    assert all(a is b for a, b in zip(first, second, strict=True))
    assert kept.view(talk, window=2 * SMALL, fixed=FIXED) == guard(talk, window=2 * SMALL, fixed=FIXED) != first


@pytest.mark.parametrize(("window", "fixed"), [(1, 0), (4096, 4096), (8192, 100_000)])
def test_windows_that_hold_nothing(window: int, fixed: int) -> None:
    view = guard(rounds("x" * 9000, "y" * 9000, ends=1), window=window, fixed=fixed)
    assert total(view) <= 256


@given(conversations, st.integers(1000, 40_000), st.integers(0, 5000))
def test_what_the_guard_never_does(talk: list[ContextItem], window: int, fixed: int) -> None:
    before = msgspec.json.encode(talk)
    view = guard(talk, window=window, fixed=fixed)
    assert msgspec.json.encode(talk) == before
    assert guard(talk, window=window, fixed=fixed) == view
    for old, new in zip(talk, view, strict=True):
        if new is old:
            continue
        was, now = old.message, new.message
        assert isinstance(was, ToolResultMessage)
        assert isinstance(now, ToolResultMessage)
        assert msgspec.structs.replace(now, content=was.content) == was
        assert new.entry_id == old.entry_id
        assert weigh_message(now) < weigh_message(was)
        assert now.text == REMOVED or (now.text.endswith(TRUNCATED) and PICTURE not in was.content)
        assert len(now.text) < len(was.text) or PICTURE in was.content


@given(conversations, st.integers(1000, 40_000), st.integers(0, 5000))
def test_what_can_be_made_to_fit_fits(talk: list[ContextItem], window: int, fixed: int) -> None:
    view = guard(talk, window=window, fixed=fixed)
    budget = max(256, int(window * 0.75) - fixed)
    words = sum(weigh_message(item.message) for item in talk if not isinstance(item.message, ToolResultMessage))
    results = sum(isinstance(item.message, ToolResultMessage) for item in talk)
    # Those stay that are no longer than the line that would replace them.
    assert total(view) <= max(budget, words + results * len(REMOVED))


@pytest.mark.parametrize(
    ("message", "weight"),
    [
        (user("abcdefgh"), 2),
        (user("中文"), 2),
        (UserMessage([PICTURE]), IMAGE_WEIGHT),
        (result("abcd", picture=True), 1 + IMAGE_WEIGHT),
        (AssistantMessage([ThinkingBlock("abcd"), ToolCallBlock("c", "read", {"a": 1})]), 1 + 1 + 2),
        (AssistantMessage([ToolCallBlock("c", "read", {}, malformed='{"a"xxx')]), 1 + 2),
        (AssistantMessage([ToolCallBlock("c", "read", {"a": object()})]), 1 + UNSPELT_WEIGHT),
        (BashExecutionMessage("ls", "abcd" * 100, 0), 100 + 5),
    ],
)
def test_weights(message: Message, weight: int) -> None:
    assert weigh_message(message) == weight
