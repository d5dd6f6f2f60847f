"""Questions of tools that wait for the user's answer."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable

from clawbot.agent.events import ApprovalRequested, Event
from clawbot.tools.protocol import ApprovalAnswer, ApprovalQuestion, Approver, Decision


class Approvals:
    """The open questions of one conversation. A question is an event with an id, the answer a call."""

    def __init__(self, *, interactive: bool) -> None:
        self._interactive = interactive
        self._open: dict[str, asyncio.Future[ApprovalAnswer]] = {}

    async def ask(self, question: ApprovalQuestion, call_id: str, emit: Callable[[Event], None]) -> ApprovalAnswer:
        """Put `question` to the user and wait. Where nobody can answer, it is refused with the way to allow it."""
        if not self._interactive:
            reason = (
                f"Nobody can be asked here. The user can allow it with the pattern {question.pattern!r} "
                "in tools.shell.allow of the config, or run it in the chat."
            )
            return ApprovalAnswer("deny", reason=reason)
        request_id = uuid.uuid4().hex[:8]
        answer: asyncio.Future[ApprovalAnswer] = asyncio.get_running_loop().create_future()
        self._open[request_id] = answer
        emit(
            ApprovalRequested(
                request_id=request_id,
                call_id=call_id,
                tool=question.tool,
                command=question.command,
                folder=question.folder,
                pattern=question.pattern,
                reach=question.reach,
            )
        )
        try:
            return await answer
        finally:
            del self._open[request_id]

    def asker(self, call_id: str, emit: Callable[[Event], None]) -> Approver:
        """Asks the questions of the call `call_id`."""
        return lambda question: self.ask(question, call_id, emit)

    def answer(self, request_id: str, decision: Decision, command: str | None = None) -> bool:
        """Answer a question; `command` runs in place of the one asked about. False when it is no longer open."""
        waiting = self._open.get(request_id)
        if waiting is None or waiting.done():
            return False
        reason = "The user declined." if decision == "deny" else ""
        waiting.set_result(ApprovalAnswer(decision, command=command, reason=reason))
        return True
