"""Recording a session with a real server as the script that replays it, without its secrets.

The answers are read off the wire of four protocols (OpenAI's chat completions and Responses, Anthropic's Messages,
Ollama's chat) and written as the replies of a script.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import yaml
from msgspec import Struct

from clawbot.config.source import resolvers
from clawbot.guarded import OPEN_APPEND, reached
from clawbot.llm.calls import CallAssembler
from clawbot.llm.deltas import ending_of
from clawbot.llm.scripted.file import BEGINS, DEFAULT_MODEL, ENDS, ERROR_STATUS
from clawbot.llm.scripted.replies import ARGUMENT_DELTAS
from clawbot.llm.tokens import merge_usage, usage_from
from clawbot.messages import newest_words, scrub
from clawbot.text.secrets import MARK, Redactor

WIDTH = 110
EXPECTED_CHARS = 60
"""Of the user's words: enough to distinguish messages."""
HEAD = "# Recorded by `clawbot script record`. A last turn without its end was cut off, and is not played."
# The time before a message; and what a replay has otherwise: dates, times, secrets.
_TIME_MARK = re.compile(r"^\s*\[[^\]\n]*\d\d:\d\d[^\]\n]*\]\s*")
_CHANGING = re.compile(rf"\d{{4}}-\d\d-\d\d|\d\d:\d\d|{re.escape(MARK)}|\n")
_LETTERS = re.compile(r"[^\s!-/:-@\[-`{-~]")
# The HTTP statuses that the vendors document for errors that they may send within a stream as well.
_STATUS_OF = {
    "invalid_request_error": 400,
    "context_length_exceeded": 400,
    "authentication_error": 401,
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    "overloaded_error": 529,
}
_SECONDS = re.compile(r"\d{1,6}(?:\.\d{1,6})?")


