"""What each kind of session may know: the only module that decides on workspace files, memory and transcripts.

Pure. The memory belongs to the user alone: in sessions with others, its files, its tools and the transcripts don't
exist for the model.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

SessionKind = Literal["main", "group", "scheduled", "sub"]
"""The other party of a session: the user, several people, a clock or program, another agent."""

_OWN = ("AGENTS.md", "SOUL.md", "IDENTITY.md", "USER.md", "TOOLS.md")
_MEMORY_NAMES = frozenset({"MEMORY.md", "memory.md"})
# Top-level workspace files about the user.
_PRIVATE = ("USER.md", "MEMORY.md", "memory")
# Tokens of session keys, the strictest kind first: `agent:main:cron:<job>`.
_TOKENS: tuple[tuple[SessionKind, frozenset[str]], ...] = (
    ("sub", frozenset({"subagent", "acp"})),
    ("group", frozenset({"group", "channel", "thread", "topic"})),
    ("scheduled", frozenset({"cron", "hook"})),
)


class Privacy(Struct, frozen=True):
    """What a session of this `kind` may know.

    `bootstrap` are the names of workspace files that go into its prompt; `memory_file`: MEMORY.md does.
    `notes`: it may search and read the notes; `transcripts`: also the messages of other conversations.
    `citations`: it names the sources of what it recalls. `startup_notes`: it begins with a quote of the newest
    notes. `extra_files`: hooks may put files of any name into its prompt. `hidden` are the top-level workspace files
    and folders that don't exist for the model's file tools.
    """

    kind: SessionKind
    bootstrap: tuple[str, ...]
    memory_file: bool = False
    notes: bool = False
    transcripts: bool = False
    citations: bool = False
    startup_notes: bool = False
    extra_files: bool = False
    hidden: tuple[str, ...] = ()

    def injects(self, name: str) -> bool:
        """Return whether the workspace file `name` (a relative path) may go into the prompt."""
        base = name.rpartition("/")[2]
        if base in _MEMORY_NAMES:
            return self.memory_file
        return self.extra_files or base in self.bootstrap

    def offers(self, needs: frozenset[str] | None, *, narrows: bool) -> bool:
        """Whether the model may call a tool with these `needs`; None (undeclared) may need anything. If files are
        hidden, only a tool that `narrows` itself to the session may access files or commands."""
        files = narrows or not self.hidden
        granted = {"notes": self.notes, "transcripts": self.transcripts, "files": files, "shell": files}
        everything = all(granted.values())
        return everything if needs is None else all(granted.get(need, everything) for need in needs)

    def hides(self, parts: tuple[str, ...]) -> bool:
        """Return whether the real path `parts`, relative to the workspace, is or is inside one of those."""
        return bool(parts) and parts[0].casefold() in [name.casefold() for name in self.hidden]


_POLICIES: dict[SessionKind, Privacy] = {
    "main": Privacy(
        "main",
        (*_OWN, "BOOTSTRAP.md"),
        memory_file=True,
        notes=True,
        transcripts=True,
        citations=True,
        startup_notes=True,
        extra_files=True,
    ),
    "group": Privacy("group", ("AGENTS.md", "SOUL.md", "IDENTITY.md", "TOOLS.md"), hidden=_PRIVATE),
    "scheduled": Privacy("scheduled", _OWN, notes=True),
    "sub": Privacy("sub", ("AGENTS.md", "TOOLS.md"), hidden=_PRIVATE),
}


def privacy_of(session_key: str) -> Privacy:
    """Return the policy of the session `session_key`, from the strictest of its tokens.

    User-chosen names don't count: a session or agent called `topic` is the user's own.
    """
    words = session_key.lower().split(":")
    kinds = words[2:] if words[0] == "agent" else words
    if len(kinds) < 2:
        return _POLICIES["main"]
    return _POLICIES[next((kind for kind, tokens in _TOKENS if not tokens.isdisjoint(kinds)), "main")]
