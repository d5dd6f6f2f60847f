"""Recognises the tool calls of a turn that only repeat themselves: the same call, again with the same result."""

from __future__ import annotations

import json
import posixpath
from collections import Counter
from collections.abc import Mapping
from typing import Any

from clawbot.messages import ToolCallBlock
from clawbot.tools.protocol import ToolOutcome

TIMES = 2  # equal results in a row after which a call is refused
WAITED_MS = 10_000  # a call that took as long waited for something, and may be repeated
APPEND = "append"


class Repeats:
    """The calls of one turn with their results. `stuck` is the name of the tool that the model called again after the
    refusal, "" if none: then the turn ends.

    Two calls are equal if name and arguments are; the order of the keys does not matter. A result that differs, and a
    new call that may have changed something, start the count again. Text that was appended is never appended twice.
    """

    def __init__(self) -> None:
        self._last: dict[str, tuple[str, int]] = {}  # the last result of a call, and how often it came in a row
        self._running = Counter[str]()
        self._seen: set[tuple[str, str]] = set()
        self._appended: set[str] = set()
        self._refused: set[str] = set()
        self._refused_now: set[str] = set()
        self._messages = 0
        self.stuck = ""

    def begin_round(self, messages: int) -> None:
        """The model is sent so many messages. Fewer than before: results left the context, and may be needed again."""
        if messages < self._messages:
            self._last.clear()
            self._seen.clear()
            self._refused.clear()
        self._messages = messages
        self._refused |= self._refused_now
        self._refused_now.clear()

    def refusal(self, call: ToolCallBlock, *, changes: bool) -> ToolOutcome | None:
        """Return the result of a call that is not to run; None for one that begins to run now. One that changes nothing
        runs once a round in any case, since its result may differ. `changes`: it may change something."""
        key = _key(call)
        running, (_text, times) = self._running[key], self._last.get(key, ("", 0))
        if key in self._appended or (call.name == APPEND and running):
            self._insists(key, call)
            text = f"{call.arguments.get('path')} holds that already: it was appended in this turn. Nothing was added."
            return ToolOutcome(text, summary="+0")
        if times + running >= TIMES and (changes or running or key in self._refused_now):
            return self._refuse(key, call, times + running)
        self._running[key] += 1
        return None

    def record(self, call: ToolCallBlock, outcome: ToolOutcome, milliseconds: int, *, changes: bool) -> ToolOutcome:
        """Take the outcome of a call that ran, and return what the model gets."""
        key = _key(call)
        self._running[key] -= 1
        if call.name == APPEND and not outcome.is_error:
            self._appended.add(key)
        if changes and (key, outcome.text) not in self._seen:
            self._last.clear()
            self._refused.clear()
            self._refused_now.clear()
        self._seen.add((key, outcome.text))
        text, times = self._last.get(key, ("", 0))
        times = times + 1 if text == outcome.text and milliseconds < WAITED_MS else 1
        self._last[key] = (outcome.text, times)
        return self._refuse(key, call, times) if times > TIMES else outcome

    def _refuse(self, key: str, call: ToolCallBlock, times: int) -> ToolOutcome:
        self._insists(key, call)
        text = f"Refused: this call was made {times} times with the same result. Use it, or do something else."
        return ToolOutcome(text, is_error=True, summary="refused")

    def _insists(self, key: str, call: ToolCallBlock) -> None:
        if key in self._refused:
            self.stuck = call.name
        self._refused_now.add(key)


def _key(call: ToolCallBlock) -> str:
    arguments: Mapping[str, Any] = call.arguments
    if call.name == APPEND:
        path, content = (str(arguments.get(name, "")) for name in ("path", "content"))
        arguments = {**arguments, "path": posixpath.normpath(path), "content": content.strip()}
    return json.dumps([call.name, call.malformed, arguments], sort_keys=True)
