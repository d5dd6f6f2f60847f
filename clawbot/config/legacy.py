"""Migrates keys of related programs: each is moved to its place here or ignored, with a notice.

A key in no table stays and is reported as unknown. So does a key that restricts an agent (`tools.deny`): nobody may
believe that it has an effect.
"""

from __future__ import annotations

from typing import Any

from pydantic_core import PydanticCustomError

from clawbot.config.errors import ConfigProblem
from clawbot.config.paths import DEFAULTS
from clawbot.config.schema_schedule import HEARTBEAT
from clawbot.config.source import KeyPath, Layer, Mark, dotted
from clawbot.config.spelling import to_snake
from clawbot.config.values import format_duration, parse_duration

# Keys without a counterpart, and those that the other program's setup writes. `*` is an agent.
IGNORED = (
    ("the server here is `clawbot serve`, with settings of its own (`serve`)", "gateway"),
    ("`/new` and `/reset` begin a new session", "session.reset_triggers"),
    ("sessions and their index lie in the state folder", "session.store session.main_key session.maintenance"),
    (
        "there are no channels, only the terminal",
        """
        channels bindings messages session.scope session.dm_scope session.identity_links
        session.reset_by_channel session.send_policy session.agent_to_agent
        session.parent_fork_max_tokens agents.*.envelope_timezone
        """,
    ),
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
    ("nothing asks for newer versions any more", "updates"),
    (
        "it has no counterpart here",
        """
        meta wizard update plugins commands browser agents.*.time_format agents.*.skip_bootstrap
        agents.*.models agents.*.image_max_dimension_px agents.*.compaction.mode
        agents.*.compaction.max_history_share agents.*.compaction.identifier_policy
        agents.*.compaction.identifier_instructions agents.*.compaction.quality_guard
        agents.*.compaction.post_compaction_sections agents.*.compaction.post_index_sync
        agents.*.compaction.mid_turn_precheck agents.*.compaction.max_active_transcript_bytes
        agents.*.compaction.notify_user agents.*.compaction.truncate_after_compaction
        agents.*.memory_search.experimental
        """,
    ),
)


class Mover:
    """The data and marks of one layer while keys are moved."""

    def __init__(self, layer: Layer) -> None:
        self.data = layer.data
        self.marks = dict(layer.marks)
        self.problems: list[ConfigProblem] = []
        self.notices: list[str] = []

    def find(self, pattern: str) -> list[KeyPath]:
        """The paths that match `pattern`, in either spelling; `*` matches any key."""
        found: list[tuple[KeyPath, Any]] = [((), self.data)]
        for step in pattern.split("."):
            found = [
                ((*path, key), value[key])
                for path, value in found
                for key in (value if isinstance(value, dict) else ())
                if step in ("*", to_snake(key))
            ]
        return [path for path, _ in found]

    def at(self, path: KeyPath) -> Any:
        """The value at `path`."""
        value: Any = self.data
        for step in path:
            value = value[step]
        return value

    def tell(self, path: KeyPath, text: str) -> None:
        """Add a notice about `path`."""
        self.notices.append(f"{self.marks[path].place}: {dotted(path)}{text}")

    def remove(self, path: KeyPath) -> None:
        """Remove the value at `path`. Surrounding mappings stay, even if empty: they may define an agent."""
        del self.at(path[:-1])[path[-1]]

    def ignore(self, path: KeyPath, why: str) -> None:
        """Remove the value at `path` and add a notice."""
        self.remove(path)
        self.tell(path, f" is ignored: {why}")

    def write(self, path: KeyPath, value: Any, mark: Mark) -> None:
        """Set `path` to `value`; everything below it gets the origin `mark`."""
        data, path = self._way_to(path, mark)
        data[str(path[-1])] = value
        self.marks[path] = mark
        if isinstance(value, list):
            self.marks |= {(*path, index): mark for index in range(len(value))}

    def move(self, old: KeyPath, new: KeyPath) -> None:
        """Move the value at `old` to `new` and add a notice."""
        value = self.take(old)
        self.tell(old, f" is read as {dotted(new)}")
        self.put(value, old, new)

    def take(self, path: KeyPath) -> Any:
        """Remove and return a value, with the mappings that become empty."""
        parents: list[Any] = [self.data]
        for step in path[:-1]:
            parents.append(parents[-1][step])
        value = parents[-1].pop(path[-1])
        for parent, step in zip(reversed(parents[:-1]), reversed(path[:-1]), strict=True):
            if parent[step]:
                break
            del parent[step]
        return value

    def put(self, value: Any, old: KeyPath, new: KeyPath) -> None:
        """Store `value`, taken from `old`, at `new`; a problem if another value is already there."""
        data, path = self._way_to(new, self.marks[old])
        self._join(data, value, old, path)

    def _way_to(self, path: KeyPath, mark: Mark) -> tuple[dict[str, Any], KeyPath]:
        """The mapping that contains `path`, created if missing, and the path as spelled there."""
        data = self.data
        way: KeyPath = ()
        for step in path[:-1]:
            key = self._spelled(data, step)
            if not isinstance(data.get(key), dict):
                data[key] = {}
            data, way = data[key], (*way, key)
            self.marks.setdefault(way, mark)
        return data, (*way, self._spelled(data, path[-1]))

    def _join(self, data: dict[str, Any], value: Any, old: KeyPath, new: KeyPath) -> None:
        present = data.get(str(new[-1]))
        if isinstance(present, dict) and isinstance(value, dict):
            for child, item in value.items():
                self._join(present, item, (*old, child), (*new, self._spelled(present, child)))
        elif present is not None:
            text = f"means the same as {dotted(new)}, which is written in {self.marks[new].place}"
            self.problems.append(ConfigProblem(self.marks[old].place, dotted(old), text))
        else:
            data[str(new[-1])] = value
            moved = {path: mark for path, mark in self.marks.items() if path[: len(old)] == old}
            self.marks |= {(*new, *path[len(old) :]): mark for path, mark in moved.items()}

    @staticmethod
    def _spelled(data: dict[str, Any], key: str | int) -> str:
        """`key` as already spelled in `data`, if present."""
        return next((present for present in data if to_snake(present) == to_snake(str(key))), str(key))


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
    mover.tell(path, f" is read as {dotted(_NEW)}")
    if left:
        mover.notices.append(
            f"{mark.place}: of {dotted(path)}, {', '.join(left)} is ignored: it has no counterpart here"
        )
    mover.remove(path)
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
        return {key: f"{value['start']}-{value['end']}"}
    return None


