"""Reads sessions of OpenClaw and of pi, whose transcripts have the format of ours: their lines are copied."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
from msgspec import structs

from clawbot.config.errors import ConfigError
from clawbot.config.source import parse_layer
from clawbot.guarded import GuardedFolder
from clawbot.importing.source import (
    MAX_SESSION,
    Imported,
    Session,
    Skipped,
    Source,
    Unit,
    first_time,
    joined,
    left_in,
    lines_of,
    real_folders,
    small_json,
    unit_of,
)
from clawbot.sessions.entries import EntryHead
from clawbot.sessions.envelopes import is_job
from clawbot.sessions.folder import read_folder
from clawbot.sessions.forgotten import session_of
from clawbot.sessions.offsets import EMPTY, HEADER

# The kinds of sessions by the words of their keys: `agent:main:cron:ID`.
_KINDS = {"cron": "cron", "hook": "cron", "heartbeat": "cron", "subagent": "subagent", "acp": "subagent"}
_KINDS |= dict.fromkeys(("group", "channel", "thread", "topic"), "group")
_OUR_RECORDS = "clawbot."  # only this program may write such types: offers to memory, ends, forks
_SETTINGS = ("openclaw.json", "moltbot.json", "clawdbot.json")
# How an answer is to be sent, and what is only spoken; between backticks it is what the answer is about.
_DIRECTIVE = re.compile(
    r"(?<!`)(?:\[\[\s*tts:text\s*\]\].*?\[\[\s*/tts:text\s*\]\]"
    r"|\[\[\s*(?:reply_to(?:_current|\s*:[^\]\n]*)|audio_as_voice|as_document|/?tts(?:\s*:[^\]\n]*)?)\s*\]\])[ \t]*",
    re.DOTALL | re.IGNORECASE,
)


def read_openclaw(root: Path, skipped: Skipped) -> Source:
    """Return the content of OpenClaw's state folder `root`, also of its earlier names. Blocks."""
    folders = real_folders(root, "agents/*/sessions")
    units = [unit for folder in folders for unit in _units(folder, f"{folder.parent.name}/", skipped)]
    named, own, jobs = _named_workspaces(root), root / "workspace", root / "cron" / "jobs.json"
    workspace = next((folder for folder in (*named, *real_folders(root, "workspace")) if folder.is_dir()), None)
    remarks = [
        f"notes of {who}: {folder}" + ("" if folder.is_dir() else " (there is no such folder)")
        for folder, who in (named | ({own: "main"} if own.is_symlink() else {})).items()
        if folder != workspace
    ]
    is_plain = jobs.is_file() and jobs.resolve() == jobs
    left = [
        *left_in(root, f"skills ({{n}}): add {root}/skills to `skills.dirs` in the settings", "skills/*/SKILL.md"),
        *(line for name in _SETTINGS for line in left_in(root, "settings: clawbot config check {path}", name)),
        *left_in(root, "settings: clawbot mcp add --from {path}", "mcp.json"),
    ]
    return Source("openclaw", "OpenClaw", units, left + remarks, workspace, jobs if is_plain else None)


def read_pi(root: Path, skipped: Skipped) -> Source:
    """Return the sessions of pi below `root` (`~/.pi`, `~/.pi/agent` or the folder of the sessions). Blocks."""
    folder = real_folders(root, "agent/sessions", "sessions", ".")[0]
    units = [unit for each in real_folders(folder, ".", "*") for unit in _units(each, "", skipped)]
    return Source("pi", "pi", units)


def _named_workspaces(root: Path) -> dict[Path, str]:
    """Return the workspaces in the settings, which are JSON5, each with its agent; that of the agent that is used by
    default is first, then the one that is shared."""
    settings: dict[str, Any] = {}
    for name in _SETTINGS:
        with suppress(OSError, ConfigError):
            text = GuardedFolder(root).read(name, MAX_SESSION).decode("utf-8-sig", "replace")
            settings = settings or parse_layer(text, name)[0].data
    listed = _at(settings, "agents", "list")
    agents = [each for each in (listed if isinstance(listed, list) else ()) if isinstance(each, dict)]
    first = [each for each in agents if each.get("default") is True] or [
        each for each in agents if each.get("id") == "main"
    ]
    shared = _at(settings, "agents", "defaults", "workspace") or _at(settings, "agent", "workspace")
    found: dict[Path, str] = {}
    for agent in (*first, {"id": "main", "workspace": shared}, *agents):
        if isinstance(folder := agent.get("workspace"), str) and folder.startswith(("/", "~/")):
            found.setdefault(Path(folder).expanduser(), str(agent.get("id")))
    return found


