"""Checks every request: who may ask, from where, how often; and what becomes of a failure."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import logging
import math
import re
from collections import OrderedDict
from collections.abc import Awaitable, Callable

from aiohttp import web

from clawbot.clock import Clock
from clawbot.config.schema import ServeSettings
from clawbot.deadline import deadline
from clawbot.plugins.serve.answers import RefusalError
from clawbot.plugins.serve.metrics import Metrics
from clawbot.token import TokenChecker

log = logging.getLogger(__name__)

HEALTH = "/health"
SESSION_HEADER = "X-Clawbot-Session"
_BURST_SECONDS = 2.0
_MAX_TOKEN = 1024
_BEGUN = web.RequestKey("begun", bool)

_HOST = re.compile(r"(?:(?P<name>[^\s\[\]:/@?#\\]+)|\[(?P<address>[0-9A-Fa-f:.]+)\])(?::[0-9]{1,5})?")

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
MAX_ADDRESSES = 1024
"""Addresses that are remembered; the one that was quiet longest is forgotten."""
FAILURES = 10
"""Wrong tokens that an address may send at once; another one is allowed every FAILURE_SECONDS."""
FAILURE_SECONDS = 6.0


class Buckets:
    """A token bucket for each address: `rate` a second, `burst` at once. With a rate of 0 everything is allowed."""

    def __init__(self, rate: float, burst: float, clock: Clock) -> None:
        self._rate = rate
        self._burst = burst
        self._clock = clock
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, address: str) -> int:
        """Take one; returns 0, or the full seconds to wait if there is none."""
        left = self._now(address)
        if left is None:
            return 0
        if left < 1.0:
            return math.ceil((1.0 - left) / self._rate)
        self._keep(address, left - 1.0)
        return 0

    def wait(self, address: str) -> int:
        """Return the full seconds until the next one is allowed, 0 for now. Takes nothing."""
        left = self._now(address)
        return 0 if left is None or left >= 1.0 else math.ceil((1.0 - left) / self._rate)

    def _now(self, address: str) -> float | None:
        if self._rate <= 0:
            return None
        left, at = self._left.get(address, (self._burst, 0.0))
        return min(self._burst, left + (self._clock.monotonic() - at) * self._rate)

    def _keep(self, address: str, left: float) -> None:
        self._left[address] = (left, self._clock.monotonic())
        self._left.move_to_end(address)
        if len(self._left) > MAX_ADDRESSES:
            self._left.popitem(last=False)


def is_loopback(host: str) -> bool:
    """Return whether `host`, a name or an address, is this machine alone."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def host_of(header: str) -> str:
    """Return the host in a Host header, without its port and brackets; empty if it is none."""
    found = _HOST.fullmatch(header)
    return (found["name"] or found["address"]).lower().removesuffix(".") if found else ""


def may_be_called(header: str, hosts: list[str]) -> bool:
    """Whether a Host header names this server: an IP address, `localhost`, or one of `hosts`. Any other name may be one
    that a web page pointed here (DNS rebinding)."""
    host = host_of(header)
    if host in ("localhost", *map(str.lower, hosts)):
        return True
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def may_come_from(origin: str, host: str, origins: list[str]) -> bool:
    """Return whether a browser may call from the page `origin`: one of `origins`, or the server's own at `host`."""
    return origin in origins or (origin.startswith(("http://", "https://")) and origin.partition("//")[2] == host)


