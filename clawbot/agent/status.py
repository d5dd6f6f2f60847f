"""What `/status` says: the model, the context, the memory, the session and the cost (reference sheet 4.4)."""

from __future__ import annotations

from datetime import tzinfo
from typing import Any

import msgspec

from clawbot.agent.views import ContextReport, RuntimeStatus
from clawbot.context.report import LastFlush, outcome
from clawbot.context.report_text import moment

_MOST_PERCENT = 999


def render_status(now: RuntimeStatus, report: ContextReport, zone: tzinfo | None) -> str:
    """The lines, as Markdown; times are in `zone`."""
    lines = [
        f"- **model** {now.model.ref}" + (f": {now.model.reason}" if now.model.reason else ""),
        f"- **context** {_context(now)}",
        f"- **next** {_next(now, report)}",
        f"- **memory** {_memory(now, zone)}",
        f"- **session** {now.session_key} · {now.session_id}",
        f"- **workspace** {now.workspace} · {now.notes} memory files",
    ]
    if now.cost is not None:
        lines.append(f"- **cost** ${now.cost:.4f}")
    return "\n".join(lines)


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
        "compactions": now.compactions,
        "flushAt": report.flush_at,
        "compactAt": report.compact_at,
        "reserve": report.reserve,
        "unaccounted": report.unaccounted,
        "lastFlush": msgspec.to_builtins(now.last_flush) if now.last_flush else None,
    }


def _context(now: RuntimeStatus) -> str:
    percent = min(_MOST_PERCENT, round(100 * now.tokens / now.window)) if now.window else 0
    about = "" if now.exact else ", estimated until the next answer" if now.stale else ", estimated"
    source = f" · window {now.window_source}" if now.window_source else ""
    return f"{now.tokens:,} of {now.window:,} tokens ({percent}%){about}{source}"


def _next(now: RuntimeStatus, report: ContextReport) -> str:
    marks = [("memory flush", report.flush_at), ("compaction", report.compact_at)]
    ahead = [f"{name} in {at - now.tokens:,} tokens" for name, at in marks if at > now.tokens]
    return " · ".join([*ahead, f"reserve {report.reserve:,}", f"compactions {now.compactions}"])


def _memory(now: RuntimeStatus, zone: tzinfo | None) -> str:
    flush = now.last_flush
    return "nothing had to be saved yet" if flush is None else f"asked last {_flush(flush, zone)}"


def _flush(flush: LastFlush, zone: tzinfo | None) -> str:
    """When memory was offered last and what came of it."""
    at = moment(flush.at, zone) if flush.at else "once"
    if flush.path:
        lines = flush.end_line - flush.line + 1
        return f"{at}: {lines} line{'s' if lines != 1 else ''} ({flush.bytes:,} bytes) to {flush.path}:{flush.line}"
    return f"{at}: {outcome(flush)}"
