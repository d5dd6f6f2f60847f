"""The proposals of dreams, and the record of what was decided about them, to which is only appended."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from datetime import date
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct, structs

from clawbot.clock import Clock, iso_utc
from clawbot.config.paths import Paths, check_agent_id
from clawbot.files import PRIVATE_FILE, append_lines, digest_of, ensure_private_dir, locked, read_plain, write_atomic
from clawbot.plugins.dreaming.lines import is_alike

Kind = Literal["add", "merge", "supersede", "move", "drop"]
Decision = Literal["accepted", "declined", "never", "later"]
State = Literal["proposed", "stale"] | Decision

FILE_NAME, LAST_NAME = "proposals.jsonl", "state.json"
_MAX_BYTES = 64 * 1024**2
_ID_CHARS = 10
_PENDING = ("proposed", "later")
_ALIKE, _NEVER_ALIKE = 0.8, 0.6
"""The share of words from which a new idea is one that was turned down; lower after "never again"."""


class Proposal(Struct, frozen=True, omit_defaults=True):
    """One change of `file`, MEMORY.md or a topic file below memory/.

    `text` is the new line, "" for drop; with move the line that leads to `target`. `sources` are positions such as
    `memory/2026-03-09.md:1`; `old` are the lines of the file that are replaced, moved or dropped, as they are there.
    `until`: with supersede, the day until which the old lines held. Equal ideas have equal ids.
    """

    id: str
    kind: Kind
    file: str
    text: str
    sources: tuple[str, ...]
    reason: str
    old: tuple[str, ...] = ()
    until: str = ""
    target: str = ""

    @property
    def paths(self) -> tuple[str, ...]:
        """The files that it changes, in this order."""
        return (self.target, self.file) if self.kind == "move" else (self.file,)

    @property
    def idea(self) -> str:
        """What is compared with proposals that were turned down."""
        return self.text if self.kind not in ("move", "drop") else "\n".join(self.old)


def identified(proposal: Proposal) -> Proposal:
    """Return `proposal` with its id, a digest of what it changes."""
    changed = (proposal.kind, proposal.file, proposal.text, proposal.old, proposal.target)
    return structs.replace(proposal, id=digest_of(msgspec.json.encode(changed))[:_ID_CHARS])


class SourceLine(Struct, frozen=True):
    """The line `number` (from 1) of the file `path`, of the `day`; None if it is of none."""

    path: str
    number: int
    text: str
    day: date | None

    @property
    def source(self) -> str:
        """Its position, as proposals name it."""
        return f"{self.path}:{self.number}"


class RefusedError(Exception):
    """A proposal that a rule refuses, or that can't be written any more; the text is the reason, a sentence without its
    full stop."""


class Refused(Struct, frozen=True):
    """What was refused: the beginning of its text, and why."""

    text: str
    reason: str


class Step(Struct, frozen=True, omit_defaults=True):
    """One line of the record: `proposal` with the state `proposed`, else the `id` of an earlier one. `text` is what the
    user wrote instead."""

    time: str
    state: State
    proposal: Proposal | None = None
    id: str = ""
    text: str = ""


class LastDream(Struct, frozen=True):
    """The last dream: its `time` in seconds since the epoch, and the `day` of its newest note."""

    time: float = 0.0
    day: str = ""


class ProposalStore:
    """The record in `folder`. All calls block, and raise OSError. Processes exclude each other."""

    def __init__(self, folder: Path, clock: Clock) -> None:
        self.folder = folder
        self._clock = clock

    @property
    def last(self) -> LastDream:
        """The last dream. A damaged file is one of no dream."""
        try:
            return msgspec.json.decode(read_plain(self.folder / LAST_NAME, _MAX_BYTES), type=LastDream)
        except (FileNotFoundError, msgspec.MsgspecError):
            return LastDream()

    def end_dream(self, last: LastDream) -> None:
        """Store `last`, after what it proposed was recorded."""
        write_atomic(ensure_private_dir(self.folder) / LAST_NAME, msgspec.json.encode(last), mode=PRIVATE_FILE)

    def pending(self) -> list[Proposal]:
        """Return the proposals that wait for a decision, oldest first; those for "later" behind the others."""
        found = self._states()
        waiting = [(state, proposal) for proposal, state in found.values() if state in _PENDING]
        return [proposal for _, proposal in sorted(waiting, key=lambda each: each[0] == "later")]

    def decide(self, ident: str, decision: Decision | Literal["stale"], text: str = "") -> None:
        """Record a decision; `text` is what the user wrote instead. `stale`: what it changes is there no more. Raises
        KeyError for an unknown proposal."""
        with locked(ensure_private_dir(self.folder)):
            if ident not in self._states():
                raise KeyError(ident)
            self._append(Step(iso_utc(self._clock.now()), decision, id=ident, text=text))

    def record(self, proposals: Iterable[Proposal], *, dry_run: bool = False) -> list[Proposal]:
        """Record `proposals`, and return those that are new: neither pending nor decided, nor much like one that was
        turned down. With `dry_run` only return them."""
        found: dict[str, Proposal] = {}
        with contextlib.nullcontext() if dry_run else locked(ensure_private_dir(self.folder)):
            states = self._states()
            for each in proposals:
                known = states.get(each.id)
                if (known is None or known[1] == "stale") and not _was_declined(each, states.values()):
                    found.setdefault(each.id, each)
            if found and not dry_run:
                now = iso_utc(self._clock.now())
                self._append(*(Step(now, "proposed", proposal=each) for each in found.values()))
        return list(found.values())

    def _states(self) -> dict[str, tuple[Proposal, State]]:
        """Return each proposal and its last state, by id. A truncated line, which a kill leaves, is skipped."""
        try:
            lines = read_plain(self.folder / FILE_NAME, _MAX_BYTES).split(b"\n")
        except FileNotFoundError:
            return {}
        found: dict[str, tuple[Proposal, State]] = {}
        for line in filter(None, lines):
            try:
                step = msgspec.json.decode(line, type=Step)
            except msgspec.MsgspecError:
                continue
            if step.proposal is not None:
                found[step.proposal.id] = step.proposal, step.state
            elif step.id in found:
                found[step.id] = found[step.id][0], step.state
        return found

    def _append(self, *steps: Step) -> None:
        append_lines(self.folder / FILE_NAME, msgspec.json.Encoder().encode_lines(steps), lasting=True)


def proposal_store(paths: Paths, agent_id: str, clock: Clock) -> ProposalStore:
    """Return the record of `agent_id` in the home."""
    return ProposalStore(paths.home / "dreams" / check_agent_id(agent_id), clock)


def _was_declined(proposal: Proposal, states: Iterable[tuple[Proposal, State]]) -> bool:
    for other, state in states:
        share = {"declined": _ALIKE, "never": _NEVER_ALIKE}.get(state)
        if share and (proposal.text == "") == (other.text == "") and is_alike(proposal.idea, other.idea, share):
            return True
    return False
