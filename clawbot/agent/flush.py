"""The memory flush: a silent turn on a copy of the context, in which the model may only read, and append to the day's
notes. `SilentTurn` accepts the gate's offers.

Its requests begin with the session's own bytes: the same system prompt, the same tools, the same messages, so that the
provider has read them already. What is special about the turn is in its last message, and is kept to where the
tools run.

Nothing of it goes into the transcript or to the user. What it came to is a value, also when the model fails, stalls or
tries what it must not: no failure of a flush may stop the user's turn.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Sequence
from contextlib import aclosing
from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

from msgspec import Struct, structs

from clawbot.agent.deps import AgentDeps
from clawbot.agent.events import Notice, Scope
from clawbot.agent.offers import FlushOutcome
from clawbot.agent.request_builder import RequestBuilder
from clawbot.agent.turn import Committed, TurnSetup, run_turn
from clawbot.clock import Clock
from clawbot.config.schema_agent import MemoryFlushSettings
from clawbot.context.compaction import junk
from clawbot.context.counting import TokenCounter
from clawbot.context.detached import Detached, detach
from clawbot.context.prompt import zone_name
from clawbot.deadline import Cancellation, InterruptedTurnError, deadline
from clawbot.errors import ClawbotError
from clawbot.llm.errors import ModelError
from clawbot.llm.protocol import ChatModel, ChatRequest
from clawbot.messages import (
    OFFLINE,
    AssistantMessage,
    TextBlock,
    ToolCallBlock,
    ToolResultMessage,
    UserMessage,
    is_typed,
)
from clawbot.sessions.conversation import ContextItem
from clawbot.sessions.entries import FLUSH, Result
from clawbot.text.interface import _
from clawbot.text.secrets import consented_in, redact, secret_values
from clawbot.tools.append_only import AppendOnlyFile, BeforeWrite
from clawbot.tools.folder import WorkspaceFolder
from clawbot.tools.protocol import (
    AnyTool,
    ApprovalAnswer,
    ApprovalQuestion,
    Approver,
    AskingTool,
    OnOutput,
    ToolOutcome,
)
from clawbot.tools.registry import Toolbox

log = logging.getLogger(__name__)
MAX_ROUNDS = 8  # model calls: reading, a few notes and a last word take four
RECORD_CHARS = 600  # of a reply or an error, what the transcript keeps
PROSE_CHARS = 300  # a longer reply without a call is a model that can't call, not one with nothing to keep
LEFT_OUT = "[Left out: it did not fit.]"
SHORT_CHARS = 200  # a result up to this is kept: what a write came to must not be forgotten
_MIN_COPY = 500  # tokens of a copy: less shows nothing
_PROMPT = 700  # tokens of a silent turn besides what the session sends, and the copy

DAY = "YYYY-MM-DD"
SILENT = "NO_REPLY"
APPEND = "append"
HINT = f"If no reply to the user is needed, start your reply with {SILENT}."
TIME_LABEL = "Current time:"
RULE = (
    "Until you are done only tools that read work, and `append` (or `write`) for that file: it is added to at its end. "
    "Any other call is refused."
)


def daily_note(now: datetime) -> str:
    """The notes of the day of `now`, relative to the workspace."""
    return f"memory/{now:%Y-%m-%d}.md"


def flush_prompt(settings: MemoryFlushSettings, now: datetime) -> str:
    """The user's message: both prompts of the settings, the file, what is refused, and the time."""
    path = daily_note(now)
    prompts = (part.strip() for part in (settings.prompt, settings.system_prompt))
    text = "\n\n".join(filter(None, prompts)).replace(DAY, f"{now:%Y-%m-%d}")
    parts = [text, *([] if SILENT in text else [HINT])]
    if path not in text:
        # A custom prompt may name no file, and writes to another one would be refused.
        parts.append(f"What must be remembered goes into {path}, by `append`.")
    parts.append(RULE)
    if TIME_LABEL not in text:
        parts.append(current_time(now))
    return "\n\n".join(part for part in parts if part)


