"""The memory flush: a silent turn on a copy of the context, in which the model may read, and append to the notes of the
day, and nothing else (reference sheet 8).

Nothing of it goes into the transcript or to the user. What it came to is a value, also when the model fails, stalls or
tries what it must not: no failure of a flush may stop the user's turn.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from contextlib import aclosing
from datetime import datetime
from pathlib import Path

from msgspec import Struct, structs

from clawbot.agent.cancel import Cancellation, InterruptedTurnError
from clawbot.agent.flush_prompts import daily_note, flush_prompt, flush_system
from clawbot.agent.turn import Committed, TurnParts, run_turn
from clawbot.clock import Clock, epoch_ms
from clawbot.config.schema_context import MemoryFlushSettings
from clawbot.llm.errors import ContextOverflowError, ModelError
from clawbot.llm.protocol import ChatModel, ChatRequest
from clawbot.logs import redact
from clawbot.messages import AssistantMessage, Message, TextBlock, ToolResultMessage, Usage, UserMessage
from clawbot.sessions.audit import MemoryWrite, Result
from clawbot.tools.append_only import AppendOnlyFile, BeforeWrite, is_on_disk
from clawbot.tools.folder import WorkspaceFolder
from clawbot.tools.protocol import AnyTool, ApprovalAnswer, ApprovalQuestion, Approver, AskingTool
from clawbot.tools.registry import Toolbox

log = logging.getLogger(__name__)

MAX_ROUNDS = 8  # calls of the model: a look, a few notes and a last word take four
RECORD_CHARS = 600  # of a reply or an error, what the transcript keeps
LEFT_OUT = "[Left out: it did not fit.]"
SHORT_CHARS = 200  # a result up to this stays: what a write came to must not be forgotten


class FlushRequest(Struct, frozen=True):
    """What is offered to memory: `messages` is a copy of the context with whole pairs and without a message that waits
    for its answer, `system` its prompt, of which the first `stable_prefix` characters may be cached. `now`, in the
    user's zone, says which day's notes are written, even when midnight passes meanwhile."""

    system: str
    stable_prefix: int
    messages: tuple[Message, ...]
    now: datetime


class FlushParts(Struct, frozen=True):
    """What a flush works with. `read_tools` are tools of the agent, of which those are used that only read; `timeout`
    bounds the whole turn, in seconds; `output_max_chars` caps what the model sees of one result; `before_write` is
    called in a thread before anything is written, which it forbids by raising."""

    model: ChatModel
    read_tools: Sequence[AnyTool]
    workspace: Path
    settings: MemoryFlushSettings
    timeout: float
    clock: Clock
    output_max_chars: int
    before_write: BeforeWrite


class FlushOutcome(Struct, frozen=True):
    """What a flush came to: `written`, `nothing`, `failed` or `interrupted`, with all `writes` that are on disk.

    `reply` is the model's last word; `error` is what went wrong, if only after a write, and with `nothing` the last
    call that was refused. Both are without secrets and cut to `RECORD_CHARS`. `tokens` is what the provider counted for
    all calls.
    """

    result: Result
    writes: tuple[MemoryWrite, ...] = ()
    reply: str = ""
    error: str = ""
    tokens: int = 0


async def run_flush(request: FlushRequest, parts: FlushParts, cancel: Cancellation) -> FlushOutcome:
    """Let the model write down what must be remembered of `request`. Raises nothing but CancelledError."""
    if not parts.model.info.supports_tools:
        reason = f"{parts.model.info.ref} can't call tools, so it can't write notes."
        return FlushOutcome("failed", error=f"{reason} Name one that can in compaction.memory_flush.model.")
    file = AppendOnlyFile(WorkspaceFolder(parts.workspace), daily_note(request.now), parts.before_write)
    talk = _Talk(request, parts, file)
    interrupted = False
    error = ""
    try:
        async with asyncio.timeout(parts.timeout):
            await _play(talk, parts, cancel)
        error = talk.shortcoming() or file.trouble
    except InterruptedTurnError:
        interrupted = True
    except TimeoutError:
        error = f"The memory flush was not done after {parts.timeout:g} seconds."
    except ModelError as failure:
        error = str(failure)
    except Exception as failure:
        log.exception("the memory flush failed")
        error = f"{type(failure).__name__}: {failure}"
    result: Result = "interrupted" if interrupted else "written" if file.writes else "failed" if error else "nothing"
    if result == "nothing":
        error = talk.refused()
    return FlushOutcome(
        result=result,
        writes=file.writes,
        reply=_for_record(talk.reply()),
        error=_for_record(error),
        tokens=talk.tokens(),
    )


def verify_write(workspace: Path, write: MemoryWrite) -> bool:
    """Whether the bytes of `write` are on disk where it says: how a flush that a crash cut off is told afterwards.
    Blocks."""
    return is_on_disk(WorkspaceFolder(workspace), write)


async def _play(talk: _Talk, parts: FlushParts, cancel: Cancellation) -> None:
    """Run the turn to its end; `talk` takes what is said in it."""
    turn = TurnParts(
        model=parts.model,
        tools=talk.tools,
        prepare=talk.prepare,
        approve=_nobody,
        clock=parts.clock,
        max_rounds=MAX_ROUNDS,
        recover=talk.shrink,
    )
    async with aclosing(run_turn(turn, cancel)) as steps:
        async for step in steps:
            if isinstance(step, Committed):
                talk.own.append(step.message)


def _nobody(_call_id: str) -> Approver:
    async def refuse(_question: ApprovalQuestion) -> ApprovalAnswer:
        return ApprovalAnswer("deny", reason="Nobody can be asked in a memory flush.")

    return refuse


def _for_record(text: str) -> str:
    """`text` without secrets, cut. It is cut last, so that no half of a secret gets by."""
    clean = redact(text.strip())
    return clean if len(clean) <= RECORD_CHARS else f"{clean[: RECORD_CHARS - 1]}…"


class _Talk:
    """The messages of a flush: the copy of the context, the prompt, and in `own` what the turn has said since."""

    def __init__(self, request: FlushRequest, parts: FlushParts, file: AppendOnlyFile) -> None:
        reading = [tool for tool in parts.read_tools if tool.read_only and not isinstance(tool, AskingTool)]
        prompt = flush_prompt(parts.settings.prompt, request.now)
        self.tools = Toolbox([*reading, *file.tools], parts.output_max_chars)
        self.own: list[AssistantMessage | ToolResultMessage] = []
        self._given = (*request.messages, UserMessage(prompt, timestamp=epoch_ms(request.now)))
        self._request = ChatRequest(
            system=flush_system(request.system, parts.settings.system_prompt, request.now),
            messages=(),
            tools=self.tools.specs,
            stable_prefix=request.stable_prefix,
            purpose="flush",
        )

    async def prepare(self) -> ChatRequest:
        """The request of the next call."""
        return structs.replace(self._request, messages=(*self._given, *self.own))

    async def shrink(self, _error: ContextOverflowError) -> bool:
        """Leave out what the model has read in this turn; what is offered to it stays. Whether there was any."""
        shrunk = [self._emptied(message) for message in self.own]
        changed = shrunk != self.own
        self.own = shrunk
        return changed

    def _emptied(self, message: AssistantMessage | ToolResultMessage) -> AssistantMessage | ToolResultMessage:
        if isinstance(message, ToolResultMessage) and len(message.text) > SHORT_CHARS:
            return structs.replace(message, content=[TextBlock(LEFT_OUT)])
        return message

    def shortcoming(self) -> str:
        """What kept a turn that ended by itself from its end; "" when the model was done."""
        last = self.own[-1] if self.own else None
        if isinstance(last, ToolResultMessage):
            return f"The model was not done after {MAX_ROUNDS} rounds of tool calls."
        if isinstance(last, AssistantMessage) and last.stop_reason == "length":
            return "The model's answer was cut off."
        return ""

    def refused(self) -> str:
        """Why the last call that failed did so; "" when none did."""
        results = (message for message in reversed(self.own) if isinstance(message, ToolResultMessage))
        return next((result.text for result in results if result.is_error), "")

    def reply(self) -> str:
        """The last thing that the model said."""
        said = (message.text for message in reversed(self.own) if isinstance(message, AssistantMessage))
        return next((text for text in said if text), "")

    def tokens(self) -> int:
        """What all calls took, as the provider counted."""
        usages = (message.usage for message in self.own if isinstance(message, AssistantMessage))
        return sum(_total(usage) for usage in usages if usage is not None)


def _total(usage: Usage) -> int:
    return usage.total_tokens or usage.prompt_tokens + usage.output
