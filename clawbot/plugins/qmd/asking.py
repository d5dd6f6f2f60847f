"""How a question is put to qmd: in its syntax for each search mode, to its server or its command line."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException
from typing import Literal

import msgspec
from msgspec import Struct

from clawbot.clock import Clock
from clawbot.deadline import deadline
from clawbot.plugins.qmd.program import LARGEST_ANSWER, Collection, QmdAnswer, QmdError, QmdProgram, decode_answers
from clawbot.text.query import Query, Term, parse_query

SearchMode = Literal["search", "vsearch", "query"]

MAX_TERMS = 12
"""Words of a question, the rarest ones first."""

CHECK_SECONDS = 1.0
"""Time limit of the question what the server serves."""

_HEADERS = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}

CHECK_AGAIN = 60.0
"""Seconds after which it is searched again."""


class Line(Struct, frozen=True):
    """A typed line of a query: words (`lex`), or a meaning (`vec`)."""

    type: Literal["lex", "vec"]
    query: str


def word_lines(questions: Sequence[str]) -> list[Line]:
    """Return the lines that find any word of `questions`; the first one, which counts double, wants all words together.

    qmd joins the words of a line with AND, so that an unchanged question finds nothing.
    """
    parsed = [parse_query(question) for question in questions]
    terms = {_spelled(term): term for query in parsed for term in query.terms}
    best = sorted(terms, key=lambda spelled: -terms[spelled].weight)[:MAX_TERMS]
    together = [_together(query) for query in parsed]
    return [Line("lex", text) for text in dict.fromkeys([*together, *best]) if text]


def _together(query: Query) -> str:
    full = [_spelled(term) for term in query.terms if term.weight >= 1 and term.kind != "cjk"]
    return " ".join(full[:MAX_TERMS]) if len(full) > 1 else ""


def _spelled(term: Term) -> str:
    """A plain word also matches the words that it begins; everything else is quoted, so that no sign is an operator."""
    return term.text if term.kind == "word" and term.text.isalnum() else '"' + term.text.replace('"', " ") + '"'


def arguments_of(mode: SearchMode, questions: Sequence[str], names: Sequence[str], limit: int) -> list[str]:
    """Return the arguments of one call of qmd; empty for a question without a meaningful word."""
    options = ["--json", "-n", str(limit), *(part for name in names for part in ("-c", name))]
    if mode != "search":
        # One line, and no sign at its beginning that is an operator.
        text = " ".join(" ".join(questions).split()).lstrip("-").strip()
        return [mode, *options, "--", text] if text else []
    lines = word_lines(questions)
    if len(lines) < 2:
        return ["search", *options, "--", lines[0].query] if lines else []
    return ["query", "--no-rerank", *options, "--", "\n".join(f"{line.type}: {line.query}" for line in lines)]


class _Served(Struct, frozen=True):
    name: str
    path: str = ""


class _Status(Struct, frozen=True):
    collections: list[_Served]


class _Content(Struct, frozen=True, rename="camel"):
    structured_content: _Status


class _Reply(Struct, frozen=True):
    result: _Content


class _Results(Struct, frozen=True):
    results: list[QmdAnswer]


class QmdServer:
    """qmd's own server on this machine, if it runs and serves `collections`: it saves a process for each search."""

    def __init__(self, port: int, collections: Sequence[Collection], clock: Clock, seconds: float) -> None:
        """`seconds` is the limit of one search; port 0 means no server."""
        self._port = port
        self._wanted = {(one.name, one.folder) for one in collections}
        self._clock = clock
        self._seconds = seconds
        self._check_at = 0.0 if port else float("inf")
        self.serves = False

    async def search(
        self, mode: SearchMode, questions: Sequence[str], names: Sequence[str], limit: int
    ) -> bytes | None:
        """Return the results as JSON; None if there is no such server, or it fails."""
        if not await self._is_there():
            return None
        lines = word_lines(questions) if mode == "search" else []
        if mode != "search":
            lines = [
                Line(kind, text) for text in questions for kind in ("lex", "vec") if mode == "query" or kind == "vec"
            ]
        body = {"searches": lines, "collections": names, "limit": limit, "rerank": mode == "query"}
        try:
            answer = await self._post("/query", body, self._seconds)
            return msgspec.json.encode(msgspec.json.decode(answer, type=_Results).results)
        except (OSError, HTTPException, msgspec.DecodeError):
            self.serves = False
            return None

    async def _is_there(self) -> bool:
        """Return whether it serves exactly this index: another one may run on the same port."""
        if self._clock.monotonic() < self._check_at:
            return self.serves
        self._check_at = self._clock.monotonic() + CHECK_AGAIN
        call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "status", "arguments": {}}}
        try:
            answer = await self._post("/mcp", call, CHECK_SECONDS)
            # A reply as an event has its JSON behind `data:`.
            reply = msgspec.json.decode(answer[answer.find(b"{") :].partition(b"\n")[0], type=_Reply)
            served = {(one.name, one.path) for one in reply.result.structured_content.collections}
            # Collections without a file are not named.
            self.serves = bool(served) and served <= self._wanted
        except (OSError, HTTPException, msgspec.DecodeError):
            self.serves = False
        return self.serves

    async def _post(self, path: str, body: object, seconds: float) -> bytes:
        """Raises OSError (also for a timeout), HTTPException."""
        return await asyncio.to_thread(_posted, self._port, path, msgspec.json.encode(body), seconds)


def _posted(port: int, path: str, body: bytes, seconds: float) -> bytes:
    """Blocks. Raises OSError, HTTPException."""
    connection = HTTPConnection("127.0.0.1", port, timeout=seconds)
    try:
        connection.request("POST", path, body, _HEADERS)
        answer = connection.getresponse()
        data = answer.read(LARGEST_ANSWER)
        if answer.status != HTTPStatus.OK:
            raise HTTPException(f"status {answer.status}")
        return data
    finally:
        connection.close()


class Asker(Struct, frozen=True):
    """Puts questions to the server where it runs, else to the program; `seconds` is the limit of one search."""

    program: QmdProgram
    server: QmdServer
    mode: SearchMode
    seconds: float

    async def ask(self, questions: Sequence[str], names: Sequence[str], limit: int) -> list[QmdAnswer]:
        """Return the results, best first. Raises QmdError."""
        arguments = arguments_of(self.mode, questions, names, limit)
        if not arguments or not names:
            return []
        try:
            async with deadline(self.seconds):
                output = await self.server.search(self.mode, questions, names, limit)
                if output is None:
                    output = await self.program.run(*arguments, seconds=self.seconds)
            return decode_answers(output)
        except TimeoutError:
            raise QmdError(f"qmd took longer than {self.seconds:g} s to search.") from None
        except msgspec.DecodeError as error:
            raise QmdError(f"qmd answered something else than results: {error}.") from error
