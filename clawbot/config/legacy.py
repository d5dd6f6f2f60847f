"""Migrates keys of related programs: each is moved to its place here or ignored, with one notice for all.

legacy.toml has the keys. One that is in no table stays and is reported as unknown, except in a file that another
program wrote. A key that restricts an agent is never ignored (clawbot.config.legacy_tools).
"""

from __future__ import annotations

import tomllib
from functools import lru_cache
from importlib.resources import files
from pathlib import PurePath
from typing import Any

from pydantic import ValidationError
from pydantic_core import PydanticCustomError

from clawbot.config.legacy_models import move_model_list, move_providers
from clawbot.config.legacy_tools import RESTRICTS, move_restrictions
from clawbot.config.mcp_file import as_server
from clawbot.config.mover import Mover
from clawbot.config.paths import DEFAULTS
from clawbot.config.schema_schedule import HEARTBEAT
from clawbot.config.source import KeyPath, Layer, dotted
from clawbot.config.spelling import to_snake
from clawbot.config.values import format_duration, parse_duration
from clawbot.text.interface import N_

# How the memory is searched. Old path and new path; `*` is an agent, the same on both sides.
RENAMED = (
    ("agents.*.memory.embedding_provider", "agents.*.memory_search.provider"),
    ("agents.*.memory.embedding_model", "agents.*.memory_search.model"),
    ("agents.*.memory.chunk_size", "agents.*.memory_search.chunking.tokens"),
    ("agents.*.memory.chunk_overlap", "agents.*.memory_search.chunking.overlap"),
    ("agents.*.memory.search_weights.vector", "agents.*.memory_search.query.hybrid.vector_weight"),
    ("agents.*.memory.search_weights.keyword", "agents.*.memory_search.query.hybrid.text_weight"),
    ("agents.*.memory.max_results", "agents.*.memory_search.query.max_results"),
    ("agents.*.memory.min_score", "agents.*.memory_search.query.min_score"),
    ("agents.*.memory_search.remote.base_url", "agents.*.memory_search.remote.api_base"),
    ("memory.search", "agents.defaults.memory_search"),
)
IGNORED = (
    ("files beside the workspace's memory are named in memory_search.extra_paths", "memory.qmd.paths"),
    ("memory_search.sources says what is searched", "memory.qmd.include_default_memory memory.qmd.sessions.enabled"),
    ("exported transcripts lie in the state folder, as memory/qmd/<agent>/sessions", "memory.qmd.sessions.export_dir"),
    ("memory_search.query.max_injected_chars goes for every backend", "memory.qmd.limits.max_injected_chars"),
    ("the kind of a session decides whether it may know the notes (docs/context.md)", "memory.qmd.scope"),
    ("qmd's own server is used where it runs (memory.qmd.daemon_port)", "memory.qmd.mcporter"),
    ("a chat never waits for the first update", "memory.qmd.update.wait_for_boot_sync"),
    ("the collections are written into qmd's file, and no command does it", "memory.qmd.update.command_timeout_ms"),
    (
        "the index lies in the state folder, as memory/<agent>.sqlite, and can be deleted",
        "agents.*.memory_search.store",
    ),
    ("while a provider fails, notes are found by their words", "agents.*.memory_search.fallback"),
    ("the provider offline has its model in the program", "agents.*.memory_search.local"),
    ("embeddings are requested as needed", "agents.*.memory_search.remote.batch"),
    ("it has no counterpart here", "agents.*.memory_search.experimental"),
)


_FEW = 2
_HOOKS = "hooks here are Python, in folders of their own (docs/writing-hooks.md)"
_UNKNOWN = N_("nothing is known of it")
_NO_SUCH_KEY = N_("servers have no such key here")
_DEFAULT = N_("the default is the nearest")


@lru_cache(maxsize=1)
def _tables() -> dict[str, Any]:
    return tomllib.loads(files("clawbot.config").joinpath("legacy.toml").read_text(encoding="utf-8"))


def renamed_keys() -> list[tuple[str, str]]:
    """All keys that have another name here, each with that."""
    return [(old, new) for group in _tables()["moved"] for old, new in group["keys"]] + list(RENAMED)


def ignored_keys() -> list[tuple[str, str]]:
    """All keys that are ignored, separated by blanks, each group after its reason."""
    return [(group["why"], group["keys"]) for group in _tables()["ignored"]] + list(IGNORED)


class Moved(Mover):
    """A layer with the keys of other programs moved: `notices` has a line for all of them, `problems` what is wrong.
    `is_foreign`: another program wrote the file, and keys that nobody knows are no mistakes of the user."""

    is_foreign = False

    @property
    def layer(self) -> Layer:
        return Layer(self.data, self.marks)

    def spare(self, path: KeyPath, value: object) -> bool:
        """Whether the unknown key `path` is ignored, with a notice: in a file of another program, if it restricts
        nothing."""
        if not self.is_foreign or RESTRICTS.search(to_snake(str(path[-1]))) or _restricts(value):
            return False
        self.left_out(path, _UNKNOWN)
        return True


