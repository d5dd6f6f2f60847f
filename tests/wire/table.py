"""Reads the table of the matrix into cases, and makes the bytes of what they send."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.vendors import CUT, END, Step, reply
from tests.wire.protocol import Protocol
from tests.wire.protocols import PROTOCOLS

TABLE: dict[str, Any] = yaml.safe_load((Path(__file__).parent / "matrix.yaml").read_text(encoding="utf-8"))
HTML = (
    "<html>\r\n<head><title>{0}</title></head>\r\n<body>\r\n<center><h1>{0}</h1></center>\r\n"
    "<hr><center>nginx</center>\r\n</body>\r\n</html>\r\n"
)


@dataclass(frozen=True)
class Case:
    """One line of the table at one vendor; `reason` is its finish reason, where several mean the same."""

    vendor: str
    event: str
    row: Mapping[str, Any]
    reason: str = ""

    @property
    def id(self) -> str:
        """The name of the test."""
        return "-".join(filter(None, (self.vendor, self.event, self.reason)))

    @property
    def facts(self) -> Mapping[str, Any]:
        """What the table has of the vendor."""
        facts: Mapping[str, Any] = TABLE["vendors"][self.vendor]
        return facts

    @property
    def failed(self) -> bool:
        """Whether the turn ends with a problem."""
        return bool(self.row.get("exit", 0))

    @property
    def words(self) -> list[Any]:
        """The vendor's words, the name of the error that is shown behind them, its type and its code."""
        found = self.row.get("words", {}).get(self.vendor) or self.row.get("words", {}).get("all") or [""]
        return [*found, *[None] * (4 - len(found))]

    def fill(self, text: str) -> str:
        """Return `text` with the vendor's words and the finish reason in it."""
        sent, named, *_ = self.words
        words = f"{sent.rstrip('.')} ({named})" if named else sent
        words = words if words[-1:] in (".", "!", "?", "…") else f"{words}."
        return text.replace("{words}", words).replace("{reason}", self.ending)

    @property
    def ending(self) -> str:
        """The finish reason in the vendor's word."""
        sent = self.row["send"][0]
        ends = [part["end"] for part in sent if "end" in part] if isinstance(sent, list) else []
        return self.reason or (self.facts["reasons"][ends[0]][0] if ends else "")

    def answer(self, number: int) -> list[Step]:
        """Return the steps of the answer to request `number`, from 0."""
        sent = self.row["send"]
        now = sent[min(number, len(sent) - 1)]
        protocol = PROTOCOLS[self.vendor]()
        if isinstance(now, list):
            return list(self._stream(protocol, now))
        return [CUT] if now == "closed" else [self._reply(protocol, now)]

    def _stream(self, protocol: Protocol, parts: list[Any]) -> Iterator[Step]:
        spelled = [self._spelled(protocol, part) for part in parts if isinstance(part, Mapping)]
        *steps, end = protocol.stream(spelled)
        assert end == END
        last = parts[-1] if isinstance(parts[-1], str) else "cut"
        endings: dict[str, list[Step]] = {"cut": [END], "close": [], "reset": [CUT], "silence": [asyncio.Event().wait]}
        yield from (*steps, *endings[last])

    def _spelled(self, protocol: Protocol, part: Mapping[str, Any]) -> Mapping[str, Any]:
        if "end" in part:
            own = self.reason if part["end"] == self.row.get("reasons") else ""
            return {"end": own or self.facts["reasons"][part["end"]][0]}
        return {"error": self._error(protocol, part["error"])} if "error" in part else part

    def _error(self, protocol: Protocol, status: int) -> Any:
        sent, _, kind, code = self.words
        return protocol.failure(status, sent, kind, code)

    def _reply(self, protocol: Protocol, now: Mapping[str, Any]) -> bytes:
        status = now["status"]
        if "html" in now:
            return reply(status, HTML.format(now["html"]).encode()).replace(b"application/json", b"text/html")
        if "empty" in now:
            return reply(status, b"")
        headers = {name.replace("-", "_"): str(value) for name, value in now.get("headers", {}).items()}
        return reply(status, now.get("json") or self._error(protocol, now.get("code", status)), **headers)


def cases() -> Iterator[Case]:
    """Yield every line of the table at every vendor that has it."""
    for vendor, facts in TABLE["vendors"].items():
        for event, row in TABLE["events"].items():
            if vendor not in row.get("only", [vendor]):
                continue
            there = {**row, **row.get("at", {}).get(vendor, {})}
            reasons = facts["reasons"].get(row["reasons"], ()) if "reasons" in row else ("",)
            yield from (Case(vendor, event, there, reason) for reason in reasons)
