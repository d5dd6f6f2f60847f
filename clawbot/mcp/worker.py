"""The client process of one MCP server: `python -m clawbot.mcp.worker`.

The `mcp` library is imported here: it takes half a second and 60 MB, and a hostile answer may keep it busy. Requests
and reports are the frames of `clawbot.mcp.frames`. When the program closes the pipe or kills this process, the server
ends too, with all that it started.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
from contextlib import AsyncExitStack
from typing import Any

import httpx2
import mcp_types as types
from mcp.client import Client
from mcp.shared.exceptions import MCPError
from pydantic import ValidationError

from clawbot import __version__
from clawbot.deadline import deadline
from clawbot.mcp.answers import SENT, part
from clawbot.mcp.catalog import checked
from clawbot.mcp.frames import (
    LARGEST_FRAME,
    Answered,
    Call,
    CallFailed,
    CancelCall,
    Listed,
    Listing,
    Lost,
    Request,
    Start,
    Started,
    Stop,
    request_decoder,
)
from clawbot.mcp.transports import FloodError, transport_of
from clawbot.signals import ASKED, on_signals
from clawbot.text.sanitize import clean_line
from clawbot.text.visible import only_seen
from clawbot.worker_pipe import FrameWriter, claim_pipes, serve_frames

MAX_PAGES = 50
"""Pages of a list of tools; a list of more never ends."""
RELIST_SECONDS = 1.0
"""Pause between two changed lists."""
MAX_RELISTS = 5
"""New lists of one process: a server that changes its tools again and again is listed at its next start."""
REASON_CHARS = 300
_logger = logging.getLogger("clawbot.mcp")


class Worker:
    """Serves the requests of the program for one server."""

    def __init__(self, out: FrameWriter) -> None:
        """Needs a running loop."""
        self._out = out
        self._requests: asyncio.Queue[Request] = asyncio.Queue()
        self._calls: dict[int, asyncio.Task[None]] = {}
        self._lost: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._changed = asyncio.Event()
        self._stopped = False

    def take(self, request: Request) -> None:
        """A request of the program."""
        if isinstance(request, CancelCall):
            if task := self._calls.get(request.number):
                task.cancel()
        else:
            self._requests.put_nowait(request)

    async def run(self) -> None:
        """Connect, and serve until the server is lost or the program stops it."""
        start = await self._requests.get()
        if not isinstance(start, Start):
            raise TypeError(f"the first request was {type(start).__name__}")
        serving = asyncio.create_task(self._serve(start))
        either: list[asyncio.Future[Any]] = [serving, self._lost]
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if self._lost.done():
            self._out.send(Lost(self._lost.result()))
            serving.cancel()
            await asyncio.wait([serving])
        elif (error := serving.exception()) is not None:
            _logger.info("the connection ended", exc_info=error)
            self._out.send(Lost(describe(error, start)))

    def lose(self, reason: str) -> None:
        """End, since the server is of no use any more for `reason`, the end of a sentence about it."""
        if not self._lost.done():
            self._lost.set_result(reason)

    async def _serve(self, start: Start) -> None:
        client = Client(
            transport_of(start, self.lose, lambda: self._stopped),
            cache=None,
            message_handler=self._on_message,
            client_info=types.Implementation(name="clawbot", version=__version__),
        )
        async with AsyncExitStack() as stack:
            ends = asyncio.get_running_loop().time() + start.seconds
            async with deadline(start.seconds):
                await stack.enter_async_context(client)
            listing = await list_tools(client, start, ends)
            info = client.server_info
            self._out.send(Started(only_seen(clean_line(info.name, 60)) if info else "", listing))
            relisting = asyncio.create_task(self._relist(client, start))
            stack.callback(relisting.cancel)
            while not isinstance(request := await self._requests.get(), Stop):
                if isinstance(request, Call):
                    self._calls[request.number] = asyncio.create_task(self._call(client, request))
            self._stopped = True

    async def _on_message(self, message: object) -> None:
        """Handle a notification of the server. Only a change of its tools is of interest."""
        if isinstance(message, types.ToolListChangedNotification):
            self._changed.set()

    async def _relist(self, client: Client, start: Start) -> None:
        """List the tools again when they changed; however often, one list is fetched at a time."""
        for _ in range(MAX_RELISTS):
            await self._changed.wait()
            self._changed.clear()
            try:
                ends = asyncio.get_running_loop().time() + start.seconds
                self._out.send(Listed(await list_tools(client, start, ends)))
            except (MCPError, ValidationError, TimeoutError) as error:
                _logger.warning("its changed tools could not be listed: %s", describe(error, start))
            await asyncio.sleep(RELIST_SECONDS)

    async def _call(self, client: Client, call: Call) -> None:
        try:
            async with deadline(call.seconds):
                result = await client.call_tool(call.tool, call.arguments)
            text = "".join(block.text for block in result.content if isinstance(block, types.TextContent))
            self._out.send(Answered(call.number, text, result.is_error))
        except TimeoutError:
            self._out.send(CallFailed(call.number, f"did not answer within {call.seconds:g} s", timed_out=True))
        except Exception as error:
            if self._lost.done():
                return  # which was reported
            if isinstance(error, MCPError) and error.code == types.CONNECTION_CLOSED:
                self.lose("broke off the connection")
                return
            _logger.info("a call of %s failed", call.tool, exc_info=error)
            self._out.send(CallFailed(call.number, describe(error)))
        finally:
            self._calls.pop(call.number, None)


async def list_tools(client: Client, start: Start, ends: float) -> Listing:
    """Return the usable tools of the server, at most `start.max_tools`, until the time `ends` of the loop. A later page
    that fails costs no earlier one; raises what the library raises for the first."""
    loop = asyncio.get_running_loop()
    offered: list[Any] = []
    problems: list[str] = []
    cursors: list[str | None] = [None]
    while True:
        number = len(cursors)
        try:
            async with deadline(max(ends - loop.time(), 0)):
                page = await client.list_tools(cursor=cursors[-1])
        except (MCPError, ValidationError, TimeoutError) as error:
            if number == 1 or (isinstance(error, MCPError) and error.code == types.CONNECTION_CLOSED):
                raise
            problems.append(f"its tools from page {number} on: it {describe(error, start)}")
            break
        sent = (page.meta or {})[SENT]
        if isinstance(tools := sent.get("tools"), list):
            # The library leaves out what it can't call: tools with headers of a wrong form.
            names = {None, *(tool.name for tool in page.tools)}
            offered += [tool if (name := part(tool, "name", str)) in names else {"name": name} for tool in tools]
        else:
            problems.append(f"page {number} of its tools, which is no list")
        if not sent.get("nextCursor"):
            break
        if page.next_cursor is None or page.next_cursor in cursors or number == MAX_PAGES:
            problems.append(f"its tools after page {number}")
            break
        cursors.append(page.next_cursor)
    return checked(offered, start.max_tools, problems)


def describe(error: BaseException, start: Start | None = None) -> str:
    """Return why the server is of no use, as the end of a sentence that begins with its name."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    match error:
        case TimeoutError() if start is not None:
            text = f"did not list its tools within {start.seconds:g} s"
        case FileNotFoundError() if start is not None:
            text = f"could not be started: there is no program {start.command}, or no folder {start.cwd}"
        case OSError():
            text = f"could not be started: {error.strerror or error}"
        case FloodError():
            text = str(error)
        case MCPError():
            text = f"answered with an error: {error.message}"
        case ValidationError():
            first = error.errors(include_url=False, include_input=False)[0]
            text = f"gave an answer that is not valid at {'.'.join(map(str, first['loc']))}: {first['msg']}"
        case httpx2.TransportError():
            text = f"can't be reached: {str(error) or type(error).__name__}"
        case _:
            text = f"failed: {str(error) or type(error).__name__}"
    return only_seen(clean_line(text, REASON_CHARS))


async def _serve() -> None:
    requests, reports = claim_pipes()
    out = FrameWriter(reports, LARGEST_FRAME)
    worker = Worker(out)
    on_signals((*ASKED, signal.SIGHUP), lambda _: worker.lose("ended its client process"))
    serve_frames(requests, request_decoder, asyncio.get_running_loop(), worker.take, full_tree=True)
    await worker.run()


def main() -> None:
    """Run the process."""
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(name)s: %(message)s")
    logging.getLogger("httpx2").setLevel(logging.WARNING)
    asyncio.run(_serve())


if __name__ == "__main__":
    main()
