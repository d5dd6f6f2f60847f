"""`clawbot serve` as a process: OpenAI's own client, many chats at once on a scripted model, locks, and SIGTERM."""

from __future__ import annotations

import asyncio
import re
import signal
import stat
import subprocess
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.e2e.conftest import CLAWBOT, Machine

if TYPE_CHECKING:
    import openai
    from openai.types.chat import ChatCompletionMessageParam

pytestmark = pytest.mark.e2e

SCRIPT = """
turns:
  - expect: {user: {matches: "number|号"}}
    repeat: forever
    reply: {text: ["you said: ", "{{user}}"]}
  - expect: {user: take your time}
    reply: {text: ["half", {text: " and half", after: 1}]}
"""
CHATS = 50
NUMBER = re.compile(r"(?:number|我是) (\d+)")


def user(text: str) -> ChatCompletionMessageParam:
    """What the user says."""
    return {"role": "user", "content": text}


async def pieces(
    client: openai.AsyncOpenAI, talk: list[ChatCompletionMessageParam], session: str = ""
) -> AsyncIterator[str]:
    """The pieces of the reply."""
    headers = {"X-Clawbot-Session": session} if session else {}
    stream = await client.chat.completions.create(
        model="clawbot/main", messages=talk, stream=True, extra_headers=headers
    )
    async for chunk in stream:
        if chunk.choices and (piece := chunk.choices[0].delta.content):
            yield piece


async def chat(client: openai.AsyncOpenAI, number: int) -> None:
    """A chat of two messages, as a client has it that keeps the talk itself."""
    talk: list[ChatCompletionMessageParam] = []
    for text in (f"I am number {number}.", f"我是 {number} 号。"):
        talk.append(user(text))
        said = "".join([piece async for piece in pieces(client, talk)])
        assert said == f"you said: {text}"
        talk.append({"role": "assistant", "content": said})


def test_fifty_chats_a_lock_and_an_end_in_the_middle(machine: Machine, script: Callable[[str], Path]) -> None:
    machine.serve(script(SCRIPT), more="compaction: {memory_flush: {enabled: false}}")
    process = subprocess.Popen(
        [*CLAWBOT, "serve", "--port", "0"],
        env=machine.env,
        cwd=machine.folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    machine.stack.callback(process.kill)
    assert process.stdout is not None
    said, _, url = process.stdout.readline().strip().rpartition(" ")
    assert said == "serving on"
    token = machine.run("serve", "token").stdout.strip()
    assert stat.S_IMODE((machine.state / "serve.token").stat().st_mode) == 0o600

    async def talks() -> str:
        import openai

        async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key=token, max_retries=0) as client:
            assert [model.id async for model in client.models.list()] == ["clawbot/main"]
            await asyncio.gather(*(chat(client, number) for number in range(CHATS)))
            assert [piece async for piece in pieces(client, [user("number one")], "work")]
            refused = await asyncio.to_thread(machine.run, "chat", "-p", "hello", "--session", "work")
            assert refused.returncode == 1
            assert f"is open in process {process.pid}" in refused.stderr
            reply = ""
            async for piece in pieces(client, [user("take your time")], "work"):
                if not reply:
                    process.send_signal(signal.SIGTERM)
                reply += piece
            return reply

    assert asyncio.run(talks()) == "half and half"
    rest, errors = process.communicate(timeout=60)
    assert (process.returncode, rest) == (0, "")
    assert errors.splitlines() == ["clawbot: ending; running answers may finish."]
    assert "Traceback" not in (machine.state / "logs" / "clawbot.log").read_text(encoding="utf-8")
    for path in (machine.state / "agents" / "main" / "sessions").glob("*.jsonl"):
        assert len(set(NUMBER.findall(path.read_text(encoding="utf-8")))) <= 1, path
    # The lock is free again.
    assert "half and half" in machine.run("sessions", "show", "work").stdout
