"""Damaged, strange and hostile data of other programs: what can be read arrives, nothing else is opened or run."""

from __future__ import annotations

import errno
import json
import os
import random
import threading
import zipfile
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from clawbot.importing import runs, source, write
from clawbot.importing.source import ImportFailedError, Skipped, array_items, first_time, lines_of
from tests.clocks import StillClock
from tests.importing import homes
from tests.importing.test_import import COUNTS, Place, paths, place_of, said

QUESTION = homes.ENGLISH[0][0]
STRANGE: tuple[Any, ...] = (
    None,
    7,
    -1.5,
    10**30,
    "",
    "x",
    "\ud800",
    [],
    [[]],
    [None, 3],
    {},
    {"type": {}},
    True,
    "9" * 50,
    [{"a": 1}],
)


def mutated(value: Any, chance: random.Random) -> Any:
    """`value` with one of its parts replaced by something strange."""
    places: list[tuple[Any, Any]] = []

    def walk(part: Any) -> None:
        for key in part if isinstance(part, dict) else range(len(part)) if isinstance(part, list) else ():
            places.append((part, key))
            walk(part[key])

    value = deepcopy(value)
    walk(value)
    part, key = chance.choice(places)
    if chance.random() < 0.3 and isinstance(part, dict):
        del part[key]
    else:
        part[key] = chance.choice(STRANGE)
    return value


LINES: dict[str, tuple[Callable[..., list[dict[str, Any]]], str]] = {
    "openclaw": (homes.pi_lines, "agents/main/sessions/{id}.jsonl"),
    "claude-code": (homes.claude_code_lines, "projects/-work/{id}.jsonl"),
    "codex": (homes.codex_lines, "sessions/2026/03/05/rollout-2026-03-05T09-00-00-{id}.jsonl"),
}


@pytest.mark.few(2)
@pytest.mark.parametrize("program", [*LINES, "chatgpt", "claude-ai"])
def test_whatever_is_strange_in_one_conversation_the_others_arrive(program: str, tmp_path: Path) -> None:
    place = place_of(program, tmp_path)
    chance = random.Random(7)
    if program in LINES:
        lines_for, name = LINES[program]
        for number in range(100, 300):
            file = place.path / name.format(id=homes.uid(number))
            lines = [
                mutated(line, chance) if chance.random() < 0.2 else line for line in lines_for(number, homes.ENGLISH)
            ]
            text = "".join(json.dumps(line) + chance.choice(("\n", "\r\n", "\n\n", "\x00\n")) for line in lines)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(
                text.encode() if number % 9 else b"\xef\xbb\xbf" + text.encode()[:-9].replace(b"hens", b"h\xff")
            )
    else:
        item_for = homes.chatgpt_item if program == "chatgpt" else homes.claude_ai_item
        items = [mutated(item_for(number, homes.ENGLISH), chance) for number in range(100, 400)]
        items = [item_for(1, homes.ENGLISH), *items, item_for(2, homes.ENGLISH)]
        place.path = place.path if place.path.is_dir() else place.path.parent
        (place.path / "conversations.json").write_text(json.dumps(items))
    outcome = place.run()
    assert outcome.new > 150
    good = [path for path in paths(place) if QUESTION in said(path)]
    assert len(good) > 120
    assert place.run().new == 0
    assert not place.undo(outcome.run).stays
    assert paths(place) == []


EXPORTS: dict[str, tuple[bytes, int]] = {
    "cut off": (
        json.dumps([homes.chatgpt_item(1, homes.ENGLISH), homes.chatgpt_item(2, homes.ENGLISH)])[:-40].encode(),
        1,
    ),
    "one item": (json.dumps([homes.chatgpt_item(1, homes.ENGLISH)]).encode(), 1),
    "byte order mark": (b"\xef\xbb\xbf" + json.dumps([homes.chatgpt_item(1, homes.ENGLISH)]).encode(), 1),
    "control characters": (json.dumps([homes.chatgpt_item(1, homes.ENGLISH)]).replace("coop", "co\top").encode(), 1),
    "deep": (json.dumps([homes.chatgpt_item(1, homes.ENGLISH)])[:-1].encode() + b"," + b"[" * 200_000, 1),
    "no list": (json.dumps(homes.chatgpt_item(1, homes.ENGLISH)).encode(), 1),
    "other things in it": (json.dumps([7, None, "x", homes.claude_ai_item(1, homes.ENGLISH)]).encode(), 1),
}


