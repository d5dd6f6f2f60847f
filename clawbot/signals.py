"""The only use of an event loop's signal handlers: what asks a command to end."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Iterable

ASKED = (signal.SIGINT, signal.SIGTERM)
"""Ctrl+C, and what ends a service."""


def on_signals(numbers: Iterable[int], call: Callable[[int], object]) -> None:
    """Let the running event loop call `call` with the number of each of these signals that arrives."""
    loop = asyncio.get_running_loop()
    for number in numbers:
        loop.add_signal_handler(number, call, number)


def asked_to_end() -> asyncio.Event:
    """Return an event that Ctrl+C or SIGTERM sets: for a service, which a closed window ends at once."""
    stopped = asyncio.Event()
    on_signals(ASKED, lambda _: stopped.set())
    return stopped


def on_interruption(call: Callable[[], object]) -> None:
    """Call `call` at Ctrl+C, at SIGTERM, and when the window is closed, unless nohup ignores that: for one part of
    work, which is stored as far as it came."""
    is_ignored = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    on_signals(ASKED if is_ignored else (*ASKED, signal.SIGHUP), lambda _: call())
