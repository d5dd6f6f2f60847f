"""Equal and nearly equal lines take one place in an answer."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, timedelta
from pathlib import Path

import pytest

from clawbot.config.schema_memory import MemorySearchSettings
from clawbot.memory.search.copies import folded_hits
from clawbot.memory.values import Hit
from tests.memory.search.notes import CLASSIC, LINES, Searcher, build

DAYS = [*range(10, 29)]
DISK = "- The nightly copy of the pictures goes to the blue disk now, not to the photo server."
硬盘 = "- 照片现在备份到蓝色硬盘，不再是照片服务器。"

REPEATED = [
    ("- Backup of the photo server ran, no errors.", "where does the backup of the photo server go", DISK),
    ("- [ ] Check the backup of the photo server", "where does the backup of the photo server go", DISK),
    ("## Backup of the photo server\n\nran", "where does the backup of the photo server go", DISK),
    ("- Backup of the photo server took {n} minutes", "where does the backup of the photo server go", DISK),
    ("- 07:{n} backup of the photo server: done on {month}/{n}", "where does the backup of the photo server go", DISK),
    (
        "[2026-{month}-{n} 07:30] backup of the photo server ok today",
        "where does the backup of the photo server go",
        DISK,
    ),
    ("| backup | photo server | ok |", "where does the backup of the photo server go", DISK),
    ("- 照片服务器备份完成，没有错误。", "照片服务器备份到哪里", 硬盘),
    ("- [ ] 检查照片服务器的备份", "照片服务器备份到哪里", 硬盘),
    ("- 照片服务器备份用了 {n} 分钟", "照片服务器备份到哪里", 硬盘),
    ("## 照片服务器备份\n\n完成", "照片服务器备份到哪里", 硬盘),
]


def daily(line: str, name: str = "memory/2026-{month}-{n}.md") -> dict[str, str]:
    """A note with `line` for each of 38 days."""
    days = [("01", day) for day in DAYS] + [("02", day) for day in DAYS]
    return {name.format(month=month, n=n): line.format(month=month, n=n) + "\n" for month, n in days}


@pytest.mark.parametrize("settings", [LINES, CLASSIC], ids=["lines", "classic"])
@pytest.mark.parametrize(("line", "query", "answer"), REPEATED)
def test_a_line_of_each_day_takes_one_place(
    tmp_path: Path, line: str, query: str, answer: str, settings: MemorySearchSettings
) -> None:
    files = {**daily(line), "memory/2026-03-01.md": answer + "\n"}
    hits = Searcher(build(tmp_path / "i.sqlite", files, settings), settings).ask(query, max_results=24).hits
    if settings is LINES:
        assert [hit.path for hit in hits if hit.snippet.strip() == answer.strip()] == ["memory/2026-03-01.md"]
    (other,) = [hit for hit in hits if hit.path != "memory/2026-03-01.md"]
    assert other.more is not None
    # The profile `classic` compares no more than its candidates.
    if settings is LINES:
        assert other.path == "memory/2026-02-28.md"
        assert (other.more.count, other.more.last) == (37, date(2026, 2, 27))


def test_more_lines_than_are_ranked_take_one_place(tmp_path: Path) -> None:
    days = [date(2025, 1, 1) + timedelta(number) for number in range(399)]
    files = {f"memory/{day}.md": "- Backup of the photo server ran, no errors.\n" for day in days}
    files["memory/2026-03-01.md"] = DISK + "\n"
    hits = Searcher(build(tmp_path / "i.sqlite", files)).ask("where does the backup of the photo server go").hits
    assert DISK in [hit.snippet for hit in hits]
    assert len(hits) == 2


@pytest.mark.parametrize(
    ("old", "new", "query"),
    [
        ("- The port of the proxy is 8443.", "- The port of the proxy is 9443.", "port of the proxy"),
        ("- 代理的端口是 8443。", "- 代理的端口是 9443。", "代理的端口"),
        ("- [ ] pay the rent for the flat", "- [x] pay the rent for the flat", "rent for the flat"),
        ("- Choir practice is on Monday evening", "- Choir practice is on Tuesday evening", "choir practice"),
        ("- Dentist on 3 March at the old square", "- Dentist on 9 April at the old square", "dentist old square"),
    ],
)
def test_a_changed_value_stays_visible_behind_the_newest(tmp_path: Path, old: str, new: str, query: str) -> None:
    files = {f"memory/2026-01-{day}.md": f"{old}\n" for day in DAYS}
    files |= {f"memory/2026-02-{day}.md": f"{new}\n" for day in DAYS}
    hits = Searcher(build(tmp_path / "i.sqlite", files)).ask(query).hits
    assert [hit.snippet for hit in hits] == [new, old]
    assert [hit.path for hit in hits] == ["memory/2026-02-28.md", "memory/2026-01-28.md"]
    assert [hit.more and hit.more.count for hit in hits] == [18, 18]


@pytest.mark.parametrize(
    ("lines", "query"),
    [
        (["- I like strong tea in the morning", "- I don't like strong tea in the morning"], "strong tea"),
        (["- 我早上喜欢喝浓茶", "- 我早上不喜欢喝浓茶"], "浓茶"),
        (["- Tom owes Anna the money", "- Anna owes Tom the money"], "who owes the money"),
    ],
)
def test_lines_that_differ_in_what_matters_both_stay(tmp_path: Path, lines: Sequence[str], query: str) -> None:
    files = {f"memory/2026-01-{10 + at}.md": f"{line}\n" for at, line in enumerate(lines)}
    assert {hit.snippet for hit in Searcher(build(tmp_path / "i.sqlite", files)).ask(query).hits} == set(lines)


def test_short_lines_of_two_things_both_stay(tmp_path: Path) -> None:
    files = {
        "memory/2026-01-10.md": "# Alpha\n\n- Status: done\n",
        "memory/2026-01-11.md": "# Beta\n\n- Status: done\n",
        "memory/2026-01-12-gamma.md": "- Status: done\n",
        "memory/2026-01-13-delta.md": "- Status: done\n",
    }
    hits = Searcher(build(tmp_path / "i.sqlite", files)).ask("status of alpha, beta, gamma and delta").hits
    assert {hit.path for hit in hits} == set(files)


def test_the_line_of_the_day_that_is_asked_for_is_the_one_that_is_kept(tmp_path: Path) -> None:
    searcher = Searcher(build(tmp_path / "i.sqlite", daily("- Backup of the photo server ran, no errors.")))
    hits = searcher.ask("did the backup of the photo server run on 14 January 2026?").hits
    assert hits[0].path == "memory/2026-01-14.md"
    found = searcher.ask("photo server", after=date(2026, 1, 12), before=date(2026, 1, 14)).hits
    assert [(hit.path, hit.more and hit.more.count) for hit in found] == [("memory/2026-01-14.md", 2)]


def test_a_number_of_the_question_is_kept(tmp_path: Path) -> None:
    files = {f"memory/2026-01-{day}.md": f"- Order 47{day} was shipped to the shop\n" for day in DAYS}
    hits = Searcher(build(tmp_path / "i.sqlite", files)).ask("was order 4711 shipped").hits
    assert "- Order 4711 was shipped to the shop" in [hit.snippet for hit in hits]
    assert len(hits) == 2


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("User: run the backup of the photo server again", "backup of the photo server"),
        ("Assistant: Backup of the photo server ran, {n} files.", "backup of the photo server"),
        ("User: 再备份一次照片服务器吧", "照片服务器备份"),
        ("Assistant: 照片服务器备份完成，{n} 个文件。", "照片服务器备份"),
        ("User: [cron] heartbeat of the photo server is ok", "heartbeat of the photo server"),
    ],
)
def test_what_is_said_again_in_conversations_takes_one_place(tmp_path: Path, text: str, query: str) -> None:
    files = {f"sessions/2026-01-{day}.jsonl": text.format(n=day) + "\n" for day in DAYS}
    files |= {"sessions/2026-01-28-fork.jsonl": text.format(n=28) + "\n"}
    hits = Searcher(build(tmp_path / "i.sqlite", files)).ask(query, sources=("sessions",)).hits
    assert [(hit.path[:19], hit.more and hit.more.count) for hit in hits] == [("sessions/2026-01-28", 18)]


def test_hits_of_other_backends_are_folded() -> None:
    hits = [Hit(f"memory/2026-01-{day}.md", 1, 1, 0.5, "Backup of the server ran.", "memory") for day in DAYS]
    (found,) = folded_hits(hits)
    assert (found.path, found.more and found.more.count) == ("memory/2026-01-28.md", 18)


# A note whose heading says nothing but a day or a time, a question, and the line that answers it.
HEADINGS = [
    ("# 2026-03-02\nBought a bicycle from Ben.\n", "bicycle"),
    ("## 2026-03-02 Mon\n\n- Bought a bicycle from Ben.\n", "bicycle"),
    ("### [2026-03-02 10:30]\n\nBought a bicycle from Ben.\n", "bicycle"),
    ("# 2026-03-02\n\n## 10:30\n\nBought a bicycle from Ben.\n", "bicycle"),
    ("# 2026-03-02\n\n- 从小本那里买了一辆自行车。\n", "自行车"),
    ("# 2026-03-02\n\n[ ] Buy a bicycle from Ben\n", "bicycle"),
]


@pytest.mark.parametrize(("note", "query"), HEADINGS)
def test_a_line_stands_for_no_copy_of_its_own_below_the_heading(tmp_path: Path, note: str, query: str) -> None:
    hits = Searcher(build(tmp_path / "i.sqlite", {"memory/2026-03-02.md": note}, LINES), LINES).ask(query).hits
    assert [hit.more for hit in hits] == [None] * len(hits)
    assert hits


@pytest.mark.parametrize("heading", ["## {n}:30", "# 2026-01-{n}", "## [2026-01-{n}]"])
def test_lines_below_headings_of_times_count_once(tmp_path: Path, heading: str) -> None:
    files = {f"memory/2026-01-{n}.md": f"{heading.format(n=n)}\n\nBackup of the photo server ran.\n" for n in DAYS}
    hits = (
        Searcher(build(tmp_path / "i.sqlite", files, LINES), LINES)
        .ask("backup of the photo server", max_results=24)
        .hits
    )
    assert sum(1 + (hit.more.count if hit.more else 0) for hit in hits) <= 2 * len(DAYS)
    assert max(hit.more.count for hit in hits if hit.more) < len(DAYS)


MATTER = "---\ntitle: Garden plan\ntags: [garden, roses]\n---\n"
# What follows the front matter, a question, and whether the answer is more than front matter.
NOTES = [
    ("\n# Garden plan\n\nThe roses need water on Monday.\n", "garden plan"),
    ("\n# Garden plan\n\nThe roses need water on Monday.\n", "roses"),
    ("\nThe roses need water on Monday.\n", "tags"),
    ("The roses need water on Monday.\n", "garden"),
    ("\n\n- The roses need water on Monday.\n- The hedge needs none.\n", "garden plan"),
    ("\n## 玫瑰\n\n星期一给玫瑰浇水 on Monday.\n", "garden plan"),
]


@pytest.mark.parametrize(("text", "query"), NOTES)
def test_front_matter_alone_is_no_hit(tmp_path: Path, text: str, query: str) -> None:
    searcher = Searcher(build(tmp_path / "i.sqlite", {"memory/garden.md": MATTER + text}, LINES), LINES)
    hits = searcher.ask(query).hits
    assert any("Monday" in hit.snippet for hit in hits)
    assert not [hit.snippet for hit in hits if hit.snippet.strip().endswith("---")]


def test_a_note_of_front_matter_alone_is_found(tmp_path: Path) -> None:
    searcher = Searcher(build(tmp_path / "i.sqlite", {"memory/garden.md": MATTER}, LINES), LINES)
    assert [hit.snippet.strip() for hit in searcher.ask("garden plan").hits] == [MATTER.strip()]
