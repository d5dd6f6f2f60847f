"""`clawbot mcp` without a subcommand: the memory of an agent as an MCP server, over stdio or HTTP."""

from __future__ import annotations

import asyncio
import os

from clawbot.cli.output import echo, listening, warn
from clawbot.clock import SystemClock
from clawbot.context.privacy import privacy_of
from clawbot.errors import ClawbotError
from clawbot.mcp.serving import MemoryAppendTool, MemoryServer, serve_http, serve_stdio
from clawbot.services import RuntimeOptions, SharedServices
from clawbot.session_deps import toolbox
from clawbot.sessions.names import MAIN, key_for
from clawbot.signals import asked_to_end
from clawbot.token import TokenChecker, load_token
from clawbot.tools.folder import WorkspaceFolder
from clawbot.tools.protocol import AnyTool
from clawbot.tools.registry import Toolbox


def serve(options: RuntimeOptions, port: int | None) -> None:
    """Serve until the client leaves, or a signal. `port` None: over stdio. Raises ClawbotError."""
    services = SharedServices(options)
    warn(*(notice.text for notice in services.notices))
    if asyncio.run(_serve(services, port)):
        # The thread that reads stdin can't be woken.
        os._exit(0)


async def _serve(services: SharedServices, port: int | None) -> bool:
    """Returns whether a signal ended it."""
    # The server of HTTP has handlers of its own, and hands the signal on to these when it has ended.
    stopped = asked_to_end()
    try:
        memory = _memory_server(services)
        if services.memory is not None:
            services.memory.start()
        if port is not None:
            await _over_http(services, memory, port)
            return False
        return await _over_stdio(memory, stopped)
    finally:
        await services.close()


async def _over_stdio(memory: MemoryServer, stopped: asyncio.Event) -> bool:
    serving = asyncio.create_task(serve_stdio(memory))
    stopping = asyncio.create_task(stopped.wait())
    await asyncio.wait([serving, stopping], return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    if serving.done():
        serving.result()
    return stopped.is_set()


async def _over_http(services: SharedServices, memory: MemoryServer, port: int) -> None:
    path = services.paths.serve_token
    checker = TokenChecker(path, await asyncio.to_thread(load_token, path), SystemClock())
    with listening("The server can't listen there", "Choose another --port."):
        await serve_http(memory, port, checker.accepts, lambda url: echo(f"serving on {url}"))


def _memory_server(services: SharedServices) -> MemoryServer:
    """Return the tools, with what the user's own session of the agent may know, except those denied by the settings."""
    access = privacy_of(key_for(services.agent_id, MAIN))
    settings = services.agent_settings.tools
    reading = toolbox(services, lambda: None).for_session(access)
    append = MemoryAppendTool(WorkspaceFolder(services.workspace), services.clock, services.history)
    denied = {append.name, "append"} & set(settings.deny)
    tools: list[AnyTool] = [] if denied else [append]
    memory = MemoryServer(reading, Toolbox(tools, settings.output_max_chars).for_session(access))
    if not memory.names:
        raise ClawbotError(f"The settings leave no tool of the memory for {services.agent_id}.")
    return memory
