"""How the calls of tools run: the questions that they ask, the hooks around them, and the refusal of those that only
repeat themselves. Also the command that the user runs at the prompt.
"""

from __future__ import annotations

import asyncio
import functools
import json
import posixpath
import time
import uuid
from collections import Counter
from collections.abc import Collection, Mapping
from typing import Any

from msgspec import Struct, structs

from clawbot.agent.conversation import Conversation
from clawbot.agent.events import ApprovalRequested, Emit, Scope, ToolFinished, ToolOutput, ToolStarted, warning
from clawbot.agent.hooks import SessionHooks
from clawbot.agent.slash import ShellCommand
from clawbot.authors import JOB, Author, recording
from clawbot.clock import Clock, epoch_ms
from clawbot.deadline import InterruptedTurnError
from clawbot.hooks.events import ToolAfter, ToolBefore
from clawbot.messages import AssistantMessage, BashExecutionMessage, ToolCallBlock
from clawbot.text.secrets import redact
from clawbot.text.visible import title_of
from clawbot.tools.protocol import (
    DECLINED,
    ApprovalAnswer,
    ApprovalQuestion,
    Approver,
    Decision,
    OnOutput,
    ToolError,
    ToolOutcome,
)
from clawbot.tools.registry import Toolbox

TIMES = 2  # equal results in a row after which a call is refused
WAITED_MS = 10_000  # a call that took as long waited for something, and may be repeated
APPEND, SHELL = "append", "shell"
MAX_KEPT = 20_000
"""Characters of the output that are kept of a command that the user stopped: the last ones."""


class Approvals:
    """The open questions of one conversation. A question is an event with an id, the answer a call. Not `answered`:
    nobody can be asked, and only the questions of the tools `approved` are allowed."""

    def __init__(self, *, answered: bool, approved: Collection[str] = ()) -> None:
        self._answered = answered
        self._approved = approved
        self._open: dict[str, asyncio.Future[ApprovalAnswer]] = {}

    async def ask(self, question: ApprovalQuestion, call_id: str, emit: Emit) -> ApprovalAnswer:
        """Put `question` to the user and wait. Where nobody can answer, it is refused with the way to allow it."""
        if not self._answered:
            if question.tool in self._approved:
                return ApprovalAnswer("once")
            return ApprovalAnswer("deny", reason=f"Nobody can be asked here. {question.remedy}".rstrip())
        request_id = uuid.uuid4().hex[:8]
        answer: asyncio.Future[ApprovalAnswer] = asyncio.get_running_loop().create_future()
        self._open[request_id] = answer
        shown = {name: value for name, value in structs.asdict(question).items() if name != "remedy"}
        emit(ApprovalRequested(request_id=request_id, call_id=call_id, **shown))
        try:
            return await answer
        finally:
            del self._open[request_id]

    def answer(self, request_id: str, decision: Decision, command: str | None = None, *, network: bool = False) -> bool:
        """Answer a question; `command` runs in place of the one asked about, and with the network if `network`. False
        when it is no longer open."""
        waiting = self._open.get(request_id)
        if waiting is None or waiting.done():
            return False
        reason = DECLINED if decision == "deny" else ""
        waiting.set_result(ApprovalAnswer(decision, command=command, reason=reason, network=network))
        return True


class HookedTools:
    """`tools` as a turn sees them."""

    def __init__(self, tools: Toolbox, hooks: SessionHooks) -> None:
        self._tools = tools
        self._hooks = hooks

    def title(self, call: ToolCallBlock) -> str:
        """One line that names the call; never raises."""
        return self._tools.title(call)

    async def run(self, call: ToolCallBlock, approve: Approver, on_output: OnOutput) -> ToolOutcome:
        """Run one call, unless a hook refuses it. Raises nothing but CancelledError."""
        hooks, clock = self._hooks, self._hooks.deps.clock
        called = {"call_id": call.id, "tool": call.name}
        asked = hooks.event(ToolBefore, **called, arguments=dict(call.arguments))
        if refusal := (await hooks.ask(asked)).refusal:
            return ToolOutcome(f"The call was refused by a hook: {refusal}", is_error=True, summary="refused")
        began = clock.monotonic()
        outcome = await self._recorded(call, approve, on_output)
        took = round((clock.monotonic() - began) * 1000)
        done = {"output": outcome.text, "is_error": outcome.is_error, "duration_ms": took}
        hooks.emit(ToolAfter, **called, arguments=dict(call.arguments), **done)
        return outcome

    async def _recorded(self, call: ToolCallBlock, approve: Approver, on_output: OnOutput) -> ToolOutcome:
        """Run one call as the author of what it changes in memory files. What a command changes is noticed after it."""
        author, recorder = self._author(call), self._hooks.deps.memory.recorder
        began = time.time()  # as the times of files are
        with recording(recorder, author):
            outcome = await self._tools.run(call, approve, on_output)
        if call.name == SHELL and recorder is not None:
            await asyncio.to_thread(recorder.notice_since, author, began)
        return outcome

    def _author(self, call: ToolCallBlock) -> Author:
        conversation = self._hooks.conversation
        entry = ""
        for item in reversed(conversation.items):
            if isinstance(item.message, AssistantMessage):
                is_asked = call.id in [each.id for each in item.message.tool_calls]
                entry = item.entry_id if is_asked else ""
                break
        return Author(f"tool:{call.name}", conversation.session_id, conversation.session.record.key, entry, JOB.get())


