"""`/new` in a real terminal: the talk becomes a note that the next one finds; what is no `/new` ends nothing."""

from __future__ import annotations

import json
import re
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.agent.keeping_house import notes_in
from tests.e2e.conftest import Machine
from tests.e2e.terminal import Terminal

pytestmark = pytest.mark.e2e

Write = Callable[[str], Path]


def archived(machine: Machine) -> dict[str, list[str]]:
    """What the user said in each session, by the name that it is listed under."""
    listed = json.loads((machine.state / "agents/main/sessions/sessions.json").read_text("utf-8"))
    return {
        key.removeprefix("agent:main:"): _user_texts(machine, record["sessionId"])
        for key, record in listed.items()
        if isinstance(record, dict) and "sessionId" in record
    }


def _user_texts(machine: Machine, session_id: str) -> list[str]:
    path = machine.state / "agents/main/sessions" / f"{session_id}.jsonl"
    lines = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    messages = [line["message"] for line in lines if line["type"] == "message"]
    return [_text(message["content"]) for message in messages if message["role"] == "user"]


def _text(content: Any) -> str:
    return content if isinstance(content, str) else "".join(block.get("text", "") for block in content)


def unfit(url: str) -> list[str]:
    """The requests that were not as scripted, and the turns that were not used."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(url.removesuffix("/v1") + "/script/status") as response:
        status = json.load(response)
    return [*status["mismatches"], *(f"turn {number} was not used" for number in status["unused"])]


def say(chat: Terminal, text: str, answer: str) -> None:
    """Say `text`, and wait for the end of the turn that answers so."""
    chat.send(text, "enter")
    chat.wait_for(lambda screen: answer in screen and "esc stops" not in screen)


def click(chat: Terminal, words: str) -> None:
    """Click on the first of `words` on the screen."""
    rows = chat.text.splitlines()
    row = next(number for number, line in enumerate(rows) if words in line)
    place = f"{rows[row].index(words) + 1};{row + 1}"
    chat.send(f"\x1b[<0;{place}M", f"\x1b[<0;{place}m")


def asked(*numbers: int) -> list[tuple[str, str]]:
    """What was said in these turns of the English talk."""
    questions = [f"question {number} of the harbour" for number in numbers]
    return [text for words in questions for text in (("user", words), ("assistant", f"answer to {words}"))]


def leave(chat: Terminal) -> None:
    chat.send("ctrl+d")
    chat.wait_end()


ENGLISH = """
turns:
  - {repeat: 4, reply: "answer to {{user}}"}
  - reply: {text: Let me look., tool_calls: [{name: read, arguments: {path: AGENTS.md}}]}
  - expect: {tool_result: AGENTS}
    reply: The file says so.
  - expect: {user: nothing to say}
    reply: NO_REPLY
  - {repeat: 3, reply: "answer to {{user}}"}
  # The name of the note, what memory is to keep of what it does not hold, and the answer to "api plan" are asked for at
  # the same time.
  - {repeat: 3, reply: api-plan}
  - expect: {user: what was the last, context: [quoted as this session begins, {not: question 1}]}
    reply: {tool_calls: [{name: memory_search, arguments: {query: question 7 harbour}}]}
  - expect: {tool_result: {matches: "memory/20[-0-9]+-api-plan[.]md"}}
    reply: It was about the harbour.
"""


def test_new_keeps_the_last_fifteen_texts_and_the_next_session_finds_them(machine: Machine, script: Write) -> None:
    url = machine.serve(script(ENGLISH))
    chat = machine.open()
    chat.wait_for("openai/scripted")
    for number in range(1, 5):
        say(chat, f"question {number} of the harbour", f"answer to question {number}")
    say(chat, "please look into the file", "The file says so.")
    chat.send("/status", "enter")
    chat.wait_for("memory files")
    chat.send("nothing to say to that", "enter")
    for number in range(5, 8):
        say(chat, f"question {number} of the harbour", f"answer to question {number}")
    chat.send("/new api plan", "enter")
    shown = chat.wait_for(
        lambda text: "-api-plan.md" in text and "new conversation · k" in text and "esc stops" not in text
    )
    [note] = notes_in(machine.workspace)
    assert re.fullmatch(r"\d{4}-\d\d-\d\d-api-plan\.md", note.name)
    assert shown.count(f"kept: memory/{note.name}") == 1
    assert note.said == (
        ("assistant", "answer to question 2 of the harbour"),
        *asked(3, 4),
        ("user", "please look into the file"),
        ("assistant", "Let me look."),
        ("assistant", "The file says so."),
        ("user", "nothing to say to that"),
        *asked(5, 6, 7),
    )
    assert len(note.said) == 15
    say(chat, "what was the last question about?", "It was about the harbour.")
    said = archived(machine)
    assert said.pop("main") == ["api plan", "what was the last question about?"]
    [old] = said.values()
    assert len(old) == 9
    click(chat, f"{note.name}")
    # The page may show these words as well, so what counts is that the editor covers it.
    chat.wait_for(lambda text: "Conversation Summary" in text and "It was about the harbour." not in text)
    chat.send("esc")
    chat.wait_for("It was about the harbour.")
    leave(chat)
    assert unfit(url) == []


CHINESE = """
turns:
  - {repeat: 9, reply: "回答：{{user}}"}
  - expect: {user: "<conversation>"}
    reply: 备份方案
  - expect: {user: 上次, context: [quoted as this session begins, {not: 第1个}]}
    reply: {tool_calls: [{name: memory_search, arguments: {query: 第9个 数据库备份}}]}
  - expect: {tool_result: {matches: "memory/20[-0-9]+-备份方案[.]md"}}
    reply: 说的是备份。