def current_time(now: datetime) -> str:
    """`Current time: Friday, November 20th, 2026 — 10:41 (Europe/Berlin)`."""
    zone = now.tzinfo.key if isinstance(now.tzinfo, ZoneInfo) else zone_name(now)
    return f"{TIME_LABEL} {now:%A}, {now:%B} {ordinal(now.day)}, {now.year} — {now:%H:%M} ({zone})"


def ordinal(number: int) -> str:
    """`1st`, `2nd`, `11th`."""
    endings = {1: "st", 2: "nd", 3: "rd"}
    return f"{number}{'th' if number % 100 in (11, 12, 13) else endings.get(number % 10, 'th')}"


class FlushSetup(Struct, frozen=True, kw_only=True):
    """What is offered to memory, and what a flush works with. `request` is what the session would send now, whose
    messages are a copy of the context with complete pairs and without one that waits for its answer. `now`, in the
    user's zone, decides which day's notes are written, even when midnight passes.

    `tools` are those of the agent, of which those are used that only read; `timeout` bounds all of the turn, in
    seconds; `output_max_chars` caps what the model sees of one result; `before_write` is called in a thread before
    anything is written, which it forbids by raising."""

    request: ChatRequest
    now: datetime
    model: ChatModel
    tools: Sequence[AnyTool]
    workspace: Path
    settings: MemoryFlushSettings
    timeout: float
    clock: Clock
    output_max_chars: int
    before_write: BeforeWrite


async def run_flush(setup: FlushSetup, cancel: Cancellation) -> FlushOutcome:
    """Let the model write down what matters in the messages of `setup.request`. Raises only CancelledError."""
    if not setup.model.info.supports_tools:
        reason = f"{setup.model.info.ref} can't call tools, so it can't write notes."
        error = f"{reason} Name one that can in compaction.memory_flush.model."
        return FlushOutcome("failed", error=error, useless=True)
    texts = [message.text for message in setup.request.messages]
    known = await asyncio.to_thread(secret_values, texts)
    consented = frozenset().union(*[consented_in(each.text) for each in setup.request.messages if is_typed(each)])
    folder, path = WorkspaceFolder(setup.workspace), daily_note(setup.now)
    file = AppendOnlyFile(
        folder, path, setup.before_write, known, lambda text: junk(text, "\n".join(texts)), consented=consented
    )
    exchange = _Exchange(setup, file)
    result: Result | None = None
    error = ""
    try:
        async with deadline(setup.timeout):
            await _play(exchange, setup, cancel)
        error = exchange.shortcoming() or file.trouble
    except InterruptedTurnError:
        result = "interrupted"
    except TimeoutError:
        error = f"The memory flush was not done after {setup.timeout:g} seconds."
    except ModelError as failure:
        error = str(failure)
    except Exception as failure:
        log.exception("the memory flush failed")
        error = f"{type(failure).__name__}: {failure}"
    result = result or ("written" if file.writes else "failed" if error else "nothing")
    if result == "nothing":
        error = exchange.refused()
    return FlushOutcome(
        result=result,
        writes=file.writes,
        reply=_for_record(exchange.reply()),
        error=_for_record(error),
        tokens=exchange.tokens(),
        useless=result == "nothing" and (file.refused_junk or exchange.only_prose()),
    )


async def _play(exchange: _Exchange, setup: FlushSetup, cancel: Cancellation) -> None:
    """Run the turn to its end; `exchange` collects its messages."""
    turn = TurnSetup(
        model=setup.model,
        tools=exchange.tools,
        prepare=exchange.prepare,
        approve=lambda _call_id: _refuse,
        clock=setup.clock,
        max_rounds=MAX_ROUNDS,
        recover=exchange.shrink,
    )
    async with aclosing(run_turn(turn, cancel)) as steps:
        async for step in steps:
            if isinstance(step, Committed):
                exchange.own.append(step.message)


async def _refuse(_question: ApprovalQuestion) -> ApprovalAnswer:
    return ApprovalAnswer("deny", reason="Nobody can be asked in a memory flush.")


def _for_record(text: str) -> str:
    """`text` redacted, then truncated: in this order, so that no half of a secret remains."""
    clean = redact(text.strip())
    return clean if len(clean) <= RECORD_CHARS else f"{clean[: RECORD_CHARS - 1]}…"


