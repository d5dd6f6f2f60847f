"""How a conversation stands, as the status line, `/status`, `/context` and `/hooks` show it; the screens use the same
words."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import tzinfo
from typing import Any

import msgspec

from clawbot.agent.conversation import Conversation
from clawbot.agent.deps import AgentDeps
from clawbot.agent.offers import OfferState
from clawbot.agent.request_builder import PreparedRequest, RequestBuilder
from clawbot.agent.status_types import HookStatus, McpStatus, RuntimeStatus
from clawbot.context.report import ContextReport, LastFlush, ReportInputs, build_report, cache_line, moment, outcome
from clawbot.context.window import plan_budget
from clawbot.llm.models import SCRIPT, normal_ref
from clawbot.llm.providers import provider_name
from clawbot.messages import OFFLINE, AssistantMessage
from clawbot.sessions.conversation import ContextItem
from clawbot.text.interface import N_, _, ngettext
from clawbot.text.sanitize import clean_line
from clawbot.text.visible import messages

READY, OFF, MISSING, BROKEN = N_("ready"), N_("off"), N_("missing"), N_("broken")
MCP_TOOLS_CHARS = 400  # of a list of tools
NEVER = N_("never")
NO_HOOKS = N_(
    "No hooks. Set `hooks.enabled: true` in the settings, or put a folder with a HOOK.md and a handler.py into "
    "`hooks/` of the state folder (docs/writing-hooks.md)."
)
_WORDS = {
    "ok": N_("ok"), "failed": N_("failed"), "timeout": N_("timed out"), "exited": N_("its process ended"),
    "cancelled": N_("stopped"),
}  # fmt: skip
_MOST_PERCENT = 999


def last_flush(state: OfferState) -> LastFlush | None:
    """When memory was offered something last, and where it wrote."""
    offer = state.last
    if offer is None:
        return None
    if not offer.writes:
        return LastFlush(at=state.last_at, result=offer.result)
    first, last = offer.writes[0], offer.writes[-1]
    return LastFlush(
        at=state.last_at,
        result=offer.result,
        path=first.path,
        line=first.line,
        end_line=last.end_line,
        bytes=sum(write.size for write in offer.writes),
    )


def status_of(
    conversation: Conversation,
    requests: RequestBuilder,
    state: OfferState,
    deps: AgentDeps,
    *,
    busy: bool,
    notes: int,
    unsent: int,
) -> RuntimeStatus:
    """How the conversation stands, as far as it is known without counting."""
    tokens, exact = requests.size()
    window, prepared = requests.window, requests.current
    return RuntimeStatus(
        agent_id=deps.profile.agent_id,
        session_key=conversation.key,
        session_id=conversation.session_id,
        model=deps.model.info,
        workspace=deps.workspace,
        tokens=tokens,
        window=window.tokens,
        exact=exact,
        cost=conversation.cost,
        busy=busy,
        notes=notes,
        budget=prepared.budget if prepared else plan_budget(window.tokens, deps.settings.compaction, requests.weighed),
        stale=prepared.measure.stale if prepared else False,
        compactions=conversation.session.record.compaction_count,
        last_flush=last_flush(state),
        window_source=window.source,
        unsent=unsent,
        memory_problem=deps.memory.problem(),
        cache=requests.cache,
        mode=deps.tools.permissions.mode,
        answered_before=_other_model(conversation.items, deps.model.info.ref),
        title=conversation.session.record.name,
    )


def _other_model(items: Sequence[ContextItem], ref: str) -> str:
    """The model of the last of `items` that is an answer, as the user writes it; "" if it is `ref`, or unknown."""
    last = next((item.message for item in reversed(items) if isinstance(item.message, AssistantMessage)), None)
    if last is None or not last.provider or not last.model or ref.startswith(SCRIPT):
        return ""
    before = OFFLINE if last.provider == OFFLINE else f"{last.provider}/{last.model}"
    now = ref if ref == OFFLINE else f"{provider_name(normal_ref(ref))}/{ref.partition('/')[2]}"
    return "" if before == now else before


def report_of(
    prepared: PreparedRequest, requests: RequestBuilder, state: OfferState, *, automatic: bool, compactions: int
) -> ContextReport:
    """The report on `prepared`. Blocks: tools and files are counted one by one. `automatic`: compaction comes by
    itself."""
    inputs = ReportInputs(
        request=prepared.view,
        measure=prepared.measure,
        budget=prepared.budget,
        window=requests.window,
        prompt=prepared.built.inputs,
        automatic=automatic,
        compactions=compactions,
        last_flush=last_flush(state),
        pruned=requests.pruned,
        cache=requests.cache,
    )
    return build_report(inputs, requests.counter)


def render_status(now: RuntimeStatus, report: ContextReport, zone: tzinfo | None) -> str:
    """The lines, as Markdown; times are in `zone`."""
    files = ngettext("{n} memory file", "{n} memory files", now.notes)
    lines = [
        (_("model"), now.model.ref + (f": {now.model.reason}" if now.model.reason else "")),
        (_("context"), _context(now)),
        (_("next"), _next(now, report)),
        (_("memory"), _memory(now, zone)),
        (_("conversation"), f"{now.session_key} · {now.session_id}"),
        (_("workspace"), f"{now.workspace} · {files.format(n=now.notes)}"),
    ]
    if now.cache is not None:
        lines.insert(2, (_("cache"), cache_line(now.cache, zone)))
    if now.unsent:
        lines.append((_("not sent"), f"{messages(now.unsent)} · /unsent"))
    if now.cost is not None:
        lines.append((_("cost"), f"${now.cost:.4f}" if now.cost else _("nothing")))
    return "\n".join(f"- **{name}** {text}" for name, text in lines)


def status_data(now: RuntimeStatus, report: ContextReport) -> dict[str, Any]:
    """The same for programs."""
    return {
        "agent": now.agent_id,
        "sessionKey": now.session_key,
        "sessionId": now.session_id,
        "model": now.model.ref,
        "tokens": now.tokens,
        "window": now.window,
        "windowSource": now.window_source,
        "exact": now.exact,
        "stale": now.stale,
        "cost": now.cost,
        "workspace": str(now.workspace),
        "memoryFiles": now.notes,
        "memoryProblem": now.memory_problem or None,
        "unsent": now.unsent,
        "compactions": now.compactions,
        "flushAt": report.flush_at,
        "compactAt": report.compact_at,
        "reserve": report.reserve,
        "unaccounted": report.unaccounted,
        "cache": msgspec.to_builtins(now.cache) if now.cache else None,
        "lastFlush": msgspec.to_builtins(now.last_flush) if now.last_flush else None,
    }


def _context(now: RuntimeStatus) -> str:
    percent = min(_MOST_PERCENT, round(100 * now.tokens / now.window)) if now.window else 0
    said = _("{used:,} of {window:,} tokens ({percent}%), estimated")
    if now.exact:
        said = _("{used:,} of {window:,} tokens ({percent}%)")
    elif now.stale:
        said = _("{used:,} of {window:,} tokens ({percent}%), estimated until the next answer")
    source = " · " + _("window {source}").format(source=_(now.window_source)) if now.window_source else ""
    return said.format(used=now.tokens, window=now.window, percent=percent) + source


def _next(now: RuntimeStatus, report: ContextReport) -> str:
    marks = [
        (_("memory flush in {n:,} tokens"), report.flush_at),
        (_("compaction in {n:,} tokens"), report.compact_at),
    ]
    ahead = [said.format(n=at - now.tokens) for said, at in marks if at > now.tokens]
    reserve = _("reserve {n:,}").format(n=report.reserve)
    return " · ".join([*ahead, reserve, _("compactions {n}").format(n=now.compactions)])


def _memory(now: RuntimeStatus, zone: tzinfo | None) -> str:
    flush = now.last_flush
    saved = _("nothing to save yet")
    if flush is not None:
        saved = _("asked last {flush}").format(flush=_flush(flush, zone))
    return f"{now.memory_problem} · {saved}" if now.memory_problem else saved


def _flush(flush: LastFlush, zone: tzinfo | None) -> str:
    """When memory was offered last and what came of it."""
    at = moment(flush.at, zone) if flush.at else _("once")
    if not flush.path:
        return _("{time}: {outcome}").format(time=at, outcome=outcome(flush))
    lines = flush.end_line - flush.line + 1
    said = ngettext(
        "{time}: {n} line ({bytes:,} bytes) to {place}", "{time}: {n} lines ({bytes:,} bytes) to {place}", lines
    )
    return said.format(time=at, n=lines, bytes=flush.bytes, place=f"{flush.path}:{flush.line}")


def state_of(hook: HookStatus) -> str:
    """Whether it runs: `ready`, `off` by the settings, something is `missing` here, or it is `broken`."""
    if hook.problem:
        return BROKEN
    if not hook.enabled:
        return OFF
    return MISSING if hook.missing or not hook.ready else READY


def result_of(hook: HookStatus) -> str:
    """How its last run ended, and how long it took: `ok, 12 ms`; `never` without one."""
    if not hook.status:
        return _(NEVER)
    said = _(_WORDS[hook.status]) if hook.status in _WORDS else hook.status
    return _("{outcome}, {n:,} ms").format(outcome=said, n=hook.duration_ms)


def hooks_text(hooks: Sequence[HookStatus], zone: tzinfo | None) -> str:
    """A line for each hook, as Markdown, and what keeps it from running below it; times are in `zone`."""
    return "\n".join(line for hook in hooks for line in _lines(hook, zone)) or _(NO_HOOKS)


_STATES = {"stopped": N_("stopped"), "starting": N_("starting"), "ready": N_("ready"), "failed": N_("failed")}


def mcp_lines(server: McpStatus) -> list[str]:
    """A line for an MCP server, as Markdown, and below it its tools and what is wrong. Its words are cleaned."""
    count = len(server.tools)
    known = _("tools not known yet")
    if server.known:
        known = ngettext("{n} tool", "{n} tools", count).format(n=count)
    state = _(_STATES.get(server.state, server.state))
    lines = [f"- **{server.name}** {state} · {known} · {clean_line(server.target)}"]
    tools = clean_line(", ".join(server.tools), MCP_TOOLS_CHARS)
    return lines + [f"  - {clean_line(text)}" for text in (tools, *server.warnings, server.problem) if text]


def _lines(hook: HookStatus, zone: tzinfo | None) -> list[str]:
    events = ", ".join(hook.events) or _("no events")
    lines = [f"- **{hook.name}** {_(state_of(hook))} · {events} · {_last(hook, zone)} · {hook.source}"]
    lines += [f"  - {clean_line(text)}" for text in _troubles(hook) if text]
    return lines


def _troubles(hook: HookStatus) -> tuple[str, ...]:
    enable = _("{reason}: read it, then `clawbot hooks enable {name}`") if hook.off_because else ""
    return hook.problem, enable.format(reason=_(hook.off_because), name=hook.name), ", ".join(hook.missing), hook.error


def _last(hook: HookStatus, zone: tzinfo | None) -> str:
    if hook.at is None:
        return _(NEVER)
    said = _("{event}: {result}, {time:%Y-%m-%d %H:%M}")
    return said.format(event=hook.topic, result=result_of(hook), time=hook.at.astimezone(zone))


_MODES = {
    "plan": N_("nothing is changed; the answer ends with a plan"),
    "ask": N_("each change of a file, command and tool of a server is asked about first"),
    "edits": N_("files change without asking; commands ask"),
}


def mode_text(mode: str) -> str:
    """`mode`, and what it means."""
    return _("Mode **{mode}**: {meaning}.").format(mode=mode, meaning=_(_MODES[mode]))


def permissions_text(deps: AgentDeps) -> str:
    """What tools may do, where each rule comes from, and what the user allowed for always, as Markdown."""
    permissions, settings = deps.tools.permissions, deps.settings
    rules = [
        (way, rule, f"permissions.{way}")
        for way, given in (("deny", settings.permissions.deny), ("ask", settings.permissions.ask))
        for rule in given
    ]
    rules += [("allow", rule, "permissions.allow") for rule in settings.permissions.allow]
    rules += [("deny", name, "tools.deny") for name in settings.tools.deny]
    rules += [("allow", f"shell({each})", "tools.shell.allow") for each in settings.tools.shell.allow]
    rules += [
        ("ask", _("changes of files: {word}").format(word=word), "tools.files.ask") for word in settings.tools.files.ask
    ]
    rules.append((settings.tools.shell.approval, "shell", "tools.shell.approval"))
    lines = [mode_text(permissions.mode), ""]
    lines += [f"- {way} `{rule}` · {deps.profile.origin(key)}" for way, rule, key in rules]
    grants = deps.tools.grants()
    allowed = _("Always allowed until clawbot ends:") if grants else _("Nothing was always allowed since the start.")
    lines += ["", allowed, ""]
    back = _("{n}. `{rule}` · `/permissions drop {n}` takes it back")
    lines += [back.format(n=n, rule=f"{tool} {grant}".strip()) for n, (tool, grant) in enumerate(grants, 1)]
    return "\n".join(lines).strip()
