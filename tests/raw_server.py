"""A model server on loopback that sends bytes as they are: what vendors and gateways send, and what they should not."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

DONE = b"data: [DONE]\n\n"


def chunk(reason: str | None = None, **delta: Any) -> bytes:
    """One event of OpenAI's chat completions."""
    choice = {"index": 0, "delta": delta, "finish_reason": reason}
    return event({"id": "c", "object": "chat.completion.chunk", "created": 0, "model": "m", "choices": [choice]})


def event(data: Any, name: str = "") -> bytes:
    """One server-sent event."""
    return (f"event: {name}\n" if name else "").encode() + b"data: " + json.dumps(data).encode() + b"\n\n"


def answer(*contents: str, reason: str = "stop") -> bytes:
    """A whole answer of OpenAI's chat completions."""
    return b"".join([*(chunk(content=content) for content in contents), chunk(reason), DONE])


class RawServer:
    """Answers the next of `replies` to each POST, the last one for ever, and closes the connection; `requests` are the
    bodies that it was asked with. Those for which `refuses` returns a text are answered with that and status 400."""

    def __init__(self) -> None:
        self.replies: list[bytes] = []
        self.requests: list[Any] = []
        self.kind = "text/event-stream"
        self.refuses: Callable[[Any], str] = lambda _body: ""
        owner = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                owner.requests.append(json.loads(body))
                if why := owner.refuses(owner.requests[-1]):
                    self._send("application/json", json.dumps({"error": {"message": why}}).encode(), 400)
                    return
                self._send(owner.kind, owner.replies.pop(0) if len(owner.replies) > 1 else owner.replies[0])

            def do_GET(self) -> None:
                self._send("application/json", b'{"data": []}')

            def _send(self, kind: str, body: bytes, status: int = 200) -> None:
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Connection", "close")
                self.end_headers()
                self.wfile.write(body)

            def log_request(self, code: object = "-", size: object = "-") -> None:
                """Print nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self.root = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> RawServer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def answers(self, replies: Iterable[bytes]) -> None:
        """Begin anew with these replies."""
        self.replies, self.requests = list(replies), []