def _at(value: Any, *names: str) -> Any:
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _units(folder: Path, owner: str, skipped: Skipped) -> Iterator[Unit]:
    """Yield the transcripts in `folder`; all other files are counted by their kind."""
    # The index knows only live sessions: their keys, and their names.
    index = small_json(folder / "sessions.json")
    known = {str(_at(value, "sessionId")): (key, value) for key, value in index.items()}
    content = read_folder(folder, every=True)
    # A backup whose session is gone is the session.
    alone = {used: name for name, used in sorted(content.copies.items()) if used not in content.headers}
    skipped["copies of conversations"] += len(content.copies) - len(alone)
    skipped.update(kind for kind in content.foreign.values() if kind not in ("folders", EMPTY))
    found = {name: header.id if header else session_of(name) for name, header in content.headers.items()}
    for name, ident in sorted((found | {name: session_of(used) for used, name in alone.items()}).items()):
        key, value = known.get(ident, ("", {}))
        label = str(_at(value, "label") or _at(value, "displayName") or "")
        kind = next((_KINDS[word] for word in key.split(":")[2:] if word in _KINDS), "")
        sessions = partial(_sessions, ident=f"{owner}{ident}", label=label, kind=kind, skipped=skipped)
        yield unit_of(folder / name, f"{owner}{name}", sessions)


def _sessions(path: Path, ident: str, label: str, kind: str, skipped: Skipped) -> Iterator[Session]:
    lines: list[tuple[EntryHead, dict[str, Any]]] = []
    for at, value in lines_of(path, skipped):
        try:
            head = msgspec.convert(value, EntryHead)
        except ValueError:
            skipped["lines that can't be read"] += 1
        else:  # the entries of the first version have no ids
            lines.append((structs.replace(head, id=head.id or f"{at & 0xFFFFFFFF:08x}"), value))
    header = next((value for head, value in lines[:1] if head.type == HEADER), {})
    messages = _entries_of(lines, all_scheduled=kind in ("cron", "subagent"))
    kind = kind or ("cron" if is_job(next(filter(None, (_words(value, "user") for _, value in lines)), "")) else "")
    began = first_time(header.get("timestamp"), path.stat().st_mtime)
    yield Session(ident, messages, label, str(header.get("cwd") or ""), began, kind)


def _words(value: dict[str, Any], role: str) -> str:
    return joined(_at(value, "message", "content")) if _at(value, "message", "role") == role else ""


def _entries_of(lines: list[tuple[EntryHead, dict[str, Any]]], *, all_scheduled: bool) -> Iterator[Imported]:
    ids = {head.id for head, _ in lines if head.type != HEADER}
    for head, value in lines:
        if head.type == HEADER:
            continue
        if str(value.get("customType") or "").startswith(_OUR_RECORDS):
            value["customType"] = f"imported.{value['customType']}"
        if all_scheduled and _words(value, "user"):
            value["message"]["scheduled"] = True
        if "[[" in _words(value, "assistant"):
            value["message"]["content"] = _sent(value["message"]["content"])
        index, parent = head.first_kept_entry_index, head.parent_id
        if not head.first_kept_entry_id and index is not None and 0 <= index < len(lines):
            value["firstKeptEntryId"] = lines[int(index)][0].id
        is_known = parent in ids and parent != head.id
        yield Imported(str(head.id), value, str(parent) if is_known else "" if parent is None else None)


def _sent(content: Any) -> Any:
    """Return the content of an answer without directives."""
    if isinstance(content, str):
        return _DIRECTIVE.sub("", content)
    if isinstance(content, list):
        return [_sent(each) for each in content]
    is_text = isinstance(content, dict) and isinstance(content.get("text"), str)
    return {**content, "text": _sent(content["text"])} if is_text else content
