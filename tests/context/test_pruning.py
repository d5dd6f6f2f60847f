"""Pruning by the time of the provider's cache (sheet 10), and where it is better than there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clawbot.config.schema_agent import ContextPruningSettings
from clawbot.context.counting import weigh_message
from clawbot.context.pruning import MARKER, Pruner, PruneState, marker_of, prune, state_from
from clawbot.messages import Message, ToolResultMessage
from clawbot.sessions.conversation import ContextItem
from clawbot.sessions.entries import CustomEntry, Entry, LabelEntry
from tests.context.talk import PICTURE, answer, conversations, items, result, rounds, said, user

TTL = 300_000
LONG = "".join(f"line {number}\n" for number in range(2000))
CLEARED = "[Old tool result content cleared]"
WINDOW = 10_000


def settings(**values: Any) -> ContextPruningSettings:
    return ContextPruningSettings.model_validate({"mode": "cache-ttl", **values})


def expired(
    talk: Sequence[ContextItem], chosen: ContextPruningSettings | None = None, window: int = WINDOW
) -> tuple[list[ContextItem], PruneState]:
    """What is seen of `talk` when the cache was touched exactly a ttl ago."""
    return prune(talk, chosen or settings(), PruneState(0), now_ms=TTL, window=window)


def test_a_long_result_keeps_its_beginning_and_its_end() -> None:
    talk = rounds(LONG, ends=3)
    view, state = expired(talk)
    text = view[2].message.text

    assert text.startswith(LONG[:1500] + "\n...\n")
    assert LONG[-1500:] in text
    assert text.endswith(f"[Tool result trimmed: kept the first 1500 and the last 1500 of {len(LONG)} characters.]")
    assert state == PruneState(TTL, trimmed=frozenset({"e2"}))
    assert talk[2].message.text == LONG
    assert [a is b for a, b in zip(view, talk, strict=True)] == [True, True, False, True, True, True]


@pytest.mark.parametrize(
    ("state", "now", "chosen"),
    [
        (PruneState(), TTL, settings()),
        (PruneState(0), TTL - 1, settings()),
        (PruneState(TTL + 1), 0, settings()),
        (PruneState(0), TTL, settings(ttl=0)),
        (PruneState(0), TTL, settings(mode="off")),
    ],
    ids=["never touched", "warm", "clock set back", "no ttl", "off"],
)
def test_when_nothing_is_pruned(state: PruneState, now: int, chosen: ContextPruningSettings) -> None:
    talk = rounds(LONG, ends=3)
    assert prune(talk, chosen, state, now_ms=now, window=WINDOW) == (talk, state)


def test_nothing_is_pruned_while_the_window_is_empty_enough() -> None:
    talk = rounds(LONG, ends=3)
    used = sum(weigh_message(item.message) for item in talk)
    assert expired(talk, window=int(used / 0.3) + 1) == (talk, PruneState(0))
    assert expired(talk, window=int(used / 0.3) - 1)[0] != talk


def test_the_last_answers_and_what_follows_them_stay() -> None:
    talk = rounds(LONG, LONG, LONG, LONG)
    assert [text == LONG for text in said(expired(talk)[0])[2::2]] == [False, True, True, True]
    assert expired(rounds(LONG, LONG))[0] == rounds(LONG, LONG)
    view, _ = expired(rounds(LONG), settings(keep_last_assistants=0))
    assert view[2].message.text != LONG


def test_what_was_read_before_the_first_words_of_the_user_stays() -> None:
    start: list[Message] = [answer("", "c0"), result(LONG, "c0")]
    view, state = expired(items(*start, user(), answer("", "c1"), result(LONG, "c1"), *[answer()] * 3))
    assert state.trimmed == {"e4"}
    assert view[1].message.text == LONG
    assert expired(items(*start, *[answer()] * 3))[1] == PruneState(0)


def test_pictures_stay() -> None:
    talk = items(user(), answer("", "c1"), result(LONG, picture=True), *[answer()] * 3)
    assert expired(talk) == (talk, PruneState(0))


def test_results_are_replaced_oldest_first_until_there_is_room() -> None:
    texts = ["a" * 4000, "b" * 4000, "c" * 4000, "d" * 4000]
    talk = rounds(*texts, ends=3)
    view, state = expired(talk, settings(min_prunable_tool_chars=16_000), window=6000)
    assert said(view)[2::2][:4] == [CLEARED, CLEARED, *texts[2:]]
    assert state == PruneState(TTL, cleared=frozenset({"e2", "e4"}))


@pytest.mark.parametrize(
    "values",
    [
        {"min_prunable_tool_chars": 16_001},
        {"min_prunable_tool_chars": 1, "hard_clear": {"enabled": False}},
        {"min_prunable_tool_chars": 1, "hard_clear_ratio": 1.0},
    ],
)
def test_when_no_result_is_replaced(values: dict[str, Any]) -> None:
    talk = rounds(*["a" * 4000] * 4, ends=3)
    assert expired(talk, settings(**values), window=4500)[0] == talk


def test_what_is_short_enough_after_trimming_is_not_replaced() -> None:
    """The second ratio and the least characters are those after the first step."""
    talk = rounds(LONG, LONG, ends=3)
    view, state = expired(talk, settings(min_prunable_tool_chars=6000), window=WINDOW)
    assert (len(state.trimmed), len(state.cleared)) == (2, 0)
    view, state = expired(talk, settings(min_prunable_tool_chars=6000), window=2000)
    assert said(view)[2] == CLEARED
    assert state == PruneState(TTL, frozenset({"e4"}), frozenset({"e2"}))
    assert expired(talk, settings(min_prunable_tool_chars=7000), window=2000)[1].cleared == frozenset()


@pytest.mark.parametrize(
    ("tools", "pruned"),
    [
        ({}, {"read", "shell", "memory_get"}),
        ({"allow": ["read"]}, {"read"}),
        ({"allow": [" READ "]}, {"read"}),
        ({"allow": ["mem*", "read"]}, {"memory_get", "read"}),
        ({"deny": ["*_get"]}, {"read", "shell"}),
        ({"allow": ["*"], "deny": ["read"]}, {"shell", "memory_get"}),
    ],
)
def test_whose_results(tools: dict[str, list[str]], pruned: set[str]) -> None:
    names = ("read", "shell", "memory_get")
    talk = items(user(), *[result(LONG, name, tool=name) for name in names], *[answer()] * 3)
    _, state = expired(talk, settings(tools=tools))
    assert {names[int(entry_id[1:]) - 1] for entry_id in state.trimmed} == pruned


def test_chinese_takes_the_room_that_it_takes() -> None:
    """Sheet 6.4, GAP: four characters a token see a quarter of a Chinese text."""
    talk = rounds("中" * 4500, ends=3)
    assert 4500 / 4 < 0.3 * 14_000 <= 4500
    view, _ = expired(talk, window=14_000)
    assert len(view[2].message.text) < 3200
    assert view[2].message.text.startswith("中" * 1500 + "\n...\n")
    cleared = rounds(*["中" * 3000] * 5, ends=3)
    assert expired(cleared, window=20_000)[1].cleared


def test_pictures_of_the_user_count() -> None:
    """Sheet 6.4, BUG: the reference counts them as nothing."""
    talk = rounds(LONG, ends=3)
    used = sum(weigh_message(item.message) for item in talk)
    window = int((used + 4000) / 0.3)
    shown = [*talk, *items(msgspec.structs.replace(user(), content=[PICTURE, PICTURE]))]
    assert expired(talk, window=window)[0] == talk
    assert expired(shown, window=window)[0] != shown


def test_the_cut_goes_through_no_visible_character() -> None:
    family = "👩‍👩‍👧"
    talk = rounds(family * 2000, ends=3)
    odd = settings(soft_trim={"max_chars": 4000, "head_chars": 1503, "tail_chars": 1501})
    head, _, rest = expired(talk, odd)[0][2].message.text.partition("\n...\n")
    tail = rest.partition("\n")[0]
    assert head == family * (len(head) // len(family))
    assert tail == family * (len(tail) // len(family))


def test_a_result_that_would_get_longer_stays() -> None:
    barely = "x" * 4001
    close = settings(soft_trim={"max_chars": 4000, "head_chars": 2000, "tail_chars": 2000})
    assert expired(rounds(barely, ends=3), close, window=1100)[0] == rounds(barely, ends=3)
    short = rounds("tiny", "x" * len(CLEARED), "tiny", LONG, ends=3)
    view, state = expired(short, settings(min_prunable_tool_chars=0, hard_clear_ratio=0.0), window=100)
    assert view[:8] == short[:8]
    assert state.cleared == {"e8"}


def test_a_result_that_is_not_on_disk_yet_stays() -> None:
    talk = rounds(LONG, ends=3)
    talk[2] = ContextItem("", talk[2].message)
    assert expired(talk) == (talk, PruneState(0))


def test_what_was_pruned_stays_so_until_the_cache_expires_again() -> None:
    """Sheet 10: the reference shows the whole results again at the next call, and the cache is lost."""
    first = rounds(LONG, LONG, LONG, LONG)
    view, state = expired(first)
    later = [*first, ContextItem("e9", answer("and on")), ContextItem("e10", result(LONG))]
    warm, same = prune(
        later, settings(), msgspec.structs.replace(state, touched_at=TTL + 5), now_ms=2 * TTL + 4, window=WINDOW
    )
    assert warm == [*view, *later[-2:]]
    assert same == PruneState(TTL + 5, frozenset({"e2"}))
    cold, new = prune(later, settings(), same, now_ms=2 * TTL + 5, window=WINDOW)
    assert new == PruneState(2 * TTL + 5, frozenset({"e2", "e4"}))
    assert [a == b for a, b in zip(cold, warm, strict=True)].count(False) == 1


def test_where_there_is_room_again_an_expiry_gives_the_results_back() -> None:
    talk = rounds(LONG, ends=3)
    _, state = expired(talk)
    view, fresh = prune(talk, settings(), state, now_ms=2 * TTL, window=1_000_000)
    assert view == talk
    assert fresh == PruneState(TTL)


def test_the_state_survives_a_restart() -> None:
    state = PruneState(1234, frozenset({"b", "a"}), frozenset({"c"}))
    marker = marker_of(state, "anthropic", "claude-x")
    assert marker.custom_type == MARKER == "openclaw.cache-ttl"
    assert marker.data == {
        "timestamp": 1234,
        "provider": "anthropic",
        "modelId": "claude-x",
        "trimmed": ["a", "b"],
        "cleared": ["c"],
    }
    stored = msgspec.json.decode(msgspec.json.encode(marker), type=CustomEntry)
    old = CustomEntry(custom_type=MARKER, data={"timestamp": 1, "provider": "x", "modelId": "y"})
    other = CustomEntry(custom_type="openclaw.other", data={"timestamp": 99})
    entries: list[Entry] = [old, stored, other, LabelEntry(target_id="a")]
    assert state_from(entries) == state
    assert state_from([stored, old]) == PruneState(1)
    assert state_from([other]) == PruneState()


@pytest.mark.parametrize("data", [None, [], "x", {"timestamp": "soon"}, {"timestamp": 5, "trimmed": [1]}])
def test_a_damaged_marker_is_passed_over(data: Any) -> None:
    good = marker_of(PruneState(3), "x", "y")
    assert state_from([good, CustomEntry(custom_type=MARKER, data=data)]) == PruneState(3)


def test_ids_in_a_marker_that_are_no_results_do_nothing() -> None:
    talk = items(user("u" * 9000), answer("a" * 9000), result(LONG, picture=True))
    forged = PruneState(0, frozenset({"e0", "e1"}), frozenset({"e2", "gone"}))
    assert prune(talk, settings(), forged, now_ms=1, window=WINDOW)[0] == talk


def test_a_pruner_keeps_its_objects() -> None:
    pruner = Pruner(settings(), PruneState(0))
    talk = rounds(LONG, ends=3)
    first = pruner.view(talk, now_ms=TTL, window=WINDOW)
    pruner.touch(TTL + 1)
    second = pruner.view([*talk, *items(user())], now_ms=TTL + 2, window=WINDOW)
    assert pruner.pruned == 1
    assert all(a is b and a.message is b.message for a, b in zip(first, second, strict=False))
    assert pruner.state == PruneState(TTL + 1, frozenset({"e2"}))
    pruner.view(items(user()), now_ms=TTL + 3, window=WINDOW)
    assert pruner.pruned == 0


@pytest.mark.parametrize(
    ("ttl", "seconds"), [("600", 36_000), (600, 36_000), ("10m", 600), ("1h", 3600), ("30s", 30), ("0", 0)]
)
def test_a_bare_number_is_minutes(ttl: object, seconds: float) -> None:
    """Sheet 10: so is a number in quotes in the reference, which ignores one without and keeps 5 minutes."""
    assert settings(ttl=ttl).ttl == seconds


@given(conversations, st.integers(100, 20_000), st.integers(0, 3), st.integers(0, 30_000))
def test_what_pruning_never_does(talk: list[ContextItem], window: int, keep: int, least: int) -> None:
    chosen = settings(keep_last_assistants=keep, min_prunable_tool_chars=least)
    before = msgspec.json.encode(talk)
    view, state = expired(talk, chosen, window)

    assert msgspec.json.encode(talk) == before
    assert not state.trimmed & state.cleared
    for old, new in zip(talk, view, strict=True):
        if new is old:
            continue
        was, now = old.message, new.message
        assert isinstance(was, ToolResultMessage)
        assert isinstance(now, ToolResultMessage)
        assert PICTURE not in was.content
        assert len(now.text) < len(was.text)
        assert weigh_message(now) <= weigh_message(was)
        assert msgspec.structs.replace(now, content=was.content) == was
        assert new.entry_id == old.entry_id
        assert new.entry_id in state.trimmed | state.cleared


@given(conversations, conversations, st.integers(100, 20_000), st.integers(0, TTL - 1))
def test_a_prefix_is_stable_while_the_cache_is_warm(
    talk: list[ContextItem], more: list[ContextItem], window: int, wait: int
) -> None:
    view, state = expired(talk, window=window)
    if not state.trimmed | state.cleared:
        return
    grown = [*talk, *(ContextItem(f"m{item.entry_id}", item.message) for item in more)]
    restarted = state_from([marker_of(state, "x", "y")])
    later, same = prune(grown, settings(), restarted, now_ms=TTL + wait, window=window)
    assert later == [*view, *grown[len(talk) :]]
    assert same == state
