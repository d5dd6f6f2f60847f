"""What `clawbot memory blame` prints."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, tzinfo
from pathlib import Path
from zoneinfo import ZoneInfo

import msgspec

from clawbot.authors import position_in
from clawbot.cli.output import answer, fail
from clawbot.clock import Clock
from clawbot.config.paths import Paths
from clawbot.config.schema import Settings
from clawbot.guarded import parts_below
from clawbot.history import history_of
from clawbot.history.blame import BlamedLine, LineAuthor, blame
from clawbot.sessions.store import SessionStore
from clawbot.text.sanitize import clean_line

NOBODY = LineAuthor("")
ID_CHARS = 8  # of a session's id, which names it in every command


def print_blame(settings: Settings, paths: Paths, clock: Clock, agent_id: str, target: str, *, as_json: bool) -> None:
    """Print who wrote `target`, a file or `FILE:LINE`; exits with 1 if there is no such line."""
    workspace = settings.agent(agent_id).workspace
    timezone = settings.agent(agent_id).timezone
    zone = ZoneInfo(timezone) if timezone else None
    store = SessionStore(paths.sessions(agent_id), clock, agent_id=agent_id, cwd=workspace)
    name, number = position_in(target)
    path = Path(*parts_below(workspace, Path(name))).as_posix() if Path(name).is_absolute() else name
    try:
        lines = blame(workspace, path, store, history_of(settings, paths, agent_id, clock))
    except OSError as error:
        fail(f"{path} can't be read: {error.strerror or error}. Name a file of the memory, such as MEMORY.md.")
    if number is None:
        answer(as_json, {"file": path, "lines": [_data(line) for line in lines]}, _table(lines, zone))
    elif not 0 < number <= len(lines):
        fail(f"{path} has {len(lines)} lines.")
    else:
        line = lines[number - 1]
        answer(as_json, {"file": path, **_data(line)}, _details(path, line, zone))


def _data(line: BlamedLine) -> dict[str, object]:
    return {"line": line.line, "text": line.text, **msgspec.to_builtins(line.author or NOBODY)}


def _by(author: LineAuthor) -> str:
    return author.by or ("guess" if author.guess else "unknown")


def _table(lines: Sequence[BlamedLine], zone: tzinfo | None) -> Iterator[str]:
    """Yield a line for each: session, day, author, number and text."""
    width = max((len(_by(line.author or NOBODY)) for line in lines), default=0)
    for line in lines:
        author = line.author or NOBODY
        session, day = author.session[:ID_CHARS] or "-", _local(author, zone)[:10] or "-"
        yield f"{session:<{ID_CHARS}}  {day:<10}  {_by(author):<{width}}  {line.line:>4}  {clean_line(line.text)}"


def _details(path: str, line: BlamedLine, zone: tzinfo | None) -> Iterator[str]:
    author = line.author or NOBODY
    yield f"{path}:{line.line}: {clean_line(line.text)}"
    yield f"by: {_by(author)}"
    if author.time:
        yield f"when: {_local(author, zone)}"
    if author.sources:
        yield f"from: {', '.join(author.sources)}"
    if author.session:
        yield f"conversation: {author.session} ({author.key or 'without a key'})"
        if author.guess:
            yield "a guess: no record names the conversation, it has the words of the line"
        yield f"message: {author.entry or 'unknown'}"
        yield f"read it: clawbot sessions show {author.session[:ID_CHARS]}"


def _local(author: LineAuthor, zone: tzinfo | None) -> str:
    """The time in the user's zone, "" if unknown."""
    return f"{datetime.fromisoformat(author.time).astimezone(zone):%Y-%m-%d %H:%M}" if author.time else ""
