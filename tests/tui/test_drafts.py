"""What is put aside, and going from one message of the user to another."""

from __future__ import annotations

import stat
from pathlib import Path

from clawbot.tui.history import MAX_DRAFTS, Drafts
from tests.tui.chat_host import chatting, screen_text, until
from tests.tui.fake_runtime import FakeRuntime, conversation


async def test_what_was_put_aside_comes_back_after_a_restart(tmp_path: Path) -> None:
    async with chatting(FakeRuntime(tmp_path)) as (app, pilot):
        prompt = app.chat.composer.prompt
        await pilot.press(*"first", "ctrl+s")
        await until(pilot, lambda: "put aside · ctrl+s takes it back" in screen_text(app))
        assert not prompt.text
        await pilot.press(*"第二", "ctrl+j", *"line", "ctrl+s")
        file = tmp_path / "drafts.json"
        await until(pilot, lambda: file.is_file() and "line" in file.read_text("utf-8"))
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
    async with chatting(FakeRuntime(tmp_path)) as (app, pilot):
        prompt = app.chat.composer.prompt
        await pilot.press("ctrl+s")
        await until(pilot, lambda: prompt.text == "第二\nline")
        prompt.take("")
        await pilot.press("ctrl+s")
        await until(pilot, lambda: prompt.text == "first")
        prompt.take("")
        await pilot.press("ctrl+s")
        await until(pilot, lambda: "nothing was put aside" in screen_text(app))


async def test_what_holds_a_secret_is_put_aside_in_memory_only(tmp_path: Path) -> None:
    drafts, file = Drafts(), tmp_path / "drafts.json"
    secret = "the key is sk-proj-Zm9vYmFyYmF6cXV4MTIzNDU2Nzg5MGFiY2RlZmdoaWprbG1u"
    await drafts.put(file, secret)
    assert not file.exists()
    assert await drafts.take(file) == secret
    assert await drafts.take(file) == ""


async def test_a_damaged_or_blocked_file_loses_nothing_that_is_put_aside(tmp_path: Path) -> None:
    drafts, file = Drafts(), tmp_path / "drafts.json"
    file.write_text("{not json", "utf-8")
    assert await drafts.take(file) == ""
    await drafts.put(file, "kept")
    assert await drafts.take(file) == "kept"
    (tmp_path / "folder").mkdir()
    await drafts.put(tmp_path / "folder", "in memory")
    assert await drafts.take(tmp_path / "folder") == "in memory"


async def test_the_oldest_of_many_go(tmp_path: Path) -> None:
    drafts, file = Drafts(), tmp_path / "drafts.json"
    for number in range(MAX_DRAFTS + 1):
        await drafts.put(file, f"{number}")
    taken = [await drafts.take(file) for _ in range(MAX_DRAFTS + 1)]
    assert (taken[0], taken[-2:]) == (f"{MAX_DRAFTS}", ["1", ""])


async def test_the_users_messages_are_gone_through_also_those_that_are_not_loaded(tmp_path: Path) -> None:
    async with chatting(FakeRuntime(tmp_path, history=conversation(40))) as (app, pilot):
        page = app.chat.page
        await until(pilot, lambda: page.at_end and page.stack.height > 24)

        def top() -> str:
            first = page.scroll_offset.y
            rows = [page.stack.line(number).text for number in range(first, first + 5)]
            return next((row.split()[-1] for row in rows if "question" in row), "")

        async def after(key: str) -> str:
            before = top()
            await pilot.press(key)
            await until(pilot, lambda: top() not in (before, ""))
            return top()

        await pilot.press("ctrl+up")
        await until(pilot, lambda: not page.at_end and bool(top()))
        here = int(top())
        assert here > 25
        assert [int(await after("ctrl+up")) for _ in range(here)] == list(range(here - 1, -1, -1))
        assert [await after("ctrl+down") for _ in range(3)] == ["1", "2", "3"]
        page.go_to_end()
        await pilot.press("ctrl+down")
        await until(pilot, lambda: page.at_end)
