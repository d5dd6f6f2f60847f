"""The data of one settings file while keys of related programs are moved to their path here."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator
from functools import reduce
from typing import Any, cast

from clawbot.config.errors import ConfigProblem
from clawbot.config.source import KeyPath, Layer, Mark, dotted
from clawbot.config.spelling import to_snake
from clawbot.text.interface import N_, _

_MAX_NAMES = 12
# What the keys of restrictions are called, also those that no table has.
_RESTRICTS = re.compile(
    "allow|approv|block|confirm|deny|denied|disable|elevat|exec|forbid|permi|polic|read_?only|restrict|safe|sandbox"
)
_UNKNOWN = N_("nothing is known of it")


def marks_of(value: Any, mark: Mark, path: KeyPath = ()) -> Iterator[tuple[KeyPath, Mark]]:
    """Yield `mark` for `path` and everything below it."""
    yield path, mark
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from marks_of(item, mark, (*path, key))


def _some(paths: Iterable[KeyPath]) -> str:
    """Return the keys of one reason, the same one of several agents once."""
    agents = {path[1] for path in paths if path[0] == "agents" and len(path) > 2}
    star = {path: ("agents", "*", *path[2:]) if len(agents) > 1 and path[1:2] and path[1] in agents else path
            for path in paths}  # fmt: skip
    names = list(dict.fromkeys(map(dotted, star.values())))
    more = [f"+{len(names) - _MAX_NAMES}"] if len(names) > _MAX_NAMES else []
    return ", ".join([*names[:_MAX_NAMES], *more])


class Mover:
    """The data and marks of one layer while keys are moved: `notices` has a line for all of them, `problems` what is
    wrong. `is_foreign`: another program wrote the file, and keys that nobody knows are no mistakes of the user."""

    is_foreign = False

    def __init__(self, layer: Layer, file: str) -> None:
        self.data = layer.data
        self.marks = dict(layer.marks)
        self.file = file
        self.problems: list[ConfigProblem] = []
        self._notices: list[str] = []
        self._moved: list[tuple[KeyPath, KeyPath]] = []
        self._ignored: dict[str, list[KeyPath]] = {}

    def find(self, patterns: str) -> list[KeyPath]:
        """The paths that match one of `patterns` (separated by blanks), in either spelling; `*` matches any key."""
        paths: list[KeyPath] = []
        for pattern in patterns.split():
            found: list[tuple[KeyPath, Any]] = [((), self.data)]
            for step in pattern.split("."):
                inside = [(path, value) for path, value in found if isinstance(value, dict)]
                steps = [(path, key, value) for path, value in inside for key in value if step in ("*", to_snake(key))]
                found = [((*path, key), value[key]) for path, key, value in steps]
            paths += [path for path, _value in found]
        return paths

    def at(self, path: KeyPath) -> Any:
        """Return the value at `path`."""
        return reduce(lambda value, step: value[step], path, cast("Any", self.data))

    def notify(self, path: KeyPath, text: str) -> None:
        """Add a notice about `path`."""
        self._notices.append(f"{self.marks[path].position}: {dotted(path)}{text}")

    def refuse(self, path: KeyPath, text: str) -> None:
        """Remove the value at `path` and add a problem."""
        self.take(path)
        self.problems.append(ConfigProblem(self.marks[path].position, dotted(path), text))

    def ignore(self, path: KeyPath, why: str) -> None:
        """Remove the value at `path`; the notice names it with all others."""
        self.take(path)
        self.left_out(path, why)

    def left_out(self, path: KeyPath, why: str) -> None:
        """Name `path` in the notice about ignored keys."""
        self._ignored.setdefault(why, []).append(path)

    def spare(self, path: KeyPath, value: object) -> bool:
        """Whether the unknown key `path` is ignored, with a notice: in a file of another program, if it restricts
        nothing."""
        names = (str(step) for below, _mark in marks_of(value, self.marks[path], path[-1:]) for step in below)
        is_spared = self.is_foreign and not any(_RESTRICTS.search(to_snake(name)) for name in names)
        if is_spared:
            self.left_out(path, _UNKNOWN)
        return is_spared

    def notices(self, unused: Container[str] = ()) -> Iterator[str]:
        """The notices: one for all moved keys but those that became `unused` ones, one for all ignored ones, then the
        others."""
        moved = [(old, new) for old, new in self._moved if dotted(new) not in unused]
        if len(moved) == 1:
            [(old, new)] = moved
            yield f"{self.marks[old].position}: {dotted(old)} is read as {dotted(new)}"
        elif moved:
            text = _("{file}: {n} keys of other programs have another name here: {keys}")
            pairs = ", ".join(f"{dotted(old)} → {dotted(new)}" for old, new in moved)
            yield text.format(file=self.file, n=len(moved), keys=pairs)
        if len(ignored := [path for paths in self._ignored.values() for path in paths]) == 1:
            text = _("{place}: {key} is ignored: {why}")
            position, (why,) = self.marks[ignored[0]].position, self._ignored
            yield text.format(place=position, key=dotted(ignored[0]), why=_(why))
        elif ignored:
            text = _("{file}: {n} keys of other programs have no effect here: {keys}")
            groups = (f"{_some(paths)} ({_(why)})" for why, paths in self._ignored.items())
            yield text.format(file=self.file, n=len(ignored), keys="; ".join(groups))
        yield from self._notices

    def write(self, path: KeyPath, value: Any, mark: Mark) -> None:
        """Set `path` to `value`; everything below it gets the origin `mark`."""
        data, path = self._way_to(path, mark)
        data[str(path[-1])] = value
        self.marks |= marks_of(value, mark, path)

    def move(self, old: KeyPath, new: KeyPath) -> None:
        """Move the value at `old` to `new` and add a notice."""
        self.put(self.take(old), old, new)

    def renamed(self, old: KeyPath, new: KeyPath) -> None:
        """Name `old` in the notice about moved keys."""
        self._moved.append((old, new))

    def take(self, path: KeyPath) -> Any:
        """Remove and return a value, with the mappings that become empty; an agent remains."""
        value = self.at(path[:-1]).pop(path[-1])
        while (path := path[:-1]) and not self.at(path):
            if len(path) == 2 and path[0] == "agents" and path[1] != "entries":
                break
            del self.at(path[:-1])[path[-1]]
        return value

    def put(self, value: Any, old: KeyPath, new: KeyPath) -> None:
        """Store `value`, taken from `old`, at `new` with a notice; a problem if another value is already there."""
        self.renamed(old, new)
        data, path = self._way_to(new, self.marks[old])
        self._join(data, value, old, path)

    def _way_to(self, path: KeyPath, mark: Mark) -> tuple[dict[str, Any], KeyPath]:
        """Return the mapping that contains `path`, created if missing, and the path as spelled there."""
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
            text = f"means the same as {dotted(new)}, which is written in {self.marks[new].position}"
            self.problems.append(ConfigProblem(self.marks[old].position, dotted(old), text))
        else:
            data[str(new[-1])] = value
            moved = {path: mark for path, mark in self.marks.items() if path[: len(old)] == old}
            self.marks |= {
                (*new, *path[len(old) :]): mark._replace(key=mark.key or dotted(path)) for path, mark in moved.items()
            }

    @staticmethod
    def _spelled(data: dict[str, Any], key: str | int) -> str:
        """Return `key` as already spelled in `data`, if present."""
        return next((present for present in data if to_snake(present) == to_snake(str(key))), str(key))