class Answer:
    """Gathers one answer: `feed` the bytes of a stream and `close` it, or `take` a body that is no stream."""

    def __init__(self) -> None:
        self.complete = False
        """Whether the last event came, so that the client waits for no other."""
        self._texts = {"reasoning": "", "text": ""}
        self._calls = CallAssembler()
        self._called: set[int] = set()  # the blocks of Anthropic's that are calls
        self._usage: dict[str, Any] = {}
        self._end = ""
        self._fault: dict[str, Any] = {}
        self._rest = b""
        self._data: list[bytes] = []

    @property
    def ending(self) -> bool:
        """Whether what follows is not part of the text."""
        return bool(self.complete or self._end)

    def feed(self, data: bytes) -> None:
        """Add bytes of a stream, of server-sent events or of lines of JSON."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._take_line(line.rstrip(b"\r"))

    def close(self) -> None:
        for line in (self._rest, b""):
            self._take_line(line)

    def _take_line(self, line: bytes) -> None:
        if line.startswith(b"data:"):
            self._data.append(line[5:])
        elif line.startswith(b"{"):
            self.take(line)
        elif not line and self._data:
            self.take(b"\n".join(self._data))
            self._data = []

    def take(self, data: bytes | bytearray) -> None:
        """Add an event or a complete body. Invalid ones are ignored, as clients do."""
        if data.strip() == b"[DONE]":
            self.complete = True
            return
        with contextlib.suppress(ValueError, TypeError, AttributeError, KeyError, RecursionError):
            body = json.loads(data.decode(errors="replace"))
            error = body.get("error") or (body if "error" in (body.get("type"), body.get("object")) else None)
            self.refuse(error) if error else self._read(body)

    def refuse(self, error: Any, status: int = 0, headers: Mapping[str, str] | None = None) -> None:
        """Add an error; `status` 0: the one that fits its kind."""
        details = error if isinstance(error, dict) else {"message": error}
        kinds = [details.get(key) for key in ("code", "status", "type")]
        found = (each if isinstance(each, int) else _STATUS_OF.get(str(each), 0) for each in kinds)
        status = status or next((each for each in found if each in ERROR_STATUS), 500)
        wait = _SECONDS.fullmatch((headers or {}).get("Retry-After", ""))
        after = {"retry_after": float(wait[0])} if wait else {}
        message = details.get("message") or details.get("detail") or ""
        self._fault = {"status": status, "message": escaped(str(message)), **after}
        self.complete = True

    def reply(self, *, cut: bool = False, left: bool = False) -> dict[str, Any]:
        """Return the reply for a script. `cut`: the server broke off; `left`: the client left before the end."""
        reply: dict[str, Any] = {key: escaped(text) for key, text in self._texts.items() if text}
        calls = self._calls.blocks()
        if calls:
            reply["tool_calls"] = [{"name": c.name, "arguments": escaped(c.malformed or c.arguments)} for c in calls]
        if self._fault and not reply:
            return {"fault": self._fault}
        if self._fault or (cut and not self.complete):
            # A number above that of the chunks is the end of them.
            return {**reply, "fault": {"drop": len(reply) + len(calls) * (1 + ARGUMENT_DELTAS)} if reply else "drop"}
        if left or self._end in {"", "error"}:
            return {**reply, "fault": "no_finish"}
        if usage := usage_from(self._usage):
            figures = {"prompt": usage.prompt_tokens, "completion": usage.output, "cached": usage.cache_read}
            reply["usage"] = {key: value for key, value in figures.items() if value}
        if finish := {"cut": "length", "refused": "content_filter"}.get(ending_of(self._end)):
            reply["finish_reason"] = finish
        return reply if reply.keys() - {"usage", "finish_reason"} else {"text": "", **reply}

    def _read(self, body: Mapping[str, Any]) -> None:
        if "choices" in body:
            self._read_chat(body)
        elif body.get("type", "").startswith("response.") or body.get("object") == "response":
            self._read_responses(body)
        elif "type" in body:
            self._read_messages(body)
        else:
            self._read_ollama(body)

    def _add(self, reasoning: object, text: object) -> None:
        for key, value in (("reasoning", reasoning), ("text", text)):
            if isinstance(value, str):
                self._texts[key] += value

    def _count(self, usage: object) -> None:
        if isinstance(usage, Mapping):
            merge_usage(self._usage, usage)

    def _read_chat(self, body: Mapping[str, Any]) -> None:
        self._count(body.get("usage"))
        for choice in body["choices"]:
            delta = choice.get("delta") or choice.get("message") or {}
            self._add(delta.get("reasoning_content") or delta.get("reasoning"), delta.get("content"))
            for call in delta.get("tool_calls") or ():
                self._calls.feed(call)
            self._end = str(choice.get("finish_reason") or self._end)

    def _read_responses(self, body: Mapping[str, Any]) -> None:
        response = body.get("response") or body
        match body.get("type"):
            case "response.output_text.delta" | "response.refusal.delta":
                self._add(None, body["delta"])
            case "response.reasoning_summary_text.delta" | "response.reasoning_text.delta":
                self._add(body["delta"], None)
            case "response.output_item.done":
                self._read_output([body["item"]], texts=False)
            case _ if response.get("status") == "failed":
                self.refuse(response.get("error"))
            case _ if response.get("status") in {"completed", "incomplete"} and "output" in response:
                self._read_output(response["output"], texts=not any(self._texts.values()))
                usage = response.get("usage") or {}
                # Here the input holds what came from the cache.
                self._count({**usage, "prompt_tokens": usage.get("input_tokens")})
                self._end = (response.get("incomplete_details") or {}).get("reason") or response["status"]
                self.complete = True

    def _read_output(self, items: list[Mapping[str, Any]], *, texts: bool) -> None:
        """Add the calls in a complete part of the output, and its `texts` if none came in deltas."""
        known = {call.id for call in self._calls.blocks()}
        for item in items:
            if item["type"] == "function_call" and item["call_id"] not in known:
                self._calls.feed({"id": item["call_id"], "function": item})
            for part in (item.get("content") or item.get("summary") or ()) if texts else ():
                text = part.get("text") or part.get("refusal")
                self._add(*((None, text) if item["type"] == "message" else (text, None)))

    def _read_messages(self, body: Mapping[str, Any]) -> None:
        match body["type"]:
            case "message_start":
                self._count(body["message"].get("usage"))
            case "content_block_start":
                self._read_block(body["content_block"], body["index"])
            case "content_block_delta":
                delta = body["delta"]
                self._add(delta.get("thinking"), delta.get("text"))
                # A search by the vendor has arguments as well, and is no call to the client.
                if "partial_json" in delta and body["index"] in self._called:
                    self._calls.feed({"index": body["index"], "function": {"arguments": delta["partial_json"]}})
            case "message_delta" | "message":
                for at, block in enumerate(body.get("content") or ()):
                    self._read_block(block, at)
                self._count(body.get("usage"))
                self._end = (body.get("delta") or body).get("stop_reason") or self._end
            case "message_stop":
                self.complete = True

    def _read_block(self, block: Mapping[str, Any], at: int) -> None:
        self._add(block.get("thinking"), block.get("text"))
        if block["type"] == "tool_use":
            self._called.add(at)
            function = {"name": block["name"], "arguments": block.get("input") or None}
            self._calls.feed({"index": at, "id": block["id"], "function": function})

    def _read_ollama(self, body: Mapping[str, Any]) -> None:
        message = body.get("message") or {}
        self._add(message.get("thinking"), message.get("content"))
        for call in message.get("tool_calls") or ():
            self._calls.feed(call)
        if body.get("done"):
            self._count({"prompt_tokens": body.get("prompt_eval_count"), "output_tokens": body.get("eval_count")})
            self._end = body.get("done_reason") or "stop"
            self.complete = True


def answer_at(path: str) -> Answer | None:
    """Return the collector for the address `path`; None if no model answers there."""
    return Answer() if path.endswith(("/chat/completions", "/responses", "/messages", "/api/chat")) else None


def user_text(body: Mapping[str, Any]) -> str:
    """The text of the user's last message in a request of any of the protocols; "" when there is none."""
    turns = body.get("messages") or body.get("input")
    if isinstance(turns, str):
        return turns
    asked = [turn for turn in turns if isinstance(turn, dict)] if isinstance(turns, list) else []
    texts = (_text_of(turn.get("content")) for turn in reversed(asked) if turn.get("role") == "user")
    # To Anthropic the results of tools are the user's as well.
    return next((text for text in texts if text.strip()), "")


