"""deadline: a limit counts behind a cancellation, and takes none away."""

from __future__ import annotations

import asyncio

import pytest

from clawbot.deadline import deadline


async def test_a_limit_is_told_and_a_block_in_time_is_not() -> None:
    async with deadline(60):
        await asyncio.sleep(0)
    with pytest.raises(TimeoutError):
        async with deadline(0):
            await asyncio.Event().wait()


async def test_a_limit_counts_in_what_cleans_up_behind_a_cancellation() -> None:
    told: list[str] = []

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            try:
                async with deadline(0):
                    await asyncio.Event().wait()
            except TimeoutError:
                told.append("late")

    task = asyncio.create_task(work())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert told == ["late"]


@pytest.mark.parametrize("before", [0, 1])
async def test_a_cancellation_from_elsewhere_stays_one(before: int) -> None:
    async def work() -> None:
        task = asyncio.current_task()
        assert task is not None
        for _ in range(before):
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asyncio.sleep(0)
        async with deadline(0):
            asyncio.get_running_loop().call_soon(task.cancel)
            await asyncio.Event().wait()

    with pytest.raises(asyncio.CancelledError):
        await asyncio.create_task(work())
