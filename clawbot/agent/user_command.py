"""What the user runs at the prompt: a command in the shell of the workspace, whose output is kept in the transcript and
is told to the model only if it is shared."""

from __future__ import annotations

import asyncio
import functools
import uuid
from collections.abc import Callable

from msgspec import Struct

from clawbot.agent.conversation import Conversation
from clawbot.agent.events import Scope, ToolFinished, ToolOutput, ToolStarted, warning
from clawbot.agent.slash import ShellCommand
from clawbot.clock import Clock, epoch_ms
from clawbot.deadline import InterruptedTurnError
from clawbot.messages import BashExecutionMessage
from clawbot.text.secrets import redact
from clawbot.text.visible import title_of
from clawbot.tools.protocol import ToolError
from clawbot.tools.registry import Toolbox

MOST_KEPT = 20_000
"""Characters of the output that are kept of a command that the user stopped: the last ones."""


class _Ended(Struct, frozen=True):
    """How the command ended, as it is told: without secrets."""

    output: str
    summary: str
    code: int | None = None
    stopped: bool = False
    truncated: bool = False
    notice: str = ""


async def run_user_command(
    asked: ShellCommand, tools: Toolbox, conversation: Conversation, clock: Clock, scope: Scope
) -> None:
    """Run `asked` with the shell of `tools` and tell of it as of a call of that tool; then store it. Secrets are left
    out of the output, as nobody wants them in a talk that is shared.

    Raises InterruptedTurnError once it is stored when the user stopped it, and SessionStoreError.
    """
    call_id = uuid.uuid4().hex[:8]
    title = title_of("shell", asked.command)
    scope.emit(ToolStarted(call_id=call_id, name="shell", title=title, arguments={"command": asked.command}))
    began = clock.monotonic()
    ended = await _run(asked, tools, functools.partial(_tell, scope, call_id), scope)
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


def _tell(scope: Scope, call_id: str, text: str) -> None:
    scope.emit(ToolOutput(call_id=call_id, text=text))


async def _run(asked: ShellCommand, tools: Toolbox, tell: Callable[[str], None], scope: Scope) -> _Ended:
    heard = ""

    def hear(text: str) -> None:
        nonlocal heard
        heard = (heard + text)[-MOST_KEPT:]
        tell(redact(text))

    try:
        run = await scope.cancel.run(functools.partial(tools.run_for_user, asked.command, hear))
    except InterruptedTurnError:
        return _Ended(redact(heard), "interrupted", stopped=True)
    except ToolError as error:
        return _Ended(f"{error}", "failed")
    output = await asyncio.to_thread(redact, run.output)
    return _Ended(output, run.ending, run.code, truncated=run.truncated, notice=run.notice)