def _text_of(content: object) -> str:
    if isinstance(content, list):
        return "\n\n".join(str(part["text"]) for part in content if isinstance(part, dict) and "text" in part)
    return content if isinstance(content, str) else ""


def escaped(value: Any) -> Any:
    """`value` with what would be a template in a script marked as none."""
    if isinstance(value, str):
        return value.replace("{{", "\\{{")
    if isinstance(value, dict):
        return {key: escaped(each) for key, each in value.items()}
    return [escaped(each) for each in value] if isinstance(value, list) else value


class _Dumper(yaml.SafeDumper):
    """Quotes what the reader of scripts would take for another value."""

    yaml_implicit_resolvers = resolvers()


class Recorder:
    """Appends a turn to the script `file` when its answer has ended. `count` is how many are in it, `error` why there
    are no more: `on_error` is called then. `head` is what the script goes by."""

    def __init__(self, file: Path, on_error: Callable[[], object] = lambda: None) -> None:
        self.file = file
        self.count = 0
        self.error: OSError | None = None
        self._on_error = on_error
        self._redactor = Redactor()
        self.head: dict[str, Any] = {}
        self._begun = 0
        self._text = self._words = ""
        self._writing = asyncio.Lock()
        self._writes: set[asyncio.Task[None]] = set()

    @property
    def secrets(self) -> int:
        return self._redactor.count

    def begin(self, text: str, answer: Answer) -> RecordedTurn:
        """Begin the next turn, for a request whose last user message is `text`."""
        if text != self._text:
            # A message that failed is sent again before the next one, as one text.
            before, self._text = self._text, text
            self._words = newest_words(text.removeprefix(f"{before}\n\n") if before else text)
        self._begun += 1
        return RecordedTurn(self._begun, self._words, answer)

    async def end(self, turn: RecordedTurn | None, *, cut: bool = False, left: bool = False) -> None:
        """Write `turn` with its reply unless it has one; returns when it is on disk."""
        if turn is None or turn.ended:
            return
        turn.ended = True
        task = asyncio.create_task(self._write(turn, turn.answer.reply(cut=cut, left=left)))
        self._writes.add(task)
        task.add_done_callback(self._writes.discard)
        await asyncio.shield(task)

    async def flush(self) -> None:
        if self._writes:
            await asyncio.wait(self._writes)

    async def _write(self, turn: RecordedTurn, reply: dict[str, Any]) -> None:
        async with self._writing:
            if self.error is not None:
                return
            try:
                await asyncio.to_thread(self._append, turn, reply)
            except OSError as error:
                error.filename = error.filename or str(self.file)
                self.error = error
                self._on_error()
            else:
                self.count += 1

    def _append(self, turn: RecordedTurn, reply: dict[str, Any]) -> None:
        words = _expected(self._redactor.text(scrub(turn.words)))
        spelled: dict[str, Any] = {"expect": {"user": words}} if words else {}
        spelled["reply"] = self._redactor.tree(scrub(reply))
        if turn.number != self.count + 1:
            spelled["order"] = turn.number
        data = f"{BEGINS.format(turn.number)}\n{_yaml([spelled])}{ENDS.format(turn.number)}\n"
        folder, name = reached(self.file, None)
        if not self.count:
            head = _yaml(self.head or {"model": DEFAULT_MODEL})
            if not folder.create(name, f"{HEAD}\n{head}turns:\n{data}".encode()):
                raise FileExistsError(errno.EEXIST, "was made by another program", str(self.file))
            return
        with os.fdopen(folder.open(name, OPEN_APPEND & ~os.O_CREAT), "ab") as stream:
            stream.write(data.encode())
            stream.flush()
            os.fsync(stream.fileno())


class RecordedTurn(Struct):
    """A turn that has begun: its number, the words of the user that it answers, and the answer so far."""

    number: int
    words: str
    answer: Answer
    ended: bool = False


def _yaml(value: Any) -> str:
    return yaml.dump(value, Dumper=_Dumper, allow_unicode=True, sort_keys=False, width=WIDTH)


def _expected(text: str) -> str:
    """Return the first words of the user's message that a replay repeats; "" if none."""
    parts = (part.strip() for part in _CHANGING.split(_TIME_MARK.sub("", text)))
    return next((part[:EXPECTED_CHARS].strip() for part in parts if _LETTERS.search(part)), "")
