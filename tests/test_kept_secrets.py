"""Secrets that were said: in nothing that the program makes of a conversation, whatever ends it or shortens it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest

from clawbot.agent.events import CompactionFinished, Event, Notice
from clawbot.config.load import load_settings
from clawbot.indexing import open_index
from clawbot.llm.protocol import ChatRequest
from clawbot.memory.values import SearchRequest
from clawbot.messages import ToolCallBlock
from clawbot.runtime import Runtime, RuntimeOptions
from clawbot.text.secrets import MARK
from tests.agent.fakes import calls, says
from tests.agent.gate_host import SUMMARY, target_of
from tests.program import Home, say
from tests.said_secrets import LOOK_ALIKES, SECRETS, SaidSecret

EVENING = datetime.fromisoformat("2026-11-20T21:30:00+00:00")
LISTENER = """
from pathlib import Path

import msgspec


async def handle(event):
    said = [text.text for text in await event.hook.said(200)] if event.topic.startswith("command") else []
    with Path(event.home, "heard.jsonl").open("ab") as heard:
        heard.write(msgspec.json.encode([event, said]) + b"\\n")
"""
TOPICS = ["message", "tool", "context", "session", "command"]
TOLD = "The standup is at 9:30."
IN_OTHER_WORDS = "- Office wifi: sunflower42\n- Opens the gate: 4711\n"


class Listened(Home):
    """A home with a hook that writes down all it is told, an index, and a model that repeats whatever it hears."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__(monkeypatch, EVENING, {"agents": {"defaults": {"memory_search": {"provider": "none"}}}})
        self.model.replies["slug"] = [says("wifi-password-sunflower42")]
        self.write_hook("listener", LISTENER, *TOPICS)

    def made(self) -> Iterator[tuple[str, str]]:
        """What the program made of the conversation: every file of the home but the transcripts, which are the record
        of what was said, by its path."""
        for path in sorted(self.folder.rglob("*")):
            if path.is_file() and path.suffix != ".jsonl":
                yield str(path.relative_to(self.folder)), path.read_bytes().decode("utf-8", "replace")
        yield "heard.jsonl", (self.folder / "heard.jsonl").read_text("utf-8")

    def notes(self) -> str:
        return "\n".join(path.read_text("utf-8") for path in self.memory.glob("*.md"))


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch) -> Listened:
    return Listened(monkeypatch)


def chat_of(texts: list[str]) -> list[Any]:
    """What the model says: it repeats each text, and a tool prints each as well."""
    replies: list[Any] = []
    for number, text in enumerate(texts):
        call = ToolCallBlock(f"r{number}", "read", {"path": "pasted.txt", "note": text})
        replies += [calls(call, text=f"I look: {text}"), says(f"It says: {text}")]
    return [*replies, says("fine")]


def flush_of(texts: list[str]) -> list[Any]:
    """A silent turn that writes all of `texts` down, and two of the secrets in words of its own."""

    def write(request: ChatRequest) -> Any:
        content = "".join(f"- {text}\n" for text in texts) + IN_OTHER_WORDS
        return calls(ToolCallBlock("w", "append", {"path": target_of(request), "content": content}))

    return [write, says("NO_REPLY")]


async def leave(home: Listened, runtime: Runtime, way: str) -> list[Event]:
    """Let the conversation leave the context."""
    if way == "quit":
        return []
    if way == "the clock":
        home.clock.moment += timedelta(hours=10)
        return await say(runtime, "good morning")
    return await say(runtime, way)


def holds(text: str, secret: SaidSecret) -> bool:
    """Whether the secret stands in `text`; one of a few figures by itself, and not within a hash."""
    if not secret.secret.isdigit():
        return secret.secret in text
    return re.search(rf"(?<![\w-]){secret.secret}(?![\w-])", text) is not None


async def look_into_the_index(home: Listened) -> None:
    """Bring the index up to date and search it, for what is there and for what must not be."""
    settings = load_settings(home.paths).settings
    index = open_index(settings, "main", home.paths, home.clock, long_lived=False)
    assert index is not None
    try:
        found = (await index.search(SearchRequest(queries=("standup",)))).hits
        assert any("9:30" in hit.snippet for hit in found)
        for secret in SECRETS:
            hits = (await index.search(SearchRequest(queries=(secret.secret,)))).hits
            assert not [hit.snippet for hit in hits if holds(hit.snippet, secret)]
    finally:
        await index.close()


@pytest.mark.parametrize(
    "way", ["/new", *(pytest.param(way, marks=pytest.mark.long) for way in ("/reset", "/compact", "quit", "the clock"))]
)
async def test_nothing_that_is_made_of_a_conversation_holds_a_secret(home: Listened, way: str) -> None:
    said = [secret.text for secret in SECRETS]
    (home.folder / "workspace" / "pasted.txt").write_text("\n".join(said), "utf-8")
    everything = [*said, *LOOK_ALIKES]
    listed = "\n".join(f"- {text}" for text in everything)
    home.model.replies["chat"] = chat_of(said)
    home.model.replies["flush"] = flush_of(everything)
    home.model.replies["summary"] = [says(f"{SUMMARY}\n{listed}\n{IN_OTHER_WORDS}")]
    runtime = await Runtime.open(RuntimeOptions() if way == "quit" else RuntimeOptions().unattended())
    announced: list[Event] = []
    runtime.agent.listen(announced.append)
    for text in said:
        await say(runtime, text)
    await say(runtime, TOLD)
    events = await leave(home, runtime, way)
    await runtime.agent.ended.settled()
    session = (await runtime.sessions.all())[-1].session_id
    for form in ("md", "json"):
        await runtime.sessions.export(form, home.folder / f"out.{form}.txt", session=session)
    await runtime.close()
    await look_into_the_index(home)

    (home.folder / "workspace" / "pasted.txt").unlink()
    made = dict(home.made())
    assert [(secret.secret, path) for path, text in made.items() for secret in SECRETS if holds(text, secret)] == []
    assert any("standup" in text for path, text in made.items() if path.endswith((".sqlite", ".db")))
    assert [path for path in made if "sunflower42" in path] == []
    assert [text for text in LOOK_ALIKES if text not in home.notes()] == []
    assert MARK in home.notes()
    assert "9:30" in made["heard.jsonl"]
    told = [event.text for event in [*events, *announced] if isinstance(event, Notice)]
    assert way == "quit" or any("left out" in text for text in told)
    transcripts = "".join(path.read_text("utf-8") for path in home.folder.rglob("agents/*/sessions/*.jsonl"))
    assert "sunflower42" in transcripts
    if way == "/compact":
        [summary] = [event.summary for event in events if isinstance(event, CompactionFinished)]
        assert [secret.secret for secret in SECRETS if holds(summary, secret)] == []
        assert f"Office wifi: {MARK}" in summary
