"""`POST /tools/invoke`: one call of a tool, allowed by what allows it in a chat and by the server's own list."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import uuid
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec
from aiohttp import web
from msgspec import Struct

from clawbot.authors import Author, recording
from clawbot.clock import Clock
from clawbot.config.schema import ServeSettings, ServeToolSettings
from clawbot.context.privacy import privacy_of
from clawbot.deadline import deadline
from clawbot.errors import ClawbotError
from clawbot.hooks.api import HookServiceError
from clawbot.hooks.codec import RequestedServices, Service
from clawbot.hooks.events import ToolAfter, ToolBefore, common_fields
from clawbot.mcp.catalog import PREFIX
from clawbot.messages import AssistantMessage, Message, TextBlock, ToolCallBlock, ToolResultMessage, ToolSpec
from clawbot.plugins.serve.agents import Agents
from clawbot.plugins.serve.answers import RefusalError, as_json, invalid, json_body
from clawbot.plugins.serve.metrics import Metrics
from clawbot.services import SharedServices
from clawbot.session_deps import toolbox
from clawbot.sessions.errors import SessionStoreError
from clawbot.sessions.names import MAIN, key_for
from clawbot.text.visible import one_line
from clawbot.tools.protocol import ApprovalAnswer, ApprovalQuestion, Approver, ToolError, ToolOutcome
from clawbot.tools.registry import Toolbox
from clawbot.tools.seen import VIEWS, Views

log = logging.getLogger(__name__)

# Ours, which write or run something; then the names by which tools of packages and of other programs do the same.
_WRITING = {"shell", "write", "edit", "append"}
_FOREIGN = {"exec", "spawn", "fs_write", "fs_delete", "fs_move", "apply_patch", "cron", "gateway", "nodes"}
DENIED = frozenset({*_WRITING, *_FOREIGN, "sessions_spawn", "sessions_send"})
"""Tools that are not available over HTTP unless `serve.tools.allow` names them; neither are those of MCP servers."""
FAILED = "tool execution failed"
_MAX_NAME = 100
_MAX_KEY = 200
_REMEMBERED = 400  # calls and results, by which `write` knows what was seen
KEPT_SECONDS, MAX_KEPT = 600.0, 1000
A = TypeVar("A")
C = TypeVar("C")


class _Known(NamedTuple, Generic[A]):
    content: bytes
    task: asyncio.Future[A]
    at: float


class Repeats(Generic[A]):
    """The answers of the last ten minutes by the client's key, failures included; the oldest of too many are
    dropped."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._known: OrderedDict[str, _Known[A]] = OrderedDict()

    async def once(self, key: str, content: bytes, run: Callable[[C], Awaitable[A]], call: C) -> A:
        """The answer of `run(call)`, which runs once for a `key` and to its end, also when the client leaves. `content`
        identifies a call. Raises RefusalError for a key of another call, and what `run` raises."""
        self._forget()
        known = self._known.get(key)
        if known is None:
            task = asyncio.ensure_future(run(call))
            # Nobody may be waiting for a failure.
            task.add_done_callback(lambda done: done.cancelled() or done.exception())
            known = self._known[key] = _Known(content, task, self._clock.monotonic())
        elif known.content != content:
            raise invalid("`idempotencyKey` was used for another call.")
        return await asyncio.shield(known.task)

    def _forget(self) -> None:
        now = self._clock.monotonic()
        while self._known:
            key, oldest = next(iter(self._known.items()))
            if len(self._known) < MAX_KEPT and now - oldest.at < KEPT_SECONDS:
                return
            del self._known[key]


class RefusedCallError(ToolError):
    """A hook refused the call."""


