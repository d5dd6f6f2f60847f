"""The queue of a conversation: one text at a time, in the order of submission, whatever is withdrawn or interrupted."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncGenerator

from hypothesis import given
from hypothesis import strategies as st

from clawbot.agent.events import Event, MessageQueued, Scope, TurnEnded, TurnStarted
from clawbot.agent.submissions import Submissions
from clawbot.clock import SystemClock
from clawbot.deadline import InterruptedTurnError


class HandClock(SystemClock):
    """A clock whose seconds are set by hand."""

    seconds = 100.0

    def monotonic(self) -> float:
        return self.seconds


class Desk:
    """A queue whose texts end when the test says so; `log` is what was done with them."""

    def __init__(self) -> None:
        self.clock = HandClock()
        self.queue = Submissions(self._take_up, self.clock)
        self.ends: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)
        self.log: list[str] = []
        self.late = ""  # submitted just as the next text ends
        self.comes: asyncio.Task[tuple[Event, AsyncGenerator[Event, None]]] | None = None

    async def _take_up(self, text: str, scope: Scope) -> TurnEnded:
        self.log.append(f"+{text}")
        scope.emit(TurnStarted(text=text, session_key="main", session_id="s", model="m"))
        try:
            await scope.cancel.run(self.ends[text].wait)
        except InterruptedTurnError:
            await asyncio.sleep(0)  # what is still to be written down
            self.log.append(f"!{text}")
            return TurnEnded(status="interrupted")
        self.log.append(f"-{text}")
        if self.late:
            self.comes = asyncio.create_task(self.begin(self.late))
            self.late = ""
            await asyncio.sleep(0)  # it is submitted, and taken up or not just after this turn
        return TurnEnded(status="done")

    async def begin(self, text: str) -> tuple[Event, AsyncGenerator[Event, None]]:
        """Submit `text`: its first event, and the stream of the others."""
        stream = self.queue.submit(text)
        return await anext(stream), stream

    def end(self, *texts: str) -> None:
        """Let these end as soon as they run."""
        for text in texts:
            self.ends[text].set()


async def rest(stream: AsyncGenerator[Event, None]) -> list[Event]:
    return [event async for event in stream]


def positions(events: list[Event]) -> list[int]:
    return [event.position for event in events if isinstance(event, MessageQueued)]


@given(st.integers(1, 5).flatmap(lambda count: st.tuples(st.just(count), st.sets(st.integers(1, count)))))
def test_all_that_is_not_withdrawn_runs_alone_and_in_its_order(drawn: tuple[int, set[int]]) -> None:
    count, withdrawn = drawn

    async def play() -> list[str]:
        desk = Desk()
        started = [await desk.begin(f"t{number}") for number in range(count + 1)]
        assert positions([event for event, _ in started]) == list(range(1, count + 1))
        for number in withdrawn:
            await started[number][1].aclose()
        kept = [number for number in range(count + 1) if number not in withdrawn]
        desk.end(*(f"t{number}" for number in kept))
        endings = await asyncio.gather(*(rest(started[number][1]) for number in kept))
        assert {type(events[-1]) for events in endings} == {TurnEnded}
        return desk.log

    expected = [f"{mark}t{number}" for number in range(count + 1) if number not in withdrawn for mark in "+-"]
    assert asyncio.run(play()) == expected


async def test_who_is_withdrawn_counts_no_more() -> None:
    desk = Desk()
    _, running = await desk.begin("one")
    _, second = await desk.begin("two")
    await second.aclose()
    first, third = await desk.begin("three")
    assert positions([first]) == [1]
    desk.end("one", "three")
    await asyncio.gather(rest(running), rest(third))
    first, fourth = await desk.begin("four")
    assert isinstance(first, TurnStarted)
    await fourth.aclose()


async def test_who_comes_between_two_turns_is_told_that_others_wait_already() -> None:
    """The lock is free for a moment then, and nothing runs."""
    desk = Desk()
    _, running = await desk.begin("one")
    _, second = await desk.begin("two")
    desk.late = "three"
    desk.end("one", "two", "three")
    await asyncio.gather(rest(running), rest(second))
    assert desk.comes is not None
    first, third = await desk.comes
    assert positions([first]) == [2]
    assert isinstance((await rest(third))[-1], TurnEnded)
    assert desk.log == ["+one", "-one", "+two", "-two", "+three", "-three"]


async def test_an_interrupt_ends_what_runs_and_nothing_that_waits() -> None:
    desk = Desk()
    assert not desk.queue.interrupt()
    _, running = await desk.begin("one")
    _, waiting = await desk.begin("two")
    assert desk.queue.interrupt()
    assert (await rest(running))[-1] == TurnEnded(status="interrupted")
    desk.end("two")
    assert (await rest(waiting))[-1] == TurnEnded(status="done")
    assert not desk.queue.interrupt()
    assert desk.log == ["+one", "!one", "+two", "-two"]


async def test_closing_the_stream_of_what_runs_interrupts_it_and_waits_for_its_end() -> None:
    desk = Desk()
    _, running = await desk.begin("one")
    await running.aclose()
    assert desk.log == ["+one", "!one"]
    assert desk.queue.running is None


async def test_the_duration_is_of_the_turn_and_not_of_the_wait() -> None:
    desk = Desk()
    _, running = await desk.begin("one")
    _, waiting = await desk.begin("two")
    desk.clock.seconds += 60
    desk.end("one")
    assert (await rest(running))[-1] == TurnEnded(status="done", duration_ms=60_000)
    assert isinstance(await anext(waiting), TurnStarted)
    desk.clock.seconds += 1.2345
    desk.end("two")
    assert (await rest(waiting))[-1] == TurnEnded(status="done", duration_ms=1_234)


async def test_nothing_is_taken_up_while_somebody_wants_to_be_alone() -> None:
    desk = Desk()
    _, running = await desk.begin("one")
    asks, alone, go_on = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def be_alone() -> None:
        asks.set()
        async with desk.queue.exclusive():
            desk.log.append("alone")
            alone.set()
            await go_on.wait()

    visitor = asyncio.create_task(be_alone())
    await asks.wait()
    desk.end("one", "two")
    await rest(running)
    await alone.wait()
    first, waiting = await desk.begin("two")
    assert positions([first]) == [1]
    assert desk.log == ["+one", "-one", "alone"]
    go_on.set()
    await asyncio.gather(rest(waiting), visitor)
    assert desk.log == ["+one", "-one", "alone", "+two", "-two"]
