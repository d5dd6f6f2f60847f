"""The conversations: transcripts that can be read, their index, who holds which."""

from __future__ import annotations

from pathlib import Path

from clawbot.cli.doctor_checks.finding import Finding, Findings, Here
from clawbot.errors import ClawbotError
from clawbot.sessions.folder import transcripts_in
from clawbot.sessions.locks import Holder, holder_of
from clawbot.sessions.store import SessionStore
from clawbot.sessions.transcript import Transcript

# Each is opened from its end; this many take about a second.
MOST_TRANSCRIPTS = 200


def sessions(here: Here) -> Findings:
    """Every transcript can be read, and the index knows it."""
    repair = f"clawbot sessions repair{here.for_agent}"
    files = sorted(transcripts_in(here.sessions), key=lambda file: file.stat().st_mtime, reverse=True)
    wrong = [finding for file in files[:MOST_TRANSCRIPTS] for finding in _transcript(file, here, repair)]
    store = SessionStore(here.sessions, here.clock, agent_id=here.agent)
    wrong += [Finding("sessions", "warning", f"{problem}", repair) for problem in store.repair_index(dry_run=True)]
    if wrong:
        return wrong
    unseen = f" (the newest {MOST_TRANSCRIPTS} were read)" if len(files) > MOST_TRANSCRIPTS else ""
    count = f"{len(files)} transcript{'' if len(files) == 1 else 's'}"
    return [Finding("sessions", "ok", f"{count} in {here.sessions}{unseen}")]


def _transcript(file: Path, here: Here, repair: str) -> Findings:
    # A line that a running conversation is writing looks torn.
    if holder_of(file) is not None:
        return []
    try:
        with Transcript.open(file, clock=here.clock, writable=False) as transcript:
            problems = transcript.problems
    except ClawbotError as error:
        return [Finding("sessions", "problem", error.message, error.hint or repair)]
    return [Finding("sessions", "warning", f"{problem}", repair) for problem in problems]


def locks(here: Here) -> Findings:
    """Who has a conversation open. That is no fault, but it explains one."""
    held = [(file, holder) for file in transcripts_in(here.sessions) if (holder := holder_of(file)) is not None]
    return [Finding("locks", "ok", f"{file.stem} is open in {_who(holder)}") for file, holder in held] or [
        Finding("locks", "ok", "no conversation is open")
    ]


def _who(holder: Holder) -> str:
    parts = [f"process {holder.pid}", f"({holder.command})" if holder.command else ""]
    parts += [f"on {holder.tty}" if holder.tty else "", f"since {holder.started}" if holder.started else ""]
    return " ".join(part for part in parts if part)
