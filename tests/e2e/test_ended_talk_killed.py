"""`kill -9` while memory is offered, in the background, what a talk left that ended: started again in a real terminal,
each fact is in memory exactly once."""

from __future__ import annotations

import json
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest

from clawbot.sessions.entries import OFFER
from tests.e2e.conftest import Machine
from tests.e2e.terminal import Terminal

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(400)]

Write = Callable[[str], Path]
TOLD = "from the conversation before"


def until(chat: Terminal, holds: Callable[[], bool]) -> None:
    """Read what `chat` writes until something holds outside of it."""
    over = time.monotonic() + 150
    while not holds():
        assert time.monotonic() < over, chat.text
        chat.feed(0.02)


def turns_of(url: str) -> dict[str, int]:
    """How often each turn of the script with a name was asked for; what did not fit fails."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(url.removesuffix("/v1") + "/script/status") as response:
        status = json.load(response)
    assert status["mismatches"] == []
    return {turn["name"]: turn["used"] for turn in status["turns"] if turn["name"]}


def offered(machine: Machine) -> list[str]:
    """The records of what was offered by a silent turn, in their order: `begin`, `write`, `end written`."""
    files = (machine.state / "agents/main/sessions").glob("*.jsonl")
    lines = [json.loads(line) for path in files for line in path.read_bytes().splitlines(keepends=True) if _whole(line)]
    found = [line for line in lines if line.get("customType") == OFFER and line["data"]["by"] == "flush"]
    records = [line["data"] for line in sorted(found, key=lambda line: str(line["timestamp"]))]
    return [f"{record['phase']} {record.get('result', '')}".strip() for record in records]


def _whole(line: bytes) -> bool:
    return line.endswith(b"\n")


def start(machine: Machine, model: str) -> Terminal:
    """Start the chat, and wait for its prompt."""
    chat = machine.open(columns=120)
    chat.wait_for(model)
    return chat


def talk(chat: Terminal, *texts: str, last: str) -> None:
    """Say `texts`, each without waiting for the answer to the one before, until `last` is answered."""
    for text in texts:
        chat.send(text, "enter")
    chat.wait_for(lambda screen: last in screen and "esc stops" not in screen, seconds=150)


def are_kept_once(machine: Machine, facts: dict[str, str]) -> bool:
    """Whether the word of each fact stands once in the files of memory."""
    files = (machine.workspace / "memory").glob("*.md")
    text = "\n".join(path.read_text("utf-8") for path in files)
    return [text.count(word) for word in facts.values()] == [1] * len(facts)


def found(machine: Machine, text: str) -> list[str]:
    """The files that a search finds `text` in."""
    results = json.loads(machine.run("memory", "search", text, "--json").stdout)["results"]
    return [hit["path"] for hit in results if text in hit["snippet"]]


def serve(machine: Machine, script: Path) -> str:
    """Serve `script`; nobody names notes, so that the order of the requests is that of the script."""
    url = machine.serve(script)
    with (machine.state / "config.yaml").open("a", encoding="utf-8") as file:
        file.write("hooks: {entries: {session-memory: {llm_slug: false}}}\n")
    return url


def appended(*lines: str) -> str:
    """A call of the tool that adds lines to the notes of the day."""
    content = json.dumps("".join(f"- {line}\n" for line in lines), ensure_ascii=False)
    return f"{{tool_calls: [{{name: append, arguments: {{content: {content}}}}}]}}"


FACTS = {
    "my dog is called Bruno": "Bruno",
    "we use PostgreSQL 16 for Falcon": "PostgreSQL",
    "the flight to Lisbon leaves on Monday": "Lisbon",
}
SMALL = [f"small talk {turn}" for turn in range(30)]
CHINESE = {"我的狗叫布鲁诺": "布鲁诺", "猎鹰项目用的是数据库十六": "猎鹰", "飞往里斯本的航班是周一": "里斯本"}
SMALL_CHINESE = [f"闲聊第{turn}句" for turn in range(8)]
SCRIPT = f"""
turns:
  - {{repeat: {len([*FACTS, *SMALL])}, reply: "answer to {{{{user}}}}"}}
  - {{name: answering, expect: {{user: memory flush}}, reply: {{fault: stall}}}}
  - {{name: beside, expect: {{user: are you there}}, reply: I am here.}}
  - {{name: again, expect: {{user: memory flush}}, reply: {appended(*FACTS)}}}
  - {{name: written, expect: {{tool_result: "memory/"}}, reply: {{fault: stall}}}}
  - {{expect: {{user: the dog}}, reply: {{tool_calls: [{{name: memory_search, arguments: {{query: dog called}}}}]}}}}
  - {{name: searched, expect: {{tool_result: Bruno}}, reply: He is Bruno.}}
  - {{repeat: {len([*CHINESE, *SMALL_CHINESE])}, reply: "回答：{{{{user}}}}"}}
  # Whether the one that is killed before its request still made it is all the same.
  - expect: {{user: memory flush, context: {{not: Added}}}}
    repeat: forever
    reply: {appended(*CHINESE)}
  - {{name: silent, expect: {{tool_result: "memory/"}}, reply: NO_REPLY}}
