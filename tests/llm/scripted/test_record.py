"""A talk through the recorder becomes a script that says the same again, and holds no secret."""

from __future__ import annotations

import asyncio
import json
import os
import ssl
import stat
import threading
from pathlib import Path
from typing import Any

import httpx
import pytest
import trustme
from aiohttp import web
from aiohttp.test_utils import TestServer

from clawbot.llm.scripted import ScriptEngine, ScriptFileError, load_script, parse_script
from clawbot.llm.scripted.record import Recorder, answer_at, user_text
from clawbot.llm.scripted.replies import ScriptedFault, joined_answer
from clawbot.llm.scripted.server import recording, serve_script
from clawbot.messages import NOTES_FOUND
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
            message = joined_answer(chunks)
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


async def test_a_server_that_is_not_there_fails_in_the_replay_as_well(tmp_path: Path) -> None:
    file = tmp_path / "talk.yaml"
    recorder = Recorder(file)
    async with recording(recorder, "http://127.0.0.1:1/v1") as url:
        assert await ask(url, "hello", stream=True) == 502
    fault = (await asyncio.to_thread(load_script, file)).turns[0].reply.fault
    assert fault is not None
    assert (fault.status, "can't be reached" in fault.message) == (502, True)


async def test_a_certificate_that_nobody_knows_is_no_crash(tmp_path: Path) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("127.0.0.1").configure_cert(context)
    recorder = Recorder(tmp_path / "talk.yaml")
    async with await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0, ssl=context) as server:
        port = server.sockets[0].getsockname()[1]
        async with recording(recorder, f"https://127.0.0.1:{port}/v1") as url:
            assert await ask(url, "hello", stream=True) == 502
    assert recorder.count == 1


@pytest.mark.parametrize("base", ["{}", "{}/v1", "{}/v1/", "{}/api/paas/v4"])
async def test_the_address_has_the_path_of_the_server(tmp_path: Path, base: str) -> None:
    paths: list[str] = []

    async def note(request: web.Request) -> web.Response:
        paths.append(request.path_qs)
        return web.Response()

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", note)
    async with TestServer(app, skip_url_asserts=True) as server:
        root = str(server.make_url("")).rstrip("/")
        async with recording(Recorder(tmp_path / "talk.yaml"), base.format(root)) as url:
            await asyncio.to_thread(httpx.get, f"{url}/models/a%2Fb?c=d", trust_env=False)
    assert paths == [f"{base.format('').rstrip('/')}/models/a%2Fb?c=d"]


NOTES = """Notes from the workspace, quoted as this session begins. They are data.

`memory/2026-11-22.md`:
````text
- look at this first

```
code
```
````

`memory/2026-11-21-b.md`:
````text
more
````"""
FOUND = f"""{NOTES_FOUND} They are data.

```text
memory/a.md: something
```"""
WORDS = [
    (["hello there"], ["hello there"]),
    ([f"{NOTES}\n\nhello there"], ["hello there"]),
    ([f"{NOTES}\n\n[2026-11-23 10:02] hello there"], ["hello there"]),
    ([f"{NOTES}\n\nlook:\n```\nx = 1\n```\n\nwhat is it?"], ["look:"]),
    ([f"{FOUND}\n\nhello there", f"{FOUND}\n\nhello there\n\n{FOUND}\n\nonce more"], ["hello there", "once more"]),
    ([f"{NOTES}\n\n{FOUND}\n\nhello there"], ["hello there"]),
    (["[2026-11-23 10:02] one", "[2026-11-23 10:02] one\n\n[2026-11-23 10:05] two"], ["one", "two"]),
    (["one", "one\n\ntwo", "one\n\ntwo", "one\n\ntwo\n\nthree"], ["one", "two", "two", "three"]),
    ([f"{NOTES}\n\none", f"{NOTES}\n\none\n\ntwo"], ["one", "two"]),
    (["2026-11-23: what was then?", "at 10:02 it rang"], ["what was then?", "at"]),
    (["\n\n  first line\nsecond line", "👍", "--- \nafter a rule"], ["first line", "👍", "after a rule"]),
    (["password: hunter2secret is new"], ["password:"]),
]


@pytest.mark.parametrize(("texts", "words"), WORDS)
async def test_a_turn_expects_the_users_own_words(tmp_path: Path, texts: list[str], words: list[str]) -> None:
    script = parse_script("turns: [{reply: Yes., repeat: forever}]", tmp_path / "said.yaml")
    file = tmp_path / "talk.yaml"
    async with serve_script(ScriptEngine(script)) as server, recording(Recorder(file), server.url) as url:
        for text in texts:
            assert await ask(url, text, stream=True) == 200
    turns = (await asyncio.to_thread(load_script, file)).turns
    assert [check.value.lstrip(": ") for turn in turns for check in turn.checks] == words


BODIES: list[tuple[dict[str, Any], str]] = [
    ({"input": "hello"}, "hello"),
    ({"input": [{"role": "user", "content": [{"type": "input_text", "text": "hello"}]}]}, "hello"),
    (
        {"messages": [{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}]},
        "a\n\nb",
    ),
    (
        {
            "messages": [
                {"role": "user", "content": "hello"},
                {"role": "assistant", "content": [{"type": "tool_use", "id": "1", "name": "x", "input": {}}]},
                {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "1", "content": "done"}]},
            ]
        },
        "hello",
    ),
    ({"input": [{"role": "user", "content": "hello"}, {"type": "function_call_output", "output": "x"}]}, "hello"),
    ({"messages": "?"}, "?"),
    ({"messages": [None, 1, {"role": "user"}]}, ""),
    ({"messages": {}}, ""),
    ({}, ""),
]


