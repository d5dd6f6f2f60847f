"""`POST /v1/chat/completions` and `GET /v1/models`: a conversation with an agent, in OpenAI's protocol."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import time
import uuid
from collections import OrderedDict
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import Any

import msgspec
from aiohttp import web
from msgspec import Struct, structs

from clawbot.agent.events import Event, MessageQueued
from clawbot.agent.slash import parse_command
from clawbot.config.errors import ConfigError
from clawbot.config.paths import MAIN_AGENT
from clawbot.deadline import deadline
from clawbot.errors import ClawbotError
from clawbot.plugins.serve.agents import INSTRUCTIONS, Agents, BusyError, Room
from clawbot.plugins.serve.answers import RefusalError, as_json, invalid, json_body
from clawbot.plugins.serve.gate import SESSION_HEADER
from clawbot.plugins.serve.metrics import Metrics
from clawbot.plugins.serve.reply import Reply
from clawbot.sessions.errors import SessionLockedError, SessionStoreError
from clawbot.sessions.names import short_name
from clawbot.text.visible import one_line

OWNER = "clawbot"
QUIET_SECONDS = 15.0
"""After so long without a word a stream carries a comment, so that nobody in between takes it for dead."""
WRITE_SECONDS = 60.0
"""A client that takes nothing for so long is left alone."""
MAX_CONVERSATIONS = 4096
MAX_ALIKE = 64
"""Conversations with equal messages; of more only the newest go on."""
MAX_MESSAGES = 10_000
MAX_INSTRUCTIONS = 20_000
"""Characters, as much as one workspace file may have in the prompt."""
_INSTRUCTING = ("system", "developer")


class ChatMessage(Struct, frozen=True):
    """One message of the exchange: `role` is `user` or `assistant`."""

    role: str
    text: str


class Exchange(Struct, frozen=True):
    """What a client sent: its instructions, the messages before, and the new message."""

    instructions: str
    earlier: tuple[ChatMessage, ...]
    text: str

    def with_reply(self, reply: str) -> Exchange:
        """Return the exchange as the client sends it next time, up to the message that is not there yet."""
        spoken = (*self.earlier, ChatMessage("user", self.text), ChatMessage("assistant", reply))
        return structs.replace(self, earlier=spoken, text="")

    def first_message(self) -> str:
        """Return the first message of a conversation that knows nothing of the exchange."""
        if not self.earlier or parse_command(self.text) is not None:
            return self.text
        spoken = "\n\n".join(f"{each.role}: {each.text}" for each in self.earlier)
        return f"{self.text}\n\n[What was said before this message, elsewhere]\n\n{spoken}"


def read_exchange(body: Mapping[str, Any]) -> Exchange:
    """Parse the exchange in the body of a request. Raises RefusalError."""
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages or len(messages) > MAX_MESSAGES:
        raise invalid(f"`messages` must be a list of 1 to {MAX_MESSAGES:,} messages.")
    instructions: list[str] = []
    spoken: list[ChatMessage] = []
    for message in messages:
        role, text = _message(message)
        if role in _INSTRUCTING:
            instructions.append(text)
        elif role in ("user", "assistant") and text:
            spoken.append(ChatMessage(role, text))
    if not spoken or spoken[-1].role != "user" or _message(messages[-1])[0] != "user":
        raise invalid("The last message must be one of the role `user`, with text.")
    wishes = "\n\n".join(filter(None, instructions))
    if len(wishes) > MAX_INSTRUCTIONS:
        raise invalid(f"The instructions (`system`, `developer`) have more than {MAX_INSTRUCTIONS:,} characters.")
    return Exchange(wishes, tuple(spoken[:-1]), spoken[-1].text)


def _message(message: Any) -> tuple[str, str]:
    if not isinstance(message, dict) or not isinstance(message.get("role"), str):
        raise invalid("Each of `messages` must be an object with `role` and `content`.")
    return message["role"], _text(message.get("content"))


def _text(content: Any) -> str:
    if content is None:
        return ""
    if isinstance(content, str):
        return content.strip()
    if not isinstance(content, list):
        raise invalid("`content` must be a text or a list of parts.")
    texts = []
    for part in content:
        if not isinstance(part, dict) or part.get("type") != "text" or not isinstance(part.get("text"), str):
            raise invalid("Only parts of the type `text` are taken.")
        texts.append(part["text"])
    return "\n".join(texts).strip()


class Continuations:
    """The conversation that continues an exchange. Each is taken once, until it is put back with its new end: two
    clients with equal messages never meet, and one that goes back to an earlier message gets a conversation of its
    own."""

    def __init__(self) -> None:
        self._keys: OrderedDict[bytes, list[str]] = OrderedDict()

    def take(self, owner: str, earlier: Sequence[ChatMessage]) -> str | None:
        """Return the session of `owner` (agent and user) whose exchange ended like `earlier`, None if there is none."""
        keys = self._keys.get(found := _digest(owner, earlier))
        if not keys:
            return None
        key = keys.pop()
        if not keys:
            del self._keys[found]
        return key

    def put(self, owner: str, earlier: Sequence[ChatMessage], key: str) -> None:
        """Record that the exchange of the session `key` ends like `earlier`."""
        digest = _digest(owner, earlier)
        keys = self._keys.setdefault(digest, [])
        keys.append(key)
        del keys[:-MAX_ALIKE]
        self._keys.move_to_end(digest)
        if len(self._keys) > MAX_CONVERSATIONS:
            self._keys.popitem(last=False)


def _digest(owner: str, earlier: Sequence[ChatMessage]) -> bytes:
    digest = hashlib.sha256(owner.encode("utf-8", "replace"))
    for spoken in earlier:
        text = " ".join(spoken.text.split()).encode("utf-8", "replace")
        digest.update(b"%s %d " % (spoken.role.encode(), len(text)))
        digest.update(text)
    return digest.digest()


def agent_of(model: Any) -> str:
    """The agent that `model` names: `clawbot/AGENT`, `AGENT`, or `clawbot` for the main one. Raises RefusalError."""
    if model is not None and not isinstance(model, str):
        raise invalid("`model` must be a text, such as clawbot/main.")
    name = (model or "").strip().removeprefix(f"{OWNER}/")
    return MAIN_AGENT if name in ("", OWNER) else name


def _check_wishes(body: Mapping[str, Any]) -> None:
    """Raises RefusalError for what changes the form of the answer and is not to be had here."""
    if body.get("n") not in (None, 1):
        raise invalid("`n` must be 1.")
    if body.get("tool_choice") not in (None, "none", "auto"):
        raise invalid("The agent has tools of its own; `tool_choice` can't demand those of the client.")


class ChatRoutes:
    """The routes. A request takes part in a conversation as a line typed in a chat does."""

    def __init__(self, agents: Agents, metrics: Metrics) -> None:
        self._agents = agents
        self._metrics = metrics
        self._continuations = Continuations()

    async def models(self, _: web.Request) -> web.Response:
        return as_json({"object": "list", "data": [_model(each) for each in self._agents.ids]})

    async def model(self, request: web.Request) -> web.Response:
        """Describe one agent. Raises RefusalError."""
        agent_id = agent_of(request.match_info["name"])
        if agent_id not in self._agents.ids:
            raise _no_agent(agent_id)
        return as_json(_model(agent_id))

    async def responses(self, _: web.Request) -> web.Response:
        """Refuse OpenAI's newer protocol, so that a client uses the other one. Raises RefusalError."""
        raise RefusalError(404, "not_found", "The Responses API is not served here: POST /v1/chat/completions answers.")

    async def complete(self, request: web.Request) -> web.StreamResponse:
        """Answer one message. Raises RefusalError."""
        body = await json_body(request)
        _check_wishes(body)
        exchange, agent_id = read_exchange(body), agent_of(body.get("model"))
        name = request.headers.get(SESSION_HEADER, "").strip() or None
        owner = f"{agent_id} {body.get('user', '')}"
        async with self._opened(agent_id, name, exchange, owner) as room:
            turn = _Turn(request, room, f"{OWNER}/{agent_id}", body)
            known = exchange.earlier
            try:
                response = await turn.run(exchange)
                if turn.reply.failure is None:
                    known = exchange.with_reply(turn.spoken).earlier
                return response
            finally:
                self._metrics.turns[turn.reply.status] += 1
                if name is None and known:
                    self._continuations.put(owner, known, room.key)

    @asynccontextmanager
    async def _opened(self, agent_id: str, name: str | None, exchange: Exchange, owner: str) -> AsyncIterator[Room]:
        """The conversation that goes on with `exchange`. Raises RefusalError."""
        key = name or (self._continuations.take(owner, exchange.earlier) if exchange.earlier else None)
        async with contextlib.AsyncExitStack() as stack:
            try:
                try:
                    room = await stack.enter_async_context(self._agents.session(agent_id, key))
                except SessionLockedError:
                    if name is not None:
                        raise
                    # It was opened elsewhere; the exchange continues in another one.
                    room = await stack.enter_async_context(self._agents.session(agent_id, None))
            except ClawbotError as error:
                raise _refused(error, agent_id) from error
            yield room


