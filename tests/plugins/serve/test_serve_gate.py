"""Who may ask the server: the token, the limits, Host and Origin, the addresses; and what hostile requests do to it."""

from __future__ import annotations

import asyncio
import contextlib
import random
import stat

import pytest

from clawbot import token as token_module
from clawbot.config.paths import Paths, find_home
from clawbot.config.schema import ServeSettings
from clawbot.errors import ClawbotError
from clawbot.plugins.serve import server as server_module
from clawbot.plugins.serve.gate import FAILURES, MAX_ADDRESSES, Buckets, is_loopback, may_be_called, may_come_from
from clawbot.plugins.serve.metrics import Metrics
from clawbot.plugins.serve.server import check_host
from clawbot.token import load_token, rotate_token
from tests.clocks import StillClock
from tests.plugins.serve.host import INVOKE, Asked, asked, configure
from tests.tables import load_table


async def raw(server: Asked, data: bytes, *, whole: bool = True) -> bytes:
    """The head of what the server answers to `data`, empty if it closes the connection instead. Not `whole`: nothing
    more comes, which is told."""
    host, port = server.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    answer = b""
    with contextlib.suppress(OSError):
        writer.write(data)
        if not whole:
            writer.write_eof()
        answer = await reader.read(65536)
    writer.close()
    return answer


def test_the_token_is_made_once_and_is_its_owners_alone() -> None:
    paths = Paths(find_home())
    paths.ensure_home()
    token = load_token(paths.serve_token)
    assert len(token) > 40
    assert load_token(paths.serve_token) == token
    assert stat.S_IMODE(paths.serve_token.stat().st_mode) == 0o600
    assert rotate_token(paths.serve_token) == load_token(paths.serve_token) != token
    paths.serve_token.chmod(0o644)
    with pytest.raises(ClawbotError, match="read by others"):
        load_token(paths.serve_token)


async def test_a_new_token_is_taken_by_a_server_that_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(token_module, "_FRESH_SECONDS", 0.0)
    async with asked(monkeypatch) as server:
        assert (await server.ask("/v1/models"))[0] == 200
        new = rotate_token(Paths(find_home()).serve_token)
        assert (await server.ask("/v1/models"))[0] == 401
        assert (await server.ask("/v1/models", token=new))[0] == 200


async def test_only_health_is_told_without_a_token(monkeypatch: pytest.MonkeyPatch) -> None:
    async with asked(monkeypatch) as server:
        assert (await server.ask("/health", token=""))[1]["status"] == "ok"
        answers = [
            await server.ask(path, method=method, token="")
            for path in ("/v1/models", "/metrics", INVOKE, "/v1/chat/completions", "/no/such")
            for method in ("GET", "POST")
        ]
        told = {(status, answer["error"]["message"]) for status, answer, _ in answers[:FAILURES]}
        assert told == {(401, "A token is needed: `clawbot serve token` prints it.")}
        # After too many wrong ones it is told to wait; on loopback the right one works all the same.
        status, _, headers = await server.ask("/metrics", token="wrong")
        assert status == 429
        assert 1 <= int(headers["Retry-After"]) <= 6
        status, figures, _ = await server.ask("/metrics")
        assert status == 200
        assert 'clawbot_requests_total{route="/metrics",status="401"} 1' in figures


async def test_too_many_requests_are_told_when_to_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    configure(rate=1)
    async with asked(monkeypatch) as server:
        answers = [await server.ask("/v1/models") for _ in range(6)]
        assert [status for status, _, _ in answers[:2]] == [200, 200]
        assert answers[-1][0] == 429
        assert answers[-1][2]["Retry-After"] == "1"
        assert (await server.ask("/health"))[0] == 200


def test_a_bucket_fills_again_and_forgets_old_addresses() -> None:
    clock = StillClock()
    buckets = Buckets(2.0, 3, clock)
    assert [buckets.take("a") for _ in range(4)] == [0, 0, 0, 1]
    clock.forward(seconds=0.5)
    assert [buckets.take("a") for _ in range(2)] == [0, 1]
    for number in range(MAX_ADDRESSES):
        buckets.take(f"address {number}")
    assert buckets.wait("a") == 0
    assert Buckets(0, 1, clock).take("a") == 0


@pytest.mark.parametrize(
    ("host", "allowed"),
    load_table(__file__, "a_name_that_was_pointed_here_is_not_served"),
)
def test_a_name_that_was_pointed_here_is_not_served(host: str, allowed: bool) -> None:
    assert may_be_called(host, ["agent.lan", "My-Mac"]) is allowed


@pytest.mark.parametrize(
    ("origin", "allowed"),
    load_table(__file__, "a_page_of_somebody_else_may_not_ask"),
)
def test_a_page_of_somebody_else_may_not_ask(origin: str, allowed: bool) -> None:
    assert may_come_from(origin, "127.0.0.1:8791", ["http://localhost:3000"]) is allowed


