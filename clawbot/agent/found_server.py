"""What comes before the first message to a model server: the question whether one that was found on this machine may
answer, and the wait for one that loads its model."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable
from contextlib import aclosing

from clawbot.agent.deps import AgentDeps
from clawbot.agent.events import ModelChanged, Notice, Scope, warning
from clawbot.agent.turn import progress_of
from clawbot.llm.protocol import FoundServer, WaitingModel
from clawbot.text.interface import N_, _
from clawbot.tools.protocol import DECLINED, ApprovalQuestion, Approver

ASKS = N_("Let a model server of this machine answer?")
REACH = N_(
    "It was found on its usual port, no setting names it. What you say, and the notes that go with it, are sent there."
)


async def settle_found_server(deps: AgentDeps, approve: Approver, scope: Scope) -> bool:
    """Ask about the server that `auto` found and that waits for the user's word, once while the program runs; True when
    it answers from now on. Where nobody can be asked the offline model answers, and a notice says why. Raises
    InterruptedTurnError, and ModelError when the server can't be used after all."""
    found, consent = deps.model.info.found, deps.model.consent
    if found is None or consent is None or not consent.is_open(found.base):
        return False
    where = _("{server} at {address}").format(server=found.server, address=found.base)
    answer = await scope.cancel.run(lambda: approve(_question(found)))
    if answer.decision == "deny":
        asked = answer.reason == DECLINED
        if asked or scope.origin == "user":
            consent.settle(found.base)
            said = _("{server} waits for your word, and nobody can be asked here: the offline model answers. {remedy}")
            if asked:
                said = _("{server} is not used: the offline model answers. {remedy}")
            remedy = _("`--model {model}` or /model chooses it.").format(model=found.ref)
            text = said.format(server=where, remedy=remedy)
            scope.emit(Notice(level="info" if asked else "warning", text=text))
        return False
    try:
        await asyncio.to_thread(consent.allow, found.base, always=answer.decision == "always")
    except OSError as error:
        scope.emit(warning(_("Your permission for {server} was not saved: {error}").format(server=where, error=error)))
    await deps.model.replace(await deps.model.open(deps.model.ref), deps.model.ref)
    scope.emit(ModelChanged(model=deps.model.info.ref, reason=_("{server}, as you allowed").format(server=where)))
    return True


async def wait_ready(deps: AgentDeps, scope: Scope, keep: Callable[[], Awaitable[None]] | None = None) -> bool:
    """Wait for a server that is not ready, so that the first request fits its window; True when more is known of the
    model then. `keep` saves the message during the wait. Raises InterruptedTurnError."""
    model, known = deps.model.chat, deps.model.info
    if not isinstance(model, WaitingModel):
        return False
    async with aclosing(model.wait_ready()) as parts:
        while (part := await scope.cancel.run(functools.partial(anext, parts, None))) is not None:
            if keep is not None:
                await keep()
            scope.emit(progress_of(part))
    return model.info != known


def _question(found: FoundServer) -> ApprovalQuestion:
    return ApprovalQuestion(
        "server",
        _("{server} at {address}, model {model}").format(server=found.server, address=found.base, model=found.ref),
        folder="",
        pattern=found.base,
        reach=_(REACH),
        asks=_(ASKS),
    )