class HookedCalls:
    """Runs calls for the session `key` of the agent of `services`."""

    def __init__(self, services: SharedServices, toolbox: Toolbox, key: str) -> None:
        self._services = services
        self._toolbox = toolbox
        self._key = key

    async def run(self, call: ToolCallBlock, approve: Approver) -> ToolOutcome:
        """Run one call. Raises RefusedCallError, ToolError for what the tool does not take, and what a tool raises."""
        hooks, clock = self._services.hooks, self._services.clock
        called: dict[str, Any] = {"call_id": call.id, "tool": call.name, "arguments": dict(call.arguments)}
        if hooks is not None and hooks.wants("tool:before"):
            asked = await hooks.run(ToolBefore(**self._common(), **called), _NoSession())
            if asked.refusal:
                raise RefusedCallError(f"The call was refused by a hook: {asked.refusal}")
        began = clock.monotonic()
        with recording(self._services.history, Author(f"tool:{call.name}", key=self._key)):
            outcome = await self._toolbox.attempt(call, approve)
        if hooks is not None and hooks.wants("tool:after"):
            done: dict[str, Any] = {"output": outcome.text, "is_error": outcome.is_error}
            took = round((clock.monotonic() - began) * 1000)
            hooks.notify(ToolAfter(**self._common(), **called, **done, duration_ms=took), _NoSession())
        return outcome

    def _common(self) -> dict[str, Any]:
        services = self._services
        common = common_fields(services.agent_id, services.workspace, services.paths.home, services.clock.now())
        return {**common, "session_key": self._key}


class _NoSession(RequestedServices):
    """What a hook can ask for where no conversation is open: nothing."""

    async def _call(self, name: Service, arguments: dict[str, Any]) -> Any:
        raise HookServiceError("a tool was called over HTTP, outside a conversation")


class Call(Struct, frozen=True):
    """What a client asks for. `key` is the session's; `repeat` the client's own name of the call, empty for none."""

    tool: str
    arguments: dict[str, Any]
    agent_id: str
    key: str
    action: str = ""
    dry_run: bool = False
    repeat: str = ""


def read_call(body: Mapping[str, Any], default_agent: str) -> Call:
    """Return the call in the body of a request. Raises RefusalError."""
    name = _text(body, "tool") or _text(body, "name")
    if not name:
        raise invalid("`tool` is missing: the name of the tool to call.")
    given = _arguments(body.get("args"))
    agent_id = _text(body, "agentId") or default_agent
    try:
        key = key_for(agent_id, _text(body, "sessionKey") or MAIN)
    except SessionStoreError as error:
        raise invalid(str(error)) from None
    repeat = _text(body, "idempotencyKey")
    if len(repeat) > _MAX_KEY:
        raise invalid(f"`idempotencyKey` has more than {_MAX_KEY} characters.")
    return Call(
        tool=name,
        arguments=given,
        agent_id=agent_id,
        key=key,
        action=_text(body, "action"),
        dry_run=body.get("dryRun") is True,
        repeat=repeat,
    )


def _arguments(given: Any) -> dict[str, Any]:
    """The arguments, also as the text of a JSON object, in which OpenAI's protocol has them; {} for anything else."""
    if isinstance(given, str):
        with contextlib.suppress(ValueError, RecursionError):
            given = msgspec.json.decode(given)
    return dict(given) if isinstance(given, dict) else {}


def _text(body: Mapping[str, Any], name: str) -> str:
    value = body.get(name)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise invalid(f"`{name}` must be a text.")
    return value.strip()


def is_denied(name: str, settings: ServeToolSettings) -> bool:
    """Return whether the server denies the tool `name` to all sessions."""
    return name in settings.deny or ((name in DENIED or name.startswith(PREFIX)) and name not in settings.allow)


def with_action(spec: ToolSpec, call: Call) -> dict[str, Any]:
    """Return the arguments, with `action` in them if the tool knows one and they lack it."""
    knows = "action" in spec.parameters.get("properties", {})
    return {"action": call.action} | call.arguments if call.action and knows else call.arguments


class _Approvals:
    """Answers the questions of one call: yes for tools named in the settings. `refused` is why one was not allowed."""

    def __init__(self, settings: ServeToolSettings) -> None:
        self._settings = settings
        self.refused = ""

    async def ask(self, question: ApprovalQuestion) -> ApprovalAnswer:
        if question.tool in self._settings.approve:
            return ApprovalAnswer("once")
        self.refused = f"{one_line(question.tool)} asks for approval here; `serve.tools.approve` would give it."
        return ApprovalAnswer("deny", reason=self.refused)


