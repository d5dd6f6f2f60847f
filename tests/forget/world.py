"""A home in which things were said, in two languages, that left the context in each way; and what is looked at after
they were forgotten."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import zlib
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from clawbot.clock import SystemClock
from clawbot.config.load import load_settings
from clawbot.forget import ForgetOutcome, Forgetting, Request
from clawbot.indexing import open_index
from clawbot.llm.protocol import ChatRequest
from clawbot.memory.values import SearchRequest
from clawbot.messages import ToolCallBlock, UserMessage
from clawbot.runtime import Runtime, RuntimeOptions
from clawbot.sessions.store import SessionStore
from clawbot.sessions.unsent import Unsent, UnsentFile
from clawbot.tui.input import save_entry
from tests.agent.fakes import Answer, calls, says
from tests.agent.gate_host import SUMMARY, Answerer, PurposeModel, target_of
from tests.program import Home, say

EVENING = datetime.fromisoformat("2026-11-20T19:30:00+00:00")
WORDS = {"en": "Xylophonia", "zh": "花生酱冰淇淋"}
TOLD = {"en": "our boat is called Xylophonia, she lies in Aachen", "zh": "我太太最怕花生酱冰淇淋，她会过敏"}
OTHER = "the standup is at half past nine"


class World(Home):
    """A home whose index finds words, and what is looked at in it."""

    @property
    def sessions(self) -> Path:
        return self.paths.sessions("main")

    def store(self) -> SessionStore:
        return SessionStore(self.sessions, self.clock)

    async def open(self, session: str = "main") -> Runtime:
        return await Runtime.open(RuntimeOptions(session=session))

    async def forget(self, text: str = "", **how: Any) -> ForgetOutcome:
        request = Request(text=text, **how)
        return await asyncio.to_thread(Forgetting(load_settings(self.paths).settings, self.paths, "main", request).run)

    async def search(self, text: str) -> list[str]:
        """The paths at which a search finds the words themselves."""
        index = open_index(load_settings(self.paths).settings, "main", self.paths, SystemClock())
        assert index is not None
        try:
            hits = (await index.search(SearchRequest(queries=(text,)))).hits
            return [hit.path for hit in hits if text.casefold() in hit.snippet.casefold()]
        finally:
            await index.close()

    def forget_the_derived(self) -> None:
        """Let everything be made again from nothing."""
        shutil.rmtree(self.folder / "memory", ignore_errors=True)
        (self.sessions / "sessions.json").unlink(missing_ok=True)

    def holding(self, text: str) -> set[Path]:
        """Every file of the home that holds `text`, however it is encoded there."""
        return {path for path in self.files() if holds(stored(path, self.workspace), text)}

    def files(self) -> Iterator[Path]:
        return (path for path in sorted(self.folder.rglob("*")) if path.is_file())


def stored(path: Path, workspace: Path) -> bytes:
    """What a file of the home holds: compressed contents as text, the log of changes without the names of notes that
    are still there."""
    data = path.read_bytes()
    if path.parent.parent.name == "objects":
        return zlib.decompress(data)
    for note in workspace.rglob("*.md") if ".history" in path.parts else ():
        data = data.replace(note.relative_to(workspace).as_posix().encode(), b"")
    return data


def holds(data: bytes, text: str) -> bool:
    escaped = json.dumps(text)[1:-1]
    forms = [each.encode() for each in (text, text.casefold(), escaped)]
    return any(re.search(re.escape(form), data, re.IGNORECASE) for form in [*forms, text.encode("utf-16-le")])


def taking(request: ChatRequest) -> Answer:
    """A silent turn that writes down all that the user said, word for word."""
    said = [each.text for each in request.messages[:-1] if isinstance(each, UserMessage)]
    listed = "".join(f"- {text}\n" for text in said if "\n" not in text)
    if not listed or request.messages[-1].text.startswith("Added") or "Added lines" in request.messages[-1].text:
        return says("NO_REPLY")
    return calls(ToolCallBlock("w", "append", {"path": target_of(request), "content": listed}))


def parrot(words: str) -> PurposeModel:
    """A model that says `words` wherever it can: in answers, calls, thoughts of a file's name, summaries, notes."""
    turn: list[Answer | Answerer] = [taking, says("NO_REPLY")]
    return PurposeModel(
        chat=[
            calls(ToolCallBlock("g", "grep", {"pattern": words}), text=f"I look for {words}"),
            says(f"You said: {words}"),
        ]
        * 12
        + [says("fine")],
        flush=[*(turn * 12), says("NO_REPLY")],
        summary=[says(f"{SUMMARY}\n- {words}")],
        slug=[says("boat-xylophonia")],
    )


async def live(world: World, language: str) -> str:
    """Say it in talks that left the context by each way; returns the id of the first of them."""
    told = TOLD[language]
    world.model = parrot(told)
    runtime = await world.open()
    await say(runtime, told)
    await say(runtime, OTHER)
    await say(runtime, "/compact")
    await say(runtime, f"once more: {told}")
    first = runtime.agent.conversation.session_id
    await say(runtime, "/new")
    await runtime.agent.ended.settled()
    world.clock.moment += timedelta(minutes=20)
    await say(runtime, "what did I say?")
    await say(runtime, told)
    await runtime.sessions.export("md", world.workspace / "exports" / "talk.md", session=first)
    await runtime.close()
    world.clock.moment += timedelta(minutes=20)
    # Left by the end of the program, and never offered to memory.
    second = await world.open(session="work")
    await say(second, told)
    await second.close()
    store = world.store()
    work = store.find("work")
    store.left_pending(work)
    UnsentFile(world.sessions, work.key).keep([Unsent("u1", f"and {told}"), Unsent("u2", OTHER)])
    save_entry(world.paths.history_file, told)
    save_entry(world.paths.history_file, OTHER)
    (world.memory / "trip.md").write_text(f"# Trip\n\n- {told}\n- {OTHER}\n", "utf-8")
    await world.search(told)
    return first


async def go_on(world: World) -> list[ChatRequest]:
    """Use everything again, with a model that writes down what it is offered; what it was asked."""
    world.clock.moment += timedelta(minutes=20)
    world.model = PurposeModel(flush=[taking])
    for session in ("main", "work"):
        runtime = await world.open(session=session)
        await runtime.agent.ended.settled()
        await say(runtime, "good evening")
        await say(runtime, "/new")
        await say(runtime, "and again")
        await runtime.agent.ended.settled()
        await runtime.close()
    return world.model.requests


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    return World(monkeypatch, EVENING, {"agents": {"defaults": {"memory_search": {"provider": "none"}}}})
