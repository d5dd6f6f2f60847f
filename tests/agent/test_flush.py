"""The memory flush: what the model is told, what it may do, and what comes of it when it does something else."""

from __future__ import annotations

import asyncio
import errno
import hashlib
import os
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from msgspec import structs

from clawbot.agent.flush import (
    MAX_ROUNDS,
    RECORD_CHARS,
    RULE,
    FlushSetup,
    current_time,
    daily_note,
    flush_prompt,
    ordinal,
    run_flush,
)
from clawbot.agent.offers import FlushOutcome
from clawbot.clock import SystemClock
from clawbot.config.schema_agent import FLUSH_PROMPT, AgentSettings, MemoryFlushSettings
from clawbot.deadline import Cancellation
from clawbot.llm.errors import ContextOverflowError, UnreachableError
from clawbot.llm.offline import OfflineModel
from clawbot.llm.protocol import ChatModel, ChatRequest, FinalPart, ModelInfo
from clawbot.messages import (
    AssistantMessage,
    Message,
    TextBlock,
    ToolCallBlock,
    ToolResultMessage,
    ToolSpec,
    Usage,
    UserMessage,
)
from clawbot.sessions.entries import MemoryWrite
from clawbot.tools.append_only import is_on_disk
from clawbot.tools.files import AppendTool, ReadTool, WriteTool
from clawbot.tools.folder import WorkspaceFolder
from clawbot.tools.grep import GrepTool
from clawbot.tools.listing import ListTool
from clawbot.tools.process import SecretNames
from clawbot.tools.protocol import AnyTool
from clawbot.tools.shell import ShellTool
from tests.agent.fakes import Answer, FakeModel, FakeTool, Stalling, calls, says, time_is_up

BERLIN = ZoneInfo("Europe/Berlin")
NOW = datetime(2026, 11, 20, 10, 41, tzinfo=BERLIN)
NOTE = "memory/2026-11-20.md"
OLD = "proxy moved to 8443\n"
GIBBERISH = " ".join(f"{first}{second}{third}ung" for first in "blm" for second in "aeiou" for third in "krs")
TALK: tuple[Message, ...] = (
    UserMessage("I prefer tabs. 我住在柏林。"),
    AssistantMessage([TextBlock("Noted.")], provider="openai"),
)
SESSION_TOOLS = tuple(
    ToolSpec(name, f"Does {name}.", {"type": "object", "properties": {}})
    for name in ("read", "list", "grep", "append", "write", "edit", "shell")
)


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    (folder / "memory").mkdir(parents=True)
    (folder / "MEMORY.md").write_text("# Memory\n")
    (folder / "AGENTS.md").write_text("Be kind.\n")
    (folder / NOTE).write_text(OLD)
    return folder


class Flush:
    """One flush, with its model's answers; `announced` is what was told before each write."""

    def __init__(self, workspace: Path, *answers: Answer, model: ChatModel | None = None, **settings: Any) -> None:
        self.announced: list[MemoryWrite] = []
        self.on_announce: Callable[[], None] = lambda: None
        self.cancel = Cancellation()
        self.model = FakeModel(*answers)
        self.setup = FlushSetup(
            request=ChatRequest("be good\n\nnow", TALK, SESSION_TOOLS, 7, zone=NOW.tzinfo),
            now=NOW,
            model=model or self.model,
            tools=reading(workspace),
            workspace=workspace,
            settings=MemoryFlushSettings(**settings),
            timeout=60.0,
            clock=SystemClock(),
            output_max_chars=4000,
            before_write=self._announce,
        )

    def _announce(self, write: MemoryWrite) -> None:
        self.announced.append(write)
        self.on_announce()

    async def run(self) -> FlushOutcome:
        return await run_flush(self.setup, self.cancel)

    def results(self) -> list[ToolResultMessage]:
        """What the model saw of its calls."""
        messages = self.model.requests[-1].messages
        return [message for message in messages if isinstance(message, ToolResultMessage)]


def reading(workspace: Path) -> list[AnyTool]:
    folder = WorkspaceFolder(workspace)
    return [ReadTool(folder, 4000), ListTool(folder), GrepTool(folder, SystemClock())]


def one(name: str, content: str = "- prefers tabs\n", path: str = NOTE, call_id: str = "1") -> ToolCallBlock:
    return ToolCallBlock(call_id, name, {"path": path, "content": content})


def note(workspace: Path, path: str = NOTE) -> str:
    return (workspace / path).read_text(encoding="utf-8")


