"""What each kind of session may know: the one place that decides on workspace files, memory and transcripts.

Pure. Rules: reference sheet 1.7 and 20. The memory is the user's, so it is theirs alone to hear: where others speak or
listen, its files, its tools and the transcripts don't exist for the model.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

SessionKind = Literal["main", "group", "scheduled", "sub"]
"""Who a session is with: the user, several people, a clock or a program, another agent."""

_OWN = ("AGENTS.md", "SOUL.md", "IDENTITY.md", "USER.md", "TOOLS.md")
_MEMORY_NAMES = frozenset({"MEMORY.md", "memory.md"})
_MEMORY_TOOLS = frozenset({"memory_search", "memory_get"})
# At the top of the workspace: what is written about the user.
_PRIVATE = ("USER.md", "MEMORY.md", "memory")
# Tokens of session keys (reference sheet 3.4), the strictest kind first: `agent:main:cron:<job>`.
_TOKENS: tuple[tuple[SessionKind, frozenset[str]], ...] = (
    ("sub", frozenset({"subagent", "acp"})),
    ("group", frozenset({"group", "channel", "thread", "topic"})),
    ("scheduled", frozenset({"cron", "hook"})),
)


class Privacy(Struct, frozen=True):
    """What a session of this `kind` may know.

    `bootstrap` are the names of workspace files that go into its prompt; `memory_file` says whether MEMORY.md does.
    `memory_tools`: it may search and read the notes; `transcripts`: also what was said in other conversations.
    `citations`: by itself it names the places of what it recalls. `startup_notes`: it begins with a quote of the newest
    notes. `extra_files`: hooks may put files of any name into its prompt.
    """

    kind: SessionKind
    bootstrap: tuple[str, ...]
    memory_file: bool = False
    memory_tools: bool = False
    transcripts: bool = False
    citations: bool = False
    startup_notes: bool = False
    extra_files: bool = False

    def injects(self, name: str) -> bool:
        """Whether the workspace file `name` (a path below the workspace) may go into the prompt."""
        base = name.rpartition("/")[2]
        if base in _MEMORY_NAMES:
            return self.memory_file
        return self.extra_files or base in self.bootstrap

    def offers(self, tool: str) -> bool:
        """Whether the model may call `tool`."""
        return self.memory_tools or tool not in _MEMORY_TOOLS

    @property
    def hidden(self) -> tuple[str, ...]:
        """Files and folders at the top of the workspace that don't exist for the model's file tools."""
        return () if self.memory_tools else _PRIVATE

    def hides(self, parts: tuple[str, ...]) -> bool:
        """Whether the real path `parts`, below the workspace, is one of those or lies in one of those."""
        return bool(parts) and parts[0].casefold() in {name.casefold() for name in self.hidden}


_POLICIES: dict[SessionKind, Privacy] = {
    "main": Privacy(
        "main",
        (*_OWN, "BOOTSTRAP.md"),
        memory_file=True,
        memory_tools=True,
        transcripts=True,
        citations=True,
        startup_notes=True,
        extra_files=True,
    ),
    "group": Privacy("group", ("AGENTS.md", "SOUL.md", "IDENTITY.md", "TOOLS.md")),
    "scheduled": Privacy("scheduled", _OWN, memory_tools=True),
    "sub": Privacy("sub", ("AGENTS.md", "TOOLS.md")),
}


def privacy_of(session_key: str) -> Privacy:
    """The policy of the session `session_key`, told by its tokens; by the strictest one where there are several.

    All that the user can name is their own: a session or an agent that is just called `topic` is nobody else's.
    """
    words = session_key.lower().split(":")
    kinds = words[2:] if words[0] == "agent" else words
    if len(kinds) < 2:
        return _POLICIES["main"]
    return _POLICIES[next((kind for kind, tokens in _TOKENS if not tokens.isdisjoint(kinds)), "main")]
