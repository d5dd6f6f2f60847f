"""What a sync has to do, by size and time."""

from __future__ import annotations

from msgspec import Struct

from clawbot.memory.documents.library import is_stale, make_plan
from clawbot.memory.documents.memory_files import UNSETTLED
from clawbot.memory.documents.walking import FileState
from clawbot.memory.values import Source


class Entry(Struct, frozen=True):
    size: int
    mtime_ns: int
    source: Source = "memory"


def state(path: str, size: int = 3, mtime_ns: int = 7, source: Source = "memory") -> FileState:
    return FileState(path, source, size, mtime_ns)


def test_new_changed_gone_and_kept() -> None:
    known = {"same.md": Entry(3, 7), "longer.md": Entry(3, 7), "later.md": Entry(3, 7), "gone.md": Entry(3, 7)}
    plan = make_plan(
        [state("same.md"), state("longer.md", size=4), state("later.md", mtime_ns=8), state("新.md")], known
    )
    assert [file.path for file in plan.added] == ["新.md"]
    assert [file.path for file in plan.changed] == ["longer.md", "later.md"]
    assert plan.removed == ("gone.md",)
    assert plan.unchanged == 1
    assert [file.path for file in plan.to_read] == ["longer.md", "later.md", "新.md"]


def test_what_could_not_be_looked_at_stays() -> None:
    known = {"memory/a.md": Entry(3, 7), "memory/子/b.md": Entry(3, 7), "MEMORY.md": Entry(3, 7)}
    plan = make_plan([state("memory/a.md")], known, {"memory/子"})
    assert (plan.removed, plan.unchanged) == (("MEMORY.md",), 2)


def test_nothing_to_do() -> None:
    assert make_plan([], {}).is_empty
    assert make_plan([state("a.md")], {"a.md": Entry(3, 7)}).is_empty


def test_an_older_time_is_a_change_too() -> None:
    assert not make_plan([state("restored.md", mtime_ns=1)], {"restored.md": Entry(3, 7)}).is_empty


def test_a_path_that_another_source_took_over_is_read_anew() -> None:
    plan = make_plan([state("a.md", source="sessions")], {"a.md": Entry(3, 7)})
    assert [file.path for file in plan.changed] == ["a.md"]


def test_what_was_read_too_soon_is_read_again_but_not_called_stale() -> None:
    known = {"a.md": Entry(3, UNSETTLED)}
    plan = make_plan([state("a.md")], known)
    assert [file.path for file in plan.changed] == ["a.md"]
    assert not is_stale(plan, known)
    assert is_stale(make_plan([state("a.md", size=4)], known), known)
    assert is_stale(make_plan([state("a.md", mtime_ns=8)], {"a.md": Entry(3, 7)}), {"a.md": Entry(3, 7)})
    assert is_stale(make_plan([], known), known)
    assert is_stale(make_plan([state("b.md")], {}), {})
