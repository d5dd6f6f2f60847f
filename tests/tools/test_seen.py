"""`write` replaces what its model has seen, and nothing else: by table, as one session calls its tools."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import structs

from clawbot.config.schema_agent import AgentSettings, FileSettings, ToolSettings
from clawbot.messages import AssistantMessage, Message, TextBlock, ToolCallBlock, ToolResultMessage
from clawbot.tools.folder import WorkspaceFolder
from clawbot.tools.protocol import ApprovalAnswer, Approver, ToolOutcome
from clawbot.tools.seen import VIEWS, Views
from tests.tools.conftest import User, box_of, names, nobody

Step = tuple[str, Any]
FILE = "notes.md"
OLD, MINE = b"# Plan\n- tea\n", b"# Plan\n- tea\n- added by hand\n"
REFUSED = "was not written: "
LONG = b"".join(b"line %d\n" % n for n in range(1, 61))


class Session:
    """Calls tools as a session of its own: `request` is what its model was sent before it answered."""

    def __init__(self, workspace: Path, max_chars: int = 40_000, approve: Approver = nobody) -> None:
        self.workspace = workspace
        files = FileSettings(ask=["all"] if approve is not nobody else [])
        settings = AgentSettings(tools=ToolSettings(output_max_chars=max_chars, files=files))
        self._box = box_of(workspace, settings)
        self._approve = approve
        self.request: list[Message] = []

    async def answer(self, *made: Step) -> list[ToolOutcome]:
        """Run the calls of one answer."""
        blocks = [ToolCallBlock(f"c{at}", name, arguments) for at, (name, arguments) in enumerate(made)]
        since: list[Message] = []
        VIEWS.set(lambda: Views(self.request, since))
        outcomes = []
        for block in blocks:
            outcomes.append(await self._box.run(block, self._approve))
            text = [TextBlock(outcomes[-1].text)]
            since.append(ToolResultMessage(block.id, block.name, [*text], details=outcomes[-1].details))
        self.request += [AssistantMessage([*blocks]), *since]
        return outcomes

    async def take(self, steps: Sequence[Step]) -> None:
        """`user` puts bytes into the file, None: deletes it; all else is a call that must succeed."""
        for name, arguments in steps:
            if name == "user":
                put(self.workspace / FILE, arguments)
            else:
                [outcome] = await self.answer((name, arguments))
                assert not outcome.is_error, outcome.text

    async def write(self, content: str, path: str = FILE) -> ToolOutcome:
        return (await self.answer(("write", {"path": path, "content": content})))[0]


def put(file: Path, data: bytes | None) -> None:
    """As an editor saves: by a rename. None: as it is deleted."""
    if data is None:
        file.unlink()
        return
    (file.parent / "saved.tmp").write_bytes(data)
    (file.parent / "saved.tmp").replace(file)


def read(path: str = FILE, **part: int) -> Step:
    return "read", {"path": path, **part}


def edit(old: str, new: str) -> Step:
    return "edit", {"path": FILE, "old": old, "new": new}


def append(content: str) -> Step:
    return "append", {"path": FILE, "content": content}


def wrote(content: str) -> Step:
    return "write", {"path": FILE, "content": content}


def user(data: bytes | None) -> Step:
    return "user", data


KEPT: dict[str, tuple[bytes, list[Step]]] = {
    "never read": (OLD, []),
    "never read, one line": (b"x", []),
    "never read, blank": (b" \n\n", []),
    "read, then changed": (OLD, [read(), user(MINE)]),
    "read, then a line deleted": (MINE, [read(), user(OLD)]),
    "read, then lines moved": (MINE, [read(), user(b"# Plan\n- added by hand\n- tea\n")]),
    "read, then only the last line break": (OLD, [read(), user(OLD.rstrip())]),
    "read, then other line breaks": (OLD, [read(), user(OLD.replace(b"\n", b"\r\n"))]),
    "read, then a mark": (OLD, [read(), user(b"\xef\xbb\xbf" + OLD)]),
    "read, then in UTF-16": (OLD, [read(), user(MINE.decode().encode("utf-16"))]),
    "read, then binary": (OLD, [read(), user(b"\x89PNG\0\0")]),
    "binary": (b"\x89PNG\0\0", []),
    "read twice, changed between and after": (OLD, [read(), user(MINE), read(), user(MINE + b"- two\n")]),
    "deleted and made again": (OLD, [read(), user(None), user(MINE)]),
    "own edit, taken back": (OLD, [read(), edit("tea", "coffee"), user(OLD)]),
    "own write, taken back": (OLD, [read(), wrote("mine\n"), user(OLD)]),
    "an older version is back": (OLD, [read(), user(MINE), read(), user(OLD)]),
    "own, then changed": (b"", [wrote("mine\n"), user(MINE)]),
    "own and deleted, then another": (b"", [wrote("mine\n"), user(None), user(OLD)]),
    "edited, then changed": (OLD, [read(), edit("tea", "coffee"), user(MINE)]),
    "changed, then edited": (OLD, [read(), user(MINE), edit("tea", "coffee")]),
    "changed, then appended": (OLD, [read(), user(MINE), append("- bread")]),
    "edited and never read": (OLD, [edit("tea", "coffee")]),
    "appended and never read": (OLD, [append("- bread")]),
    "only a part": (LONG, [read(limit=30)]),
    "the other part alone": (LONG, [read(offset=31)]),
    "parts with a gap": (LONG, [read(limit=30), read(offset=32)]),
    "parts of two versions": (LONG, [read(limit=30), user(b"new\n" + LONG), read(offset=31)]),
    "a part, then edited": (LONG, [read(limit=30), edit("line 7\n", "seven\n")]),
    "a part, then appended": (LONG, [read(limit=30), append("end")]),
    "a part edited, then the rest": (LONG, [read(limit=30), edit("line 7\n", "seven\n"), read(offset=31)]),
    "searched": (OLD, [("grep", {"pattern": "tea"})]),
    "another file read": (OLD, [read("MEMORY.md")]),
}  # fmt: skip


@pytest.mark.parametrize("name", KEPT)
async def test_what_was_not_seen_is_never_replaced(workspace: Path, name: str) -> None:
    before, steps = KEPT[name]
    put(workspace / FILE, before)
    session = Session(workspace)
    await session.take(steps)
    now = (workspace / FILE).read_bytes()
    outcome = await session.write("# Plan\n- mine\n")
    assert outcome.is_error
    assert outcome.text.startswith(FILE)
    assert (workspace / FILE).read_bytes() == now
    again = [] if b"\0\0" in now else [read()]
    await session.take(again)
    assert (await session.write("# Plan\n- mine\n")).is_error != bool(again)


WRITTEN: dict[str, tuple[bytes | None, list[Step]]] = {
    "new": (None, []),
    "empty": (b"", []),
    "nothing but a mark": (b"\xef\xbb\xbf", []),
    "what is there already": (b"# Plan\n- mine\n", []),
    "read": (OLD, [read()]),
    "read, and why": (OLD, [("read", {"path": FILE, "explanation": "to look", "hurry": True})]),
    "read without a line break at the end": (b"one\ntwo", [read()]),
    "read with other line breaks": (OLD.replace(b"\n", b"\r\n"), [read()]),
    "read with a mark": (b"\xef\xbb\xbf" + OLD, [read()]),
    "read in UTF-16": (OLD.decode().encode("utf-16"), [read()]),
    "read with bad bytes": (b"caf\xe9\n", [read()]),
    "read blank": (b" \n\n", [read()]),
    "read, changed, read again": (OLD, [read(), user(MINE), read()]),
    "read, changed and changed back": (OLD, [read(), user(MINE), user(OLD)]),
    "read, saved unchanged": (OLD, [read(), user(OLD)]),
    "deleted": (OLD, [read(), user(None)]),
    "own": (b"", [wrote("mine\n")]),
    "own, twice": (OLD, [read(), wrote("mine\n"), wrote("yours\n")]),
    "own, appended and edited": (None, [append("tea"), append("bread"), edit("tea", "coffee")]),
    "read, edited": (OLD, [read(), edit("tea", "coffee")]),
    "read, edited with other line breaks": (b"a\r\nb\r\n", [read(), edit("a\nb", "b\na")]),
    "read, appended": (b"no line break", [read(), append("- bread")]),
    "read in UTF-16, appended and edited": (OLD.decode().encode("utf-16"), [read(), append("- 茶"), edit("茶", "酒")]),
    "parts": (LONG, [read(limit=30), read(offset=31)]),
    "parts that overlap": (LONG, [read(limit=40), read(offset=20)]),
    "parts backwards": (LONG, [read(offset=31), read(limit=30)]),
    "parts, then own changes": (LONG, [read(limit=30), read(offset=31), edit("line 7\n", "7\n"), append("x")]),
}  # fmt: skip


@pytest.mark.parametrize("name", WRITTEN)
async def test_what_was_seen_is_replaced(workspace: Path, name: str) -> None:
    before, steps = WRITTEN[name]
    if before is not None:
        put(workspace / FILE, before)
    session = Session(workspace)
    await session.take(steps)
    outcome = await session.write("# Plan\n- mine\n")
    assert not outcome.is_error, outcome.text
    assert (workspace / FILE).read_text(encoding="utf-8") == "# Plan\n- mine\n"


NAMES = ["./notes.md", "memory/../notes.md", "{root}/notes.md", "link.md", "folder/notes.md", "twin.md"]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("changed", [False, True])
async def test_another_name_is_the_same_file(workspace: Path, name: str, *, changed: bool) -> None:
    (workspace / FILE).write_bytes(OLD)
    (workspace / "link.md").symlink_to(FILE)
    (workspace / "folder").symlink_to(".")
    (workspace / "twin.md").hardlink_to(workspace / FILE)
    other = name.format(root=workspace)
    for first, second in ((FILE, other), (other, FILE)):
        (workspace / FILE).write_bytes(OLD)
        session = Session(workspace)
        await session.take([read(first)])
        if changed:
            (workspace / FILE).write_bytes(MINE)
        assert (await session.write("new\n", second)).is_error == changed
        if name == "twin.md":
            break  # from here on they are two files


UNREAD = "it exists, and you have not read it, or no longer have what you read. Read all of it"
BY_HAND = b"# \xe8\xae\xa1\xe5\x88\x92\n- \xe8\x8c\xb6\n"  # 计划, 茶

# The file, what is done, what the refusal says, and whether a merged text can be written at once.
REFUSALS: dict[str, tuple[bytes, list[Step], str, bool]] = {
    "never read": (OLD, [], UNREAD, False),
    "a part": (LONG, [read(limit=30)], "you have seen 30 of its 60 lines, and a part is not the file. Read all", False),
    "two parts": (b"x\n" * 9, [read(limit=3), read(offset=5, limit=2)], "you have seen 5 of its 9 lines", False),
    "a line too long": (b"a\n" + b"x" * 50_000 + b"\nb", [read(limit=2), read(offset=3)], "seen 2 of its 3", False),
    "a part of an older one": (LONG, [read(limit=30), user(OLD)], UNREAD, False),
    "edited unread": (OLD, [edit("tea", "coffee")], UNREAD, False),
    "a line more": (OLD, [read(), user(MINE)], "(+1 -0 lines):\n@@ -1,2 +1,3 @@\n # Plan\n - tea\n+- added by", True),
    "a line less": (MINE, [read(), user(OLD)], "(+0 -1 lines):\n@@ -1,3 +1,2 @@\n # Plan\n - tea\n-- added by", True),
    "Chinese": (BY_HAND, [read(), user(BY_HAND + "- 用户加的\n".encode())], " # 计划\n - 茶\n+- 用户加的\n", True),
    "Windows": (OLD.replace(b"\n", b"\r\n"), [read(), user(MINE.replace(b"\n", b"\r\n"))], "(+1 -0 lines)", True),
    "line breaks": (OLD, [read(), user(OLD.replace(b"\n", b"\r\n"))], "(+0 -0 lines):\n(only line breaks,", True),
    "a mark": (OLD, [read(), user(b"\xef\xbb\xbf" + OLD)], "(only line breaks, the end of the file or its", True),
    "UTF-16": (OLD, [read(), user(MINE.decode().encode("utf-16"))], "\n - tea\n+- added by hand\n", True),
    "the end": (OLD, [read(), user(OLD + b"\n")], "(+1 -0 lines)", True),
    "own": (b"", [wrote(OLD.decode()), user(MINE)], "(+1 -0 lines):\n@@ -1,2 +1,3 @@\n # Plan\n - tea\n+- added", True),
    "own edit": (OLD, [read(), edit("tea", "coffee"), user(MINE)], "\n-- coffee\n+- tea\n+- added by hand\n", True),
    "own edit, taken back": (OLD, [read(), edit("tea", "coffee"), user(OLD)], "\n-- coffee\n+- tea\n", True),
    "own write, taken back": (OLD, [read(), wrote("mine\n"), user(OLD)], "\n-mine\n+# Plan\n+- tea\n", True),
    "own append": (OLD, [read(), append("- bread"), user(MINE)], "\n - tea\n-- bread\n+- added by hand\n", True),
    "an edit of theirs": (OLD, [read(), user(MINE), edit("tea", "ale")], "\n - ale\n+- added by hand\n", True),
    "read in two parts": (LONG, [read(limit=30), read(offset=31), user(b"0\n" + LONG)], "\n+0\n line 1\n", True),
    "deleted and made again": (OLD, [read(), user(None), user(MINE)], "+- added by hand", True),
    "read, then another part": (OLD, [read(), user(MINE), read(limit=1)], "+- added by hand", True),
    "all is new": (OLD, [read(), user(LONG * 60)], "(+3600 -2 lines), too much to show here. Read all", False),
    "too many lines": (OLD, [read(), user(b"x\n" * 5_000)], "(+5000 -2 lines), too much", False),
    "a long line": (OLD, [read(), user(b"x" * 9_000)], "(+1 -2 lines), too much", False),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSALS)
async def test_a_refusal_shows_what_has_changed_so_that_it_can_be_merged(workspace: Path, name: str) -> None:
    before, steps, text, complete = REFUSALS[name]
    put(workspace / FILE, before)
    session = Session(workspace)
    await session.take(steps)
    now = (workspace / FILE).read_bytes()
    for _ in range(2):  # again just the same is refused again
        refused = await session.write("# Plan\n- mine\n")
        assert refused.is_error
        assert text in refused.text
        assert len(refused.text) < 4_500
        assert ("Write it again with these changes in it" in refused.text) == complete
        assert (workspace / FILE).read_bytes() == now
    merged = await session.write("# Plan\n- mine\n- and theirs\n")
    assert merged.is_error != complete
    if complete:
        put(workspace / FILE, b"changed once more\n")
        assert "+changed once more" in (await session.write("# Plan\n")).text
    elif len(now) < 4_000:
        await session.take([read(), wrote("# Plan\n- mine\n")])


async def test_a_difference_to_what_left_the_context_shows_nothing(workspace: Path) -> None:
    (workspace / FILE).write_bytes(OLD)
    session = Session(workspace)
    await session.take([read(), user(MINE)])
    assert "+- added by hand" in (await session.write("mine\n")).text
    del session.request[:2]  # the call and the result of the read, as a compaction does
    for _ in range(2):
        assert UNREAD in (await session.write("# Plan\n- added by hand\n")).text


async def test_what_is_no_text_is_never_written_over(workspace: Path) -> None:
    (workspace / "cat.png").write_bytes(b"\x89PNG\0\0")
    session = Session(workspace)
    assert (await session.write("x", "cat.png")).text == "cat.png is no text: image/png, 6 bytes."


async def test_a_result_of_the_same_answer_was_not_seen(workspace: Path) -> None:
    (workspace / FILE).write_bytes(MINE)
    session = Session(workspace)
    _, written = await session.answer(read(), wrote("mine\n"))
    assert written.is_error
    assert (workspace / FILE).read_bytes() == MINE
    changes = await session.answer(edit("tea", "coffee"), wrote("mine\n"), append("x"), wrote("yours\n"))
    assert [outcome.is_error for outcome in changes] == [False] * 4


@pytest.mark.parametrize("cut", ["shorter", "none", "as long"])
async def test_a_result_that_was_shortened_counts_no_more(workspace: Path, cut: str) -> None:
    (workspace / FILE).write_bytes(OLD)
    session = Session(workspace)
    await session.take([read()])
    result = session.request.pop()
    assert isinstance(result, ToolResultMessage)
    if cut != "none":
        text = result.text if cut == "as long" else f"{result.text[:5]}…"
        session.request.append(structs.replace(result, content=[TextBlock(text)]))
    assert (await session.write("new\n")).is_error == (cut != "as long")


async def test_a_file_with_a_line_that_can_t_be_shown_is_edited_only(workspace: Path) -> None:
    (workspace / FILE).write_bytes(b"one\n" + b"x" * 9_000 + b"\nend\n")
    session = Session(workspace, max_chars=2_000)
    await session.take([read(), read(offset=2), read(offset=3)])
    assert REFUSED in (await session.write("new\n")).text
    await session.take([edit("end", "the end")])


async def test_a_file_longer_than_a_result_is_read_on(workspace: Path) -> None:
    (workspace / FILE).write_bytes(LONG * 20)
    session = Session(workspace, max_chars=4_000)
    at, parts = 1, 0
    while at:
        assert (await session.write("new\n")).is_error
        [shown] = await session.answer(read(offset=at))
        notice = shown.text.rpartition("offset=")[2].rstrip("]")
        at, parts = int(notice) if notice.isdigit() else 0, parts + 1
    assert parts > 2
    assert not (await session.write("new\n")).is_error


RECORD = {"path": FILE, "digest": "{now}", "chars": 13, "first": 1, "last": 2, "total": 2}


@pytest.mark.parametrize(
    "record",
    [
        None, "seen", [], {"seen": None}, {"seen": {"digest": "x"}}, {"seen": {**RECORD, "digest": 5}},
        {"seen": {**RECORD, "digest": "x"}}, {"seen": {**RECORD, "total": "2"}}, {"seen": {**RECORD, "total": 3}},
        {"seen": {**RECORD, "first": 10**15, "last": 10**15}}, {"seen": {**RECORD, "cut": [2]}},
        {"seen": {**RECORD, "chars": 12}}, {"seen": {"digest": "{now}", "was": [1]}}, {"seen": {"was": "x"}},
        {"seen": {"digest": "{now}", "part": [1, 2, 2, 13]}}, {"path": 1, "seen": {"was": "", "digest": "{now}"}},
    ],
)  # fmt: skip
async def test_a_damaged_record_is_none(workspace: Path, record: Any) -> None:
    (workspace / FILE).write_bytes(OLD)
    session = Session(workspace)
    await session.take([read()])
    result = session.request.pop()
    assert isinstance(result, ToolResultMessage)
    now, whole = result.details["seen"]["digest"], {**RECORD, "digest": "{now}"}
    for each, seen in ((record, False), ({"seen": whole}, True)):
        details = msgspec.json.decode(msgspec.json.encode(each).replace(b"{now}", now.encode()))
        session.request = [structs.replace(result, details=details)]
        assert (await session.write("new\n")).is_error != seen


async def test_two_sessions_have_each_their_own_view(workspace: Path) -> None:
    (workspace / FILE).write_bytes(OLD)
    one, two = Session(workspace), Session(workspace)
    await one.take([read()])
    assert (await two.write("two\n")).is_error
    await two.take([append("- two")])
    assert (await one.write("one\n")).is_error
    assert (workspace / FILE).read_bytes() == OLD + b"- two\n"


@pytest.mark.parametrize("step", [wrote("new\n"), edit("tea", "coffee"), append("- bread")], ids=lambda step: step[0])
async def test_a_change_while_the_user_is_asked_is_left_alone(workspace: Path, step: Step) -> None:
    (workspace / FILE).write_bytes(OLD)
    approve = User(ApprovalAnswer("always"), before=lambda: put(workspace / FILE, MINE))
    session = Session(workspace, approve=approve)
    await session.take([read()])
    [outcome] = await session.answer(step)
    assert "has become another one" in outcome.text
    assert (workspace / FILE).read_bytes() == MINE
    assert len(approve.asked) == 1
    await session.answer(read(), append("- bread"))
    assert len(approve.asked) == 2, "what was not made is not allowed for always either"


async def test_what_was_not_seen_is_not_asked_about(workspace: Path) -> None:
    (workspace / FILE).write_bytes(OLD)
    approve = User(ApprovalAnswer("once"))
    assert REFUSED in (await Session(workspace, approve=approve).write("new\n")).text
    assert approve.asked == []


@pytest.mark.parametrize("step", [wrote("new\n"), edit("tea", "coffee")], ids=lambda step: step[0])
async def test_a_change_at_the_last_moment_is_left_alone(
    workspace: Path, step: Step, monkeypatch: pytest.MonkeyPatch
) -> None:
    (workspace / FILE).write_bytes(OLD)
    session = Session(workspace)
    await session.take([read()])
    genuine = os.fsync

    def saved_meanwhile(handle: int) -> None:
        genuine(handle)
        put(workspace / FILE, MINE)

    monkeypatch.setattr(os, "fsync", saved_meanwhile)
    [outcome] = await session.answer(step)
    monkeypatch.undo()
    assert "has become another one" in outcome.text
    assert (workspace / FILE).read_bytes() == MINE
    assert names(workspace) == ["MEMORY.md", "memory", FILE]


async def test_the_ritual_is_ended_without_a_read(workspace: Path) -> None:
    (workspace / "BOOTSTRAP.md").write_bytes(OLD)
    session = Session(workspace)
    assert not (await session.write("", "BOOTSTRAP.md")).is_error
    assert WorkspaceFolder(workspace).read(WorkspaceFolder(workspace).locate("BOOTSTRAP.md"), 10) == b""
