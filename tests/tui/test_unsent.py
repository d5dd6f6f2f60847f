"""What was not sent before the program ended: offered in place of the prompt, sent, edited or dropped."""

from __future__ import annotations

import stat
from collections.abc import Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from clawbot.agent.events import ApprovalRequested
from clawbot.sessions.unsent import Unsent
from clawbot.tui.app import ClawbotApp
from clawbot.tui.input import MAX_DRAFTS, Drafts
from clawbot.tui.turns import Turns
from tests.tui.chat_host import chatting, page_text, screen_text, send, until
from tests.tui.fake_runtime import FakeRuntime, Hold, conversation, reply

TEXTS = ("fix the tests", "然后更新文档", "/new and the release notes")


def leaving(home: Path, *texts: str, **values: Any) -> FakeRuntime:
    """A runtime in which these were not sent the last time."""
    runtime = FakeRuntime(home, **values)
    runtime.unsent = [Unsent(f"u{number}", text) for number, text in enumerate(texts)]
    return runtime


def asks(app: ClawbotApp) -> bool:
    return app.chat.question.display and not app.chat.composer.display


async def test_they_are_shown_and_sent_in_their_order(tmp_path: Path) -> None:
    runtime = leaving(tmp_path, *TEXTS)
    async with chatting(runtime) as (app, pilot):
        await until(pilot, lambda: asks(app))
        shown = screen_text(app)
        assert "3 messages were not sent" in shown
        assert all(text in shown for text in TEXTS)
        await pilot.press("s")
        await until(pilot, lambda: runtime.submitted == list(TEXTS) and not app.chat.turns.busy)
        assert runtime.submitted_ids == ["u0", "u1", "u2"]
        assert app.chat.composer.display
        assert app.focused is app.chat.composer.prompt


async def test_one_is_told_as_one(tmp_path: Path) -> None:
    async with chatting(leaving(tmp_path, "fix the tests")) as (app, pilot):
        await until(pilot, lambda: asks(app))
        shown = screen_text(app)
        assert "1 message was not sent" in shown
        assert "s send   e edit   d drop   esc later" in shown


async def test_many_are_counted(tmp_path: Path) -> None:
    texts = [f"message {number}" for number in range(48)]
    async with chatting(leaving(tmp_path, *texts)) as (app, pilot):
        await until(pilot, lambda: asks(app))
        shown = screen_text(app)
        assert "48 messages were not sent" in shown
        assert "and 44 more" in shown
        assert "message 4" not in shown


async def test_they_are_put_into_the_prompt_and_kept_until_they_are_entered(tmp_path: Path) -> None:
    runtime = leaving(tmp_path, *TEXTS[:2])
    async with chatting(runtime) as (app, pilot):
        await until(pilot, lambda: asks(app))
        await pilot.press("e")
        await until(pilot, lambda: runtime.kept == 1)
        assert app.chat.composer.prompt.text == "\n\n".join(TEXTS[:2])
        [draft] = runtime.unsent
        assert (draft.text, draft.draft) == ("\n\n".join(TEXTS[:2]), True)
        await pilot.press("!", "enter")
        await until(pilot, lambda: runtime.dropped == [draft.id])
        assert runtime.submitted == ["\n\n".join(TEXTS[:2]) + "!"]


async def test_they_are_dropped(tmp_path: Path) -> None:
    runtime = leaving(tmp_path, *TEXTS)
    async with chatting(runtime) as (app, pilot):
        await until(pilot, lambda: asks(app))
        await pilot.press("d")
        await until(pilot, lambda: runtime.dropped == ["u0", "u1", "u2"])
        assert (runtime.submitted, runtime.unsent) == ([], [])
        await send(app, pilot, "/unsent")
        await until(pilot, lambda: "Everything was sent." in screen_text(app))


async def test_later_leaves_them_and_the_command_asks_again(tmp_path: Path) -> None:
    runtime = leaving(tmp_path, *TEXTS)
    async with chatting(runtime) as (app, pilot):
        await until(pilot, lambda: asks(app))
        await pilot.press("escape")
        await until(pilot, lambda: not asks(app))
        assert (runtime.submitted, runtime.dropped) == ([], [])
        await send(app, pilot, "/unsent")
        await until(pilot, lambda: asks(app))
        await pilot.press("s")
        await until(pilot, lambda: runtime.submitted == list(TEXTS))


