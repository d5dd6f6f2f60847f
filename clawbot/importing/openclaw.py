"""Reads sessions of OpenClaw and of pi, whose transcripts have the format of ours: their lines are copied."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from clawbot.config.errors import ConfigError
from clawbot.config.source import parse_layer
from clawbot.files import read_plain
from clawbot.importing.content import joined
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
_OUR_RECORDS = "clawbot."  # only this program may write such types: offers to memory, ends, forks
_SETTINGS = ("openclaw.json", "moltbot.json", "clawdbot.json")
_LARGEST_SETTINGS = 2**20  # bytes


def read_openclaw(root: Path, skipped: Skipped) -> Source:
    """Return the content of OpenClaw's state folder `root`, also of its earlier names. Blocks."""
    units = [
        unit
        for folder in sorted((root / "agents").glob("*/sessions"))
        if folder.is_dir() and not folder.is_symlink()
        for unit in _units(folder, f"{folder.parent.name}/", skipped)
    ]
    jobs, skills = root / "cron" / "jobs.json", len(list(root.glob("skills/*/SKILL.md")))
    remarks = [f"skills ({skills}): add {root / 'skills'} to `skills.dirs` in the settings"] if skills else []
    commands = dict.fromkeys(_SETTINGS, "config check") | {"mcp.json": "mcp add --from"}
    remarks += [f"settings: clawbot {how} {root / name}" for name, how in commands.items() if (root / name).is_file()]
    named = _named_workspaces(root)
    workspace = [place for place in (*named, root / "workspace") if place.is_dir()][:1]
    remarks += [
        f"notes of {who}: {place}" + ("" if place.is_dir() else " (there is no such folder)")
        for place, who in named.items()
        if place not in workspace
    ]
    return Source("openclaw", "OpenClaw", units, workspace, remarks, jobs if jobs.is_file() else None)


def read_pi(root: Path, skipped: Skipped) -> Source:
    """Return the sessions of pi below `root` (`~/.pi`, `~/.pi/agent` or the folder of the sessions). Blocks."""
    folder = next(each for each in (root / "agent" / "sessions", root / "sessions", root) if each.is_dir())
    folders = [each for each in (folder, *sorted(folder.iterdir())) if each.is_dir() and not each.is_symlink()]
    return Source("pi", "pi", [unit for each in folders for unit in _units(each, "", skipped)])


def _named_workspaces(root: Path) -> dict[Path, str]:
    """Return the workspaces in the settings, which are JSON5, each with its agent; that of the agent that is used by
    default is first, then the one that is shared."""
    settings: dict[str, Any] = {}
    for name in _SETTINGS:
        with suppress(OSError, ConfigError):
            text = read_plain(root / name, _LARGEST_SETTINGS, below=root).decode("utf-8-sig", "replace")
            settings = settings or parse_layer(text, name)[0].data
    listed = _at(settings, "agents", "list")
    agents = [
        (_at(each, "default") is not True, _at(each, "id") != "main", str(_at(each, "id")), _at(each, "workspace"))
        for each in (listed if isinstance(listed, list) else ())
    ]
    shared = _at(settings, "agents", "defaults", "workspace") or _at(settings, "agent", "workspace")
    is_chosen = any(not agent[0] for agent in agents)
    agents.append((not is_chosen, is_chosen, "main", shared))
    found: dict[Path, str] = {}
    for *_, who, place in sorted(agents, key=lambda agent: agent[:2]):
        if isinstance(place, str) and place.startswith(("/", "~/")):
            found.setdefault(Path(place).expanduser(), who)
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
    skipped["copies of conversations"] += len(content.copies)
    skipped.update(kind for kind in content.foreign.values() if kind not in ("folders", EMPTY))
    for name, header in sorted(content.headers.items()):
        ident = header.id if header else session_of(name)
        key, value = known.get(ident, ("", {}))
        label = str(_at(value, "label") or _at(value, "displayName") or "")
        kind = next((_KINDS[word] for word in key.split(":")[2:] if word in _KINDS), "")
        talks = partial(_talks, folder / name, f"{owner}{ident}", label, kind, skipped)
        yield Unit(f"{owner}{name}", stamp_of((folder / name).stat()), talks)


def _talks(path: Path, ident: str, label: str, kind: str, skipped: Skipped) -> Iterator[Talk]:
    with ByteSource.open(path) as source:
        bad: list[int] = []
        spans = list(spans_backwards(source, source.size, lambda offset, _text: bad.append(offset)))[::-1]
        skipped["lines that can't be read"] += len(bad)
        header = _value(source, spans[0]) if spans and spans[0].kind == HEADER else {}
        texts = (_user_text(_value(source, span)) for span in spans if span.kind == "message")
        said = _said(source, spans, all_scheduled=kind in ("cron", "subagent"))
        kind = kind or ("cron" if is_job(next(filter(None, texts), "")) else "")
        began = first_time(path, header.get("timestamp"))
        yield Talk(ident, said, label, str(header.get("cwd") or ""), began, kind)


def _value(source: ByteSource, span: EntrySpan) -> dict[str, Any]:
    return as_object(source.read(span.start, span.end)) or {}


def _user_text(value: dict[str, Any]) -> str:
    return joined(_at(value, "message", "content")) if _at(value, "message", "role") == "user" else ""


def _said(source: ByteSource, spans: list[EntrySpan], *, all_scheduled: bool) -> Iterator[Said]:
    ids = {span.id for span in spans if span.kind != HEADER}
    for span in spans:
        value = _value(source, span)
        if not value or span.kind == HEADER:
            continue
        if str(value.get("customType") or "").startswith(_OUR_RECORDS):
            value["customType"] = f"imported.{value['customType']}"
        if all_scheduled and _user_text(value):
            value["message"]["scheduled"] = True
        index = span.first_kept_index
        indexed = spans[index].id if index is not None and 0 <= index < len(spans) else None
        if kept := span.first_kept or indexed:
            value["firstKeptEntryId"] = kept
        parent = span.parent_id
        is_known = isinstance(parent, str) and parent in ids and parent != span.id
        yield Said(span.id, value, str(parent) if is_known else "" if parent is None else None)
