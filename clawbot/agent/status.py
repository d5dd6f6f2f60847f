"""The state of a conversation as plain values for a front end, and as the text of `/status`, `/hooks`, `/skills`,
`/mcp` and `/permissions`; the screens use the same words.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, tzinfo
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from clawbot.agent.offers import OfferState
from clawbot.config.paths import DEFAULTS
from clawbot.config.schema_agent import AgentSettings, Mode
from clawbot.context.prefix import CacheUse
from clawbot.context.report import ContextReport, LastFlush, cache_line, moment, outcome
from clawbot.context.window import WindowBudget
from clawbot.llm.models import SCRIPT, normal_ref
from clawbot.llm.protocol import ModelInfo
from clawbot.llm.providers import provider_name
from clawbot.messages import OFFLINE, AssistantMessage
from clawbot.sessions.conversation import ContextItem
from clawbot.skills.discovery import FoundSkill
from clawbot.text.interface import N_, _, ngettext
from clawbot.text.sanitize import clean_line
from clawbot.text.visible import messages
from clawbot.tools.registry import Toolbox

_STAMP = re.compile(r"(?:.*-)?\d{8}-\d{4}(?:-\d+)?")


class RuntimeStatus(Struct, frozen=True):
    """The state of a conversation. `tokens` and `window` (0: unknown) are in tokens, `cost` in US dollars; `exact` is
    false while `tokens` is estimated, `stale` when nothing was reported since the last compaction; `notes` counts the
    memory files. `budget` has the marks of the window (None: unknown); `compactions` counts those of the session;
    `window_source` states where the window is known from, as a half sentence; `unsent` counts what was typed and not
    sent before the program ended last; `memory_problem` states why notes are found by words alone; `cache` is
    None until a provider reported a call; `mode` states what tools may change unasked; `answered_before` is the model
    of the last answer, where it is not the one that answers now; `title` is the session's, "" while it has none."""

    agent_id: str
    session_key: str
    session_id: str
    model: ModelInfo
    workspace: Path
    tokens: int
    window: int
    exact: bool
    cost: float | None
    busy: bool
    notes: int
    budget: WindowBudget | None = None
    stale: bool = False
    compactions: int = 0
    last_flush: LastFlush | None = None
    window_source: str = ""
    unsent: int = 0
    memory_problem: str = ""
    cache: CacheUse | None = None
    mode: Mode = "edits"
    answered_before: str = ""
    title: str = ""

    @property
    def label(self) -> str:
        """The title; before there is one the key, unless that is a time stamp."""
        return clean_line(self.title) or (
            _("new conversation") if _STAMP.fullmatch(self.session_key) else self.session_key
        )


class HookStatus(Struct, frozen=True, rename="camel", kw_only=True):
    """A hook as `/hooks` shows it. `source` is where it was found, `missing` what it needs and is not there, `problem`
    why it can't run at all, `off_because` why it is off although the user switched it on; `topic`, `status` ("" for
    never run; ok, failed, timeout, exited), `error`, `duration_ms` and `at` are of its last run."""

    name: str
    description: str
    source: str
    folder: str
    events: tuple[str, ...]
    enabled: bool
    ready: bool
    missing: tuple[str, ...] = ()
    problem: str = ""
    off_because: str = ""
    topic: str = ""
    status: str = ""
    error: str = ""
    duration_ms: int = 0
    at: datetime | None = None


class McpStatus(Struct, frozen=True, rename="camel", kw_only=True):
    """An MCP server as `/mcp` shows it. `target` is its program or address; `state` is stopped, starting, ready or
    failed; `known`: its tools were listed once. `tools` name the approval of each, `warnings` list which are left out,
    `problem` what went wrong last, as the end of a sentence that begins with the name."""

    name: str
    target: str
    state: str
    known: bool
    tools: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    problem: str = ""


class AgentInfo(Struct, frozen=True):
    """An agent of the settings, as a picker shows it. `model` is the setting, `current`: the user is in it."""

    agent_id: str
    workspace: Path
    model: str
    current: bool


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
_MAX_PERCENT = 999


class Profile(Struct, frozen=True):
    """The agent as commands and hooks show it: its id, the state folder `home`, the `agents` of the settings, the state
    of the MCP servers, and the origin of each setting by key."""

    agent_id: str
    home: Path = Path()
    agents: tuple[AgentInfo, ...] = ()
    mcp: Callable[[], tuple[McpStatus, ...]] = tuple
    origins: Mapping[str, str] = {}

    def origin(self, key: str) -> str:
        """Return the origin of `key` of the agent's settings: `FILE:LINE`, `default` or `command line`."""
        found = (self.origins.get(f"agents.{owner}.{key}") for owner in (self.agent_id, DEFAULTS))
        return next(filter(None, found), "default")


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