@pytest.mark.parametrize("zipped", [False, True])
@pytest.mark.parametrize("name", list(EXPORTS))
def test_of_a_damaged_export_the_rest_arrives(name: str, zipped: bool, tmp_path: Path) -> None:
    data, count = EXPORTS[name]
    path = tmp_path / ("x.zip" if zipped else "conversations.json")
    if zipped:
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("conversations.json", data)
    else:
        path.write_bytes(data)
    place = Place(tmp_path / "ours", path, StillClock())
    assert place.run().new == count


def test_split_files_are_one_export(tmp_path: Path) -> None:
    place = place_of("chatgpt", tmp_path)
    homes.chatgpt(place.path.parent, split=True)
    assert place.run().new == 2


def test_a_conversation_of_any_size_takes_a_bounded_part_of_the_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source, "MAX_SESSION", 2**21)
    path = tmp_path / "bomb.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("conversations.json", "w") as file:
        file.write(b"[" + json.dumps(homes.chatgpt_item(1, homes.ENGLISH)).encode() + b',{"mapping": {"')
        for _ in range(64):
            file.write(b"a" * 2**20)
    skipped = Skipped()
    read = 0

    class Counting:
        def __init__(self, inner: Any) -> None:
            self.inner = inner

        def read(self, size: int) -> bytes:
            nonlocal read
            read += size
            return bytes(self.inner.read(size))

    with zipfile.ZipFile(path) as archive, archive.open("conversations.json") as file:
        assert len(list(array_items(Counting(file), skipped))) == 1  # type: ignore[arg-type]  # it reads alone
    assert read < 2**24
    assert skipped == {"ends of files that can't be read": 1}


def test_a_damaged_archive_is_counted_and_what_was_read_stays(tmp_path: Path) -> None:
    path = tmp_path / "x.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("conversations-000.json", json.dumps([homes.chatgpt_item(1, homes.ENGLISH)]))
        archive.writestr("conversations-001.json", json.dumps([homes.chatgpt_item(2, homes.ENGLISH)]))
    data = path.read_bytes()
    at = data.rindex(b"blue coop")
    path.write_bytes(data[:at] + b"red  coop" + data[at + 9 :])
    place = Place(tmp_path / "ours", path, StillClock())
    outcome = place.run()
    assert outcome.skipped["damaged or encrypted files in the archive"] == 1
    assert outcome.new >= 1


def test_a_compressed_file_that_is_damaged_inside_is_counted(tmp_path: Path) -> None:
    path = tmp_path / "x.zip"
    name = "conversations-001.json"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("conversations-000.json", json.dumps([homes.chatgpt_item(1, homes.ENGLISH)]))
        archive.writestr(name, json.dumps([homes.chatgpt_item(2, homes.ENGLISH)]))
    data = bytearray(path.read_bytes())
    data[data.index(name.encode()) + len(name)] = 0x07  # a block of a type that deflate does not have
    path.write_bytes(data)
    outcome = Place(tmp_path / "ours", path, StillClock()).run()
    assert outcome.skipped["damaged or encrypted files in the archive"] == 1
    assert outcome.new >= 1


@pytest.mark.parametrize("mapping", [7, "x", True, [1], None])
def test_a_conversation_without_a_mapping_does_not_stop_the_others(mapping: Any, tmp_path: Path) -> None:
    items = [
        homes.chatgpt_item(1, homes.ENGLISH),
        {"id": "x", "mapping": mapping},
        homes.chatgpt_item(2, homes.ENGLISH),
    ]
    path = homes.put_lines(tmp_path / "conversations.json", [json.dumps(items).encode()])
    assert Place(tmp_path / "ours", path, StillClock()).run().new == 2


def test_a_note_that_cannot_be_read_does_not_stop_the_others(tmp_path: Path) -> None:
    place = place_of("openclaw", tmp_path)
    os.link(place.path / "workspace/USER.md", tmp_path / "elsewhere.md")
    (place.path / "workspace/large.md").write_bytes(b"x" * (runs.MAX_NOTE + 1))
    outcome = place.run()
    assert outcome.copied == ["MEMORY.md", "memory/2026-03-05.md"]
    assert sum(count for reason, count in outcome.skipped.items() if reason.startswith("a note that")) == 2


@pytest.mark.parametrize("program", list(LINES))
def test_links_pipes_and_foreign_folders_are_not_read(program: str, tmp_path: Path) -> None:
    place = place_of(program, tmp_path)
    name = LINES[program][1]
    secret = tmp_path / "secret.jsonl"
    homes.put_lines(secret, LINES[program][0](50, homes.ENGLISH))
    (place.path / name.format(id=homes.uid(50))).symlink_to(secret)
    os.mkfifo(place.path / name.format(id=homes.uid(51)))
    (place.path / name.format(id=homes.uid(52))).mkdir()
    done = threading.Event()
    outcomes: list[runs.Outcome] = []

    def work() -> None:
        outcomes.append(place.run())
        done.set()

    threading.Thread(target=work, daemon=True).start()
    assert done.wait(100)
    assert outcomes[0].new == COUNTS[program]
    passed_by = ("links and special files", "links", "pipes and devices")
    assert sum(outcomes[0].skipped.get(kind, 0) for kind in passed_by) >= 2


