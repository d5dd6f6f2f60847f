"""When a backend is asked, and when the builtin index in its place: every order of events keeps the rules."""

from __future__ import annotations

import datetime as dt

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from clawbot.memory.backends.standing import FIRST_PAUSE, LONGEST_PAUSE, Standing

NOON = dt.datetime(2026, 11, 20, 12, tzinfo=dt.UTC)


def failed(standing: Standing, reason: str = "it died", minutes: int = 0) -> Standing:
    return standing.failed(standing.attempt, reason, NOON + dt.timedelta(minutes=minutes))


def test_a_failure_is_kept_with_its_reason_and_the_time_of_the_first_one() -> None:
    standing = failed(failed(Standing(name="qmd")), "它又死了", minutes=5)
    assert not standing.trusted
    assert standing.failure is not None
    assert (standing.failure.from_, standing.failure.reason, standing.failure.since) == ("qmd", "它又死了", NOON)


def test_a_new_conversation_tries_anew_and_an_old_one_does_not() -> None:
    standing = failed(Standing(name="qmd").met(frozenset({"a"})))
    assert standing.met(frozenset({"a"})) is standing
    assert standing.met(frozenset()) is standing
    again = standing.met(frozenset({"b"}))
    assert (again.trusted, again.failure) == (True, standing.failure)
    assert failed(again).met(frozenset({"b"})).trusted is False
    assert again.answered(again.attempt).failure is None


def test_two_conversations_side_by_side_try_once_each() -> None:
    standing = failed(Standing(name="qmd").met(frozenset({"a"})))
    standing = failed(standing.met(frozenset({"a", "b"})))
    assert standing.met(frozenset({"a", "b"})).trusted is False


def test_the_pause_doubles_up_to_an_hour_and_begins_anew_after_an_answer() -> None:
    standing = Standing(name="qmd")
    pauses = []
    for _ in range(9):
        standing = failed(standing)
        pauses.append(standing.pause)
    assert pauses[:3] == [FIRST_PAUSE, 2 * FIRST_PAUSE, 4 * FIRST_PAUSE]
    assert pauses[-1] == LONGEST_PAUSE
    assert failed(standing.answered(standing.attempt)).pause == FIRST_PAUSE


class Life(RuleBasedStateMachine):
    """Instances come and go; their answers and failures arrive in any order, also late."""

    def __init__(self) -> None:
        super().__init__()
        self.now = Standing(name="qmd")
        self.evicted: list[int] = []
        self.highest = 1

    @rule(back=st.integers(0, 3))
    def fails(self, back: int) -> None:
        attempt = self.now.attempt - back
        after = self.now.failed(attempt, "why", NOON)
        assert (after is self.now) == (back > 0)
        if after is not self.now:
            self.evicted.append(attempt)
        self.now = after

    @rule(back=st.integers(0, 3))
    def answers(self, back: int) -> None:
        after = self.now.answered(self.now.attempt - back)
        assert back == 0 or after is self.now
        self.now = after

    @rule(open_now=st.frozensets(st.sampled_from("abc")))
    def conversations(self, open_now: frozenset[str]) -> None:
        self.now = self.now.met(open_now)
        assert self.now.met(open_now) is self.now

    @invariant()
    def rules_hold(self) -> None:
        assert len(self.evicted) == len(set(self.evicted))
        assert self.now.attempt not in self.evicted
        assert self.now.trusted or self.now.failure is not None
        assert (self.now.failure is None) == (self.now.failures == 0)
        assert FIRST_PAUSE <= self.now.pause <= LONGEST_PAUSE


Life.TestCase.settings = settings(max_examples=30, stateful_step_count=20)
TestLife = Life.TestCase
