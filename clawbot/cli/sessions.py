"""`clawbot sessions`: list, show, search, export, rename, delete and repair conversations, open ones included."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from datetime import tzinfo
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import click
import msgspec

from clawbot.cli.completion import session_names
from clawbot.cli.output import (
    answer,
    config_option,
    day_options,
    echo,
    echo_bytes,
    json_option,
    options,
    print_json,
    warn,
)
from clawbot.clock import SystemClock, age, moment_of
from clawbot.config.errors import ConfigError
from clawbot.config.load import load_settings
from clawbot.config.paths import MAIN_AGENT, Paths, check_agent_id, find_home
from clawbot.config.schema_agent import AgentSettings
from clawbot.files import write_out
from clawbot.messages import AssistantMessage, BashExecutionMessage, Message, ToolResultMessage, UserMessage
from clawbot.sessions.conversation import HistoryItem
from clawbot.sessions.errors import UnknownSessionError
from clawbot.sessions.export import to_json, to_markdown
from clawbot.sessions.index import SessionRecord
from clawbot.sessions.names import short_name
from clawbot.sessions.repair import RepairReport, repair
from clawbot.sessions.store import SessionStore
from clawbot.sessions.summary import OPEN, SessionSummary, given_title
from clawbot.sessions.transcript import Transcript
from clawbot.sessions.unsent import UnsentFile, stored_ids
from clawbot.text.sanitize import clean, clean_line
from clawbot.text.secrets import Redactor, left_out, redact
from clawbot.text.visible import were_not_sent

log = logging.getLogger(__name__)

SHOWN = 50
# Items read at a time when reading all of a conversation.
PAGE = 500
# Lines of a tool's output in `show`; `export` has all.
OUTPUT_LINES = 12
WEEK = 7

agent_option = options(
    click.option("--agent", "agent_id", default=MAIN_AGENT, metavar="ID", help="Whose sessions."), config_option
)
json_and_agent = options(json_option, agent_option)


@click.group()
def command() -> None:
    """List, show, search, export, rename, fork, delete and repair conversations."""


@command.command("list")
@json_and_agent
@click.option("--all", "every", is_flag=True, help="Those of every agent.")
@click.option("--subagents", "parent", metavar="NAME", help="Those of the sub-agents of the session NAME.")
def list_sessions(as_json: bool, agent_id: str, file: Path | None, every: bool, parent: str | None) -> None:
    """List the sessions, last used first, including ended ones.

    What a sub-agent did is listed with --subagents NAME alone; `show` and `export` take it as NAME/ID.

    With --json: an array of objects with agent, key, name, sessionId, title, updatedAt (the user's last message),
    createdAt (ISO 8601), turns, tokens, ended ("open", or why it ended), path, locked, model, cost (US dollars; null
    when unknown).
    """
    if parent is not None:
        store = _store(agent_id, file)
        found = [(agent_id, summary) for summary in store.subagents(store.find(parent).session_id).list()]
    else:
        folders = Paths(find_home()).agents.glob("*/sessions") if every else ()
        agents = sorted(path.parent.name for path in folders if path.is_dir()) if every else [agent_id]
        found = [(agent, summary) for agent in agents for summary in _store(agent, file).list()]
    found.sort(key=lambda pair: pair[1].updated_at, reverse=True)
    none = "No sub-agent worked for it." if parent is not None else "No sessions yet. `clawbot chat` starts one."
    agent_width = max((len(agent) for agent, _ in found if every), default=0)
    name_width = max((len(summary.name) for _, summary in found), default=0)
    rows = [_row(summary, agent.ljust(agent_width) if every else "", name_width) for agent, summary in found]
    answer(as_json, [{"agent": agent, **_plain(summary)} for agent, summary in found], rows or [none])


@command.command()
@click.argument("name", shell_complete=session_names)
@json_and_agent
@click.option("--limit", type=click.IntRange(min=1), default=SHOWN, show_default=True, help="The last N entries.")
def show(name: str, as_json: bool, agent_id: str, file: Path | None, limit: int) -> None:
    """Show the end of the session NAME: its name, its id, or the beginning of the id; NAME/ID for what a sub-agent
    did.

    With --json: an object with session (as in `list --json`), problems (path, line, text) and items (entryId, timestamp
    in ms, message as in the transcript or null, interrupted, note, summary of a compaction, writes to memory with
    path, offset and size in bytes, line, endLine, digest), unsent (what was typed and not sent: id, text, at in ms,
    draft). Silent replies are left out.
    """
    store, record = _find(_store(agent_id, file), name)
    summary = store.summary(record)
    waiting = UnsentFile(store.folder, record.key).read()
    with _reading(summary.path) as transcript:
        said = stored_ids(waiting, transcript.entries)
        unsent = [each for each in waiting if each.id not in said]
        items = transcript.history(limit=limit)
        problems = transcript.problems
    if as_json:
        session = {"agent": agent_id, **_plain(summary)}
        shown = [_plain_item(item) for item in items]
        print_json({"session": session, "problems": _plain(problems), "items": shown, "unsent": _plain(unsent)})
        return
    echo(_row(summary))
    echo(f"{clean_line(summary.session_id)}  {clean_line(str(summary.path))}")
    for item in items:
        echo(f"\n{_shown(item, summary.updated_at.tzinfo)}")
    if unsent:
        echo(f"\n{were_not_sent(len(unsent))}:")
    for each in unsent:
        echo(f"  {clean_line(each.text)}")
    warn(*map(str, problems))


@command.command()
@click.argument("name", shell_complete=session_names)
@agent_option
@click.option("--format", "form", type=click.Choice(["md", "json"]), default="md", show_default=True)
@click.option("--json", "as_json", is_flag=True, help="The same as --format json.")
@click.option("--output", type=click.Path(path_type=Path), help="Into this file instead of stdout.")
@click.option("--with-secrets", is_flag=True, help="Leave nothing out.")
def export(name: str, agent_id: str, file: Path | None, form: str, **wanted: Any) -> None:
    """Export the session NAME as Markdown for people, or as JSON: an array of the transcript's lines as they are.

    Passwords, keys and other secrets are left out.
    """
    output: Path | None = wanted["output"]
    redactor = Redactor(keep=wanted["with_secrets"])
    store, record = _find(_store(agent_id, file), name)
    summary = store.summary(record)
    parts: Iterator[bytes]
    with _reading(summary.path) as transcript:
        if wanted["as_json"] or form == "json":
            parts = to_json(summary.path, redactor)
        else:
            items = _full_history(transcript)
            zone = summary.updated_at.tzinfo
            parts = (text.encode("utf-8", "replace") for text in to_markdown(items, summary.title, zone, redactor))
        if output is None:
            echo_bytes(parts)
        else:
            settings = _settings(agent_id, file)
            workspace = settings.workspace if settings else Paths(find_home()).workspace(agent_id)
            write_out(output, b"".join(parts), workspace)
        warn(*map(str, transcript.problems))
    if redactor.count:
        warn(f"{left_out(redactor.count)}; --with-secrets keeps them.")


@command.command("search")
@click.argument("query", nargs=-1, required=True)
@click.option("--max-results", type=click.IntRange(min=1), metavar="N", help="Results at most.")
@day_options("Messages of this day or")
@json_and_agent
def search_sessions(query: tuple[str, ...], as_json: bool, agent_id: str, file: Path | None, **bounds: Any) -> None:
    """Search the messages of all conversations, also those that ended, for QUERY: words or a question.

    A hit is printed as `score sessions/FILE#ENTRY (who, when)` and its text. With --json: as `memory search --json`.
    """
    # Deferred: the other commands do without the index.
    from clawbot.cli.memory import search_and_print

    search_and_print(query, agent_id, file, as_json=as_json, only="sessions", **bounds)


@command.command()
@click.argument("name", shell_complete=session_names)
@click.argument("title", nargs=-1, required=True)
@agent_option
def rename(name: str, title: tuple[str, ...], agent_id: str, file: Path | None) -> None:
    """Give the session NAME the title TITLE. `clawbot` has /rename for the open one."""
    given = given_title(" ".join(title))
    _store(agent_id, file).rename(name, given)
    echo(f"{clean_line(name)} is now: {clean_line(redact(given))}")


@command.command()
@click.argument("name", shell_complete=session_names)
@click.argument("title", nargs=-1)
@click.option("--at", metavar="ID", default="", help="Up to this answer, or before this message of yours.")
@json_and_agent
def fork(name: str, title: tuple[str, ...], at: str, as_json: bool, **agent: Any) -> None:
    """Begin a session with the messages of the session NAME, which is unchanged. `clawbot` has /fork for the open one.

    `show --json` has the ids (entryId) for --at. With --json: an object with session (as in `list --json`) and text
    (the message before which the fork ends, or "").
    """
    agent_id: str = agent["agent_id"]
    store = _store(agent_id, agent["file"])
    forked = store.fork(name, at, given_title(" ".join(title)))
    summary = store.summary(forked.record)
    data = {"session": {"agent": agent_id, **_plain(summary)}, "text": forked.text}
    answer(as_json, data, [_row(summary)])


@command.command()
@click.argument("name", shell_complete=session_names)
@agent_option
def delete(name: str, agent_id: str, file: Path | None) -> None:
    """Move the session NAME to the trash: it is found and listed no more. Its notes remain.

    The transcript is in the folder that is printed, until you remove it.
    """
    store = _store(agent_id, file)
    session_id = store.find(name).session_id
    trash = store.delete(name)
    echo(f"Moved to {clean_line(str(trash))}")
    warn(f"`clawbot sessions restore {session_id}` brings it back.")


@command.command()
@click.argument("session_id", required=False)
@agent_option
def restore(session_id: str | None, agent_id: str, file: Path | None) -> None:
    """Bring the deleted session SESSION_ID back; without one, list the deleted ones."""
    store = _store(agent_id, file)
    if session_id is not None:
        echo(f"{short_name(store.restore(session_id).key)} is back.")
        return
    found = store.trash.records()
    for record in found:
        parts = (record.session_id, short_name(record.key), redact(record.name))
        echo("  ".join(clean_line(part) for part in parts if part))
    if not found:
        echo("No deleted sessions.")


@command.command("repair")
@click.argument("name", required=False, shell_complete=session_names)
@json_and_agent
@click.option("--dry-run", is_flag=True, help="Only show what would be done.")
def repair_sessions(name: str | None, as_json: bool, agent_id: str, file: Path | None, dry_run: bool) -> None:
    """Repair the damage of a crash, in all sessions or in NAME, without losing anything that a file holds.

    Moves unfinished last lines into side files, lists unreadable lines, completes the index, removes locks of dead
    processes. With --json: an object with dryRun, index (problems), transcripts (path, problems, tornTo, inUse) and
    removedLocks.
    """
    store = _store(agent_id, file)
    only = store.path_of(store.find(name)) if name else None
    report = repair(store, SystemClock(), only=only, dry_run=dry_run)
    lines = [clean_line(line) for line in _repair_lines(report)]
    answer(as_json, _plain(report), lines or ["Nothing to repair."])


def _find(store: SessionStore, name: str) -> tuple[SessionStore, SessionRecord]:
    """The store and the record of the session `name`; NAME/ID is that of a sub-agent. Raises UnknownSessionError."""
    parent, slash, own = name.partition("/")
    if slash:
        store, name = store.subagents(store.find(parent).session_id), own
    return store, store.find(name)


def _store(agent_id: str, file: Path | None) -> SessionStore:
    """The sessions of an agent. Raises ConfigError for one with neither sessions nor settings: the sessions of an agent
    removed from the settings remain readable."""
    paths = Paths(find_home())
    folder = paths.sessions(check_agent_id(agent_id))
    if agent_id != MAIN_AGENT and not folder.exists():
        load_settings(paths, config_file=file).settings.agent(agent_id)
    settings = _settings(agent_id, file)
    zone = ZoneInfo(settings.timezone) if settings and settings.timezone else None
    return SessionStore(folder, SystemClock(zone), agent_id=agent_id)


def _settings(agent_id: str, file: Path | None) -> AgentSettings | None:
    """The settings of the agent, None if they are invalid: conversations are readable whatever the settings contain."""
    try:
        return load_settings(Paths(find_home()), config_file=file).settings.agent(agent_id)
    except ConfigError:
        log.debug("the settings are not used", exc_info=True)
        return None


def _reading(path: Path) -> Transcript:
    if not path.exists():
        raise UnknownSessionError(f"The transcript {path} is gone.", hint="Run `clawbot sessions repair`.")
    return Transcript.open(path, clock=SystemClock(), writable=False)


def _full_history(transcript: Transcript) -> list[HistoryItem]:
    items: list[HistoryItem] = []
    while page := transcript.history(before=items[0].entry_id if items else None, limit=PAGE):
        items[:0] = page
    return items


def _plain(value: Any) -> Any:
    """Return `value` as data that JSON can hold."""
    return msgspec.to_builtins(value, enc_hook=str)


def _plain_item(item: HistoryItem) -> dict[str, Any]:
    return {
        "entryId": item.entry_id,
        "timestamp": item.timestamp,
        "message": _plain(item.message),
        "interrupted": item.interrupted,
        "note": item.note,
        "summary": item.compaction.summary if item.compaction else "",
        "writes": _plain(item.offer.writes) if item.offer else [],
    }


def _row(summary: SessionSummary, agent: str = "", name_width: int = 0) -> str:
    now = SystemClock(summary.updated_at.tzinfo).now()
    # From a week on the date is enough.
    ago = age(summary.updated_at, now) if (now - summary.updated_at).days < WEEK else ""
    state = "in use" if summary.locked else "" if summary.ended == OPEN else f"ended: {summary.ended}"
    turns = f"{summary.turns} turn{'' if summary.turns == 1 else 's'}"
    details = f"({', '.join(part for part in (ago, turns, state) if part)})"
    parts = [f"{summary.updated_at:%Y-%m-%d %H:%M}", agent, summary.name.ljust(name_width), summary.session_id[:8]]
    line = clean("  ".join(part for part in parts if part))
    return "  ".join(part for part in (line, details, clean_line(redact(summary.title))) if part)


def _shown(item: HistoryItem, zone: tzinfo | None) -> str:
    time = f"{moment_of(item.timestamp, zone):%Y-%m-%d %H:%M}" if item.timestamp else ""
    if item.message is None:
        return f"--- {clean_line(item.note)} {time}".rstrip()
    who, text = _speech(item.message)
    cut = "\n(interrupted)" if item.interrupted else ""
    return f"{who} {time}".rstrip() + (f"\n{clean(text)}" if text else "") + cut


def _speech(message: Message) -> tuple[str, str]:
    match message:
        case UserMessage():
            return "You", message.shown
        case AssistantMessage():
            calls = [f"-> {call.name} {msgspec.json.encode(call.arguments).decode()}" for call in message.tool_calls]
            error = [f"({message.error_message})"] if message.error_message else []
            return clean_line(message.speaker), "\n".join(part for part in (message.text, *calls, *error) if part)
        case ToolResultMessage():
            return f"[{clean_line(message.tool_name)}{' failed' if message.is_error else ''}]", _short(message.text)
        case BashExecutionMessage():
            seen = " (the model did not see it)" if message.exclude_from_context else ""
            return f"You ran{seen}", f"$ {message.command}\n{_short(message.output)}"


def _short(text: str) -> str:
    lines = text.splitlines()
    more = len(lines) - OUTPUT_LINES
    return "\n".join([*lines[:OUTPUT_LINES], f"… {more} more lines"] if more > 0 else lines)


def _repair_lines(report: RepairReport) -> Iterator[str]:
    for problem in report.index:
        yield str(problem)
    for transcript in report.transcripts:
        if transcript.in_use:
            yield f"{transcript.path}: open in another process; checked only"
        for problem in transcript.problems:
            yield str(problem)
    verb = "would be removed" if report.dry_run else "removed"
    for path in report.removed_locks:
        yield f"{path}: left by a process that is gone; {verb}"
