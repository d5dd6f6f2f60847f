"""A server in the test's own process, on a free port, and somebody who asks it."""

from __future__ import annotations

import io
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from clawbot.config.paths import Paths, find_home
from clawbot.llm.protocol import ChatRequest
from clawbot.messages import Message, UserMessage, text_of
from clawbot.plugins.serve.server import Served, serving
from clawbot.runtime import RuntimeOptions
from tests.agent.fakes import Answer, says
from tests.agent.gate_host import PurposeModel
from tests.program import use_models

CHAT = "/v1/chat/completions"
INVOKE = "/tools/invoke"


def last_words(messages: list[Message]) -> str:
    """What the user said last."""
    said = [text_of(message.content) for message in messages if isinstance(message, UserMessage)]
    return said[-1].splitlines()[-1]


def echo(request: ChatRequest) -> Answer:
    """Says how often the user spoke, and what last."""
    count = sum(isinstance(message, UserMessage) for message in request.messages)
    return says(f"{count}: {last_words(list(request.messages))}")


class Asked(Served):
    """A server and its client. `token` is sent unless a request says otherwise."""

    def __init__(self, served: Served, http: aiohttp.ClientSession, token: str) -> None:
        self.__dict__.update(served.__dict__)
        self.http = http
        self.token = token

    async def ask(
        self, path: str, body: Any = None, *, method: str = "", token: str | None = None, **headers: str
    ) -> tuple[int, Any, Any]:
        """The status, the JSON (or text) and the headers of the answer. `body` is sent as JSON, bytes as they are."""
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        if token != "":
            sent["Authorization"] = f"Bearer {self.token if token is None else token}"
        data = body if isinstance(body, bytes | io.IOBase) or body is None else json.dumps(body).encode()
        method = method or ("GET" if body is None else "POST")
        async with self.http.request(method, f"{self.url}{path}", data=data, headers=sent) as answer:
            text = await answer.text()
            is_json = answer.content_type == "application/json"
            return answer.status, json.loads(text) if is_json else text, answer.headers

    async def say(self, *messages: str, session: str = "", **more: Any) -> tuple[str, str]:
        """The reply to the last of `messages` (the user's and the assistant's in turn), and the session's name."""
        roles = ("user", "assistant") * len(messages)
        talk = [{"role": role, "content": text} for role, text in zip(roles, messages, strict=False)]
        headers = {"X_Clawbot_Session": session} if session else {}
        status, answer, heads = await self.ask(CHAT, {"messages": talk, **more}, **headers)
        assert status == 200, answer
        return answer["choices"][0]["message"]["content"], heads["X-Clawbot-Session"]

    async def stream(self, text: str, **more: Any) -> list[Any]:
        """The pieces of a streamed reply, the text `[DONE]` last."""
        body = {"messages": [{"role": "user", "content": text}], "stream": True, **more}
        status, answer, _ = await self.ask(CHAT, body)
        assert status == 200, answer
        lines = [line.removeprefix("data: ") for line in answer.split("\n\n") if line.startswith("data: ")]
        return [line if line == "[DONE]" else json.loads(line) for line in lines]


def configure(**serve: Any) -> Path:
    """Write the settings of the server; returns the workspace."""
    paths = Paths(find_home())
    paths.ensure_home()
    paths.config_file.write_text(json.dumps({"serve": serve}), encoding="utf-8")
    return paths.workspace("main")


def _jar(*, keeps: bool) -> aiohttp.abc.AbstractCookieJar:
    return aiohttp.CookieJar(unsafe=True) if keeps else aiohttp.DummyCookieJar()


@asynccontextmanager
async def asked(
    monkeypatch: pytest.MonkeyPatch,
    model: PurposeModel | None = None,
    *,
    screen: Sequence[str] | None = None,
    cookies: bool = False,
) -> AsyncIterator[Asked]:
    """A server whose model is `model`, by default one that repeats what it is told; with `screen` also in a browser.
    `cookies`: the client keeps them."""
    playing = model or PurposeModel(chat=[echo])
    use_models(monkeypatch, lambda _ref: playing)
    async with (
        serving(RuntimeOptions(), port=0, screen=screen) as served,
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0), cookie_jar=_jar(keeps=cookies)) as http,
    ):
        yield Asked(served, http, Paths(find_home()).serve_token.read_text(encoding="utf-8").strip())