@pytest.mark.few(1)
@pytest.mark.parametrize("word", ["drop it all", "send", "explain", "你好"])
async def test_who_begins_to_type_answers_nothing(word: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("clawbot.tui.questions.REST", 60)  # however slowly the keys come here
    runtime = leaving(tmp_path, *TEXTS)
    async with chatting(runtime) as (app, pilot):
        await until(pilot, lambda: asks(app))
        await pilot.press(*(("space" if sign == " " else sign) for sign in word))
        await until(pilot, lambda: app.chat.composer.prompt.text == word)
        assert (runtime.submitted, runtime.dropped) == ([], [])
        assert len(runtime.unsent) == 3


async def test_who_has_typed_meanwhile_is_told_on_the_page(tmp_path: Path) -> None:
    runtime = leaving(tmp_path, *TEXTS)
    async with chatting(FakeRuntime(tmp_path)) as (app, pilot):
        app.chat.composer.prompt.take("half a")
        await app.chat.connect(runtime)
        await until(pilot, lambda: "3 messages were not sent" in page_text(app))
        assert not asks(app)
        assert app.chat.composer.prompt.text == "half a"


async def test_a_tool_that_asks_comes_first(tmp_path: Path) -> None:
    ask = ApprovalRequested(
        request_id="r1", call_id="c1", tool="shell", command="make", folder="~/w", pattern="make", reach="your files"
    )
    runtime = leaving(tmp_path, *TEXTS)
    async with chatting(runtime) as (app, pilot):
        await until(pilot, lambda: asks(app))
        app.chat.order.submitted(ask)
        await until(pilot, lambda: app.chat.approval.request is not None)
        assert not app.chat.question.display
        assert not app.chat.composer.display


async def test_the_question_keeps_the_keys_when_a_turn_ends_behind_it(tmp_path: Path) -> None:
    hold = Hold()
    runtime = leaving(tmp_path, *TEXTS, turns=[[hold, *reply("done")]])
    async with chatting(runtime) as (app, pilot):
        await until(pilot, lambda: asks(app))
        await pilot.press("escape")
        await send(app, pilot, "go on")
        await hold.reached.wait()
        await send(app, pilot, "/unsent")
        await until(pilot, lambda: asks(app))
        hold.release()
        await until(pilot, lambda: not app.chat.turns.busy)
        assert asks(app)
        assert app.focused is app.chat.question
        await pilot.press("s")
        await until(pilot, lambda: runtime.submitted == ["go on", *TEXTS])


async def test_a_draft_goes_into_the_prompt_by_itself(tmp_path: Path) -> None:
    runtime = leaving(tmp_path)
    runtime.unsent = [Unsent("d1", "half a thought, 半句话", draft=True)]
    async with chatting(runtime) as (app, pilot):
        assert not asks(app)
        assert app.chat.composer.prompt.text == "half a thought, 半句话"
        await pilot.press("enter")
        await until(pilot, lambda: runtime.dropped == ["d1"])
        assert (runtime.submitted, runtime.submitted_ids) == (["half a thought, 半句话"], ["d1"])


async def test_what_is_taken_back_from_the_queue_is_dropped_from_the_disk(tmp_path: Path) -> None:
    hold = Hold()
    runtime = FakeRuntime(tmp_path, turns=[[hold, *reply("done")]])
    async with chatting(runtime) as (app, pilot):
        await send(app, pilot, "first")
        await until(pilot, hold.reached.is_set)
        await send(app, pilot, "second")
        await until(pilot, lambda: app.chat.turns.queued == ["second"])
        await pilot.press("alt+up")
        await until(pilot, lambda: runtime.dropped == ["queued-second"])
        assert app.chat.composer.prompt.text == "second"
        hold.release()


async def test_what_no_runtime_has_seen_and_what_stands_in_the_prompt_is_kept_at_the_end(tmp_path: Path) -> None:
    runtime = FakeRuntime(tmp_path)
    async with chatting(runtime) as (app, pilot):
        app.chat.turns._runtime = None  # as while another agent is being opened
        await send(app, pilot, "for the next one")
        await until(pilot, lambda: app.chat.turns.queued == ["for the next one"])
        app.chat.composer.prompt.take("half a thought")
        await app.chat.unsent.leave(runtime)
        assert [(unsent.text, unsent.draft) for unsent in runtime.unsent] == [
            ("for the next one", False),
            ("half a thought", True),
        ]


async def test_the_draft_of_a_message_stays_on_disk_until_that_is_and_does_not_come_back_into_the_prompt(
    tmp_path: Path,
) -> None:
    runtime = leaving(tmp_path)
    runtime.unsent = [Unsent("d1", "half a thought", draft=True)]
    hold = Hold()
    runtime.before = [hold]
    async with chatting(runtime) as (app, pilot):
        await pilot.press("enter")
        await until(pilot, hold.reached.is_set)
        await app.chat.reload()
        assert app.chat.composer.is_empty
        assert runtime.dropped == []
        hold.release()
        await until(pilot, lambda: runtime.dropped == ["d1"])


async def test_what_is_sent_just_before_the_end_is_held(tmp_path: Path) -> None:
    """A job that is cancelled before it began has given the text to no runtime."""
    jobs: list[Callable[[], Coroutine[Any, Any, None]]] = []

    class Job:
        def cancel(self) -> None:
            pass

    def start(job: Callable[[], Coroutine[Any, Any, None]]) -> Job:
        jobs.append(job)
        return Job()

    turns = Turns(start, lambda _: None, lambda: None, lambda _: None)
    turns.ready(FakeRuntime(tmp_path))
    turns.submit("and now? 端口呢")
    assert turns.held == [("and now? 端口呢", "")]
    await jobs[0]()
    assert turns.held == []


def stores(runtime: FakeRuntime, draft: tuple[str, bool]) -> bool:
    return [(each.text, each.draft) for each in runtime.unsent] == [draft]


async def test_what_is_typed_is_stored_while_it_is_typed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("clawbot.tui.questions.DRAFT_SECONDS", 0.01)
    runtime = FakeRuntime(tmp_path)
    async with chatting(runtime) as (app, pilot):
        for typed in ("half", " a thought"):
            app.chat.composer.prompt.insert(typed)
            draft = (app.chat.composer.prompt.text, True)
            await until(pilot, partial(stores, runtime, draft))
        [stored] = runtime.unsent
        await pilot.press("enter")
        await until(pilot, lambda: runtime.submitted == ["half a thought"] and not runtime.unsent)
        assert runtime.submitted_ids == [stored.id]  # a kill at any moment finds the words once
        app.chat.composer.prompt.take("gone again")
        await until(pilot, lambda: [each.text for each in runtime.unsent] == ["gone again"])
        app.chat.composer.prompt.take("")
        await until(pilot, lambda: not runtime.unsent)
    assert runtime.unsent == []


async def test_no_secret_that_is_typed_is_stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("clawbot.tui.questions.DRAFT_SECONDS", 0.01)
    runtime = FakeRuntime(tmp_path)
    async with chatting(runtime) as (app, pilot):
        looks: list[str] = []
        app.chat.composer.prompt.set_interval(0.01, lambda: looks.append(app.chat.composer.prompt.text))
        app.chat.composer.prompt.take("my password is hunter2-X9!")
        await until(pilot, lambda: len(looks) > 4)
        assert runtime.unsent == []
        app.chat.composer.prompt.take("")


@pytest.mark.few(1)
@pytest.mark.parametrize("typed", ["half a thought", "半句话"])
async def test_a_conversation_that_is_shown_anew_keeps_the_id_of_what_stands_in_the_prompt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, typed: str
) -> None:
    monkeypatch.setattr("clawbot.tui.questions.DRAFT_SECONDS", 0.01)
    runtime = FakeRuntime(tmp_path)
    async with chatting(runtime) as (app, pilot):
        app.chat.composer.prompt.insert(typed)
        await until(pilot, partial(stores, runtime, (typed, True)))
        [stored] = runtime.unsent
        await app.chat.reload()
        await pilot.press("enter")
        await until(pilot, lambda: runtime.submitted == [typed] and not runtime.unsent)
        assert runtime.submitted_ids == [stored.id]


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