"""


def test_killed_at_each_step_of_what_a_slow_model_is_asked(machine: Machine, script: Write) -> None:
    url = serve(machine, script(SCRIPT))
    chat = start(machine, "openai/scripted")
    talk(chat, *FACTS, *SMALL, last=f"answer to {SMALL[-1]}")
    chat.send("/new", "enter")
    until(chat, lambda: turns_of(url)["answering"] == 1)
    # The model is busy with the old talk, and the new one goes on.
    talk(chat, "are you there?", last="I am here.")
    assert offered(machine) == ["begin"]
    chat.kill()

    chat = start(machine, "openai/scripted")
    until(chat, lambda: turns_of(url)["written"] == 1)
    assert offered(machine) == ["begin", "end interrupted", "begin", "write"]
    assert TOLD not in chat.text
    chat.kill()

    chat = start(machine, "openai/scripted")
    shown = chat.wait_for(f"memory: 3 lines {TOLD}")
    assert shown.count(TOLD) == 1
    assert offered(machine)[4:] == ["end written"]
    talk(chat, "what is the name of the dog?", last="He is Bruno.")
    assert are_kept_once(machine, FACTS)

    # The second talk: it is killed before the request, and when all is done.
    talk(chat, *CHINESE, *SMALL_CHINESE, last=f"回答：{SMALL_CHINESE[-1]}")
    chat.send("/new", "enter")
    until(chat, lambda: offered(machine)[5:] != [])
    chat.kill()
    chat = start(machine, "openai/scripted")
    until(chat, lambda: offered(machine)[-1] == "end written")
    chat.kill()
    before = offered(machine)
    chat = start(machine, "openai/scripted")
    chat.send("ctrl+d")
    chat.wait_end()
    assert offered(machine) == before
    # A kill that came after the line was written leaves nothing to ask for again.
    assert turns_of(url)["silent"] <= 1
    assert are_kept_once(machine, {**FACTS, **CHINESE})
    for fact in (*FACTS, *CHINESE):
        assert any(path.startswith("memory/") for path in found(machine, fact)), fact


def test_killed_without_a_model(machine: Machine) -> None:
    machine.configure("agents: {defaults: {model: offline}}\n")
    facts = {"my dog is called Bruno and he is 4 years old": "Bruno", "我最喜欢绿茶": "绿茶"}
    chat = start(machine, "offline")
    small = [f"what time is it now, number {turn}?" for turn in range(16)]
    talk(chat, *facts, *small, last=small[-1])
    chat.send("/new", "enter")
    until(chat, lambda: offered(machine) != [])
    chat.kill()
    chat = start(machine, "offline")
    until(chat, lambda: offered(machine)[-1] == "end written")
    talk(chat, "what is my dog's name?", last="Bruno")
    assert are_kept_once(machine, facts)
