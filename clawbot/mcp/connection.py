"""One MCP server as the program sees it: started when it is needed, called, restarted after a wait, stopped when idle.

Whatever goes wrong is one line, `McpError`. A call is never repeated: the server may have done what was asked.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Literal

from clawbot.clock import Clock
from clawbot.errors import ClawbotError
from clawbot.mcp.frames import (
    LARGEST_FRAME,
    Answered,
    Call,
    CallFailed,
    CancelCall,
    Listed,
    Listing,
    Lost,
    Report,
    Start,
    Started,
    Stop,
    report_decoder,
)
from clawbot.worker_pipe import WorkerProcess, module_command

OnListing = Callable[[Listing], None]

LINES = 500
"""Lines of a server that are logged for each call."""
IMPORT_SECONDS = 30.0
"""How long the process may take until it connects, on a busy machine."""
GRACE_SECONDS = 3.0
"""How long after its own time limit a call is given up by this side, and its process killed."""
STOP_SECONDS = 3.0
"""How long a server may take to end in order."""
MAX_TIMEOUTS = 2
"""So many calls in a row without an answer, and the server is restarted."""
MAX_WAIT = 60.0

State = Literal["stopped", "starting", "ready", "failed"]


class McpError(ClawbotError):
    """A server could not be used, or a call had no answer."""


def wait_after(failures: int) -> float:
    """Return seconds until a server is started again after so many failures in a row: at once after the first."""
    return 0.0 if failures <= 1 else float(min(2 ** (failures - 1), MAX_WAIT))


class McpConnection:
    """The server `name`. `start` returns how to start it and the environment of its client process, at
    each start; it blocks and raises ClawbotError. `on_listing` gets the tools of each start, and changes."""

    def __init__(
        self,
        name: str,
        start: Callable[[], tuple[Start, Mapping[str, str]]],
        on_listing: OnListing,
        clock: Clock,
        *,
        idle: float = 0.0,
    ) -> None:
        """`idle` seconds without a call and it is stopped; 0 for never."""
        self.name = name
        self.state: State = "stopped"
        self.problem = ""
        self.server = ""
        self._start = start
        self._on_listing = on_listing
        self._clock = clock
        self._idle = idle
        self._log = logging.getLogger(f"clawbot.mcp.{name}")
        self._starting = asyncio.Lock()
        self._process: _Process | None = None
        self._stopping: set[asyncio.Task[None]] = set()
        self._idle_timer: asyncio.TimerHandle | None = None
        self._failures = 0
        self._timeouts = 0
        self._retry_at = 0.0

    async def call(self, tool: str, arguments: dict[str, Any], seconds: float) -> Answered:
        """Call `tool` for at most `seconds`, starting the server if necessary. Raises McpError."""
        process = await self.ready()
        self._wait_for_idle(None)
        try:
            report = await process.call(tool, arguments, seconds)
        finally:
            self._wait_for_idle(self._idle)
        if isinstance(report, Answered):
            self._failures = self._timeouts = 0
            return report
        if isinstance(report, CallFailed):
            raise McpError(f"The MCP server {self.name} {report.reason}.", hint=await self._after(report, process))
        raise McpError(self._message(), hint="The next call starts it again.")

    async def _after(self, failed: CallFailed, process: _Process) -> str:
        """What follows from a call that failed."""
        self._timeouts = self._timeouts + 1 if failed.timed_out else 0
        self.problem = failed.reason
        if self._timeouts < MAX_TIMEOUTS:
            return ""
        self._timeouts = 0
        self._process, self.state = None, "stopped"
        await process.kill()
        return "It was stopped, and the next call starts it again."

    async def ready(self) -> _Process:
        """Return the running server. Raises McpError if it can't be started, or failed a moment ago."""
        async with self._starting:
            if self._process is not None and self._process.usable:
                return self._process
            if (left := self._retry_at - self._clock.monotonic()) > 0:
                raise McpError(self._message(), hint=f"It is not started again for {left:.0f} s.")
            return await self._begin()

    async def close(self) -> None:
        """Stop the server, and wait for its end."""
        self._wait_for_idle(None)
        if self._process is not None:
            self._stop(self._process)
        if self._stopping:
            await asyncio.wait(self._stopping)

    async def _begin(self) -> _Process:
        self.state = "starting"
        try:
            start, environment = await asyncio.to_thread(self._start)
        except ClawbotError as error:
            self._fail(f"can't be started: {error.message}")
            raise McpError(self._message(), hint=error.hint) from error
        process = _Process(self._log, self._on_listing, self._ended)
        try:
            started = await process.start(start, environment)
        except asyncio.CancelledError:
            self.state = "stopped"
            await process.kill()
            raise
        if not isinstance(started, Started):
            await process.kill()
            self._fail(started.reason)
            raise McpError(self._message(), hint="See the log: logs/clawbot.log.")
        self._process, self.state, self.server, self.problem = process, "ready", started.server, ""
        self._wait_for_idle(self._idle)
        self._on_listing(started.listing)
        return process

    def _ended(self, process: _Process, reason: str) -> None:
        """A started server is gone, and nobody asked for it."""
        if process is self._process:
            self._process = None
            self._fail(reason)
            self._later(process.kill())

    def _fail(self, reason: str) -> None:
        self._failures += 1
        self.state, self.problem = "failed", reason
        self._retry_at = self._clock.monotonic() + wait_after(self._failures)
        self._log.warning("the server %s %s", self.name, reason)

    def _message(self) -> str:
        return f"The MCP server {self.name} {self.problem or 'ended'}."

    def _stop(self, process: _Process) -> None:
        """Stop `process` in the background. From now on no call goes to it."""
        if process is self._process:
            self._process, self.state = None, "stopped"
        self._later(process.stop())

    def _wait_for_idle(self, seconds: float | None) -> None:
        """Stop the server after `seconds` from now, instead of when it was to be stopped; None and 0: not at all."""
        if self._idle_timer is not None:
            self._idle_timer.cancel()
            self._idle_timer = None
        if seconds and self._process is not None and not self._process.busy:
            self._idle_timer = asyncio.get_running_loop().call_later(seconds, self._stop, self._process)

    def _later(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._stopping.add(task)
        task.add_done_callback(self._stopping.discard)


class _Process:
    """The client process of a server, from its start to its end."""

    def __init__(
        self,
        log: logging.Logger,
        on_listing: OnListing,
        on_end: Callable[[_Process, str], None],
    ) -> None:
        loop = asyncio.get_running_loop()
        self._on_listing = on_listing
        self._on_end = on_end
        self._numbers = itertools.count(1)
        self._calls: dict[int, asyncio.Future[Answered | CallFailed | Lost]] = {}
        self._started: asyncio.Future[Started | Lost] = loop.create_future()
        self._pipe = WorkerProcess(log, report_decoder, self._take, largest=LARGEST_FRAME, lines=LINES, full_tree=True)
        self._reason = ""
        self._stopped = False

    @property
    def usable(self) -> bool:
        """Whether it can take another call."""
        return not (self._stopped or self._reason or self._pipe.ended.done())

    @property
    def busy(self) -> bool:
        """Whether calls are running."""
        return bool(self._calls)

    async def start(self, start: Start, environment: Mapping[str, str]) -> Started | Lost:
        """Start it; returns when the server's tools are known, or why there is none."""
        try:
            await self._pipe.start(module_command("clawbot.mcp.worker"), environment)
            self._pipe.ended.add_done_callback(self._end)
            self._pipe.send(start)
        except (OSError, ValueError, TypeError, OverflowError) as error:
            return Lost(f"could not be started: {error}")
        seconds = start.seconds + IMPORT_SECONDS
        await asyncio.wait([self._started], timeout=seconds)
        if not self._started.done():
            return Lost(f"was not up after {seconds:g} s")
        return self._started.result()

    async def call(self, tool: str, arguments: dict[str, Any], seconds: float) -> Answered | CallFailed | Lost:
        """Call `tool`. When the caller is cancelled, so is the call."""
        number = next(self._numbers)
        future: asyncio.Future[Answered | CallFailed | Lost] = asyncio.get_running_loop().create_future()
        self._calls[number] = future
        try:
            self._pipe.restart_log()
            self._pipe.send(Call(number, tool, arguments, seconds))
            await asyncio.wait([future], timeout=seconds + GRACE_SECONDS)
            if not future.done():
                self._lose(f"did not answer within {seconds:g} s, nor to the request to stop, and was killed")
                self._pipe.kill()
            return future.result()
        except (ValueError, TypeError, OverflowError) as error:
            return CallFailed(number, f"was not called: {error}")
        except asyncio.CancelledError:
            if self.usable:
                self._pipe.send(CancelCall(number))
            raise
        finally:
            self._calls.pop(number, None)

    async def stop(self) -> None:
        """Let the server end in order; kill it if it does not."""
        self._stopped = True
        if not self._pipe.ended.done() and self._pipe.send(Stop()):
            await asyncio.wait([self._pipe.ended], timeout=STOP_SECONDS)
        await self.kill()

    async def kill(self) -> None:
        """End it at once, with the server and what that started."""
        self._stopped = True
        self._pipe.kill()
        await self._pipe.close()

    def _take(self, report: Report) -> None:
        if isinstance(report, Started):
            if not self._started.done():
                self._started.set_result(report)
        elif isinstance(report, Listed):
            self._on_listing(report.listing)
        elif isinstance(report, Lost):
            self._lose(report.reason)
        elif (future := self._calls.get(report.number)) is not None and not future.done():
            future.set_result(report)

    def _lose(self, reason: str) -> None:
        """The server is gone for this `reason`: end all that waits for it."""
        if self._reason:
            return
        self._reason = reason
        if not self._started.done():
            self._started.set_result(Lost(reason))
        elif not self._stopped:
            self._on_end(self, reason)
        for future in self._calls.values():
            if not future.done():
                future.set_result(Lost(reason))

    def _end(self, ended: asyncio.Future[int]) -> None:
        self._lose(f"is gone: its client process ended with status {ended.result()}")
