"""Windows of 4,096 and 2,048 tokens, as local servers give them: a long talk in the one, and a way out of the other."""

from __future__ import annotations

import shutil

import pytest

from clawbot.agent.events import CompactionFinished, Notice, TurnEnded
from clawbot.config.paths import shipped
from clawbot.context.counting import TokenCounter
from clawbot.context.report import render_report
from clawbot.llm.protocol import ChatRequest
from clawbot.messages import ToolCallBlock, ToolResultMessage
from clawbot.runtime import Runtime, RuntimeOptions
from tests.agent.fakes import Answer, calls, says
from tests.agent.gate_host import House, PurposeModel, compactions, ended, talk, target_of

FACT = "the certificate of the north gate expires on 14 March"
ANSWER = 300  # tokens that each request leaves for the answer, in a window that others count in smaller tokens
NARROW = 0.9


class Keeper(PurposeModel):
    """Writes down what the user wants remembered when it is asked to, and looks notes up for a question."""

    def __init__(self) -> None:
        super().__init__(chat=[self.chat], flush=[self.flush])

    def chat(self, request: ChatRequest) -> Answer:
        last = request.messages[-1]
        if isinstance(last, ToolResultMessage):
            return says(f"Your notes say: {last.text[:200]}")
        if "when does" in last.text:
            return calls(ToolCallBlock("q", "grep", {"pattern": "certificate", "path": "memory"}))
        return says("Noted, and a few more words about the harbour so that it has some length. " * 3)

    def flush(self, request: ChatRequest) -> Answer:
        said = " ".join(message.text for message in request.messages[:-1])
        if FACT not in said or isinstance(request.messages[-1], ToolResultMessage):
            return says("NO_REPLY")
        return calls(ToolCallBlock("w", "append", {"path": target_of(request), "content": f"- {FACT}\n"}))


def size_of(request: ChatRequest) -> int:
    counter = TokenCounter(ref="fake/model")
    messages = sum(map(counter.of, request.messages))
    return counter.text(request.system) + sum(map(counter.tool, request.tools)) + messages


async def test_60_turns_in_4096_tokens_work_and_remember(house: House) -> None:
    shutil.copytree(shipped("workspace_template"), house.workspace, dirs_exist_ok=True)
    brain = Keeper()
    agent = house.open(brain, window=4_096)
    events = await talk(agent, f"Remember that {FACT}.")
    for turn in range(58):
        events += await talk(agent, f"Turn {turn}: the ferry to island {turn} was late again, by {turn} minutes. " * 3)
    last = await talk(agent, "when does the certificate expire?")
    assert [event.status for event in events if isinstance(event, TurnEnded)] == ["done"] * 59
    assert not [event for event in events if isinstance(event, CompactionFinished) and event.status != "done"]
    assert len(compactions(agent)) > 2
    [told] = [block for block in render_report(await agent.context_report()).split("\n\n") if "left out" in block]
    assert told == "Tools left out in a window below 8,000 tokens: edit, list, write"
    assert ended(last).status == "done"
    assert FACT in agent.conversation.messages[-1].text
    assert FACT not in " ".join(message.text for message in brain.of("chat")[-2].messages)  # long gone from the window
    assert max(size_of(request) for request in brain.requests) < 4_096 * NARROW - ANSWER
    assert [spec.name for spec in brain.of("chat")[0].tools] == ["grep", "read", "append", "shell"]
    system = brain.of("chat")[0].system
    assert system.index("## MEMORY.md") < system.index("## AGENTS.md")


@pytest.mark.parametrize(("ref", "start"), [("ollama/m", "OLLAMA_CONTEXT_LENGTH=8192"), ("openai/m", "-c 8192")])
async def test_2048_tokens_say_what_to_do(house: House, ref: str, start: str) -> None:
    brain = PurposeModel()
    agent = house.open(brain, window=2_048)
    brain.info = type(brain.info)(ref=ref, window=2_048)
    told = [event.text for event in await talk(agent, "hello") if isinstance(event, Notice)]
    assert len([text for text in told if start in text]) == 1
    assert not [event for event in await talk(agent, "hello") if isinstance(event, Notice) and start in event.text]
    assert max(map(size_of, brain.requests)) < 2_048 * NARROW - ANSWER


async def test_a_fresh_workspace_takes_at_most_3000_tokens() -> None:
    runtime = await Runtime.open(RuntimeOptions(model="offline").unattended())
    report = await runtime.agent.context_report()
    await runtime.close()
    fixed = {part.key: part.tokens for part in report.parts if part.key in ("system", "bootstrap", "tools")}
    assert sum(fixed.values()) <= 3_000, fixed
