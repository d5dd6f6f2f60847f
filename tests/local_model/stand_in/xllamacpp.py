"""Stands in for the package of that name: the same names, a server that answers what a small model might."""

from __future__ import annotations

import json
import os
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any


class CommonParams:
    """The figures that clawbot sets, and others as they are."""

    def __init__(self) -> None:
        self.model = SimpleNamespace(path="")
        self.model_alias: set[str] = set()
        self.cpuparams = SimpleNamespace(n_threads=-1)
        self.cpuparams_batch = SimpleNamespace(n_threads=-1)
        self.n_ctx = 0
        self.n_parallel = 4
        self.cache_ram_mib = 8192
        self.n_batch = 2048
        self.hostnames = ["0.0.0.0"]
        self.port = 8080
        self.api_keys: list[str] = []
        self.ui = True
        self.endpoint_slots = True


class Server:
    """Answers while it is held. A model whose file holds `broken` can't be loaded, one with `dies` ends the process; it
    is loaded as long as there is the same file with `.hold` behind its name."""

    def __init__(self, params: CommonParams) -> None:
        data = Path(params.model.path).read_bytes()
        threads = f"{params.cpuparams.n_threads} threads, {params.cpuparams_batch.n_threads} readers"
        os.write(2, f"loading {params.model.path} with {threads}\n".encode())
        if b"broken" in data:
            raise RuntimeError("Failed to init server, please check the input params.")
        if b"dies" in data:
            os._exit(3)
        self._server = ThreadingHTTPServer((params.hostnames[0], params.port), handler_of(params))
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        while hold_of(params).exists():
            time.sleep(0.01)
        self.listening_address = f"http://{params.hostnames[0]}:{self._server.server_address[1]}"


def hold_of(params: CommonParams) -> Path:
    """The file that keeps the model from being loaded."""
    return Path(f"{params.model.path}.hold")


def handler_of(params: CommonParams) -> type[BaseHTTPRequestHandler]:
    """What answers for a server with `params`."""
    (name,) = params.model_alias

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            models = [{"id": name, "object": "model", "owned_by": "llamacpp"}]
            answers: dict[str, Any] = {
                "/v1/models": {"object": "list", "data": models},
                "/props": {"default_generation_settings": {"n_ctx": params.n_ctx}},
            }
            self._answer(answers.get(self.path, {}))

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            died = Path(f"{params.model.path}.died")
            if "die once" in json.dumps(body["messages"][-1]) and not died.exists():
                died.touch()
                os._exit(3)
            usage = {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}
            chunk = {"id": "c", "object": "chat.completion.chunk", "created": 0, "model": name}
            said = {"role": "assistant", "content": f"{name} says hello"}
            chunks = [
                {**chunk, "choices": [{"index": 0, "delta": said, "finish_reason": None}]},
                {**chunk, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
                {**chunk, "choices": [], "usage": usage},
            ]
            lines = [f"data: {json.dumps(each)}\n\n" for each in chunks]
            self._answer("".join([*lines, "data: [DONE]\n\n"]))

        def _answer(self, answer: dict[str, Any] | str) -> None:
            if hold_of(params).exists():
                self._send(503, "application/json", b'{"error": {"code": 503, "message": "Loading model"}}')
                return
            allowed = self.headers["Authorization"] == f"Bearer {params.api_keys[0]}"
            text = answer if isinstance(answer, str) else json.dumps(answer)
            data = text.encode() if allowed else b"{}"
            kind = "text/event-stream" if isinstance(answer, str) else "application/json"
            self._send(200 if allowed else 401, kind, data)

        def _send(self, status: int, kind: str, data: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    return Handler