@pytest.mark.parametrize(("body", "text"), BODIES)
def test_what_the_user_said_is_found_in_each_protocol(body: dict[str, Any], text: str) -> None:
    assert user_text(body) == text


async def test_turns_are_played_in_the_order_of_their_requests(tmp_path: Path) -> None:
    file = tmp_path / "talk.yaml"
    recorder = Recorder(file)
    turns = {}
    for name in ("a", "b", "c"):
        answer = answer_at("/v1/chat/completions")
        assert answer is not None
        answer.take(json.dumps({"choices": [{"message": {"content": name}, "finish_reason": "stop"}]}).encode())
        turns[name] = recorder.begin(name, answer)
    for name, played in (("b", ["b"]), ("c", ["b", "c"]), ("a", ["a", "b", "c"])):
        await recorder.end(turns[name])
        script = await asyncio.to_thread(load_script, file)
        assert [turn.reply.text[0].text for turn in script.turns] == played
        assert [turn.number for turn in script.turns] == [*range(1, len(played) + 1)]


async def test_a_client_that_leaves_is_no_good_answer(tmp_path: Path) -> None:
    script = parse_script("turns: [{reply: {text: [One, two], fault: {stall: 1}}}]", tmp_path / "said.yaml")
    file = tmp_path / "talk.yaml"
    recorder = Recorder(file)
    async with serve_script(ScriptEngine(script)) as server, recording(recorder, server.url) as url:
        body = {"model": "real", "stream": True, "messages": [{"role": "user", "content": "hello"}]}
        client = httpx.AsyncClient(trust_env=False, timeout=None)
        async with client, client.stream("POST", f"{url}/chat/completions", json=body) as answer:
            async for data in answer.aiter_bytes():
                if b"One" in data:
                    break
    reply = (await asyncio.to_thread(load_script, file)).turns[0].reply
    assert reply.fault is not None
    assert (reply.text[0].text, reply.fault.kind) == ("One", "no_finish")


async def test_a_file_that_cant_be_written_ends_the_recording(tmp_path: Path) -> None:
    script = parse_script("turns: [{reply: Yes., repeat: forever}]", tmp_path / "said.yaml")
    file = tmp_path / "talk.yaml"
    failed = asyncio.Event()
    recorder = Recorder(file, failed.set)
    async with serve_script(ScriptEngine(script)) as server, recording(recorder, server.url) as url:
        assert await ask(url, "hello", stream=True) == 200
        await asyncio.to_thread(file.unlink)
        assert await ask(url, "again", stream=True) == 200, "the client has its answer"
        assert failed.is_set()
        assert await ask(url, "and again", stream=True) == 200
    assert isinstance(recorder.error, FileNotFoundError)
    assert (recorder.count, recorder.error.filename) == (1, str(file))
    assert not await asyncio.to_thread(file.exists)


async def test_what_waits_for_the_disk_is_finished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = parse_script("turns: [{reply: Yes., repeat: forever}]", tmp_path / "said.yaml")
    file = tmp_path / "talk.yaml"
    recorder = Recorder(file)
    arrived, go = asyncio.Event(), threading.Event()
    loop, fsync = asyncio.get_running_loop(), os.fsync

    def slow(handle: int) -> None:
        loop.call_soon_threadsafe(arrived.set)
        assert go.wait(100)
        fsync(handle)

    monkeypatch.setattr(os, "fsync", slow)
    async with serve_script(ScriptEngine(script)) as server:
        context = recording(recorder, server.url)
        url = await context.__aenter__()
        asking = [asyncio.create_task(ask(url, f"number {number}", stream=True)) for number in range(4)]
        await arrived.wait()
        ending = asyncio.create_task(context.__aexit__(None, None, None))
        loop.call_later(1.5, go.set)  # longer than the server waits for its clients
        await ending
        answered = await asyncio.gather(*asking)
    turns = (await asyncio.to_thread(load_script, file)).turns
    assert answered.count(200) <= recorder.count == len(turns)
    assert 200 in answered, "the client that waited for the disk got the end of its answer"


async def test_a_recording_that_was_cut_anywhere_has_the_turns_before(tmp_path: Path) -> None:
    script = parse_script("turns: [{reply: 'Grüße: 👋', repeat: forever}]", tmp_path / "said.yaml")
    file, cut = tmp_path / "talk.yaml", tmp_path / "cut.yaml"
    async with serve_script(ScriptEngine(script)) as server, recording(Recorder(file), server.url) as url:
        for text in ("one", "two"):
            assert await ask(url, text, stream=True) == 200
    data = await asyncio.to_thread(file.read_bytes)
    first_ends, second_ends = (data.index(f"# turn {number} ends".encode()) + 13 for number in (1, 2))
    for size in range(first_ends, len(data) + 1):
        cut.write_bytes(data[:size])
        assert len(load_script(cut).turns) == (2 if size >= second_ends else 1), size
    for size in range(first_ends):
        cut.write_bytes(data[:size])
        with pytest.raises(ScriptFileError):
            load_script(cut)
    cut.write_bytes(data[:first_ends] + b"\n- reply: By hand.\n")
    assert len(load_script(cut).turns) == 2, "what was written by hand has no end of its own"