class ToolsRoute:
    """The route. Implements the table of statuses in docs/serve.md."""

    def __init__(self, agents: Agents, settings: ServeSettings, metrics: Metrics, clock: Clock) -> None:
        self._agents = agents
        self._settings = settings.tools
        self._metrics = metrics
        self._boxes: dict[str, Toolbox] = {}
        self._messages = deque[tuple[str, Message]](maxlen=_REMEMBERED)
        self._repeats: Repeats[dict[str, Any]] = Repeats(clock)

    async def invoke(self, request: web.Request) -> web.Response:
        """Answer one call. Raises RefusalError."""
        body = await json_body(request)
        call = read_call(body, self._agents.ids[0])
        if call.repeat and not call.dry_run:
            name = f"{call.key} {call.repeat}"
            answer = await self._repeats.once(name, msgspec.json.encode(call, order="deterministic"), self._run, call)
        else:
            answer = await self._run(call)
        return as_json(answer)

    async def _run(self, call: Call) -> dict[str, Any]:
        """Return the body of the answer. Raises RefusalError."""
        services, toolbox = await self._toolbox(call)
        spec = next((each for each in toolbox.specs if each.name == call.tool), None)
        if spec is None or is_denied(call.tool, self._settings):
            self._metrics.tools["other", "not_found"] += 1
            raise RefusalError(404, "not_found", f"Tool not available: {one_line(call.tool, _MAX_NAME)}")
        block = ToolCallBlock(id=uuid.uuid4().hex[:12], name=call.tool, arguments=with_action(spec, call))
        if call.dry_run:
            return {"ok": True, "dryRun": True, "tool": call.tool, "title": toolbox.title(block)}
        try:
            outcome = await self._call(services, toolbox, block, call.key)
        except RefusalError as refusal:
            self._metrics.tools[call.tool, refusal.kind] += 1
            raise
        self._metrics.tools[call.tool, "error" if outcome.is_error else "ok"] += 1
        return {"ok": True, "result": _result(outcome)}

    async def _toolbox(self, call: Call) -> tuple[SharedServices, Toolbox]:
        """Return the tools that the session of `call` has in a chat."""
        try:
            services = await self._agents.services(call.agent_id)
        except ClawbotError as error:
            raise invalid(error.message) from None
        if call.agent_id not in self._boxes:
            self._boxes[call.agent_id] = await asyncio.to_thread(toolbox, services, lambda: None)
        return services, self._boxes[call.agent_id].for_session(privacy_of(call.key))

    async def _call(self, services: SharedServices, toolbox: Toolbox, block: ToolCallBlock, key: str) -> ToolOutcome:
        """Raises RefusalError: 400 for what the tool does not take, 403 for what is not approved, 500 for a failure."""
        approvals = _Approvals(self._settings)
        calls = HookedCalls(services, toolbox, key)
        VIEWS.set(functools.partial(Views, [message for name, message in self._messages if name == key]))
        try:
            async with deadline(self._settings.timeout):
                outcome = await calls.run(block, approvals.ask)
        except RefusedCallError as error:
            raise RefusalError(403, "forbidden", str(error)) from None
        except ToolError as error:
            if approvals.refused:
                raise RefusalError(403, "forbidden", approvals.refused) from None
            self._remember(key, block, ToolOutcome(str(error), is_error=True, details=error.details))
            raise RefusalError(400, "tool_error", str(error)) from None
        except Exception:
            # What failed may name paths and addresses: it is for the log alone.
            log.exception("the tool %s failed over HTTP", one_line(block.name))
            raise RefusalError(500, "tool_error", FAILED) from None
        if approvals.refused and outcome.is_error:
            raise RefusalError(403, "forbidden", approvals.refused)
        self._remember(key, block, outcome)
        return outcome

    def _remember(self, key: str, block: ToolCallBlock, outcome: ToolOutcome) -> None:
        result = ToolResultMessage(block.id, block.name, [TextBlock(outcome.text)], details=outcome.details)
        self._messages += (key, AssistantMessage([block])), (key, result)


def _result(outcome: ToolOutcome) -> dict[str, Any]:
    content = [{"type": "text", "text": outcome.text}]
    result = {"content": content, "details": outcome.details, "isError": outcome.is_error, "summary": outcome.summary}
    return result if outcome.structured is None else result | {"structuredContent": outcome.structured}
