"""Reads sessions of OpenClaw and of pi, whose transcripts have the format of ours: their lines are copied."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from msgspec import UNSET

from clawbot.importing.content import text_in
from clawbot.importing.source import Said, Skipped, Source, Talk, Unit, first_time, small_json, stamp_of
from clawbot.sessions.entries import as_object
from clawbot.sessions.envelopes import is_job
from clawbot.sessions.folder import read_folder
from clawbot.sessions.forgotten import session_of
from clawbot.sessions.lines import ByteSource
from clawbot.sessions.offsets import HEADER, EntrySpan, spans_backwards
from clawbot.sessions.recognition import EMPTY

# The kinds of sessions by the words of their keys: `agent:main:cron:ID`.
_KINDS = {"cron": "cron", "hook": "cron", "heartbeat": "cron", "subagent": "subagent", "acp": "subagent"}
_KINDS |= dict.fromkeys(("group", "channel", "thread", "topic"), "group")
_OUR_RECORDS = "clawbot."
"""Types of entries that only this program may write: offers to memory, ends, forks."""


def read_openclaw(root: Path, skipped: Skipped) -> Source:
    """The state folder of OpenClaw at `root`, or of its earlier names. Blocks."""
    units = [
        unit
        for folder in sorted((root / "agents").glob("*/sessions"))
        if folder.is_dir() and not folder.is_symlink()
        for unit in _units(folder, f"{folder.parent.name}/", _keys_in(folder), skipped)
    ]
    jobs, remarks = root / "cron" / "jobs.json", []
    if count := len(list(root.glob("skills/*/SKILL.md"))):
        remarks.append(f"{count} skills: add {root / 'skills'} to `skills.dirs` in the settings")
    for name, how in (
        ("openclaw.json", "config check"),
        ("clawdbot.json", "config check"),
        ("mcp.json", "mcp add --from"),
    ):
        if (root / name).is_file():
            remarks.append(f"settings: clawbot {how} {root / name}")
    named = small_json(root / "openclaw.json") or small_json(root / "clawdbot.json")
    return Source("openclaw", "OpenClaw", units, _workspaces(root, named), remarks, jobs if jobs.is_file() else None)


def read_pi(root: Path, skipped: Skipped) -> Source:
    """The sessions of pi below `root` (`~/.pi`, `~/.pi/agent` or the folder of the sessions). Blocks."""
    inside = (root / "agent" / "sessions", root / "sessions", root)
    folder = next(each for each in inside if each.is_dir())
    folders = [each for each in (folder, *sorted(folder.iterdir())) if each.is_dir() and not each.is_symlink()]
    return Source("pi", "pi", [unit for each in folders for unit in _units(each, "", {}, skipped)])


def _workspaces(root: Path, settings: Any) -> list[Path]:
    agents = settings.get("agents") if isinstance(settings, dict) else None
    defaults = agents.get("defaults") if isinstance(agents, dict) else None
    named = defaults.get("workspace") if isinstance(defaults, dict) else None
    found = [Path(named).expanduser()] if isinstance(named, str) and named.startswith(("/", "~/")) else []
    return [each for each in (*found, root / "workspace") if each.is_dir()][:1]


def _keys_in(folder: Path) -> dict[str, tuple[str, str]]:
    """By session id, the key and the name in sessions.json, which knows only live sessions."""
    index = small_json(folder / "sessions.json")
    found: dict[str, tuple[str, str]] = {}
    for key, value in index.items() if isinstance(index, dict) else ():
        ident = value.get("sessionId") if isinstance(value, dict) else None
        if isinstance(ident, str):
            label = value.get("label") or value.get("displayName")
            found[ident] = (key, label if isinstance(label, str) else "")
    return found


def _units(folder: Path, owner: str, keys: dict[str, tuple[str, str]], skipped: Skipped) -> Iterator[Unit]:
    """The transcripts in `folder`; what else is there is counted by its kind."""
    content = read_folder(folder, every=True)
    skipped["copies of conversations"] += len(content.copies)
    skipped.update(kind for kind in content.foreign.values() if kind not in ("folders", EMPTY))
    for name, header in sorted(content.headers.items()):
        ident = f"{owner}{header.id if header else session_of(name)}"
        state = (folder / name).stat()
        yield Unit(f"{owner}{name}", stamp_of(state), partial(_talks, folder / name, ident, keys, skipped))


def _talks(path: Path, ident: str, keys: dict[str, tuple[str, str]], skipped: Skipped) -> Iterator[Talk]:
    key, label = keys.get(ident.rpartition("/")[2], ("", ""))
    kind = next((_KINDS[word] for word in key.split(":")[2:] if word in _KINDS), "")
    with ByteSource.open(path) as source:
        bad: list[int] = []
        spans = list(spans_backwards(source, source.size, lambda offset, _text: bad.append(offset)))[::-1]
        skipped["lines that can't be read"] += len(bad)
        header = as_object(source.read(spans[0].start, spans[0].end)) if spans and spans[0].kind == HEADER else None
        entries = [span for span in spans if span.kind != HEADER]
        first = next((found for span in entries if (found := _user_text(_value(source, span)))), "")
        yield Talk(
            ident=ident,
            said=_said(source, entries, spans, all_scheduled=kind in ("cron", "subagent")),
            title=label,
            cwd=str((header or {}).get("cwd") or ""),
            began=first_time(path, (header or {}).get("timestamp")),
            kind=kind or ("cron" if first and is_job(first) else ""),
        )


def _value(source: ByteSource, span: EntrySpan) -> dict[str, Any]:
    return as_object(source.read(span.start, span.end)) or {} if span.kind == "message" else {}


def _user_text(value: dict[str, Any]) -> str:
    message = value.get("message")
    if not isinstance(message, dict) or message.get("role") != "user":
        return ""
    content = message.get("content")
    blocks = content if isinstance(content, list) else [{"text": content}]
    return next(filter(None, map(text_in, blocks)), "")


def _said(
    source: ByteSource, entries: list[EntrySpan], spans: list[EntrySpan], *, all_scheduled: bool
) -> Iterator[Said]:
    ids = {span.id for span in entries}
    for span in entries:
        value = as_object(source.read(span.start, span.end))
        if value is None:
            continue
        if str(value.get("customType") or "").startswith(_OUR_RECORDS):
            value["customType"] = f"imported.{value['customType']}"
        if all_scheduled and _user_text(value):
            value["message"]["scheduled"] = True
        kept = span.first_kept
        if kept is None and span.first_kept_index is not None and 0 <= span.first_kept_index < len(spans):
            kept = spans[span.first_kept_index].id
        if kept is not None:
            value["firstKeptEntryId"] = kept
        parent = span.parent_id
        if parent == span.id or (isinstance(parent, str) and parent not in ids):
            parent = UNSET
        yield Said(span.id, value, None if parent is UNSET else parent or "")