class _FlushTools:
    """The tools of a flush: those of `box` run, and of what the session has besides, nothing does."""

    def __init__(self, box: Toolbox, session: Collection[str], path: str) -> None:
        self._box = box
        self._refused = set(session) - {spec.name for spec in box.specs}
        self._path = path

    def title(self, call: ToolCallBlock) -> str:
        """One line that names the call."""
        return self._box.title(call)

    async def run(self, call: ToolCallBlock, approve: Approver, on_output: OnOutput) -> ToolOutcome:
        """Run one call, or refuse it."""
        if call.name not in self._refused:
            return await self._box.run(call, approve, on_output)
        text = f"`{call.name}` is refused in this turn: look with tools that read, and write {self._path} by `append`."
        return ToolOutcome(text, is_error=True, summary="refused")


class _Exchange:
    """The messages of a flush: the copy of the context, the prompt, and in `own` what the turn has added since."""

    def __init__(self, setup: FlushSetup, file: AppendOnlyFile) -> None:
        reading = [tool for tool in setup.tools if tool.read_only and not isinstance(tool, AskingTool)]
        box = Toolbox([*reading, *file.tools], setup.output_max_chars)
        names = {spec.name for spec in setup.request.tools}
        self.tools = _FlushTools(box, names, file.path)
        self.own: list[AssistantMessage | ToolResultMessage] = []
        # Without a time of its own: the prompt names it.
        self._given = (*setup.request.messages, UserMessage(flush_prompt(setup.settings, setup.now)))
        # Where the settings deny the session `append`, memory needs it nevertheless.
        added = () if APPEND in names else tuple(spec for spec in box.specs if spec.name == APPEND)
        self._request = structs.replace(
            setup.request, messages=(), tools=(*setup.request.tools, *added), purpose="flush"
        )

    async def prepare(self) -> ChatRequest:
        """The request of the next call."""
        return structs.replace(self._request, messages=(*self._given, *self.own))

    async def shrink(self, _error: ModelError) -> bool:
        """Drop what the model has read in this turn, but not what is offered to it; returns whether there was any."""
        before = self.own
        self.own = [
            structs.replace(message, content=[TextBlock(LEFT_OUT)])
            if isinstance(message, ToolResultMessage) and len(message.text) > SHORT_CHARS
            else message
            for message in before
        ]
        return self.own != before

    def shortcoming(self) -> str:
        """Why a turn that ended by itself was incomplete; "" if the model was done."""
        last = self.own[-1] if self.own else None
        if isinstance(last, ToolResultMessage):
            rounds = sum(isinstance(message, AssistantMessage) for message in self.own)
            return f"The model was not done after {rounds} rounds of tool calls."
        if isinstance(last, AssistantMessage) and last.stop_reason == "length" and not self.only_prose():
            return "The model's answer was cut off."
        return ""

    def only_prose(self) -> bool:
        """Whether the model called nothing and wrote at length, or without end: then it has nothing to save, and will
        not do better when it is asked again."""
        last = self.own[-1] if self.own else None
        if len(self.own) != 1 or not isinstance(last, AssistantMessage):
            return False
        return last.stop_reason == "length" or (len(last.text) > PROSE_CHARS and SILENT not in last.text)

    def refused(self) -> str:
        """The reason of the last failed call; "" if none failed."""
        results = (message for message in reversed(self.own) if isinstance(message, ToolResultMessage))
        return next((result.text for result in results if result.is_error), "")

    def reply(self) -> str:
        """Return the last text of the model."""
        texts = (message.text for message in reversed(self.own) if isinstance(message, AssistantMessage))
        return next((text for text in texts if text), "")

    def tokens(self) -> int:
        """The tokens of all calls, as counted by the provider."""
        usages = (message.usage for message in self.own if isinstance(message, AssistantMessage))
        return sum(usage.total_tokens or usage.prompt_tokens + usage.output for usage in usages if usage)


