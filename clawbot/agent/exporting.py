"""Writing a conversation to a file that the user asked for."""

from __future__ import annotations

import re
import sys
from datetime import datetime
from pathlib import Path

from clawbot.clock import Clock
from clawbot.errors import ClawbotError
from clawbot.files import create_exclusive, ensure_private_dir
from clawbot.sessions.export import to_json, to_markdown
from clawbot.sessions.facts import read_title
from clawbot.sessions.transcript import Transcript


def default_target(workspace: Path, session_key: str, form: str, now: datetime) -> Path:
    """Where an export goes when the user names no path: a new file in the workspace's `exports` folder."""
    # Keys of other programs may hold anything that is no space: `telegram:group:../5`.
    name = re.sub(r"[^\w.-]+", "-", session_key).lstrip(".")
    return workspace / "exports" / f"{name}-{now:%Y-%m-%d-%H%M%S}.{form}"


def write_export(transcript: Path, target: Path, form: str, clock: Clock) -> None:
    """Write the session at `transcript` to `target` as "md" or "json". Blocks.

    Raises ClawbotError when `target` exists already or can't be written: an export never replaces a file.
    """
    if form == "json":
        data = b"".join(to_json(transcript))
    else:
        with Transcript.open(transcript, clock=clock, writable=False) as opened:
            items = opened.history(limit=sys.maxsize)
            data = "".join(to_markdown(items, read_title(transcript), clock.now().tzinfo)).encode()
    target = target.expanduser()
    try:
        ensure_private_dir(target.parent)
        created = create_exclusive(target, data)
    except OSError as error:
        raise ClawbotError(
            f"{target} can't be written: {error.strerror or error}.", hint="Name another path."
        ) from error
    if not created:
        raise ClawbotError(f"{target} exists already.", hint="Name another path.")