def test_lines_of_any_length_are_read_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "MAX_LINE", 1000)
    good = [{"n": number} for number in range(3)]
    long = json.dumps({"x": "y" * 5000}).encode() + b"\n"
    file = homes.put_lines(
        tmp_path / "a.jsonl", [good[0], long, b"\x00" * 3000 + b"\n", good[1], long[:999] + b"\n", good[2]]
    )
    skipped = Skipped()
    found = list(lines_of(file, skipped))
    assert [value for _, value in found] == good
    with file.open("rb") as opened:
        for at, value in found:
            opened.seek(at)
            assert json.loads(opened.readline()) == value
    assert skipped == {"lines longer than 32 MiB": 2, "lines that can't be read": 1}


OTHER_JSON = {
    "projects": '[{"uuid": "p", "name": "x", "docs": []}]',
    "wrapped": '{"conversations": [{"mapping": {}}]}',
}


@pytest.mark.parametrize(
    "name", ["nothing", "empty", "text.zip", "notes.json", "conversations.json", "projects", "wrapped"]
)
def test_what_is_no_data_of_these_programs_is_refused_with_a_hint(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    if name == "empty":
        path.mkdir()
    elif name in OTHER_JSON:
        path = tmp_path / "conversations.json"
        path.write_text(OTHER_JSON[name])
    elif name != "nothing":
        path.write_text("hello" if "zip" in name else "[]")
    with pytest.raises(ImportFailedError):
        runs.recognise(path, Skipped())


TIMES: list[tuple[Any, int]] = [
    ("2026-03-05T09:00:00Z", 1772701200000),
    ("2026-03-05T09:00:00.000+00:00", 1772701200000),
    (1772701200, 1772701200000),
    (1772701200.25, 1772701200250),
    (1772701200000, 1772701200000),
    *((strange, 0) for strange in (None, "", "soon", -5, float("nan"), float("inf"), 10**40, True)),
    ([], 0),
    ({}, 0),
]


@pytest.mark.parametrize(("value", "found"), TIMES)
def test_times_of_all_forms(value: Any, found: int) -> None:
    assert first_time(value) == found


@pytest.mark.parametrize("lost", ["all", "of answers", "one line", "uuids"])
def test_lines_of_claude_code_without_their_links_are_read_in_their_order(lost: str, tmp_path: Path) -> None:
    place = place_of("claude-code", tmp_path)
    lines = [line for line in homes.claude_code_lines(60, homes.ENGLISH) if "taken back" not in json.dumps(line)]
    for line in lines:
        if lost in ("all", "uuids") or (lost == "of answers" and line["type"] == "assistant"):
            line["parentUuid"] = None
        if lost == "uuids":
            del line["uuid"]
    if lost == "one line":
        del lines[4]
    homes.put_lines(place.path / "projects/-work" / f"{homes.uid(60)}.jsonl", lines)
    place.run()
    spoken = [text for pair in homes.ENGLISH for text in pair]
    ident = lines[0].get("uuid", homes.uid(60))
    (path,) = (each for each in paths(place) if f'"id":"{ident}"' in each.read_text())
    assert [text for text in said(path) if text in spoken] == spoken


@pytest.mark.long
@pytest.mark.parametrize("language", list(homes.WORDS))
@pytest.mark.parametrize("program", list(homes.HOMES))
def test_fifty_megabytes_of_one_conversation_arrive(program: str, language: str, tmp_path: Path) -> None:
    words = homes.WORDS[language]
    place = Place(tmp_path / "ours", homes.large(program, tmp_path / "theirs", words, 50_000_000), StillClock())
    place.home.mkdir()
    assert sum(file.stat().st_size for file in place.path.rglob("*.json*")) > 50_000_000
    outcome = place.run()
    (path,) = paths(place)
    assert said(path)[-4:] == [text for pair in words for text in pair]
    assert place.run().same == 1
    assert not place.undo(outcome.run).stays
    assert paths(place) == []


def test_a_full_disk_is_named_and_the_next_run_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = place_of("claude-code", tmp_path)

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(write.Composer, "write", full)
        with pytest.raises(ImportFailedError, match=r"No space left on device\. Free some space") as caught:
            place.run()
    assert str(place.store.folder) in str(caught.value)
    assert place.run().new