class Gate:
    """The middleware of the server. `ending`: new requests are turned away; `running` counts those inside;
    `open_routes` need no token."""

    def __init__(self, settings: ServeSettings, checker: TokenChecker, metrics: Metrics, clock: Clock) -> None:
        self.ending = False
        self.running = 0
        self.open_routes = {HEALTH}
        self._empty = asyncio.Event()
        self._settings = settings
        self._checker = checker
        self._metrics = metrics
        self._clock = clock
        self._rates = Buckets(settings.rate, max(1.0, _BURST_SECONDS * settings.rate), clock)
        self._failures = Buckets(1.0 / FAILURE_SECONDS, FAILURES, clock)

    def guard(self, app: web.Application) -> None:

        @web.middleware
        async def pass_through(request: web.Request, handler: Handler) -> web.StreamResponse:
            return await self.pass_through(request, handler)

        app.middlewares.append(pass_through)
        app.on_response_prepare.append(self._add_headers)

    async def pass_through(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        began = self._clock.monotonic()
        self.running += 1
        self._empty.clear()
        response: web.StreamResponse | None = None
        try:
            response = await self._answer(request, handler)
            return response
        finally:
            self.running -= 1
            if not self.running:
                self._empty.set()
            # 499: the client left.
            status = response.status if response is not None else 499
            self._metrics.answered(_route(request), status, self._clock.monotonic() - began)

    async def emptied(self, seconds: float) -> None:
        """Wait until no request runs, for at most `seconds`."""
        if self.running:
            with contextlib.suppress(TimeoutError):
                async with deadline(seconds):
                    await self._empty.wait()

    async def _answer(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            if (early := await self._check(request)) is not None:
                return early
            return await handler(request)
        except RefusalError as refusal:
            return refusal.response({"WWW-Authenticate": "Bearer"} if refusal.status == 401 else None)
        except web.HTTPMethodNotAllowed as error:
            return RefusalError(405, "method_not_allowed", "Not this method.").response(
                {"Allow": error.headers["Allow"]}
            )
        except web.HTTPSeeOther:
            raise
        except web.HTTPException as error:
            return RefusalError(error.status, "not_found" if error.status == 404 else "http", error.reason).response()
        except ConnectionError:
            raise
        except Exception:
            log.exception("a request to %s failed", _route(request))
            if _BEGUN in request and request.transport is not None:
                # Another answer behind the half of one would be read as a part of it.
                request.transport.abort()
            return RefusalError(500, "internal", "Something in clawbot failed. The log has the details.").response()

    async def _check(self, request: web.Request) -> web.StreamResponse | None:
        """Raises RefusalError. Returns the answer to a browser's question whether it may ask."""
        host, origin = request.headers.get("Host", ""), request.headers.get("Origin")
        if not may_be_called(host, self._settings.hosts):
            raise RefusalError(403, "forbidden", "This Host is not served. `serve.hosts` in the settings allows more.")
        if origin is not None:
            if not may_come_from(origin, host, self._settings.origins):
                raise RefusalError(
                    403, "forbidden", "This Origin is not served. `serve.origins` in the settings allows it."
                )
            if request.method == "OPTIONS":
                return web.Response(status=204)
        if _route(request) in self.open_routes:
            return None
        scheme, _, offered = request.headers.get("Authorization", "").partition(" ")
        await self.demand_token(request.remote or "", offered if scheme.lower() == "bearer" else "")
        if wait := self._rates.take(request.remote or ""):
            raise RefusalError(429, "rate_limited", "Too many requests.", retry_after=wait)
        if self.ending:
            raise RefusalError(503, "unavailable", "The server is ending.", retry_after=5)
        return None

    async def accepts(self, offered: str) -> bool:
        return await self._checker.accepts(offered.strip()[:_MAX_TOKEN])

    async def demand_token(self, address: str, offered: str) -> None:
        """Raises RefusalError if `offered` is not the token: 401, and 429 after too many wrong ones from `address`.

        From another machine an address that guesses must wait, whatever it sends next. On loopback all callers share
        one address, so the right token always works: else any of them could lock out the others.
        """
        wait = self._failures.wait(address)
        if wait and not is_loopback(address):
            raise RefusalError(429, "rate_limited", "Too many wrong tokens.", retry_after=wait)
        if offered and await self.accepts(offered):
            return
        if wait := self._failures.take(address):
            raise RefusalError(429, "rate_limited", "Too many wrong tokens.", retry_after=wait)
        raise RefusalError(401, "unauthorized", "A token is needed: `clawbot serve token` prints it.")

    async def _add_headers(self, request: web.Request, response: web.StreamResponse) -> None:
        request[_BEGUN] = True
        response.headers["Server"] = "clawbot"
        response.headers["X-Content-Type-Options"] = "nosniff"
        origin = request.headers.get("Origin")
        if origin in self._settings.origins:
            response.headers["Access-Control-Allow-Origin"] = origin
            response.headers["Vary"] = "Origin"
            response.headers["Access-Control-Expose-Headers"] = SESSION_HEADER
            if request.method == "OPTIONS":
                response.headers["Access-Control-Allow-Methods"] = "GET, POST"
                response.headers["Access-Control-Allow-Headers"] = f"Authorization, Content-Type, {SESSION_HEADER}"


def _route(request: web.Request) -> str:
    """Return the pattern that `request` met: text of clients must not become names of figures."""
    resource = request.match_info.route.resource
    return resource.canonical if resource is not None else "other"