class SilentTurn:
    """Takes offers with a flush. `ended`: the session is over, and its text belongs to the
    day of its last words."""

    name = FLUSH

    def __init__(self, deps: AgentDeps, requests: RequestBuilder, *, ended: bool = False) -> None:
        self._deps = deps
        self._requests = requests
        self._ended = ended
        self._hinted = False
        self._settings = deps.settings.compaction.memory_flush

    @property
    def model(self) -> str:
        """The model used: a separate one, or the current one."""
        return self._settings.model or self._deps.model.chat.info.ref

    async def take(self, copy: Detached, before_write: BeforeWrite, scope: Scope) -> FlushOutcome:
        """Let the model write down what matters in `copy`."""
        flush = self._flush_by if self._settings.model else self._flush
        try:
            async with self._deps.model.borrow(self._settings.model, scope.cancel) as model:
                return await flush(model, copy, before_write, scope)
        except InterruptedTurnError:
            return FlushOutcome(result="interrupted")
        except ClawbotError as error:
            return FlushOutcome(result="failed", error=str(error))

    async def _flush_by(
        self, model: ChatModel, copy: Detached, before_write: BeforeWrite, scope: Scope
    ) -> FlushOutcome:
        """The same with a separate model, whose window may be smaller: in as many turns as necessary."""
        combined = FlushOutcome(result="nothing")
        for part in await asyncio.to_thread(self._fitting, copy, model):
            outcome = await self._flush(model, part, before_write, scope)
            combined = joined(combined, outcome)
            if outcome.result in ("failed", "interrupted"):
                break
        return combined

    def _fitting(self, copy: Detached, model: ChatModel) -> list[Detached]:
        counter = TokenCounter(ref=model.info.ref)
        items = [ContextItem("", message) for message in copy.messages]
        tokens = [counter.of(item.message) for item in items]
        request = self._requests.request_of(copy.messages)
        fixed = counter.text(request.system) + sum(map(counter.tool, request.tools))
        window = self._requests.windows.of(model.info).tokens
        allowed = max(_MIN_COPY, window * 3 // 4 - fixed - _PROMPT)
        return detach(items, tokens, 0, len(items), allowed=allowed)

    async def _flush(self, model: ChatModel, copy: Detached, before_write: BeforeWrite, scope: Scope) -> FlushOutcome:
        deps = self._deps
        most = None if self._settings.model else await asyncio.to_thread(self._requests.answer_room, copy.messages)
        flush = FlushSetup(
            request=structs.replace(self._requests.request_of(copy.messages), max_tokens=most),
            now=self._moment(copy),
            model=model,
            tools=self._requests.toolbox.read_only,
            workspace=deps.workspace,
            settings=self._settings,
            timeout=deps.settings.compaction.timeout,
            clock=deps.clock,
            output_max_chars=deps.settings.tools.output_max_chars,
            before_write=before_write,
        )
        outcome = await run_flush(flush, scope.cancel)
        if not outcome.useless:
            return outcome
        log.info("%s wrote no notes but %r; the offline model does", model.info.ref, outcome.error or outcome.reply)
        if not (model.info.supports_tools or self._ended or self._hinted):
            self._hinted = True
            hint = _(
                "{model} can't call tools: the offline model chooses what is saved to memory. "
                "`compaction.memory_flush.model` can name another one."
            )
            scope.emit(Notice(level="info", text=hint.format(model=model.info.ref)))
        # It searches what is written already, with all tools that read.
        request = structs.replace(flush.request, tools=self._requests.toolbox.specs)
        async with deps.model.borrow(OFFLINE, scope.cancel) as offline:
            instead = await run_flush(structs.replace(flush, model=offline, request=request), scope.cancel)
        return structs.replace(instead, tokens=outcome.tokens)

    def _moment(self, copy: Detached) -> datetime:
        """The time shown to the model, in the user's zone: it decides which day's notes are written."""
        now = self._deps.clock.now()
        last = max((message.timestamp for message in copy.messages), default=0)
        if not self._ended or not last:
            return now
        try:
            return min(now, datetime.fromtimestamp(last / 1000, now.tzinfo))
        except (OverflowError, ValueError, OSError):
            return now


def joined(before: FlushOutcome, after: FlushOutcome) -> FlushOutcome:
    """The combined outcome of two consecutive silent turns. If anything was written, it must not be written again, so
    that takes precedence over a failure."""
    writes = (*before.writes, *after.writes)
    result = after.result if after.result == "interrupted" or not writes else "written"
    return FlushOutcome(result, writes, after.reply, after.error or before.error, before.tokens + after.tokens)
