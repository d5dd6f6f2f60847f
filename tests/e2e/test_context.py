"""A full window in real processes: what is saved, summarised and shown, and what a provider's overflow leads to."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from clawbot.context.compaction.prompts import REQUIRED
from tests.e2e.conftest import Machine

pytestmark = pytest.mark.e2e

SUMMARY = "\\n\\n".join(f"## {heading}\\n- nothing of note" for heading in REQUIRED)


def _answered(words: str, text: str) -> bool:
    """Whether `words` were said and repeated in an answer, and nothing runs."""
    return text.count(words) >= 2 and "esc stops" not in text


def _counted(text: str) -> bool:
    """Whether the meter tells of something."""
    return re.search(r"[1-9]\d*% [\d.]+k?/7\.0k", text) is not None


def transcript(machine: Machine) -> list[dict[str, Any]]:
    """The lines of the one session."""
    [path] = (machine.state / "agents/main/sessions").glob("*.jsonl")
    return [json.loads(line) for line in path.read_text().splitlines()]


def records(machine: Machine) -> list[dict[str, Any]]:
    """The ends of the offers in the transcript."""
    found = [line["data"] for line in transcript(machine) if line.get("customType") == "clawbot.memory-offer"]
    return [record for record in found if record["phase"] == "end"]


def test_an_overflow_through_litellm_is_survived_with_memory_saved_first(
    machine: Machine, script: Callable[[str], Path]
) -> None:
    machine.serve(
        script(f"""
turns:
  - expect: {{user: the harbour}}
    reply: Noted.
  - expect: {{user: and the tide}}
    reply: {{fault: {{overflow: openai}}}}
  - expect: {{user: memory flush}}
    reply:
      tool_calls:
        - name: append
          arguments: {{content: "- the harbour is 12 m deep"}}
  - expect: {{tool_result: memory/}}
    reply: NO_REPLY
  - expect: {{user: "<conversation>"}}
    reply: "{SUMMARY}"
  - expect: {{user: and the tide}}
    reply: The tide turns at six.
""")
    )
    assert machine.run("chat", "-p", "the harbour is 12 m deep " * 60).stdout == "Noted.\n"
    done = machine.run("chat", "-p", "and the tide?", "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    events = [json.loads(line) for line in done.stdout.splitlines()]
    kinds = [event["type"] for event in events]
    assert kinds.index("memory_written") < kinds.index("compaction_finished") < kinds.index("message_finished")
    assert "NO_REPLY" not in done.stdout
    [note] = (machine.workspace / "memory").glob("*.md")
    assert note.read_text() == "- the harbour is 12 m deep\n"
    [record] = records(machine)
    assert (record["exit"], record["result"], record["reply"]) == ("overflow", "written", "NO_REPLY")
    assert [line["type"] for line in transcript(machine)].count("compaction") == 1
    assert "1 line (27 bytes) to memory/" in machine.run("chat", "-p", "/status").stdout


def test_a_talk_in_a_small_window_goes_on_and_each_process_knows_what_was_saved(machine: Machine) -> None:
    machine.configure("agents: {defaults: {model: offline, context_tokens: 7000}}\n")
    for turn in range(9):
        text = (
            f"note: service {turn} listens on port 70{turn}0 by decision of Ana，部署窗口改到周四晚上 "
            + "so it is " * 60
        )
        assert machine.run("chat", "-p", text).returncode == 0
    types = [line["type"] for line in transcript(machine)]
    assert types.count("message") >= 18
    assert "compaction" in types
    spans = [(record["first"], record["last"]) for record in records(machine) if record["result"] != "failed"]
    assert len(set(spans)) == len(spans)
    report = json.loads(machine.run("chat", "-p", "/context json", "--json").stdout.splitlines()[1])["data"]
    assert sum(part["tokens"] for part in report["parts"]) == report["window"] == 7000
    assert report["compactions"] == types.count("compaction")


def test_the_screen_shows_what_was_saved_and_summarised_and_saves_again_at_the_end(machine: Machine) -> None:
    machine.configure(
        "agents: {defaults: {model: offline, context_tokens: 7000, compaction: {memory_flush: {quit_min_tokens: 1}}}}\n"
    )
    chat = machine.open()
    chat.wait_for("offline")
    for turn in range(7):
        chat.send(f"remember that port 70{turn}0 由小王负责", "enter")
        chat.wait_for(functools.partial(_answered, f"70{turn}0"))
    chat.send("/compact ports", "enter")
    chat.wait_for(lambda text: "earlier turns summarised" in text and "Compacted:" in text)
    chat.send("ctrl+o")
    chat.wait_for(lambda text: "earlier turns summarised" in text and "Progress" in text)
    chat.send("ctrl+o")
    chat.wait_for(lambda text: "Progress" not in text and "earlier turns summarised" in text and "Compacted:" in text)
    chat.send("/context", "enter")
    chat.wait_for(lambda text: "context window" in text and "reserve" in text)
    chat.send("esc")
    chat.wait_for(lambda text: "context window" not in text and "Compacted:" in text)
    chat.send("remember that the harbour opens at six", "enter")
    chat.wait_for(functools.partial(_answered, "harbour opens"))
    chat.send("/quit", "enter")
    assert chat.wait_end() == 0
    assert b"Saving what matters to memory" in chat.raw
    assert records(machine)[-1]["exit"] == "quit"


def test_the_meter_knows_the_context_before_the_first_message_and_after_a_fresh_start(machine: Machine) -> None:
    machine.configure("agents: {defaults: {model: offline, context_tokens: 7000}}\n")
    chat = machine.open()
    chat.wait_for(_counted)
    chat.send("remember that the harbour opens at six", "enter")
    chat.wait_for(functools.partial(_answered, "harbour opens"))
    chat.send("/new", "enter")
    chat.wait_for(lambda text: "new conversation" in text and "esc" not in text and _counted(text))
    chat.send("ctrl+d")
    chat.wait_end()


def test_esc_while_memory_is_saved_skips_that_alone(machine: Machine, script: Callable[[str], Path]) -> None:
    machine.serve(
        script("""
turns:
  - reply: Noted.
  - expect: {user: memory flush}
    reply: {text: NO_REPLY, fault: stall}
  - reply: Hello again.
"""),
        "compaction: {memory_flush: {force_flush_transcript_bytes: 1}}",
    )
    chat = machine.open()
    chat.wait_for("openai/scripted")
    chat.send("the harbour is deep", "enter")
    chat.wait_for(lambda text: "Noted." in text and "esc stops" not in text)
    chat.send("hello three", "enter")
    chat.wait_for(lambda text: "saving to memory" in text and "esc skips" in text)
    chat.send("esc")
    chat.wait_for(lambda text: "Hello again." in text and "esc s" not in text)
    assert chat.text.count("hello three") == 1
    chat.send("ctrl+d")
    chat.wait_end()