async def test_a_browser_is_asked_where_it_comes_from(monkeypatch: pytest.MonkeyPatch) -> None:
    page = "http://localhost:3000"
    configure(origins=[page])
    async with asked(monkeypatch) as server:
        assert (await server.ask("/v1/models", Origin="https://evil.example"))[0] == 403
        assert (await server.ask("/health", Host="evil.example"))[0] == 403
        status, _, headers = await server.ask("/v1/models", method="OPTIONS", token="", Origin=page)
        assert status == 204
        assert "Authorization" in headers["Access-Control-Allow-Headers"]
        status, _, headers = await server.ask("/v1/models", Origin=page)
        assert (status, headers["Access-Control-Allow-Origin"]) == (200, page)
        assert "Access-Control-Allow-Origin" not in (await server.ask("/v1/models"))[2]


def test_it_listens_beyond_loopback_only_if_that_is_wanted() -> None:
    for host in ("127.0.0.1", "::1", "localhost"):
        assert is_loopback(host)
        check_host(host, ServeSettings())
    for host in ("0.0.0.0", "::", "192.168.1.5", "agent.lan"):
        with pytest.raises(ClawbotError, match="other machines"):
            check_host(host, ServeSettings())
        check_host(host, ServeSettings(expose=True))


def head_of(token: str) -> bytes:
    """The first lines of a call of a tool."""
    return f"POST {INVOKE} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {token}\r\n".encode()


def _malformed(number: int, token: str) -> bytes:
    """A request with something wrong."""
    dice = random.Random(number)
    noise = dice.randbytes(dice.randrange(1, 200))
    head = head_of(token)
    kinds = [
        noise.replace(b"\r", b"") + b"\r\n\r\n",
        b"GET /" + noise + b" HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
        b"GET /%ff%00/../../etc/passwd HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
        b"POST /tools/invoke HTTP/9.9\r\n\r\n",
        head + b"Content-Length: -5\r\n\r\n{}",
        head + b"Content-Length: 5\r\nContent-Length: 7\r\n\r\n{}",
        head + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n{}",
        head + b"Content-Length: %d\r\n\r\n" % len(noise) + noise,
        head + b'Content-Length: 3\r\n\r\n{"\xff',
        head + b"Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(noise) + noise,
        b"GET /health HTTP/1.1\r\n" + b"X: " + b"y" * 20_000 + b"\r\n\r\n",
        b"GET /v1/models HTTP/1.1\r\nHost: "
        + noise.replace(b"\n", b"")
        + b"\r\nAuthorization: Bearer \xff\xfe\r\n\r\n",
    ]
    return kinds[number % len(kinds)]


async def test_a_thousand_malformed_requests_leave_no_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    configure(rate=0)
    async with asked(monkeypatch) as server:
        for start in range(0, 1000, 50):
            answers = await asyncio.gather(
                *(raw(server, _malformed(number, server.token)) for number in range(start, start + 50))
            )
            for answer in answers:
                assert answer.startswith((b"HTTP/1.1 4", b"HTTP/1.0 4")), answer
                assert b"Traceback" not in answer
        # One that breaks off may be answered, or closed before that.
        broken = head_of(server.token) + b"Content-Length: 9\r\n\r\n{"
        assert not (answer := await raw(server, broken, whole=False)) or answer.startswith(b"HTTP/1.1 400 ")
        assert (await server.ask("/v1/models"))[0] == 200
    log = Paths(find_home()).log_file.read_text(encoding="utf-8")
    assert "Traceback" not in log
    assert server.token not in log


async def test_connections_that_say_nothing_are_bounded_and_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    configure(connections=4)
    monkeypatch.setattr(server_module, "REST_SECONDS", 0.3)
    async with asked(monkeypatch) as server:
        host, port = server.url.removeprefix("http://").split(":")
        opened = [await asyncio.open_connection(host, int(port)) for _ in range(4)]
        opened[0][1].write(b"GET /health HT")
        # One more is turned away; when the silent ones were closed there is room again.
        assert await raw(server, b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n") == b""
        assert [await reader.read() for reader, _ in opened] == [b""] * 4
        assert (await server.ask("/health"))[0] == 200
        for _, writer in opened:
            writer.close()


def test_figures_are_as_prometheus_reads_them() -> None:
    metrics = Metrics()
    metrics.answered("/health", 200, 0.004)
    metrics.answered("/health", 200, 99.0)
    text = metrics.text({"sessions_open": 2})
    assert 'clawbot_request_seconds_bucket{route="/health",le="0.005"} 1' in text
    assert 'clawbot_request_seconds_bucket{route="/health",le="+Inf"} 2' in text
    assert "clawbot_sessions_open 2\n" in text
    assert text.endswith("\n")