"""


def test_a_chinese_conversation_has_a_chinese_note(machine: Machine, script: Write) -> None:
    url = machine.serve(script(CHINESE), "compaction: {memory_flush: {enabled: false}}")
    chat = machine.open()
    chat.wait_for("openai/scripted")
    words = [f"第{number}个数据库备份方案怎么做？" for number in range(1, 10)]
    for text in words:
        say(chat, text, f"回答：{text}")
    chat.send("/new", "enter")
    chat.wait_for(lambda text: "-备份方案.md" in text and "new conversation · kept" in text)
    [note] = notes_in(machine.workspace)
    assert re.fullmatch(r"\d{4}-\d\d-\d\d-备份方案\.md", note.name)
    spoken = [text for asked in words for text in (("user", asked), ("assistant", f"回答：{asked}"))]
    assert note.said == tuple(spoken[-15:])
    say(chat, "上次说了什么？", "说的是备份。")
    leave(chat)
    assert unfit(url) == []


FACTS = {
    "my dog is called Bruno and he is 4 years old": "Bruno",
    "we decided to use PostgreSQL 16 for the Falcon project": "PostgreSQL",
    "我最喜欢绿茶": "绿茶",
}


def test_what_was_said_long_before_a_new_is_found_without_a_model(machine: Machine) -> None:
    machine.configure("agents: {defaults: {model: offline}}\n")
    chat = machine.open(columns=120, rows=40)
    chat.wait_for("offline")
    for text in [*FACTS, *(f"what time is it now, number {turn}?" for turn in range(30))]:
        say(chat, text, text)
    chat.send("/new", "enter")
    chat.wait_for("from the conversation before")
    [note] = notes_in(machine.workspace)
    assert len(note.said) <= 15
    assert not any(fact in text for fact in FACTS for _, text in note.said)
    [day] = (machine.workspace / "memory").glob("????-??-??.md")
    written = day.read_text("utf-8")
    for fact, word in FACTS.items():
        assert written.count(word) == 1, fact
    say(chat, "what is my dog's name?", "Bruno")
    leave(chat)
    for word in FACTS.values():
        found = machine.run("memory", "search", word).stdout
        assert f"memory/{day.name}" in found


OTHERS = """
turns:
  - {repeat: 2, reply: "answer to {{user}}"}
  - {repeat: 2, reply: rotterdam}
  - {repeat: 1, reply: "answer to {{user}}"}
  - expect: {user: "<conversation>"}
    reply: hamburg
"""


def test_new_counts_in_any_case_with_blanks_around_and_nothing_else_does(machine: Machine, script: Write) -> None:
    url = machine.serve(script(OTHERS))
    chat = machine.open()
    chat.wait_for("openai/scripted")
    say(chat, "the ship leaves", "answer to the ship leaves")
    chat.send("/newsletter", "enter")
    chat.wait_for("There is no command /newsletter")
    chat.send("ctrl+c")
    say(chat, "/new@bot is a name", "answer to /new@bot is a name")
    assert list(archived(machine)) == ["main"]
    chat.send("/NEW  the harbour ", "enter")
    chat.wait_for(lambda text: "-rotterdam.md" in text and "new conversation · k" in text and "esc stops" not in text)
    assert archived(machine)["main"] == ["the harbour"]
    say(chat, "one more", "answer to one more")
    chat.send("/reset", "enter")
    chat.wait_for(lambda text: "-hamburg.md" in text and "new conversation · kept" in text)
    kept = {note.name[11:]: note.said for note in notes_in(machine.workspace)}
    assert kept == {
        "rotterdam.md": (
            ("user", "the ship leaves"),
            ("assistant", "answer to the ship leaves"),
            ("user", "/new@bot is a name"),
            ("assistant", "answer to /new@bot is a name"),
        ),
        "hamburg.md": (
            ("user", "the harbour"),
            ("assistant", "rotterdam"),
            ("user", "one more"),
            ("assistant", "answer to one more"),
        ),
    }
    leave(chat)
    assert unfit(url) == []