def _restricts(value: object) -> bool:
    if isinstance(value, list):
        return any(map(_restricts, value))
    return isinstance(value, dict) and any(RESTRICTS.search(to_snake(k)) or _restricts(v) for k, v in value.items())


def modernise(layer: Layer, file: str) -> Moved:
    """Move the keys of other programs in the layer of `file`."""
    mover, tables = Moved(layer, file), _tables()
    is_related = _recognise(mover, tables["openclaw"])
    _idle_alone(mover)
    _webhooks(mover)
    _list_of_agents(mover)
    for old, new in renamed_keys():
        for path in mover.find(old):
            to = _filled(new, old, path)
            if old != "agents.*.max_concurrent" or not mover.find(".".join(map(str, to))):
                mover.move(path, to)
    if is_related:
        move_restrictions(mover, tables["tools"])
        move_providers(mover, tables)
        _mcp_servers(mover)
    move_model_list(mover, tables["litellm"])
    for rule in (_hours, _bare_ttl, _wildcards, _local_provider, _session_memory, heartbeats):
        rule(mover)
    _respell_values(mover, tables["values"])
    for why, patterns in ignored_keys():
        for path in [path for pattern in patterns.split() for path in mover.find(pattern)]:
            mover.ignore(path, why)
    return mover


def _recognise(mover: Moved, table: Any) -> bool:
    """Whether any key is one of OpenClaw's alone. Its name, what its setup writes, or several such keys make it a file
    that nobody wrote by hand."""
    found = [key for key in table["keys"].split() if mover.find(key)]
    named = PurePath(mover.file).stem in table["files"].split()
    mover.is_foreign = named or len(found) > _FEW or any(map(mover.find, table["setup"].split()))
    return named or bool(found)


def _webhooks(mover: Mover) -> None:
    """`hooks.enabled` beside the keys of webhooks is theirs."""
    if any(map(mover.find, ("hooks.path", "hooks.token", "hooks.mappings", "hooks.presets", "hooks.gmail"))):
        for path in mover.find("hooks.enabled"):
            mover.ignore(path, _HOOKS)


def _respell_values(mover: Mover, values: Any) -> None:
    """Values that have another name here; "" for none, which leaves the default."""
    for pattern, names in values.items():
        for path in mover.find(pattern):
            new = names.get(str(mover.at(path)))
            if new == "":
                mover.ignore(path, _DEFAULT)
            elif new is not None:
                mover.write(path, new, mover.marks[path])


def _mcp_servers(mover: Mover) -> None:
    """Servers in the form of other programs; one that can't be read stays, and is a mistake."""
    for path in mover.find("mcp.servers.*"):
        try:
            server, left = as_server(mover.at(path))
        except (ValueError, ValidationError):
            continue
        mark = mover.marks[path]
        for key in left:
            mover.left_out((*path, key), _NO_SUCH_KEY)
            mover.marks.setdefault((*path, key), mark)
        mover.take(path)
        mover.write(path, {}, mark)
        for key, value in server.items():
            mover.write((*path, key), value, mark)


_NEW: KeyPath = ("schedule", HEARTBEAT)
_SAME = ("prompt", "session")


def heartbeats(mover: Mover) -> None:
    """Move `agents.<agent>.heartbeat` to `schedule.heartbeat`, which exists once: that of all agents, or of the first.

    By default it runs every 30 minutes, `0m` disables it, a bare number counts minutes.
    """
    found = [path for path in mover.find(f"agents.*.{HEARTBEAT}") if isinstance(mover.at(path), dict)]
    found.sort(key=lambda path: path[1] != DEFAULTS)
    for path in found[1:]:
        mover.ignore(path, "there is one heartbeat; let others have jobs of their own in `schedule`")
    for path in found[:1]:
        _move_heartbeat(mover, path)


def _move_heartbeat(mover: Mover, path: KeyPath) -> None:
    section, mark = mover.at(path), mover.marks[path]
    job: dict[str, Any] = {"enabled": True}
    marks = {"enabled": mark}
    if path[1] != DEFAULTS:
        job["agent"], marks["agent"] = path[1], mark
    left: list[str] = []
    for key, value in section.items():
        known = _read(to_snake(key), value)
        if known is None:
            left.append(key)
        job |= known or {}
        marks |= dict.fromkeys(known or {}, mover.marks[(*path, key)])
    if job["enabled"] is False:
        job.pop("every", None)
    mover.renamed(path, _NEW)
    for key in left:
        mover.left_out((*path, key), "it has no counterpart here")
    mover.take(path)
    for key in job:
        mover.marks.setdefault((*path, key), marks[key])
    mover.put(job, path, _NEW)


def _read(key: str, value: Any) -> dict[str, Any] | None:
    """The meaning of a heartbeat's key in the schedule; None for none."""
    if key in _SAME:
        return {key: value}
    if key == "every":
        return _every(value)
    if key == "active_hours" and isinstance(value, dict) and {"start", "end"} <= value.keys():
        zone = value.get("timezone", "user")
        return {key: f"{value['start']}-{value['end']}"} | ({} if zone in ("user", "local") else {"tz": zone})
    return None


