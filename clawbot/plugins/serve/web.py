"""The screen in a browser: a page, a login with the token, and a `clawbot chat` for each page that is open."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import shlex
import sys
from asyncio.subprocess import Process
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from urllib.parse import parse_qs

import msgspec
import textual_serve
from aiohttp import WSMsgType, web
from textual_serve.app_service import AppService
from textual_serve.download_manager import DownloadManager

from clawbot.deadline import deadline
from clawbot.plugins.serve.answers import RefusalError, body_of
from clawbot.plugins.serve.gate import Gate
from clawbot.text.numbers import whole_number

COOKIE = "clawbot"
PAGE, LOGIN, SOCKET, STATIC = "/", "/login", "/ws", "/static"
MAX_SCREENS = 8
MAX_LOGINS = 64
FORM_BYTES = 4096
MESSAGE_BYTES = 1024**2
END_SECONDS = 20.0
"""What a screen may take to save its conversation when its page is closed."""
_SIZES = range(2, 1000)

_HEAD = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>clawbot</title><link rel="icon" href="data:,">
<style>
@font-face {{ font-family: "Roboto Mono"; src: url({static}/fonts/RobotoMono-VariableFont_wght.ttf); }}
body {{ margin: 0; background: #0c181f; color: #e0e0e0; font: 16px "Roboto Mono", monospace; }}
.textual-terminal {{ width: 100vw; height: 100vh; }}
#closed {{ display: none; position: absolute; inset: 0; align-items: center; justify-content: center; }}
body.-closed #closed {{ display: flex; background: #0c181f; z-index: 2; }}
form {{ margin: 20vh auto; width: 32em; max-width: 90vw; }}
a {{ color: inherit; }}
</style>
"""
_TERMINAL = """<link rel="stylesheet" href="{static}/css/xterm.css"><script src="{static}/js/textual.js"></script>
</head><body><div id="closed"><a href="{page}">The screen was closed. Open it again</a></div>
<div id="terminal" class="textual-terminal" data-font-size="16"></div>
<script nonce="{nonce}">
document.getElementById("terminal").dataset.sessionWebsocketUrl =
  location.protocol.replace("http", "ws") + "//" + location.host + "{socket}";
const waiting = setInterval(() => {{
  const keys = document.querySelector(".xterm-helper-textarea");
  if (keys) {{ keys.focus(); clearInterval(waiting); }}
}}, 50);
</script></body></html>
"""
_FORM = """</head><body><form method="post" action="{login}"><p>{text}</p>
<p><input name="token" type="password" size="48" autofocus autocomplete="off"> <button>Open</button></p>
</form></body></html>
"""
ASK = "The token of this server (<code>clawbot serve token</code>):"


def screen_command(arguments: Sequence[str]) -> str:
    """Return the shell command of one screen: `clawbot chat` with `arguments`. What it prints otherwise is in its log:
    here it would be taken for a part of the picture, or for words of the server."""
    return f"exec {shlex.join([sys.executable, '-P', '-m', 'clawbot', 'chat', *arguments])} 2>/dev/null"


class _Screen(AppService):
    """The process of one screen. `process` is set when it runs."""

    process: Process | None = None

    async def _open_app_process(self, width: int = 80, height: int = 24) -> Process:
        self.process = await super()._open_app_process(width, height)
        return self.process

    async def end(self) -> None:
        """Ask the screen to close, and wait while it saves; kill it if that takes too long."""
        with contextlib.suppress(TimeoutError):
            async with deadline(END_SECONDS):
                await self.stop()
        if self.process is not None:
            with contextlib.suppress(ProcessLookupError):
                self.process.kill()
            await self.process.wait()


