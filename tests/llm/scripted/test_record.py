"""A talk through the recorder becomes a script that says the same again, and holds no secret."""

from __future__ import annotations

import asyncio
import stat
from pathlib import Path
from typing import Any

import httpx
import pytest

from clawbot.llm.scripted import ScriptEngine, load_script, parse_script
from clawbot.llm.scripted.record import Recorder, recording
from clawbot.llm.scripted.replies import ScriptedFault, whole_answer
from clawbot.llm.scripted.server import serve_script
from clawbot.text.naming import TITLE_QUESTION

KEY = "test-key-1234567890"
TALK = r"""
model: real
window: 9000
turns:
  - reply: {reasoning: "Hm.", text: ["Hi, ", "use \\{{user}} braces."], usage: {prompt: 40, completion: 9, cached: 30}}
  - reply:
      text: I look.
      tool_calls:
        - {name: read, arguments: {path: notes.md, lines: [1, 2], when: "2026-01-02"}}
        - {name: append, arguments: "no json"}
  - reply: {text: "It is test-key-1234567890, password: hunter2secret.", finish_reason: length}
  - reply: {fault: {status: 429, message: slow down, retry_after: 2}}
  - reply: {text: [One, two], fault: {drop: 1}}
  - reply: {text: ""}
"""
ASKED = [
    "[Mon 2026-11-23 10:02] hello there",
    "look at 2026-11-23",
    f"my key is {KEY}",
    "again",
    "and again",
    "last",
]


async def ask(url: str, text: str, *, stream: bool) -> int | None:
    body: dict[str, Any] = {"model": "real", "messages": [{"role": "user", "content": text}], "stream": stream}
    if stream:
        body["stream_options"] = {"include_usage": True}
    async with httpx.AsyncClient(trust_env=False, timeout=None) as client:
        try:
            headers = {"Authorization": f"Bearer {KEY}"}
            answer = await client.post(f"{url}/chat/completions", json=body, headers=headers)
        except httpx.RemoteProtocolError:
            return None
        return answer.status_code


async def replies(engine: ScriptEngine) -> list[Any]:
    """What the script says to each message."""
    found: list[Any] = []
    for text in ASKED:
        request = {"model": "real", "messages": [{"role": "user", "content": text}]}
        chunks = []
        try:
            async for chunk in engine.reply(request):
                chunks.append(chunk)
            message = whole_answer(chunks)
            found.append((message["choices"][0], message["usage"]["prompt_tokens"]))
        except ScriptedFault as fault:
            found.append((fault.kind, fault.status, fault.retry_after, len(chunks) > 1))
    return found


@pytest.mark.parametrize("stream", [True, False])
async def test_what_was_said_is_said_again(tmp_path: Path, stream: bool) -> None:
    script = parse_script(TALK if stream else TALK.replace("{text: [One, two], fault: {drop: 1}}", "x"), Path("t.yaml"))
    file = tmp_path / "talk.yaml"
    recorder = Recorder(file)
    async with serve_script(ScriptEngine(script)) as real, recording(recorder, real.url) as url:
        said = [await ask(url, text, stream=stream) for text in ASKED]
        async with httpx.AsyncClient(trust_env=False) as client:
            models = (await client.get(f"{url}/models")).json()
    assert said == [200, 200, 200, 429, None if stream else 200, 200]
    assert models["data"][0]["id"] == "real", "what is no chat goes through as well"

    text = file.read_text(encoding="utf-8")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert KEY not in text
    assert "hunter2secret" not in text
    assert recorder.secrets >= 2
    replayed = load_script(file)
    assert (replayed.model, replayed.window, len(replayed.turns)) == ("real", 9000, 6)
    expected = [str(check.value) for turn in replayed.turns for check in turn.checks]
    assert expected == ["hello there", "look at", "my key is", "again", "and again", "last"]

    before, after = await replies(ScriptEngine(script)), await replies(ScriptEngine(replayed))
    spoken = before[2][0]["message"]
    spoken["content"] = (
        spoken["content"].replace(KEY, "[secret left out]").replace("hunter2secret", "[secret left out]")
    )
    for one, other in zip(before, after, strict=True):
        assert comparable(other) == comparable(one)


def comparable(reply: Any) -> Any:
    """Without the ids of calls, which are made up, and the figures where they were counted."""
    if not isinstance(reply[0], dict):
        return reply
    for call in reply[0]["message"].get("tool_calls") or ():
        call.pop("id")
    return reply


async def test_the_question_for_a_title_is_no_turn(tmp_path: Path) -> None:
    script = parse_script("turns: [{reply: Hello.}]\ntitle: Greetings", tmp_path / "said.yaml")
    recorder = Recorder(tmp_path / "talk.yaml")
    async with serve_script(ScriptEngine(script)) as server, recording(recorder, server.url) as url:
        assert await ask(url, "hello", stream=True) == 200
        assert await ask(url, TITLE_QUESTION, stream=True) == 200
    assert recorder.count == 1


async def test_a_server_that_is_not_there_is_told_and_nothing_is_written(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "talk.yaml")
    async with recording(recorder, "http://127.0.0.1:1/v1") as url:
        assert await ask(url, "hello", stream=True) == 502
    assert recorder.count == 0
    assert not await asyncio.to_thread((tmp_path / "talk.yaml").exists)
