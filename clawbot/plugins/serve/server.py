"""The server: its routes, the address it listens on, and its end."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from aiohttp import web
from aiohttp.http import HttpProcessingError

from clawbot import __version__
from clawbot.config.schema import ServeSettings
from clawbot.errors import ClawbotError
from clawbot.extras import install_command
from clawbot.plugins.serve.agents import Agents
from clawbot.plugins.serve.answers import BODY_BYTES, as_json
from clawbot.plugins.serve.chat import ChatRoutes
from clawbot.plugins.serve.gate import HEALTH, Gate, is_loopback
from clawbot.plugins.serve.metrics import CONTENT_TYPE, Metrics
from clawbot.plugins.serve.tools import ToolsRoute
from clawbot.runtime import RuntimeOptions
from clawbot.services import SharedServices
from clawbot.token import TokenChecker, load_token

if TYPE_CHECKING:
    from clawbot.plugins.serve.web import WebScreens

log = logging.getLogger(__name__)

REST_SECONDS = 30.0
"""A connection on which no request comes for so long is closed, also one that began to send one."""
LINGER_SECONDS = 2.0
LINE_BYTES = 8190
INTERRUPTED_SECONDS = 5.0
"""What an interrupted answer may take to be written down."""
_BACKLOG = 128
"""Connections that are taken at once; so many may be open beyond `serve.connections` for a moment."""


class Served:
    """A running server. `url` is where it can be asked."""

    def __init__(
        self, url: str, gate: Gate, agents: Agents, settings: ServeSettings, screens: WebScreens | None = None
    ) -> None:
        self.url = url
        self._screens = screens
        self._gate = gate
        self._agents = agents
        self._settings = settings

    @property
    def running(self) -> int:
        return self._gate.running

    @property
    def open_sessions(self) -> int:
        return self._agents.open_sessions

    async def drain(self) -> None:
        """Take no new requests; let the running ones finish within `serve.grace`, then interrupt them."""
        self._gate.ending = True
        if self._screens is not None:
            await self._screens.close()
        await self._gate.emptied(self._settings.grace)
        if self._gate.running:
            log.warning("%d requests were still running and are interrupted", self._gate.running)
            self._agents.interrupt()
            await self._gate.emptied(INTERRUPTED_SECONDS)


def check_host(host: str, settings: ServeSettings) -> None:
    """Raises ClawbotError for an address that other machines can reach, unless the settings expose it."""
    if not is_loopback(host) and not settings.expose:
        raise ClawbotError(
            f"{host} can be reached from other machines.",
            hint="Set `serve.expose: true` if that is meant, and put TLS in front: the token is sent as it is.",
        )


@asynccontextmanager
async def serving(
    options: RuntimeOptions, *, host: str | None = None, port: int | None = None, screen: Sequence[str] | None = None
) -> AsyncIterator[Served]:
    """Serve the agents until the context ends, which closes all conversations as the end of a chat does.

    `host` and `port` go before those of the settings; with `screen`, the arguments of `clawbot chat`, it shows the
    screen in a browser. Raises ConfigError and other ClawbotErrors, and OSError for a
    port that can't be used.
    """
    services = await asyncio.to_thread(SharedServices, options)
    settings, clock = services.loaded.settings.serve, services.clock
    agents = Agents(options, services, settings, clock)
    try:
        host = host or settings.host
        check_host(host, settings)
        path = services.paths.serve_token
        checker = TokenChecker(path, await asyncio.to_thread(load_token, path), clock)
        gate = Gate(settings, checker, metrics := Metrics(), clock)
        app = _app(gate, agents, settings, metrics, services)
        screens = None
        if screen is not None:
            screens = _web_screens(gate, screen)
            screens.add_to(app)
        await agents.services(services.agent_id)
        async with _listening(app, host, settings.port if port is None else port, settings.connections) as url:
            yield Served(url, gate, agents, settings, screens)
    finally:
        await agents.close()


def _app(
    gate: Gate, agents: Agents, settings: ServeSettings, metrics: Metrics, services: SharedServices
) -> web.Application:
    app = web.Application(client_max_size=BODY_BYTES)
    gate.guard(app)
    chats, tools = ChatRoutes(agents, metrics), ToolsRoute(agents, settings, metrics, services.clock)
    began = services.clock.monotonic()

    async def health(_: web.Request) -> web.Response:
        status = "ending" if gate.ending else "ok"
        return as_json({"status": status, "version": __version__}, status=503 if gate.ending else 200)

    async def figures(_: web.Request) -> web.Response:
        gauges = {
            "sessions_open": agents.open_sessions,
            "requests_running": gate.running,
            "uptime_seconds": services.clock.monotonic() - began,
        }
        return web.Response(body=metrics.text(gauges).encode(), headers={"Content-Type": CONTENT_TYPE})

    app.router.add_get(HEALTH, health)
    app.router.add_get("/metrics", figures)
    app.router.add_get("/v1/models", chats.models)
    app.router.add_get("/v1/models/{name:.+}", chats.model)
    app.router.add_post("/v1/responses", chats.responses)
    app.router.add_post("/v1/chat/completions", chats.complete)
    app.router.add_post("/tools/invoke", tools.invoke)
    return app


def _web_screens(gate: Gate, arguments: Sequence[str]) -> WebScreens:
    """Raises ClawbotError if the package for it is missing."""
    try:
        from clawbot.plugins.serve.web import WebScreens
    except ImportError as error:
        raise ClawbotError(
            f"The screen in a browser needs the package textual-serve ({error}).",
            hint=f"Install it with: {install_command('web')}",
        ) from error
    return WebScreens(gate, arguments)


class _TurnedAway(asyncio.Protocol):
    """A connection beyond the limit."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport.close()


def _http_log() -> logging.Logger:
    """Return the log of aiohttp's server, without requests that are no HTTP: they are answered, and would fill it."""
    logger = logging.getLogger("clawbot.plugins.serve.http")
    logger.addFilter(_is_ours)
    return logger


def _is_ours(record: logging.LogRecord) -> bool:
    return not (record.exc_info and isinstance(record.exc_info[1], HttpProcessingError))


@asynccontextmanager
async def _listening(app: web.Application, host: str, port: int, most: int) -> AsyncIterator[str]:
    """Answer requests to `app` on at most `most` connections; yields the URL."""
    runner = web.AppRunner(
        app,
        handler_cancellation=True,
        access_log=None,
        logger=_http_log(),
        # A body that unpacks to a thousand times its size is no JSON, then.
        auto_decompress=False,
        handle_signals=False,
        keepalive_timeout=REST_SECONDS,
        lingering_time=LINGER_SECONDS,
        max_line_size=LINE_BYTES,
        max_field_size=LINE_BYTES,
        shutdown_timeout=LINGER_SECONDS,
    )
    await runner.setup()
    try:
        listener = await asyncio.get_running_loop().create_server(_factory(runner, most), host, port, backlog=_BACKLOG)
        try:
            bound = listener.sockets[0].getsockname()
            yield f"http://{f'[{bound[0]}]' if ':' in bound[0] else bound[0]}:{bound[1]}"
        finally:
            listener.close()
    finally:
        await runner.cleanup()


def _factory(runner: web.AppRunner, most: int) -> Callable[[], asyncio.BaseProtocol]:
    server = runner.server
    if server is None:
        raise RuntimeError("the server is not set up")

    def protocol() -> asyncio.BaseProtocol:
        return server() if len(server.connections) < most else _TurnedAway()

    return protocol
