"""Keys of older programs of this family whose meaning is clear: each is moved to its place here, with a notice.

A key that is not in the table stays where it is and is reported as unknown. Facts: reference sheet sections 18, 23, 24.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from pydantic_core import PydanticCustomError

from clawbot.config.errors import Problem
from clawbot.config.source import KeyPath, Layer, dotted
from clawbot.config.spelling import Step, to_snake
from clawbot.config.values import format_duration, parse_duration

# Old place and new place; `*` is an agent, and what it stands for is the same on both sides. In this order: a rule sees
# what the rules before it have moved.
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
)
_LAST_HOUR = 23


def modernise(layer: Layer) -> tuple[Layer, list[Problem], list[str]]:
    """`layer` with old keys in their new places, what could not be moved, and a notice for each that was."""
    mover = _Mover(layer)
    mover.idle_alone()
    mover.list_of_agents()
    for old, new in RENAMED:
        for path, stars in list(mover.find(old.split("."))):
            mover.move(path, _fill(new, stars))
    mover.hour()
    mover.bare_ttl()
    return Layer(mover.data, mover.marks), mover.problems, mover.notices


def older_places(keys: Sequence[str]) -> Iterator[tuple[list[Step], int]]:
    """The places where older programs had what stands at `keys` today, each with the number of keys it stands for."""
    for old, new in RENAMED:
        pattern = new.split(".")
        if len(pattern) <= len(keys) and all(step in ("*", key) for step, key in zip(pattern, keys, strict=False)):
            stars = [key for step, key in zip(pattern, keys, strict=False) if step == "*"]
            either = [step != "*" for step in old.split(".")]
            yield [Step(str(step), same) for step, same in zip(_fill(old, stars), either, strict=True)], len(pattern)


def _fill(pattern: str, stars: list[str]) -> KeyPath:
    left = iter(stars)
    return tuple(next(left) if step == "*" else step for step in pattern.split("."))


class _Mover:
    """The data and marks of one layer while keys are moved."""

    def __init__(self, layer: Layer) -> None:
        self.data = layer.data
        self.marks = dict(layer.marks)
        self.problems: list[Problem] = []
        self.notices: list[str] = []

    def find(self, pattern: list[str]) -> Iterator[tuple[KeyPath, list[str]]]:
        """The paths that match `pattern`, in either spelling, each with what its stars stand for."""
        yield from self._find(self.data, pattern, (), [])

    def _find(
        self, data: Any, pattern: list[str], path: KeyPath, stars: list[str]
    ) -> Iterator[tuple[KeyPath, list[str]]]:
        if not pattern:
            yield path, stars
        elif isinstance(data, dict):
            for key in data:
                if pattern[0] == "*":
                    yield from self._find(data[key], pattern[1:], (*path, key), [*stars, key])
                elif to_snake(key) == pattern[0]:
                    yield from self._find(data[key], pattern[1:], (*path, key), stars)

    def move(self, old: KeyPath, new: KeyPath) -> None:
        """Move what stands at `old`, and say so."""
        value = self._take(old)
        self.notices.append(f"{self.marks[old].place}: {dotted(old)} is read as {dotted(new)}")
        self._put(value, old, new)

    def _take(self, path: KeyPath) -> Any:
        """Remove and return a value, with the mappings that it leaves empty."""
        parents: list[Any] = [self.data]
        for step in path[:-1]:
            parents.append(parents[-1][step])
        value = parents[-1].pop(path[-1])
        for parent, step in zip(reversed(parents[:-1]), reversed(path[:-1]), strict=True):
            if parent[step]:
                break
            del parent[step]
        return value

    def _put(self, value: Any, old: KeyPath, new: KeyPath) -> None:
        data = self.data
        path: KeyPath = ()
        for step in new[:-1]:
            key = self._spelled(data, step)
            if not isinstance(data.get(key), dict):
                data[key] = {}
            data, path = data[key], (*path, key)
            self.marks.setdefault(path, self.marks[old])
        key = self._spelled(data, new[-1])
        self._join(data, key, value, (old, (*path, key)))

    def _join(self, data: dict[str, Any], key: str, value: Any, paths: tuple[KeyPath, KeyPath]) -> None:
        old, new = paths
        present = data.get(key)
        if isinstance(present, dict) and isinstance(value, dict):
            for child, item in value.items():
                at = self._spelled(present, child)
                self._join(present, at, item, ((*old, child), (*new, at)))
        elif present is not None:
            text = f"means the same as {dotted(new)}, which is written in {self.marks[new].place}"
            self.problems.append(Problem(self.marks[old].place, dotted(old), text))
        else:
            data[key] = value
            moved = {path: mark for path, mark in self.marks.items() if path[: len(old)] == old}
            self.marks |= {(*new, *path[len(old) :]): mark for path, mark in moved.items()}

    @staticmethod
    def _spelled(data: dict[str, Any], key: str | int) -> str:
        """`key` as it is spelled in `data` already, if it is."""
        return next((present for present in data if to_snake(present) == to_snake(str(key))), str(key))

    def idle_alone(self) -> None:
        """`session.idleMinutes` without `session.reset` meant the mode idle."""
        for path, _ in list(self.find(["session", "idle_minutes"])):
            if not any(self.find(["session", "reset"])):
                new = ("session", "reset")
                self.data[str(path[0])]["reset"] = {"mode": "idle"}
                self.marks |= {new: self.marks[path], (*new, "mode"): self.marks[path]}

    def list_of_agents(self) -> None:
        """`agents.list: [{id: x, ...}]` is one entry for each id."""
        for path, _ in list(self.find(["agents", "list"])):
            items = self._at(path)
            if not isinstance(items, list) or not all(
                isinstance(i, dict) and isinstance(i.get("id"), str) for i in items
            ):
                continue
            self._take(path)
            for index, item in enumerate(items):
                name = item.pop("id")
                self.notices.append(f"{self.marks[path].place}: {dotted(path)}[{index}] is read as agents.{name}")
                self._put(item, (*path, index), ("agents", name))

    def hour(self) -> None:
        """`session.reset.atHour: 4` is `at: "04:00"`."""
        for path, _ in list(self.find(["session", "reset", "at_hour"])):
            hour, place = self._take(path), self.marks[path].place
            if isinstance(hour, bool) or not isinstance(hour, int) or not 0 <= hour <= _LAST_HOUR:
                self.problems.append(Problem(place, dotted(path), f"expected an hour from 0 to {_LAST_HOUR}"))
                continue
            self.notices.append(f"{place}: {dotted(path)} is read as session.reset.at")
            self._put(f"{hour:02d}:00", path, ("session", "reset", "at"))

    def bare_ttl(self) -> None:
        """A time to live without a unit counts minutes: worth a word, since it looks like seconds."""
        for path, _ in self.find(["agents", "*", "context_pruning", "ttl"]):
            try:
                meant, otherwise = (parse_duration(self._at(path), bare=unit) for unit in ("m", "s"))
            except PydanticCustomError:
                continue  # reported when the schema checks it
            if meant != otherwise:
                text = f"{dotted(path)} without a unit counts minutes: {format_duration(meant)}"
                self.notices.append(f"{self.marks[path].place}: {text}")

    def _at(self, path: KeyPath) -> Any:
        value: Any = self.data
        for step in path:
            value = value[step]
        return value