def _every(value: Any) -> dict[str, Any]:
    try:
        seconds = parse_duration(value, bare="m")
    except PydanticCustomError:
        return {"every": value}
    return {"every": f"{seconds:g}s"} if seconds else {"enabled": False}


# Old path and new path; `*` is an agent, the same on both sides. Order matters: a rule sees the result of earlier ones.
RENAMED = (
    ("agent", "agents.defaults"),
    ("agents.entries.*", "agents.*"),
    ("agents.*.user_timezone", "agents.*.timezone"),
    ("agents.*.bootstrap_max_chars", "agents.*.bootstrap.max_chars"),
    ("agents.*.bootstrap_total_max_chars", "agents.*.bootstrap.total_max_chars"),
    ("agents.*.model.fallbacks", "agents.*.fallbacks"),
    ("agents.*.model.primary", "agents.*.model"),
    ("agents.*.compaction.timeout_seconds", "agents.*.compaction.timeout"),
    ("agents.*.memory.embedding_provider", "agents.*.memory_search.provider"),
    ("agents.*.memory.embedding_model", "agents.*.memory_search.model"),
    ("agents.*.memory.chunk_size", "agents.*.memory_search.chunking.tokens"),
    ("agents.*.memory.chunk_overlap", "agents.*.memory_search.chunking.overlap"),
    ("agents.*.memory.search_weights.vector", "agents.*.memory_search.query.hybrid.vector_weight"),
    ("agents.*.memory.search_weights.keyword", "agents.*.memory_search.query.hybrid.text_weight"),
    ("agents.*.memory_search.remote.base_url", "agents.*.memory_search.remote.api_base"),
    ("memory.search", "agents.defaults.memory_search"),
    ("hooks.internal.enabled", "hooks.enabled"),
    ("hooks.internal.load.extra_dirs", "hooks.dirs"),
    ("hooks.internal.entries", "hooks.entries"),
    ("session.idle_minutes", "session.reset.idle_minutes"),
    ("session.reset_by_type.dm", "session.reset_by_type.direct"),
)
_LAST_HOUR = 23


def modernise(layer: Layer) -> tuple[Layer, list[ConfigProblem], list[str]]:
    """`layer` with old keys moved, the problems of moving, and a notice for each moved or ignored key."""
    mover = Mover(layer)
    _idle_alone(mover)
    _list_of_agents(mover)
    for old, new in RENAMED:
        for path in mover.find(old):
            mover.move(path, _filled(new, old, path))
    for rule in (_hours, _bare_ttl, _wildcards, _local_provider, _session_memory, heartbeats):
        rule(mover)
    for why, patterns in IGNORED:
        for pattern in patterns.split():
            for path in mover.find(pattern):
                mover.ignore(path, why)
    return Layer(mover.data, mover.marks), mover.problems, mover.notices


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
            mover.notices.append(f"{mover.marks[path].place}: {dotted(path)}[{index}] is read as agents.{name}")
            mover.put(item, (*path, index), ("agents", name))


def _hours(mover: Mover) -> None:
    """`session.reset.atHour: 4` becomes `at: "04:00"`, also for each session type."""
    for path in mover.find("session.reset.at_hour") + mover.find("session.reset_by_type.*.at_hour"):
        hour = mover.take(path)
        if isinstance(hour, bool) or not isinstance(hour, int) or not 0 <= hour <= _LAST_HOUR:
            text = f"expected an hour from 0 to {_LAST_HOUR}"
            mover.problems.append(ConfigProblem(mover.marks[path].place, dotted(path), text))
            continue
        new = ("session", "reset", "at") if len(path) == 3 else ("session", "reset_by_type", path[2], "at")
        mover.tell(path, f" is read as {dotted(new)}")
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
                place = mover.marks.get((*path, index), mover.marks[path]).place
                mover.notices.append(f"{place}: {dotted((*path, index))}: {_told(item)}")


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
