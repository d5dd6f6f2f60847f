"""The screen in a browser: the login, what the cookie opens, and screens that end with their pages."""

from __future__ import annotations

import asyncio
import shlex
import sys
from pathlib import Path

import aiohttp
import pytest
from aiohttp import WSServerHandshakeError

from clawbot import token as token_module
from clawbot.config.paths import Paths, find_home
from clawbot.plugins.serve import answers
from clawbot.plugins.serve import web as web_module
from clawbot.token import rotate_token
from tests.memory.index_host import until
from tests.plugins.serve.host import Asked, asked

SCREEN = """
import os, sys
def tell(kind, data): os.write(1, kind + len(data).to_bytes(4, "big") + data)
os.write(1, b"__GANGLION__\\n")
tell(b"D", " ".join(sys.argv[2:] + [os.environ["COLUMNS"]]).encode())
while head := sys.stdin.buffer.read(5):
    data = sys.stdin.buffer.read(int.from_bytes(head[1:], "big"))
    if head[:1] == b"D":
        tell(b"D", b"typed " + data)
    elif b"quit" in data:
        open(sys.argv[1], "w").write("saved")
        break
"""


@pytest.fixture
def saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Lets a small program stand for the screen; the file that it writes when it is closed."""
    program, file = tmp_path / "screen.py", tmp_path / "saved"
    program.write_text(SCREEN, encoding="utf-8")

    def command(arguments: list[str]) -> str:
        return shlex.join([sys.executable, str(program), str(file), *arguments])

    monkeypatch.setattr(web_module, "screen_command", command)
    return file


async def log_in(server: Asked, token: str) -> int:
    """Send the form; the cookie stays in the client."""
    headers = {"Origin": server.url}
    async with server.http.post(f"{server.url}/login", data={"token": token}, headers=headers) as answer:
        return answer.status


def opened(server: Asked, origin: str | None = None, query: str = "") -> aiohttp.client._WSRequestContextManager:
    """The connection of a page."""
    headers = {"Origin": server.url if origin is None else origin} if origin != "" else {}
    return server.http.ws_connect(f"{server.url}/ws{query}", headers=headers)


async def test_a_page_is_for_those_who_have_the_token(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with asked(monkeypatch, screen=["--agent", "main"], cookies=True) as server:
        async with server.http.get(f"{server.url}/", allow_redirects=False) as answer:
            assert (answer.status, answer.headers["Location"]) == (303, "/login")
        assert await log_in(server, "wrong") == 401
        assert await log_in(server, server.token) == 200
        cookie = next(iter(server.http.cookie_jar))
        assert (cookie["httponly"], cookie["samesite"]) == (True, "Strict")
        assert server.token not in cookie.value
        async with server.http.get(f"{server.url}/") as page:
            policy = page.headers["Content-Security-Policy"]
            assert "default-src 'none'" in policy
            assert "frame-ancestors 'none'" in policy
            assert server.token not in await page.text()
        for form in (b"token=" + b"x" * web_module.FORM_BYTES, b"\xff&;=%"):
            async with server.http.post(f"{server.url}/login", data=form, headers={"Origin": server.url}) as answer:
                assert answer.status in (413, 401)
        # The cookie opens the screen, nothing else.
        assert (await server.ask("/v1/models", token=""))[0] == 401
        async with opened(server, query="?width=97&height=x") as page:
            assert await page.receive_bytes() == b"--agent main 97"
            for nonsense in ("{", "[]", '["stdin", 5]', '["resize", {"width": 1e9, "height": 2}]', "[" * 9999):
                await page.send_str(nonsense)
            await page.send_bytes(b"x")
            await page.send_json(["stdin", "你好"])
            assert (await page.receive_bytes()).decode() == "typed 你好"
            await page.send_json(["ping", 7])
            assert await page.receive_json() == ["pong", 7]
        await until(saved.exists)


async def test_no_other_page_and_no_old_login_opens_a_screen(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(token_module, "_FRESH_SECONDS", 0.0)
    async with asked(monkeypatch, screen=[], cookies=True) as server:

        async def refused(origin: str | None = None) -> int:
            with pytest.raises(WSServerHandshakeError) as error:
                await opened(server, origin)
            return error.value.status

        assert await refused() == 401
        await log_in(server, server.token)
        assert await refused("https://evil.example") == 403
        assert await refused("") == 401
        rotate_token(Paths(find_home()).serve_token)
        assert await refused() == 401
        async with server.http.get(f"{server.url}/", allow_redirects=False) as answer:
            assert answer.status == 303


async def test_the_end_of_the_server_closes_the_screens(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with asked(monkeypatch, screen=[], cookies=True) as server:
        await log_in(server, server.token)
        async with opened(server) as page:
            await page.receive_bytes()
            await server.drain()
            await until(saved.exists)
            assert (await page.receive()).type == aiohttp.WSMsgType.CLOSE
    assert server.running == 0


async def test_a_login_that_does_not_come_holds_no_connection(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "BODY_SECONDS", 0.05)
    async with asked(monkeypatch, screen=[]) as server:
        host, port = server.url.removeprefix("http://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(f"POST /login HTTP/1.1\r\nHost: {host}\r\nContent-Length: 100\r\n\r\ntoken=".encode())
        assert b" 408 " in await reader.readline()
        writer.close()


async def test_without_a_wish_for_it_there_is_no_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    async with asked(monkeypatch) as server:
        for path in ("/", "/login", "/ws", "/static/css/xterm.css"):
            assert (await server.ask(path, token=""))[0] == 401
            assert (await server.ask(path))[0] == 404


def test_the_command_of_a_screen_is_no_more_than_words() -> None:
    command = web_module.screen_command(["--model", "script:a; touch b", "--workspace", "$(id)"])
    assert "'script:a; touch b'" in command
    assert "'$(id)'" in command
