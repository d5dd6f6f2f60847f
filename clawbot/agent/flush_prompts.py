"""What the model is told in a memory flush: the prompts of the settings with the day, the time and the token for a
silent reply filled in (reference sheet 8.3). Pure."""

from __future__ import annotations

from datetime import datetime
from zoneinfo import ZoneInfo

from clawbot.context.prompt import zone_name

DAY = "YYYY-MM-DD"
SILENT = "NO_REPLY"
HINT = f"If no reply to the user is needed, start your reply with {SILENT}."
TIME_LABEL = "Current time:"


def daily_note(now: datetime) -> str:
    """The notes of the day of `now`, relative to the workspace."""
    return f"memory/{now:%Y-%m-%d}.md"


def flush_system(system: str, added: str, now: datetime) -> str:
    """The system prompt of the turn: that of the session, and what the settings add to it behind a blank line."""
    return "\n\n".join(part for part in (system, _filled(added, now)) if part)


def flush_prompt(prompt: str, now: datetime) -> str:
    """What the user's side says: the prompt of the settings, which file it is about, and the time."""
    text = _filled(prompt, now)
    path = daily_note(now)
    parts = [text]
    if path not in text:
        # A prompt of the user's own may name no file, and another one would be refused.
        parts.append(f"What must be remembered goes into {path}, by `append`.")
    if TIME_LABEL not in text:
        parts.append(current_time(now))
    return "\n\n".join(parts)


def current_time(now: datetime) -> str:
    """`Current time: Friday, November 20th, 2026 — 10:41 (Europe/Berlin)`."""
    zone = now.tzinfo.key if isinstance(now.tzinfo, ZoneInfo) else zone_name(now)
    return f"{TIME_LABEL} {now:%A}, {now:%B} {ordinal(now.day)}, {now.year} — {now:%H:%M} ({zone})"


def ordinal(number: int) -> str:
    """`1st`, `2nd`, `11th`."""
    endings = {1: "st", 2: "nd", 3: "rd"}
    return f"{number}{'th' if number % 100 in (11, 12, 13) else endings.get(number % 10, 'th')}"


def _filled(text: str, now: datetime) -> str:
    """`text` with the day in it, and with a word on the silent reply where it has none."""
    dated = text.replace(DAY, f"{now:%Y-%m-%d}").strip()
    return dated if SILENT in dated else "\n\n".join(part for part in (dated, HINT) if part)