def tree(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


class TestPrompts:
    def test_the_prompt_names_the_day_the_file_and_the_time(self) -> None:
        text = flush_prompt(MemoryFlushSettings(), NOW)
        first, second, rule, time = text.split("\n\n")
        assert f"in {NOTE} (create memory/" in first
        assert second.startswith("This is a memory flush turn")
        assert NOTE in second
        assert rule == RULE
        assert time == "Current time: Friday, November 20th, 2026 — 10:41 (Europe/Berlin)"
        assert "YYYY" not in text

    def test_prompts_of_the_users_own_get_what_they_lack(self) -> None:
        """Sheet 8.3: a hint on the silent reply, the one file, and the time."""
        own = MemoryFlushSettings(prompt="把重要的事情记下来。", system_prompt="Save it.")
        first, second, hint, file, rule, time = flush_prompt(own, NOW).split("\n\n")
        assert (first, second, rule) == ("把重要的事情记下来。", "Save it.", RULE)
        assert "NO_REPLY" in hint
        assert NOTE in file
        assert time.startswith("Current time:")

    def test_what_a_prompt_has_is_not_added(self) -> None:
        own = "Save to memory/YYYY-MM-DD.md, else NO_REPLY. Current time: now"
        given = MemoryFlushSettings(prompt=own, system_prompt="")
        assert flush_prompt(given, NOW) == f"{own.replace('YYYY-MM-DD', '2026-11-20')}\n\n{RULE}"

    def test_the_day_is_that_of_the_users_zone(self) -> None:
        late = datetime(2026, 11, 20, 23, 30, tzinfo=UTC)
        assert daily_note(late.astimezone(ZoneInfo("Asia/Shanghai"))) == "memory/2026-11-21.md"
        assert daily_note(late.astimezone(ZoneInfo("America/New_York"))) == NOTE

    def test_a_zone_without_a_name_shows_its_offset(self) -> None:
        shown = current_time(NOW.astimezone(UTC))
        assert shown == "Current time: Friday, November 20th, 2026 — 09:41 (UTC)"

    def test_ordinals(self) -> None:
        given = [1, 2, 3, 4, 11, 12, 13, 20, 21, 22, 23, 30, 31]
        expected = "1st 2nd 3rd 4th 11th 12th 13th 20th 21st 22nd 23rd 30th 31st"
        assert " ".join(map(ordinal, given)) == expected

    async def test_a_request_is_the_sessions_own_with_the_prompt_behind_it(self, workspace: Path) -> None:
        flush = Flush(workspace, says("NO_REPLY"))
        await flush.run()
        request = flush.model.requests[0]
        assert request.messages[:-1] == TALK
        assert request.messages[-1] == UserMessage(flush_prompt(MemoryFlushSettings(), NOW))
        assert request.purpose == "flush"
        assert structs.replace(request, messages=TALK, purpose="chat") == flush.setup.request

    async def test_what_the_session_can_do_besides_is_refused(self, workspace: Path) -> None:
        before = tree(workspace)
        names = [spec.name for spec in SESSION_TOOLS if spec.name in ("edit", "shell")]
        flush = Flush(workspace, calls(*(ToolCallBlock(name, name, {}) for name in names)), says("NO_REPLY"))
        outcome = await flush.run()
        assert [result.is_error for result in flush.results()] == [True, True]
        assert all(NOTE in result.text and "refused" in result.text for result in flush.results())
        assert outcome.result == "nothing"
        assert "`shell` is refused" in outcome.error
        assert tree(workspace) == before

    async def test_a_session_that_may_not_append_gets_the_tool_for_this_turn(self, workspace: Path) -> None:
        flush = Flush(workspace, calls(one("append")), says("NO_REPLY"))
        denied = tuple(spec for spec in SESSION_TOOLS if spec.name not in ("append", "write"))
        flush.setup = structs.replace(flush.setup, request=structs.replace(flush.setup.request, tools=denied))
        assert (await flush.run()).result == "written"
        assert [spec.name for spec in flush.model.requests[0].tools] == [*(spec.name for spec in denied), "append"]


class TestOutcomes:
    async def test_written(self, workspace: Path) -> None:
        flush = Flush(workspace, calls(one("append")), says("NO_REPLY"))
        outcome = await flush.run()
        assert note(workspace) == OLD + "- prefers tabs\n"
        digest = hashlib.sha256(b"- prefers tabs\n").hexdigest()
        assert outcome == FlushOutcome(
            "written", (MemoryWrite(NOTE, len(OLD), 15, 2, 2, digest),), reply="NO_REPLY", tokens=0
        )
        assert is_on_disk(WorkspaceFolder(workspace), outcome.writes[0])
        assert tuple(flush.announced) == outcome.writes

    @pytest.mark.parametrize(
        "reply", ["NO_REPLY", "no_reply.", "**NO_REPLY**", '"NO_REPLY"', "", "Nothing to keep.", "没有需要保存的。"]
    )
    async def test_a_model_that_only_talks_wrote_nothing(self, workspace: Path, reply: str) -> None:
        before = tree(workspace)
        outcome = await Flush(workspace, says(reply)).run()
        assert outcome == FlushOutcome("nothing", reply=reply)
        assert tree(workspace) == before

    async def test_the_tokens_of_all_calls_are_counted(self, workspace: Path) -> None:
        usage = Usage(input=100, output=5, cache_read=20, total_tokens=125)
        no_total = Usage(input=200, output=7)
        flush = Flush(
            workspace,
            [FinalPart(AssistantMessage([one("append")], usage=usage, stop_reason="toolUse"))],
            [FinalPart(AssistantMessage([TextBlock("NO_REPLY")], usage=no_total))],
        )
        assert (await flush.run()).tokens == 332

    async def test_a_reply_is_kept_short_and_without_secrets(self, workspace: Path) -> None:
        outcome = await Flush(workspace, says("api_key=sk-abcdefghijklmnopqrstuvw " + "x" * 1000)).run()
        assert len(outcome.reply) == RECORD_CHARS
        assert "sk-abc" not in outcome.reply

    @pytest.mark.parametrize(
        ("wish", "kept"),
        [
            (UserMessage("remember --keep my PIN is 4711"), True),
            (UserMessage("remember my PIN is 4711"), False),
            (UserMessage("remember --keep my PIN is 4711", scheduled=True), False),
            (UserMessage([TextBlock("look"), TextBlock("remember --keep my PIN is 4711", attached="a.md")]), False),
            (AssistantMessage([TextBlock("remember --keep my PIN is 4711")]), False),
        ],
    )
    async def test_a_secret_is_kept_at_the_users_own_word(self, workspace: Path, wish: Message, kept: bool) -> None:
        flush = Flush(workspace, calls(one("append", "- PIN: 4711\n")), says("NO_REPLY"))
        flush.setup = structs.replace(flush.setup, request=structs.replace(flush.setup.request, messages=[*TALK, wish]))
        await flush.run()
        assert ("4711" in note(workspace)) is kept

    async def test_a_model_that_fails(self, workspace: Path) -> None:
        outcome = await Flush(workspace, [UnreachableError("no connection", provider="fake")]).run()
        assert outcome == FlushOutcome("failed", error="fake: no connection")

    async def test_a_failure_that_nobody_foresaw(self, workspace: Path, caplog: pytest.LogCaptureFixture) -> None:
        outcome = await Flush(workspace, [ValueError("token=1 password=hunter2000")]).run()
        assert outcome.result == "failed"
        assert "ValueError" in outcome.error
        assert "hunter2000" not in outcome.error
        assert "the memory flush failed" in caplog.text

    async def test_a_failure_after_a_write_is_a_write(self, workspace: Path) -> None:
        outcome = await Flush(workspace, calls(one("append")), [UnreachableError("gone")]).run()
        assert (outcome.result, outcome.error, len(outcome.writes)) == ("written", "gone", 1)

    async def test_a_model_that_stalls_is_given_up(self, workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        outcome = await (flush := Flush(workspace, [time_is_up(monkeypatch, 60.0)])).run()
        assert (outcome.result, outcome.error) == ("failed", "The memory flush was not done after 60 seconds.")
        assert flush.model.closed_streams == 1

    async def test_a_tool_that_stalls_after_a_write(self, workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        slow = FakeTool("look")
        stall = time_is_up(monkeypatch, 60.0)
        monkeypatch.setattr(slow, "run", lambda _arguments: stall())
        flush = Flush(workspace, calls(one("append"), ToolCallBlock("2", "look")))
        flush.setup = structs.replace(flush.setup, tools=[slow])
        outcome = await flush.run()
        assert (outcome.result, len(outcome.writes)) == ("written", 1)
        assert "not done" in outcome.error

    async def test_an_interrupt(self, workspace: Path) -> None:
        flush = Flush(workspace)

        async def stop() -> None:
            flush.cancel.request()
            await asyncio.Event().wait()

        flush.model.answers = [[stop]]
        assert await flush.run() == FlushOutcome("interrupted")

    async def test_an_interrupt_after_a_write_keeps_its_record(self, workspace: Path) -> None:
        flush = Flush(workspace)

        async def stop() -> None:
            flush.cancel.request()
            await asyncio.Event().wait()

        flush.model.answers = [calls(one("append")), [stop]]
        outcome = await flush.run()
        assert (outcome.result, len(outcome.writes)) == ("interrupted", 1)

    async def test_an_interrupt_lets_a_write_that_began_come_to_its_end(self, workspace: Path) -> None:
        flush = Flush(workspace, calls(one("append")), says("NO_REPLY"))
        loop = asyncio.get_running_loop()

        def interrupt() -> None:
            asyncio.run_coroutine_threadsafe(_request(flush.cancel), loop).result()

        flush.on_announce = interrupt
        outcome = await flush.run()
        assert (outcome.result, outcome.writes) == ("interrupted", tuple(flush.announced))
        assert note(workspace).endswith("- prefers tabs\n")

    async def test_a_wish_to_stop_from_before(self, workspace: Path) -> None:
        flush = Flush(workspace, says("NO_REPLY"))
        flush.cancel.request()
        assert (await flush.run()).result == "interrupted"

    async def test_a_cancelled_task_stays_one(self, workspace: Path) -> None:
        stall = Stalling()
        task = asyncio.create_task(Flush(workspace, [stall]).run())
        await stall.reached.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    async def test_a_model_without_tools_is_not_asked(self, workspace: Path) -> None:
        flush = Flush(workspace)
        flush.model.info = ModelInfo("fake/plain", supports_tools=False)
        outcome = await flush.run()
        assert outcome.result == "failed"
        assert "memory_flush.model" in outcome.error
        assert not flush.model.requests

    async def test_an_endless_row_of_calls_ends(self, workspace: Path) -> None:
        flush = Flush(
            workspace, *(calls(ToolCallBlock(str(n), "list", {"path": str(n)})) for n in range(MAX_ROUNDS + 1))
        )
        outcome = await flush.run()
        assert outcome.result == "failed"
        assert f"{MAX_ROUNDS} rounds" in outcome.error
        assert len(flush.model.requests) == MAX_ROUNDS

    async def test_a_row_of_equal_calls_ends_sooner(self, workspace: Path) -> None:
        flush = Flush(workspace, *(calls(one("append", call_id=str(n))) for n in range(MAX_ROUNDS)))
        outcome = await flush.run()
        assert (outcome.result, len(outcome.writes), note(workspace).count("tabs")) == ("written", 1, 1)
        assert len(flush.model.requests) == 3

    async def test_a_flood_of_calls_in_one_answer(self, workspace: Path) -> None:
        flood = [one("append", f"- {n} {'x' * 5000}", call_id=str(n)) for n in range(200)]
        outcome = await Flush(workspace, calls(*flood), says("NO_REPLY")).run()
        assert outcome.result == "written"
        assert len(note(workspace)) < 300_000
        assert len(outcome.writes) < 60

    async def test_an_answer_that_is_cut_off_before_it_wrote(self, workspace: Path) -> None:
        cut = FinalPart(AssistantMessage([TextBlock("I will now")], stop_reason="length"))
        outcome = await Flush(workspace, [cut]).run()
        assert (outcome.result, outcome.error, outcome.useless) == ("nothing", "", True)

    async def test_an_answer_that_is_cut_off_after_it_looked(self, workspace: Path) -> None:
        cut = FinalPart(AssistantMessage([TextBlock("I will now")], stop_reason="length"))
        outcome = await Flush(workspace, calls(ToolCallBlock("1", "list")), [cut]).run()
        assert (outcome.result, outcome.error) == ("failed", "The model's answer was cut off.")

    @pytest.mark.parametrize(("reply", "useless"), [("I noted that. " * 30, True), (f"NO_REPLY {'x ' * 300}", False)])
    async def test_a_model_that_talks_at_length_wrote_nothing(self, workspace: Path, reply: str, useless: bool) -> None:
        outcome = await Flush(workspace, says(reply)).run()
        assert (outcome.result, outcome.useless) == ("nothing", useless)

    @pytest.mark.parametrize("tool", ["append", "write"])
    @pytest.mark.parametrize("junk", ["- the tabs are the tabs\n" * 12, GIBBERISH, f"{OLD}{GIBBERISH}"])
    async def test_junk_is_not_written(self, workspace: Path, tool: str, junk: str) -> None:
        outcome = await Flush(workspace, calls(one(tool, junk)), says("done")).run()
        assert (outcome.result, outcome.useless) == ("nothing", True)
        assert "Not added" in outcome.error
        assert note(workspace) == OLD

    async def test_what_was_read_makes_room_when_it_does_not_fit(self, workspace: Path) -> None:
        (workspace / "MEMORY.md").write_text("x" * 3000)
        flush = Flush(
            workspace,
            calls(one("append")),
            calls(ToolCallBlock("2", "read", {"path": "MEMORY.md"})),
            [ContextOverflowError("too long")],
            says("NO_REPLY"),
        )
        outcome = await flush.run()
        assert (outcome.result, outcome.error) == ("written", "")
        assert [result.text for result in flush.results()] == [
            f"Added lines 2-2 to {NOTE}.",
            "[Left out: it did not fit.]",
        ]

    async def test_what_never_fits_fails(self, workspace: Path) -> None:
        outcome = await Flush(workspace, [ContextOverflowError("too long")]).run()
        assert (outcome.result, outcome.error) == ("failed", "too long")


class TestOnlyTheOneFile:
    @pytest.mark.parametrize("name", ["append", "write", "edit", "shell", "delete"])
    @pytest.mark.parametrize(
        "path", ["MEMORY.md", "AGENTS.md", "memory/2026-11-19.md", "memory/../MEMORY.md", "../x.md", "/tmp/x.md"]
    )
    async def test_nothing_else_is_written(self, workspace: Path, name: str, path: str) -> None:
        """Sheet 8.4, BUG: the model could overwrite any file."""
        before = tree(workspace.parent)
        flush = Flush(workspace, calls(one(name, path=path)), says("NO_REPLY"))
        outcome = await flush.run()
        assert outcome.result == "nothing"
        assert flush.results()[0].is_error
        assert outcome.error == flush.results()[0].text
        assert tree(workspace.parent) == before

    async def test_write_and_edit_never_change_what_stands_there(self, workspace: Path) -> None:
        """Sheet 8.4, BUG: proven by the digest of the bytes from before."""
        digest = hashlib.sha256(OLD.encode()).hexdigest()
        edit = ToolCallBlock("2", "edit", {"path": NOTE, "old": "proxy", "new": "x"})
        flush = Flush(workspace, calls(one("write", "# replaced"), edit, one("write", OLD + "- b")), says("NO_REPLY"))
        outcome = await flush.run()
        now = note(workspace).encode()
        assert hashlib.sha256(now[: len(OLD)]).hexdigest() == digest
        assert now == OLD.encode() + b"# replaced\n" + (OLD + "- b\n").encode()
        assert [result.is_error for result in flush.results()] == [False, True, False]
        assert all(is_on_disk(WorkspaceFolder(workspace), write) for write in outcome.writes)

    async def test_a_refused_call_may_be_made_better(self, workspace: Path) -> None:
        flush = Flush(workspace, calls(one("append", path="MEMORY.md")), calls(one("append")), says("NO_REPLY"))
        assert (await flush.run()).result == "written"
        assert f"only {NOTE} can be written" in flush.results()[0].text

    async def test_tools_that_change_something_do_not_run_whoever_hands_them_in(self, workspace: Path) -> None:
        folder = WorkspaceFolder(workspace)
        settings = AgentSettings().tools.shell
        secrets = SecretNames(workspace / ".env")
        shell = ShellTool(workspace, settings, state=workspace, max_chars=1000, secrets=secrets)
        run = ToolCallBlock("2", "shell", {"command": "touch made"})
        flush = Flush(workspace, calls(one("write", "x"), run), says("NO_REPLY"))
        flush.setup = structs.replace(flush.setup, tools=[WriteTool(folder), AppendTool(folder), shell])
        await flush.run()
        assert note(workspace) == OLD + "x\n"
        assert not (workspace / "made").exists()

    @pytest.mark.parametrize("kind", ["linked folder", "linked file", "hard link", "folder", "file as folder"])
    async def test_a_place_that_is_no_plain_file_is_a_failure(self, workspace: Path, kind: str) -> None:
        spoil(workspace, kind)
        outside = tree(workspace.parent / "outside")
        outcome = await Flush(workspace, calls(one("append")), says("NO_REPLY")).run()
        assert outcome.result == "failed"
        assert "refused" in outcome.error or "a folder" in outcome.error
        assert tree(workspace.parent / "outside") == outside

    async def test_a_full_disk_is_a_failure_with_its_reason(
        self, workspace: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def full(handle: int, data: bytes) -> int:
            raise OSError(errno.ENOSPC, "No space left on device")

        flush = Flush(workspace, calls(one("append")), says("NO_REPLY"))
        flush.on_announce = lambda: monkeypatch.setattr(os, "write", full)
        outcome = await flush.run()
        monkeypatch.undo()
        assert (outcome.result, outcome.writes) == ("failed", ())
        assert "disk is full" in outcome.error
        assert note(workspace) == OLD

    async def test_no_record_no_write(self, workspace: Path) -> None:
        flush = Flush(workspace, calls(one("append")), says("NO_REPLY"))

        def fail() -> None:
            raise OSError(errno.EROFS, "Read-only file system")

        flush.on_announce = fail
        outcome = await flush.run()
        assert (outcome.result, outcome.writes) == ("failed", ())
        assert "Read-only file system" in outcome.error
        assert note(workspace) == OLD


def spoil(workspace: Path, kind: str) -> None:
    """Put something else in the place of the notes of the day."""
    outside = workspace.parent / "outside"
    outside.mkdir()
    (outside / "2026-11-20.md").write_text("not yours\n")
    place = workspace / NOTE
    place.unlink()
    if kind == "linked folder":
        place.parent.rmdir()
        place.parent.symlink_to(outside)
    elif kind == "linked file":
        place.symlink_to(outside / "2026-11-20.md")
    elif kind == "hard link":
        os.link(outside / "2026-11-20.md", place)
    elif kind == "folder":
        place.mkdir()
    else:
        place.parent.rmdir()
        place.parent.write_text("")


async def _request(cancel: Cancellation) -> bool:
    cancel.request()
    return True


class MovingClock(SystemClock):
    """A clock that is a day later whenever it is asked."""

    def __init__(self) -> None:
        super().__init__(BERLIN)
        self.moment = NOW

    def now(self) -> datetime:
        self.moment += timedelta(days=1)
        return self.moment


class TestTheOfflineModel:
    async def test_it_writes_by_the_bound_tools(self, workspace: Path) -> None:
        outcome = await Flush(workspace, model=OfflineModel(SystemClock(BERLIN))).run()
        assert outcome.result == "written"
        assert note(workspace) == f"{OLD}- I prefer tabs.\n- 我住在柏林。\n"

    async def test_it_has_nothing_to_add_the_second_time(self, workspace: Path) -> None:
        await Flush(workspace, model=OfflineModel(SystemClock(BERLIN))).run()
        before = tree(workspace)
        outcome = await Flush(workspace, model=OfflineModel(SystemClock(BERLIN))).run()
        assert (outcome.result, outcome.reply) == ("nothing", "NO_REPLY")
        assert tree(workspace) == before

    @pytest.mark.parametrize("prompt", [FLUSH_PROMPT, "Save what matters."])
    async def test_a_flush_that_crosses_midnight_keeps_its_file(self, workspace: Path, prompt: str) -> None:
        (workspace / NOTE).unlink()
        flush = Flush(workspace, model=OfflineModel(MovingClock()), prompt=prompt)
        flush.setup = structs.replace(flush.setup, clock=MovingClock())
        assert (await flush.run()).result == "written"
        assert note(workspace).startswith("# 2026-11-20\n\n- ")
        assert sorted(tree(workspace)) == ["AGENTS.md", "MEMORY.md", NOTE]

    async def test_a_secret_does_not_keep_the_rest_from_being_written(
        self, workspace: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("CHAT_API_KEY", "blue-elephant")
        flush = Flush(workspace, model=OfflineModel(SystemClock(BERLIN)))
        talk = [UserMessage("I prefer tabs."), UserMessage("My favourite animal is the blue-elephant.")]
        flush.setup = structs.replace(flush.setup, request=structs.replace(flush.setup.request, messages=tuple(talk)))
        assert (await flush.run()).result == "written"
        assert note(workspace) == f"{OLD}- I prefer tabs.\n"

    async def test_without_tools_to_look_it_still_writes(self, workspace: Path) -> None:
        flush = Flush(workspace, model=OfflineModel(SystemClock(BERLIN)))
        flush.setup = structs.replace(flush.setup, tools=[])
        assert (await flush.run()).result == "written"
        assert "- I prefer tabs." in note(workspace)
