"""The names of sessions: keys (`agent:main:work`), short names as typed by users (`work`), ids; and of what is in their
files."""

from __future__ import annotations

import re
from collections.abc import Container
from datetime import datetime

from clawbot.sessions.errors import SessionStoreError

MAIN = "main"
SUFFIX = ".jsonl"
"""Of the name of a transcript, after the id of its session."""
END_MARK = "clawbot.session-end"
"""The type of the last entry of a session that was ended explicitly or by the clock. Only records of later offers to
memory may follow it."""
JOBS = "cron:"
"""Before the name of a session in which only jobs speak."""
SUBAGENTS = "subagents"
"""The folder among the transcripts with what sub-agents did: for each session one of its id."""
# An id becomes a file name, so it must not lead out of the folder.
_ID = re.compile(r"[a-z0-9][a-z0-9._-]{0,127}", re.IGNORECASE)
_KEY = re.compile(r"agent:[^:\s/]+:\S+")
_STAMP = re.compile(r"(?:(?:^|-)\d{8}-\d{4}(?:-\d{1,3})?)+$")
# With the suffix `.jsonl.lock.json` a longer name could exceed the file system's limit of 255 bytes.
MAX_NAME_CHARS = 100


def is_session_id(text: str) -> bool:
    """Whether `text` is a valid session id."""
    return _ID.fullmatch(text) is not None


def key_for(agent_id: str, name: str) -> str:
    """The key of the session called `name`; a complete key is kept. Keys are lower-case. Raises SessionStoreError for
    invalid names, and for keys of other agents."""
    name = name.strip().lower()
    if _KEY.fullmatch(name):
        owner = name.split(":", 2)[1]
        if owner != agent_id:
            raise SessionStoreError(f"{name} is a session of agent {owner}.", hint=f"Add --agent {owner}.")
        return name
    if not _ID.fullmatch(name) or len(name) > MAX_NAME_CHARS:
        raise SessionStoreError(
            f"{name[:MAX_NAME_CHARS]!r} is no session name.",
            hint=f"Use up to {MAX_NAME_CHARS} letters, digits, dots, dashes and underscores, a letter or digit first.",
        )
    return f"agent:{agent_id}:{name}"


def short_name(key: str) -> str:
    """The name to type for `key`: `work` for `agent:main:work`."""
    return key.split(":", 2)[2] if _KEY.fullmatch(key) else key


def stem_of(key: str) -> str:
    """Return the name of `key` without a date and time from `fresh_key`; "" for the main session."""
    name = _STAMP.sub("", short_name(key))
    return "" if name == MAIN else name


def fresh_key(agent_id: str, moment: datetime, taken: Container[str], stem: str = "") -> str:
    """An unused key: `stem`, then date and time as `20261121-0216`, with a number if necessary."""
    base = f"agent:{agent_id}:{stem}{moment:%Y%m%d-%H%M}"
    key, number = base, 2
    while key in taken:
        key, number = f"{base}-{number}", number + 1
    return key
