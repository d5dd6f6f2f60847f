"""The silent turn before words leave the context: the durable facts of the conversation go into the notes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from msgspec import Struct

from clawbot.llm.offline.answers import say
from clawbot.llm.offline.intents import classify
from clawbot.llm.offline.language import clean
from clawbot.llm.offline.markers import holds_secret, is_durable, sentences
from clawbot.llm.offline.material import NO_REPLY, Said, said_in
from clawbot.llm.offline.notebook import as_item, daily_file, look_before
from clawbot.llm.offline.quoting import one_line
from clawbot.llm.offline.remember import tidy
from clawbot.llm.offline.turn import Call, Plan, Turn
from clawbot.llm.offline.words import normalise, tokens
from clawbot.logs import redact
from clawbot.messages import ToolSpec

MAX_FACTS = 40
"""More than this is a transcript, not what is worth keeping; the newest are kept."""

PASTE_CHARS = 8_000
"""A longer message is a paste: what it says is not what the user states."""

_TARGET = re.compile(r"\bmemory/\d{4}-\d{2}-\d{2}[\w-]{0,80}\.md\b")
_APPENDS = re.compile(r"\bappend[- ]only\b|\bappends\b", re.IGNORECASE)


class Fact(Struct, frozen=True):
    """Something worth keeping, in the user's words; `is_todo` when it is still to be done."""

    text: str
    is_todo: bool = False


def writer(specs: Sequence[ToolSpec]) -> str:
    """The tool that adds to a file: `append`, or a `write` that says of itself that it appends; empty for none. A
    plain `write` is not taken, as it would replace what the file holds."""
    if any(spec.name == "append" for spec in specs):
        return "append"
    return next((spec.name for spec in specs if spec.name == "write" and _APPENDS.search(spec.description)), "")


def flush(turn: Turn, tool: str) -> Plan:
    """Store the durable facts of the conversation by `tool`, in the file that the prompt names, and say NO_REPLY."""
    facts = durable_facts(said_in(turn.earlier))
    if not facts or not tool:
        return NO_REPLY
    named = _TARGET.search(turn.text)
    path = named[0] if named else daily_file(turn)
    looked = yield from look_before(turn, [fact.text for fact in facts], path)
    new = [fact for fact in facts if looked.known(fact.text) is None]
    if not new:
        return NO_REPLY
    items = "".join(as_item(fact.text, is_todo=fact.is_todo) for fact in new)
    outcomes = yield [Call(tool, {"path": path, "content": looked.heading(path) + items})]
    if outcomes[0].is_error:
        return say(turn.language, "flush_failed", reason=one_line(outcomes[0].text))
    return NO_REPLY


def durable_facts(said: Sequence[Said]) -> list[Fact]:
    """What the user stated that is worth keeping and that no tool call of this conversation wrote into a file: each
    once, in the order it was said, the newest `MAX_FACTS` at most."""
    stored = normalise("\n".join(text for entry in said for text in entry.stored))
    stored_words = "".join(tokens(stored))
    facts: dict[str, Fact] = {}
    for entry in said:
        if entry.role != "user":
            continue
        for fact in _facts(entry.text):
            key = "".join(tokens(fact.text))
            # What the log would hide is refused by the tool, and with it everything else that is to be stored.
            if key and key not in stored_words and redact(fact.text) == fact.text:
                facts[key] = fact
    return list(facts.values())[-MAX_FACTS:]


def _facts(text: str) -> Iterator[Fact]:
    """The facts of one message: what was to be remembered, else the sentences that state something."""
    if len(text) > PASTE_CHARS or text.lstrip().startswith("/"):
        return
    intent = classify(text, "en")
    if intent.kind in ("remember", "todo"):
        fact = tidy(intent.text)
        if fact and not holds_secret(fact):
            yield Fact(fact, is_todo=intent.kind == "todo")
        return
    if intent.kind not in ("statement", "other", "recall"):
        return
    for sentence in sentences(clean(text)):
        if is_durable(sentence):
            yield Fact(tidy(sentence))