class WebScreens:
    """The routes. Each checks the cookie of a login itself, since a browser sends no token with a page."""

    def __init__(self, gate: Gate, arguments: Sequence[str]) -> None:
        self._gate = gate
        self._command = screen_command(arguments)
        self._logins: dict[str, str] = {}
        self._sockets: set[web.WebSocketResponse] = set()

    def add_to(self, app: web.Application) -> None:
        """Add the routes, which the gate lets through without a token."""
        app.router.add_get(PAGE, self.page)
        app.router.add_get(LOGIN, self.form)
        app.router.add_post(LOGIN, self.login)
        app.router.add_get(SOCKET, self.socket)
        app.router.add_static(STATIC, Path(textual_serve.__file__).parent / "static")
        self._gate.open_routes |= {PAGE, LOGIN, SOCKET, STATIC}

    async def page(self, request: web.Request) -> web.Response:
        """Return the page with the screen; to the login without a cookie."""
        if not await self._knows(request):
            raise web.HTTPSeeOther(LOGIN)
        nonce = secrets.token_urlsafe(16)
        return _html(_TERMINAL.format(static=STATIC, socket=SOCKET, page=PAGE, nonce=nonce), nonce)

    async def form(self, _: web.Request) -> web.Response:
        return _html(_FORM.format(login=LOGIN, text=ASK))

    async def login(self, request: web.Request) -> web.Response:
        """Give a cookie for the token; the form again, with 401 or 429, for a wrong one. Raises RefusalError for what
        is no form."""
        sent = parse_qs((await body_of(request, FORM_BYTES)).decode("utf-8", "replace"))
        token = sent.get("token", [""])[0].strip()
        try:
            await self._gate.demand_token(request.remote or "", token)
        except RefusalError as refusal:
            wrong = _FORM.format(login=LOGIN, text=f"{refusal.message} {ASK}")
            return _html(wrong, status=refusal.status)
        login = secrets.token_urlsafe(32)
        self._logins[login] = token
        if len(self._logins) > MAX_LOGINS:
            del self._logins[next(iter(self._logins))]
        response = web.Response(status=303, headers={"Location": PAGE})
        response.set_cookie(COOKIE, login, httponly=True, samesite="Strict")
        return response

    async def socket(self, request: web.Request) -> web.WebSocketResponse:
        """Run a screen as long as its page is open. Raises RefusalError."""
        if not await self._knows(request) or "Origin" not in request.headers:
            raise RefusalError(401, "unauthorized", f"Log in first: {LOGIN}")
        if self._gate.ending or len(self._sockets) >= MAX_SCREENS:
            raise RefusalError(503, "busy", f"At most {MAX_SCREENS} screens may be open.", retry_after=5)
        socket = web.WebSocketResponse(heartbeat=15, max_msg_size=MESSAGE_BYTES)
        self._sockets.add(socket)
        try:
            await socket.prepare(request)
            screen = _Screen(
                self._command,
                write_bytes=socket.send_bytes,
                write_str=socket.send_str,
                close=_closer(socket),
                download_manager=DownloadManager(),
            )
            await screen.start(_size(request, "width", 80), _size(request, "height", 24))
            try:
                await _pass_on(socket, screen)
            finally:
                await screen.end()
        finally:
            self._sockets.discard(socket)
        return socket

    async def close(self) -> None:
        """Close all screens, which saves their conversations."""
        await asyncio.gather(*(socket.close() for socket in list(self._sockets)), return_exceptions=True)

    async def _knows(self, request: web.Request) -> bool:
        """Return whether the cookie is that of a login with the token as it is now."""
        token = self._logins.get(request.cookies.get(COOKIE, ""))
        return token is not None and await self._gate.accepts(token)


def _closer(socket: web.WebSocketResponse) -> Callable[[], Awaitable[None]]:
    async def close() -> None:
        await socket.close()

    return close


def _size(request: web.Request, name: str, usual: int) -> int:
    given = whole_number(request.query.get(name, ""))
    return usual if given is None or given not in _SIZES else given


async def _pass_on(socket: web.WebSocketResponse, screen: AppService) -> None:
    """Give what the page sends to the screen; what is not in its protocol is left out."""
    async for message in socket:
        if message.type != WSMsgType.TEXT:
            continue
        with contextlib.suppress(msgspec.MsgspecError, RecursionError):
            match msgspec.json.decode(message.data):
                case ["stdin", str(typed)]:
                    await screen.send_bytes(typed.encode("utf-8", "replace"))
                case ["resize", {"width": int(width), "height": int(height)}] if width in _SIZES and height in _SIZES:
                    await screen.set_terminal_size(width, height)
                case ["ping", data]:
                    await socket.send_json(["pong", data])
                case ["focus", *_]:
                    await screen.focus()
                case ["blur", *_]:
                    await screen.blur()


def _html(body: str, nonce: str = "", *, status: int = 200) -> web.Response:
    """Return a page that loads nothing from elsewhere and is in no other page's frame."""
    scripts = f"'self' 'nonce-{nonce}'" if nonce else "'none'"
    policy = (
        f"default-src 'none'; script-src {scripts}; style-src 'self' 'unsafe-inline'; font-src 'self'; "
        "img-src 'self' data:; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    )
    headers = {"Content-Security-Policy": policy, "Referrer-Policy": "same-origin", "Cache-Control": "no-store"}
    text = _HEAD.format(static=STATIC) + body
    return web.Response(text=text, content_type="text/html", status=status, headers=headers)
