"""A server of files on loopback that does what it is told: cuts, lacks ranges, changes the file; and small models."""

from __future__ import annotations

import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


def head(**values: int | str) -> bytes:
    """The head of a GGUF file with `values` and one tensor; an underscore in pairs stands for the point."""
    pairs = {name.replace("__", "."): value for name, value in values.items()}
    body = b"GGUF" + struct.pack("<IQQ", 3, 1, len(pairs))
    for name, value in pairs.items():
        body += struct.pack("<Q", len(name)) + name.encode()
        if isinstance(value, str):
            body += struct.pack("<IQ", 8, len(value)) + value.encode()
        else:
            body += struct.pack("<II", 4, value)
    return body + struct.pack("<Q", 1) + b"w" + struct.pack("<IQIQ", 1, 32, 0, 0)


SMALL = head(
    general__architecture="tiny",
    tiny__context_length=8192,
    tiny__block_count=2,
    tiny__embedding_length=64,
    tiny__attention__head_count=4,
    tiny__attention__head_count_kv=2,
) + bytes(128)


def small_model(path: Path, more: bytes = b"") -> Path:
    """A file with a head and `more` behind it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(SMALL + more)
    return path


class FileHost:
    """Serves `data` with its tag. `cuts` are the bytes after which the next answers end; `ranges`: it knows them."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.etag = '"one"'
        self.ranges = True
        self.cuts: list[int] = []
        self.status = 200
        self.hold: tuple[int, threading.Event] | None = None  # after so many bytes, until then
        self.asked: list[str | None] = []
        self.cut = threading.Event()
        self.url = ""

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        asked = handler.headers.get("Range")
        self.asked.append(asked)
        start = 0
        if self.status != 200:
            handler.send_response(self.status)
            handler.send_header("Content-Length", "0")
            handler.end_headers()
            return
        if asked and self.ranges and handler.headers.get("If-Range") == self.etag:
            start = int(asked.removeprefix("bytes=").removesuffix("-"))
            handler.send_response(206)
            handler.send_header("Content-Range", f"bytes {start}-{len(self.data) - 1}/{len(self.data)}")
        else:
            handler.send_response(200)
        handler.send_header("Content-Length", str(len(self.data) - start))
        handler.send_header("ETag", self.etag)
        handler.end_headers()
        end = self.cuts.pop(0) if self.cuts else len(self.data)
        if self.hold is not None:
            size, release = self.hold
            handler.wfile.write(self.data[start : start + size])
            self.cut.set()
            release.wait(60)
            return
        handler.wfile.write(self.data[start : start + end])
        handler.close_connection = True
        if end < len(self.data):
            self.cut.set()


@contextmanager
def serving(host: FileHost) -> Iterator[FileHost]:
    """`host` behind its address."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            host.answer(self)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    host.url = f"http://127.0.0.1:{server.server_address[1]}/models/tiny.gguf"
    try:
        yield host
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
