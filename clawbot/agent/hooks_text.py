"""What `/hooks` says: the state of each hook and its last run, in words. Pure; the screen uses the same words."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import tzinfo

from clawbot.agent.views import HookStatus

READY, OFF, MISSING, BROKEN = "ready", "off", "missing", "broken"
NEVER = "never"
NO_HOOKS = "No hooks: there are none, or `hooks.enabled` is off in the settings."
_WORDS = {"ok": "ok", "failed": "failed", "timeout": "timed out", "exited": "its process ended", "cancelled": "stopped"}


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
        return NEVER
    return f"{_WORDS.get(hook.status, hook.status)}, {hook.duration_ms:,} ms"


def hooks_text(hooks: Sequence[HookStatus], zone: tzinfo | None) -> str:
    """A line for each hook, as Markdown, and what keeps it from running below it; times are in `zone`."""
    return "\n".join(line for hook in hooks for line in _lines(hook, zone)) or NO_HOOKS


def _lines(hook: HookStatus, zone: tzinfo | None) -> list[str]:
    events = ", ".join(hook.events) or "no events"
    lines = [f"- **{hook.name}** {state_of(hook)} · {events} · {_last(hook, zone)} · {hook.source}"]
    lines += [f"  - {_one_line(text)}" for text in (hook.problem, ", ".join(hook.missing), hook.error) if text]
    return lines


def _last(hook: HookStatus, zone: tzinfo | None) -> str:
    if hook.at is None:
        return NEVER
    return f"{hook.topic}: {result_of(hook)}, {hook.at.astimezone(zone):%Y-%m-%d %H:%M}"


def _one_line(text: str) -> str:
    return " ".join(text.split())