def _model(agent_id: str) -> dict[str, Any]:
    return {"id": f"{OWNER}/{agent_id}", "object": "model", "created": 0, "owned_by": OWNER}


def _no_agent(agent_id: str) -> RefusalError:
    return RefusalError(
        404, "model_not_found", f"There is no agent {one_line(agent_id, 80)}; GET /v1/models lists them."
    )


def _refused(error: ClawbotError, agent_id: str) -> RefusalError:
    """Return the answer when a conversation can't be opened because of `error`."""
    match error:
        case BusyError():
            return RefusalError(503, "busy", error.message, retry_after=1)
        case SessionLockedError():
            return RefusalError(409, "conflict", error.message)
        case SessionStoreError():
            return RefusalError(400, "invalid_request", error.message)
        case ConfigError():
            return _no_agent(agent_id)
        case _:
            return RefusalError(502, "unavailable", str(error))


class _Turn:
    """One message and its answer, as a stream or complete."""

    def __init__(self, request: web.Request, room: Room, model: str, body: Mapping[str, Any]) -> None:
        options = body.get("stream_options")
        self.reply = Reply()
        self.spoken = ""
        self._request = request
        self._room = room
        self._streamed = body.get("stream") is True
        self._wants_usage = isinstance(options, dict) and options.get("include_usage") is True
        self._head = {"id": f"chatcmpl-{uuid.uuid4().hex}", "created": int(time.time()), "model": model}
        self._response: web.StreamResponse | None = None
        self._unsent = ""

    async def run(self, exchange: Exchange) -> web.StreamResponse:
        """Let the agent answer. When the client leaves, the answer is interrupted, and its text so far is kept."""
        agent = self._room.runtime.agent
        asked = INSTRUCTIONS.set(exchange.instructions)
        text = exchange.text if agent.conversation.items else exchange.first_message()
        breathing = asyncio.create_task(self._breathe()) if self._streamed else None
        try:
            async with aclosing(agent.submit(text)) as events:
                async for event in events:
                    await self._take(event)
        except asyncio.CancelledError:
            if self._unsent:
                # It was never begun, and nobody waits for it.
                await agent.outbox.drop(self._unsent)
            raise
        finally:
            INSTRUCTIONS.reset(asked)
            if breathing is not None:
                breathing.cancel()
        return await self._finish()

    async def _take(self, event: Event) -> None:
        if isinstance(event, MessageQueued):
            self._unsent = event.unsent_id
        elif self._unsent:
            self._unsent = ""
        part = self.reply.take(event)
        if part and self._streamed:
            await self._send({"content": part})

    async def _finish(self) -> web.StreamResponse:
        reply = self.reply
        if self._response is None and (failure := reply.failure) is not None:
            raise failure
        if not self._streamed:
            self.spoken = reply.text
            message = {"role": "assistant", "content": reply.text}
            choice = {"index": 0, "message": message, "finish_reason": reply.finish_reason}
            completion = {**self._head, "object": "chat.completion", "choices": [choice], "usage": reply.usage}
            return as_json(completion, headers=self._headers)
        if reply.failure is not None:
            error = {"type": reply.failure.kind, "message": reply.failure.message}
            await self._write(b"data: " + msgspec.json.encode({"error": error}) + b"\n\n")
        else:
            if rest := reply.unsaid:
                await self._send({"content": rest})
            await self._send({}, reply.finish_reason)
            if self._wants_usage:
                await self._write_chunk({"choices": [], "usage": reply.usage})
        self.spoken = reply.sent
        response = await self._begun()
        await self._write(b"data: [DONE]\n\n")
        await response.write_eof()
        return response

    async def _send(self, delta: dict[str, str], finish_reason: str | None = None) -> None:
        await self._begun()
        await self._write_chunk({"choices": [{"index": 0, "delta": delta, "finish_reason": finish_reason}]})

    async def _write_chunk(self, more: dict[str, Any]) -> None:
        chunk = {**self._head, "object": "chat.completion.chunk", **more}
        await self._write(b"data: " + msgspec.json.encode(chunk) + b"\n\n")

    @property
    def _headers(self) -> dict[str, str]:
        key = self._room.key
        # A name with colons is not enough to find it again.
        return {SESSION_HEADER: key if ":" in short_name(key) else short_name(key)}

    async def _begun(self) -> web.StreamResponse:
        """Return the response, begun at the first word: what fails before has a status of its own."""
        if self._response is None:
            headers = {"Content-Type": "text/event-stream", "Cache-Control": "no-cache", **self._headers}
            self._response = response = web.StreamResponse(headers=headers)
            await response.prepare(self._request)
            await self._send({"role": "assistant", "content": ""})
        return self._response

    async def _write(self, data: bytes) -> None:
        """Raises ConnectionError when the client is gone or takes nothing."""
        response = await self._begun()
        try:
            async with deadline(WRITE_SECONDS):
                await response.write(data)
        except TimeoutError:
            if self._request.transport is not None:
                self._request.transport.abort()
            raise ConnectionResetError("The client took nothing.") from None

    async def _breathe(self) -> None:
        with contextlib.suppress(ConnectionError):
            while True:
                await asyncio.sleep(QUIET_SECONDS)
                await self._write(b": still here\n\n")