def _every(value: Any) -> dict[str, Any]:
    try:
        seconds = parse_duration(value, bare="m")
    except PydanticCustomError:
        return {"every": value}
    return {"every": f"{seconds:g}s"} if seconds else {"enabled": False}


_LAST_HOUR = 23


def _filled(pattern: str, old: str, path: KeyPath) -> KeyPath:
    """`pattern` with its stars replaced by what those of the pattern `old` match in `path`."""
    stars = iter([step for step, star in zip(path, old.split("."), strict=True) if star == "*"])
    return tuple(next(stars) if step == "*" else step for step in pattern.split("."))


def _idle_alone(mover: Mover) -> None:
    """`session.idleMinutes` without `session.reset` and `session.resetByType` meant the mode idle."""
    for path in mover.find("session.idle_minutes"):
        if not mover.find("session.reset") and not mover.find("session.reset_by_type"):
            new = ("session", "reset")
            mover.data[str(path[0])]["reset"] = {"mode": "idle"}
            mover.marks |= {new: mover.marks[path], (*new, "mode"): mover.marks[path]}


def _list_of_agents(mover: Mover) -> None:
    """`agents.list: [{id: x, ...}]` becomes one entry for each id."""
    for path in mover.find("agents.list"):
        items = mover.at(path)
        if not isinstance(items, list) or not all(isinstance(i, dict) and isinstance(i.get("id"), str) for i in items):
            continue
        mover.take(path)
        for index, item in enumerate(items):
            name = item.pop("id")
            mover.renamed((*path, index), ("agents", name))
            mover.put(item, (*path, index), ("agents", name))


def _hours(mover: Mover) -> None:
    """`session.reset.atHour: 4` becomes `at: "04:00"`, also for each session type."""
    for path in mover.find("session.reset.at_hour") + mover.find("session.reset_by_type.*.at_hour"):
        hour = mover.take(path)
        if isinstance(hour, bool) or not isinstance(hour, int) or not 0 <= hour <= _LAST_HOUR:
            mover.problem(path, f"expected an hour from 0 to {_LAST_HOUR}")
            continue
        new = ("session", "reset", "at") if len(path) == 3 else ("session", "reset_by_type", path[2], "at")
        mover.renamed(path, new)
        mover.put(f"{hour:02d}:00", path, new)


def _bare_ttl(mover: Mover) -> None:
    """A time to live without a unit counts minutes: tell the user, since it looks like seconds."""
    for path in mover.find("agents.*.context_pruning.ttl"):
        try:
            meant, otherwise = (parse_duration(mover.at(path), bare=unit) for unit in ("m", "s"))
        except PydanticCustomError:
            continue  # the schema check reports it
        if meant != otherwise:
            mover.tell(path, f" without a unit counts minutes: {format_duration(meant)}")


def _wildcards(mover: Mover) -> None:
    """A command allowed by a pattern (`git log*`) covers less than in other programs: options such as --output write
    files and run programs."""
    for path in mover.find("agents.*.tools.shell.allow"):
        items = mover.at(path)
        for index, item in enumerate(items if isinstance(items, list) else ()):
            if isinstance(item, str) and any(mark in item for mark in "*?["):
                mover.tell((*path, index), f": {_told(item)}")


def _local_provider(mover: Mover) -> None:
    """The provider `local` is a model on this machine, called `offline` here."""
    for path in mover.find("agents.*.memory_search.provider"):
        if mover.at(path) == "local":
            mover.at(path[:-1])[path[-1]] = "offline"
            mover.tell(path, ": local is read as offline")


def _session_memory(mover: Mover) -> None:
    """`experimental.sessionMemory` switched the source `sessions`, whether or not it was listed in the sources."""
    for path in mover.find("agents.*.memory_search.experimental.session_memory"):
        wanted = mover.at(path)
        if not isinstance(wanted, bool):
            continue
        listed = _sources(mover, path)
        sources = [source for source in listed if source != "sessions"] or ["memory"]
        if wanted:
            sources.append("sessions")
        mover.tell(path, f" is read as {dotted((*path[:3], 'sources'))}: [{', '.join(map(str, sources))}]")
        mover.take(path)
        mover.write((*path[:3], "sources"), sources, mover.marks[path])


def _sources(mover: Mover, path: KeyPath) -> list[object]:
    """The sources beside `path`, or those of all agents."""
    for agent in (path[1], DEFAULTS):
        for found in mover.find("agents.*.memory_search.sources"):
            listed = mover.at(found)
            if found[1] == agent and isinstance(listed, list):
                return listed
    return ["memory"]


def _told(pattern: str) -> str:
    """The meaning of a pattern among the allowed commands, and how to write either meaning."""
    *words, last = pattern.split() or [""]
    stem = last.rstrip("*?")
    named = " ".join([*words, *([stem] if stem[-1:].isalnum() else [])])
    reading = f"{named} <reading>".strip()
    text = f"`{pattern}` covers what only reads, and of other commands its own words. Write `{reading}`"
    return f"{text}, or `{named} <anything>` for every argument" if named else text
