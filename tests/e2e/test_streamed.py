"""`clawbot chat -p` before a server that sends what models and gateways really stream."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.e2e.conftest import Machine
from tests.raw_server import DONE, RawServer, answer, chunk

pytestmark = pytest.mark.e2e

THOUGHT = "zebrathought"
REPLY = "Your proxy listens on 3128."


@pytest.fixture
def server(machine: Machine) -> Iterator[RawServer]:
    """The model of the machine."""
    with RawServer() as running:
        defaults = f"model: openai/m, api_base: '{running.root}/v1', api_key: not-a-key, keep_client: 0"
        machine.configure(f"agents: {{defaults: {{{defaults}, retries: {{first_wait: 0.1}}}}}}\n")
        yield running


def stored(machine: Machine) -> list[str]:
    """The texts of all files that hold what was said, but for the transcripts."""
    files = [path for path in machine.state.rglob("*") if path.is_file() and path.suffix in (".md", ".json", ".sqlite")]
    return [str(path) for path in files if THOUGHT.encode() in path.read_bytes()]


@pytest.mark.parametrize(
    "pieces",
    [
        [f"<think>{THOUGHT}</think>\n\n{REPLY}"],
        list(f"<think>\n{THOUGHT}\n</think>\n\n{REPLY}"),
        list(f"{THOUGHT}, so\n</think>\n\n{REPLY}"),
        [f"<|channel|>analysis<|message|>{THOUGHT}<|end|><|start|>assistant<|channel|>final<|message|>", REPLY],
    ],
    ids=["whole", "by letters", "opened in the prompt", "harmony"],
)
def test_thoughts_are_kept_nowhere_but_in_the_transcript(
    machine: Machine, server: RawServer, pieces: list[str]
) -> None:
    server.answers([answer(*pieces)])
    asked = machine.run("chat", "-p", "where does the proxy listen?")
    assert (asked.returncode, asked.stdout, asked.stderr) == (0, f"{REPLY}\n", "")
    machine.run("chat", "-p", "thanks")
    assert not any(THOUGHT in json.dumps(request) for request in server.requests)
    server.answers([answer(f"<think>{THOUGHT}</think>proxy-port")])
    assert machine.run("chat", "-p", "/new").returncode == 0
    notes = list((machine.workspace / "memory").glob("*.md"))
    assert len(notes) == 1
    assert REPLY in notes[0].read_text(encoding="utf-8")
    assert stored(machine) == []
    for command in (("sessions", "search", THOUGHT), ("memory", "search", THOUGHT)):
        assert THOUGHT not in machine.run(*command).stdout.replace(f'"{THOUGHT}"', "")


def test_a_broken_answer_is_kept_and_told(machine: Machine, server: RawServer) -> None:
    server.answers([answer("The three steps are: 1. stop the ser", reason="insufficient_system_resource")])
    asked = machine.run("chat", "-p", "how?")
    assert (asked.returncode, asked.stdout) == (1, "The three steps are: 1. stop the ser\n")
    assert "insufficient_system_resource" in asked.stderr
    assert len(server.requests) == 1


@pytest.mark.parametrize("reply", [answer(), answer("<think>hm</think>"), answer("<think>hm", reason="length"), DONE])
def test_an_empty_answer_is_asked_for_again_and_told(machine: Machine, server: RawServer, reply: bytes) -> None:
    server.answers([reply])
    asked = machine.run("chat", "-p", "hello")
    assert (asked.returncode, asked.stdout) == (1, "")
    assert "The model returned an empty answer." in asked.stderr.splitlines()[-1]
    assert len(server.requests) == 2
    server.answers([reply, answer("Here.")])
    events = [json.loads(line) for line in machine.run("chat", "-p", "hello", "--json").stdout.splitlines()]
    assert [event["text"] for event in events if event["type"] == "message_finished"] == ["Here."]


CALL = {"name": "read", "arguments": {"path": "AGENTS.md"}}
PARTS = ('{"pa', 'th": "AGE', 'NTS.md"', "}")


@pytest.mark.parametrize(
    "reply",
    [
        answer(*json.dumps(CALL)),
        answer(f"```json\n{json.dumps(CALL, indent=2)}\n```"),
        answer(f"<think>hm</think>\n<tool_call>\n{json.dumps(CALL)}\n</tool_call>"),
        b"".join(
            [
                *(
                    chunk(tool_calls=[{"index": 0, "id": f"i{n}", "function": {"name": "read", "arguments": part}}])
                    for n, part in enumerate(PARTS)
                ),
                chunk("tool_calls"),
                DONE,
            ]
        ),
    ],
    ids=["JSON", "fence", "behind a thought", "a new id in each delta"],
)
def test_a_call_in_whatever_form_is_run(machine: Machine, server: RawServer, reply: bytes) -> None:
    server.answers([reply, answer("I have read it.")])
    done = machine.run("chat", "-p", "read it", "--json")
    events = [json.loads(line) for line in done.stdout.splitlines()]
    [call] = [event for event in events if event["type"] == "tool_finished"]
    assert (call["name"], call["isError"]) == ("read", False)
    assert "".join(event["text"] for event in events if event["type"] == "text_delta") == "I have read it."
    assert server.requests[1]["messages"][-1]["role"] == "tool"


def test_a_call_of_no_tool_is_text_and_told(machine: Machine, server: RawServer) -> None:
    text = '{"name": "launch", "arguments": {"speed": 3}}'
    server.answers([answer(*text)])
    done = machine.run("chat", "-p", "go")
    assert (done.returncode, done.stdout) == (0, f"{text}\n")
    assert done.stderr == "clawbot: The model wrote a tool call as text; it was not run.\n"


MUST_COME_BACK = "The `reasoning_content` in the thinking mode must be passed back to the API."


def strict(body: Any) -> str:
    """DeepSeek's rule."""
    turns = [turn for turn in body["messages"] if turn.get("tool_calls")]
    return "" if all("reasoning_content" in turn for turn in turns) else MUST_COME_BACK


@pytest.mark.parametrize(
    ("thoughts", "first"),
    [
        ({"reasoning_content": "hm"}, strict),
        ({}, strict),
        ({}, lambda body: MUST_COME_BACK if len(body["messages"]) > 2 else ""),  # whatever is sent along
    ],
    ids=["thoughts come", "no thoughts come", "the turn fails"],
)
def test_a_conversation_goes_on_at_a_server_that_wants_its_thoughts_back(
    machine: Machine, server: RawServer, thoughts: dict[str, str], first: Callable[[Any], str]
) -> None:
    function = {"name": "read", "arguments": '{"path": "AGENTS.md"}'}
    call = chunk(**thoughts, tool_calls=[{"index": 0, "id": "c1", "type": "function", "function": function}])
    server.answers([call + chunk("tool_calls") + DONE, answer("I have read it.")])
    server.refuses = first
    asked = machine.run("chat", "-p", "read AGENTS.md")
    if first is strict:
        assert (asked.returncode, asked.stdout) == (0, "I have read it.\n")
    else:
        assert asked.returncode == 1
        assert MUST_COME_BACK.rstrip(".") in asked.stderr
    server.refuses = strict
    asked = machine.run("chat", "-p", "and now? " * 2000)
    assert (asked.returncode, asked.stdout) == (0, "I have read it.\n"), asked.stderr
    compacted = machine.run("chat", "-p", "/compact")
    assert compacted.returncode == 0, compacted.stderr
    assert "nothing to compact" not in compacted.stdout + compacted.stderr
    assert not thoughts or not any(map(strict, server.requests))