class Repeats:
    """The calls of one turn with their results. `stuck` is the name of the tool that the model called again after the
    refusal, "" if none: then the turn ends.

    Two calls are equal if name and arguments are; the order of the keys does not matter. A result that differs, and a
    new call that may have changed something, start the count again. Text that was appended is never appended twice.
    """

    def __init__(self) -> None:
        self._last: dict[str, tuple[str, int]] = {}  # the last result of a call, and how often it came in a row
        self._running = Counter[str]()
        self._seen: set[tuple[str, str]] = set()
        self._appended: set[str] = set()
        self._refused: set[str] = set()
        self._refused_now: set[str] = set()
        self._messages = 0
        self.stuck = ""

    def begin_round(self, messages: int) -> None:
        """The model is sent so many messages. Fewer than before: results left the context, and may be needed again."""
        if messages < self._messages:
            self._last.clear()
            self._seen.clear()
            self._refused.clear()
        self._messages = messages
        self._refused |= self._refused_now
        self._refused_now.clear()

    def refusal(self, call: ToolCallBlock, *, changes: bool) -> ToolOutcome | None:
        """Return the result of a call that is not to run; None for one that begins to run now. One that changes nothing
        runs once a round in any case, since its result may differ. `changes`: it may change something."""
        key = _key(call)
        running, (_text, times) = self._running[key], self._last.get(key, ("", 0))
        if key in self._appended or (call.name == APPEND and running):
            self._insists(key, call)
            text = f"{call.arguments.get('path')} holds that already: it was appended in this turn. Nothing was added."
            return ToolOutcome(text, summary="+0")
        if times + running >= TIMES and (changes or running or key in self._refused_now):
            return self._refuse(key, call, times + running)
        self._running[key] += 1
        return None

    def record(self, call: ToolCallBlock, outcome: ToolOutcome, milliseconds: int, *, changes: bool) -> ToolOutcome:
        """Take the outcome of a call that ran, and return what the model gets."""
        key = _key(call)
        self._running[key] -= 1
        if call.name == APPEND and not outcome.is_error:
            self._appended.add(key)
        if changes and (key, outcome.text) not in self._seen:
            self._last.clear()
            self._refused.clear()
            self._refused_now.clear()
        self._seen.add((key, outcome.text))
        text, times = self._last.get(key, ("", 0))
        times = times + 1 if text == outcome.text and milliseconds < WAITED_MS else 1
        self._last[key] = (outcome.text, times)
        return self._refuse(key, call, times) if times > TIMES else outcome

    def _refuse(self, key: str, call: ToolCallBlock, times: int) -> ToolOutcome:
        self._insists(key, call)
        text = f"Refused: this call was made {times} times with the same result. Use it, or do something else."
        return ToolOutcome(text, is_error=True, summary="refused")

    def _insists(self, key: str, call: ToolCallBlock) -> None:
        if key in self._refused:
            self.stuck = call.name
        self._refused_now.add(key)


def _key(call: ToolCallBlock) -> str:
    arguments: Mapping[str, Any] = call.arguments
    if call.name == APPEND:
        path, content = (str(arguments.get(name, "")) for name in ("path", "content"))
        arguments = {**arguments, "path": posixpath.normpath(path), "content": content.strip()}
    return json.dumps([call.name, call.malformed, arguments], sort_keys=True)


class _Ended(Struct, frozen=True):
    """How the command ended, without secrets."""

    output: str
    summary: str
    code: int | None = None
    stopped: bool = False
    truncated: bool = False
    notice: str = ""


async def run_user_command(
    asked: ShellCommand, tools: Toolbox, conversation: Conversation, clock: Clock, scope: Scope
) -> None:
    """Run `asked` with the shell of `tools` and report it like a call of that tool; then store it. Secrets are left
    out of the output, as the output may be shared.

    Raises InterruptedTurnError once it is stored when the user stopped it, and SessionStoreError.
    """
    call_id = uuid.uuid4().hex[:8]
    title = title_of("shell", asked.command)
    scope.emit(ToolStarted(call_id=call_id, name="shell", title=title, arguments={"command": asked.command}))
    began = clock.monotonic()
    ended = await _run(asked, tools, lambda text: scope.emit(ToolOutput(call_id=call_id, text=text)), scope)
    scope.emit(
        ToolFinished(
            call_id=call_id,
            name="shell",
            output=ended.output,
            is_error=ended.code != 0,
            summary=ended.summary,
            duration_ms=round((clock.monotonic() - began) * 1000),
            details={"shared": asked.shared},
        )
    )
    if ended.notice:
        scope.emit(warning(ended.notice))
    await conversation.add_command(
        BashExecutionMessage(
            asked.command,
            ended.output,
            ended.code,
            cancelled=ended.stopped,
            truncated=ended.truncated,
            exclude_from_context=not asked.shared,
            timestamp=epoch_ms(clock.now()),
        )
    )
    if ended.stopped:
        raise InterruptedTurnError


async def _run(asked: ShellCommand, tools: Toolbox, on_output: OnOutput, scope: Scope) -> _Ended:
    output = ""

    def add(text: str) -> None:
        nonlocal output
        output = (output + text)[-MAX_KEPT:]
        on_output(redact(text))

    try:
        run = await scope.cancel.run(functools.partial(tools.run_for_user, asked.command, add))
    except InterruptedTurnError:
        return _Ended(redact(output), "interrupted", stopped=True)
    except ToolError as error:
        return _Ended(f"{error}", "failed")
    output = await asyncio.to_thread(redact, run.output)
    return _Ended(output, run.ending, run.code, truncated=run.truncated, notice=run.notice)
