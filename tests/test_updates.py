"""The look for a newer version: once a day, of nobody by default, and never in the way."""

from __future__ import annotations

import asyncio
import os
import stat
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import msgspec
import pytest

from clawbot import updates
from clawbot.agent.events import Notice
from clawbot.runtime import Runtime, RuntimeOptions
from clawbot.updates import look_for_newer, look_later

NOW = datetime(2026, 11, 20, 9, tzinfo=UTC)
FAILURES = (OSError, ValueError, msgspec.MsgspecError)


class Index(HTTPServer):
    """Answers every question with `body`; counts them."""

    asked = 0

    def __init__(self, body: bytes) -> None:
        self.body = body
        super().__init__(("127.0.0.1", 0), _Answering)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/clawbot/json"


class _Answering(BaseHTTPRequestHandler):
    server: Index

    def do_GET(self) -> None:
        self.server.asked += 1
        self.send_response(200)
        self.end_headers()
        self.wfile.write(self.server.body)

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Nothing: standard error is the screen's."""


@pytest.fixture
def home() -> Path:
    folder = Path(os.environ["CLAWBOT_HOME"])
    folder.mkdir(mode=0o700)
    return folder


@pytest.fixture
def serve() -> Iterator[Callable[[bytes], Index]]:
    servers: list[Index] = []

    def start(body: bytes) -> Index:
        servers.append(Index(body))
        threading.Thread(target=servers[-1].serve_forever, daemon=True).start()
        return servers[-1]

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize(
    ("body", "found"),
    [
        (b'{"info": {"version": "99.1.0", "name": "clawbot"}, "urls": []}', "99.1.0"),
        (b'{"version": "99.1"}', "99.1"),
        (b"99.0\n", "99.0"),
        (b"0.10", "0.10"),
        (b"0.1.0", None),
        (b"0.1", None),
        (b"0.0.9", None),
    ],
)
def test_a_newer_version_is_told(
    serve: Callable[[bytes], Index], tmp_path: Path, body: bytes, found: str | None
) -> None:
    assert look_for_newer(serve(body).url, tmp_path / "updates.json", NOW) == found


@pytest.mark.parametrize(
    "body", [b"", b"<html>not found</html>", b"99.0rc1", b'{"version": 3}', b"{", b"\xff\xfe", b"9" * 99]
)
def test_an_answer_of_another_kind_is_none(serve: Callable[[bytes], Index], tmp_path: Path, body: bytes) -> None:
    with pytest.raises(FAILURES):
        look_for_newer(serve(body).url, tmp_path / "updates.json", NOW)


def test_a_flood_is_cut_off(serve: Callable[[bytes], Index], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(updates, "_LARGEST_ANSWER", 1000)
    with pytest.raises(ValueError, match="larger"):
        look_for_newer(serve(b"9" * 2000).url, tmp_path / "updates.json", NOW)


def test_it_is_asked_once_a_day_also_when_nobody_answers(serve: Callable[[bytes], Index], tmp_path: Path) -> None:
    index, file = serve(b"no version"), tmp_path / "updates.json"
    with pytest.raises(ValueError, match="no finished version"):
        look_for_newer(index.url, file, NOW)
    index.body = b"99.0"
    assert look_for_newer(index.url, file, NOW + timedelta(hours=23)) is None
    assert index.asked == 1
    assert look_for_newer(index.url, file, NOW + timedelta(hours=24)) == "99.0"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


@pytest.mark.parametrize(
    "text", ["", "{", '{"at": "yesterday"}', '{"at": "2026-11-20T09:00:00"}', '{"at": "2031-01-01T00:00:00Z"}']
)
def test_a_torn_file_or_a_clock_that_was_ahead_silences_nobody(
    serve: Callable[[bytes], Index], tmp_path: Path, text: str
) -> None:
    file = tmp_path / "updates.json"
    file.write_text(text)
    assert look_for_newer(serve(b"99.0").url, file, NOW) == "99.0"


async def test_nobody_waits_and_a_failure_is_quiet(serve: Callable[[bytes], Index], tmp_path: Path) -> None:
    told: asyncio.Queue[str] = asyncio.Queue()
    look_later("http://127.0.0.1:1/", tmp_path / "first.json", NOW, told.put_nowait)
    look_later(serve(b"99.0").url, tmp_path / "second.json", NOW, told.put_nowait)
    assert await told.get() == "clawbot 99.0 is out; this is 0.1.0."
    assert told.empty()


@pytest.mark.parametrize(
    ("settings", "approvals", "addresses"),
    [
        ("", True, []),
        ("updates: {url: https://example.org/v}\n", False, []),
        ("updates: {url: https://example.org/v}\n", True, ["https://example.org/v"]),
    ],
)
async def test_a_chat_tells_what_the_named_address_says(
    monkeypatch: pytest.MonkeyPatch, home: Path, settings: str, approvals: bool, addresses: list[str]
) -> None:
    asked: dict[str, Callable[[str], object]] = {}
    monkeypatch.setattr("clawbot.services.look_later", lambda url, file, now, tell: asked.update({url: tell}))
    (home / "config.yaml").write_text(f"agents: {{defaults: {{model: offline}}}}\n{settings}")
    runtime = await Runtime.open(RuntimeOptions(approvals=approvals, watch=False, background=False))
    heard: list[object] = []
    runtime.agent.on_event = heard.append
    for tell in asked.values():
        tell("99.0 is out")
    await runtime.close()
    assert list(asked) == addresses
    assert (Notice(level="info", text="99.0 is out") in heard) == bool(addresses)