def other_model(items: Sequence[ContextItem], ref: str) -> str:
    """The model of the last of `items` that is an answer, as the user writes it; "" if it is `ref`, or unknown."""
    for item in reversed(items):
        last = item.message
        if not isinstance(last, AssistantMessage):
            continue
        if not last.provider or not last.model or ref.startswith(SCRIPT):
            break
        before = OFFLINE if last.provider == OFFLINE else f"{last.provider}/{last.model}"
        now = ref if ref == OFFLINE else f"{provider_name(normal_ref(ref))}/{ref.partition('/')[2]}"
        return "" if before == now else before
    return ""


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
    percent = min(_MAX_PERCENT, round(100 * now.tokens / now.window)) if now.window else 0
    text = _("{used:,} of {window:,} tokens ({percent}%), estimated")
    if now.exact:
        text = _("{used:,} of {window:,} tokens ({percent}%)")
    elif now.stale:
        text = _("{used:,} of {window:,} tokens ({percent}%), estimated until the next answer")
    source = " · " + _("window {source}").format(source=_(now.window_source)) if now.window_source else ""
    return text.format(used=now.tokens, window=now.window, percent=percent) + source


def _next(now: RuntimeStatus, report: ContextReport) -> str:
    marks = [
        (_("memory flush in {n:,} tokens"), report.flush_at),
        (_("compaction in {n:,} tokens"), report.compact_at),
    ]
    ahead = [text.format(n=at - now.tokens) for text, at in marks if at > now.tokens]
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
    text = ngettext(
        "{time}: {n} line ({bytes:,} bytes) to {place}", "{time}: {n} lines ({bytes:,} bytes) to {place}", lines
    )
    return text.format(time=at, n=lines, bytes=flush.bytes, place=f"{flush.path}:{flush.line}")


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
    text = _(_WORDS[hook.status]) if hook.status in _WORDS else hook.status
    return _("{outcome}, {n:,} ms").format(outcome=text, n=hook.duration_ms)


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
    text = _("{event}: {result}, {time:%Y-%m-%d %H:%M}")
    return text.format(event=hook.topic, result=result_of(hook), time=hook.at.astimezone(zone))


_MODES = {
    "plan": N_("nothing is changed; the answer ends with a plan"),
    "ask": N_("each change of a file, command and tool of a server is asked about first"),
    "edits": N_("files change without asking; commands ask"),
}


def mode_text(mode: str) -> str:
    """`mode`, and what it means."""
    return _("Mode **{mode}**: {meaning}.").format(mode=mode, meaning=_(_MODES[mode]))


def permissions_text(tools: Toolbox, settings: AgentSettings, profile: Profile) -> str:
    """What tools may do, where each rule comes from, and what the user allowed for always, as Markdown."""
    permissions = tools.permissions
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
    lines += [f"- {way} `{rule}` · {profile.origin(key)}" for way, rule, key in rules]
    grants = tools.grants()
    allowed = _("Always allowed until clawbot ends:") if grants else _("Nothing was always allowed since the start.")
    lines += ["", allowed, ""]
    back = _("{n}. `{rule}` · `/permissions drop {n}` takes it back")
    lines += [back.format(n=n, rule=f"{tool} {grant}".strip()) for n, (tool, grant) in enumerate(grants, 1)]
    return "\n".join(lines).strip()


NO_SKILLS = N_(
    "No skills yet. Put a folder with a SKILL.md into `skills/` of the workspace, then type `/skills` again "
    "(docs/skills.md)."
)


DESCRIPTION_CHARS = 200


def skills_text(skills: Sequence[FoundSkill]) -> str:
    """A line for each skill, as Markdown, and why it can't be used below it."""
    return "\n".join(line for skill in skills for line in _skill_lines(skill)) or _(NO_SKILLS)


def _skill_lines(skill: FoundSkill) -> list[str]:
    manifest = skill.manifest
    who = f" · {_('only you call it')}" if manifest.disable_model_invocation else ""
    lines = [f"- **{skill.name}** {_(skill.state)} · {skill.source}{who}"]
    enable = ""
    if not (skill.enabled or skill.problem):
        enable = _(". `clawbot skills enable {name}` after reading it").format(name=skill.name)
    about = (clean_line(manifest.description, DESCRIPTION_CHARS), clean_line(skill.reason(_)) + enable)
    return lines + [f"  - {text}" for text in about if text]
