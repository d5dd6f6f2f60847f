"""The composition root: what opens, what is left open when it can't, and which session and model it opens on."""

from __future__ import annotations

import asyncio
import json
import os
import threading
from datetime import time
from pathlib import Path

import pytest
from msgspec import structs

from clawbot.agent.agent import Agent
from clawbot.agent.events import CommandOutput, Event, Notice, TurnEnded, TurnStarted
from clawbot.cli.one_turn import run_one_turn
from clawbot.config.errors import ConfigError
from clawbot.config.paths import Paths, find_home
from clawbot.errors import ClawbotError
from clawbot.llm.errors import RefusedError
from clawbot.llm.offline.model import OfflineModel
from clawbot.llm.scripted import ScriptUnused
from clawbot.messages import UserMessage
from clawbot.runtime import Runtime, RuntimeOptions
from clawbot.sessions.errors import SessionLockedError, UnknownSessionError
from clawbot.tools.protocol import ToolError
from tests.memory.index_host import until
from tests.program import reply_of

OFFLINE = RuntimeOptions(model="offline").unattended()


def home() -> Path:
    return Paths(find_home()).home


def configure(text: str) -> None:
    home().mkdir(parents=True, exist_ok=True)
    (home() / "config.yaml").write_text(text)


def options(**chosen: object) -> RuntimeOptions:
    return structs.replace(OFFLINE, **chosen)


async def test_the_first_start_makes_home_and_workspace_private() -> None:
    runtime = await Runtime.open(OFFLINE)
    assert runtime.notices == []
    status = runtime.agent.status
    assert (status.agent_id, status.session_key, status.model.ref) == ("main", "main", "offline")
    assert (status.busy, status.notes, status.cost) == (False, 0, None)
    assert (status.workspace / "AGENTS.md").is_file()
    for path in home().rglob("*"):
        assert path.stat().st_mode & 0o077 == 0, path
    await runtime.close()


async def test_the_first_fact_is_quoted_and_no_template() -> None:
    runtime = await Runtime.open(OFFLINE)
    await reply_of(runtime, "remember that I prefer tabs over spaces")
    assert runtime.agent.status.notes == 1
    answer = await reply_of(runtime, "what do I prefer?")
    assert "I prefer tabs over spaces" in answer
    assert "MEMORY.md" not in answer
    await runtime.close()


async def test_the_conversation_goes_on_where_it_was_left() -> None:
    first = await Runtime.open(OFFLINE)
    assert await reply_of(first, "hello there")
    session_id = first.agent.status.session_id
    await first.close()
    second = await Runtime.open(OFFLINE)
    assert second.agent.status.session_id == session_id
    texts = [item.message.text for item in await second.sessions.history() if item.message is not None]
    assert texts[0] == "hello there"
    await second.close()


async def test_a_session_that_is_open_elsewhere_names_who_holds_it_and_leaves_nothing_open() -> None:
    holder = await Runtime.open(OFFLINE)
    with pytest.raises(SessionLockedError) as caught:
        await Runtime.open(OFFLINE)
    assert str(os.getpid()) in caught.value.message
    assert "--session" in caught.value.hint
    assert "--new" in caught.value.hint
    beside = await Runtime.open(options(new=True))
    assert beside.agent.status.session_key != "main"
    await beside.close()
    await holder.close()
    await (await Runtime.open(OFFLINE)).close()


@pytest.mark.parametrize("model", ["no-model", "script:no-such-file.yaml"])
async def test_a_model_that_cannot_be_opened_gives_the_session_back(model: str) -> None:
    with pytest.raises(ClawbotError):
        await Runtime.open(options(model=model))
    await (await Runtime.open(OFFLINE)).close()


async def test_whatever_fails_while_opening_gives_the_session_back(monkeypatch: pytest.MonkeyPatch) -> None:
    async def failing(self: Agent) -> None:
        raise PermissionError(13, "Permission denied", "memory")

    with monkeypatch.context() as broken:
        broken.setattr(Agent, "count_notes", failing)
        with pytest.raises(PermissionError):
            await Runtime.open(OFFLINE)
    await (await Runtime.open(OFFLINE)).close()


async def test_broken_settings_stop_the_start_before_anything_is_made() -> None:
    configure("agents:\n  defaults:\n    modle: offline\n")
    with pytest.raises(ConfigError, match="modle"):
        await Runtime.open(RuntimeOptions())
    assert not (home() / "workspace").exists()
    assert not (home() / "agents").exists()


async def test_a_file_where_the_workspace_belongs_is_a_clear_error(tmp_path: Path) -> None:
    place = tmp_path / "notes"
    place.write_text("not a folder")
    with pytest.raises(ClawbotError, match="is a file"):
        await Runtime.open(options(workspace=place))


async def test_the_model_of_the_command_line_goes_before_the_chosen_one_and_that_before_the_settings() -> None:
    configure("agents:\n  defaults:\n    model: openai/usual\n")
    runtime = await Runtime.open(RuntimeOptions())
    assert runtime.agent.status.model.ref == "openai/usual"
    await runtime.agent.set_model("offline")
    await runtime.close()
    runtime = await Runtime.open(RuntimeOptions())
    assert runtime.agent.status.model.ref == "offline"
    await runtime.close()
    runtime = await Runtime.open(RuntimeOptions(model="openai/now"))
    assert runtime.agent.status.model.ref == "openai/now"
    await runtime.close()
    runtime = await Runtime.open(RuntimeOptions())
    assert runtime.agent.status.model.ref == "offline", "an option holds for one run"
    await runtime.close()


async def test_a_chosen_model_that_is_gone_does_not_lock_the_user_out(tmp_path: Path) -> None:
    script = tmp_path / "gone.yaml"
    configure("agents:\n  defaults:\n    model: offline\n")
    runtime = await Runtime.open(RuntimeOptions())
    store, record = runtime.agent.deps.store, runtime.agent.conversation.session.record
    store.update(structs.replace(record, model_override=f"script:{script}"))
    await runtime.close()
    runtime = await Runtime.open(RuntimeOptions())
    assert runtime.agent.status.model.ref == "offline"
    [notice] = runtime.notices
    assert str(script) in notice.text
    assert "so offline answers" in notice.text
    await runtime.close()


async def test_a_fallback_without_its_key_is_named_at_the_start() -> None:
    configure("agents:\n  defaults:\n    model: offline\n    fallbacks: [anthropic/x, ollama_chat/y]\n")
    runtime = await Runtime.open(RuntimeOptions())
    [notice] = runtime.notices
    assert notice.text == "The fallback anthropic/x is skipped: ANTHROPIC_API_KEY is not set."
    await runtime.close()


async def test_set_model_tells_what_is_no_model_and_keeps_the_old_one() -> None:
    runtime = await Runtime.open(OFFLINE)
    with pytest.raises(RefusedError):
        await runtime.agent.set_model("nonsense")
    assert runtime.agent.status.model.ref == "offline"
    assert await reply_of(runtime, "hello")
    await runtime.close()


async def test_resume_waits_for_the_running_turn_and_lets_go_of_the_old_session() -> None:
    runtime = await Runtime.open(options(session="work"))
    await reply_of(runtime, "in work")
    work = runtime.agent.status.session_id
    await runtime.close()
    runtime = await Runtime.open(OFFLINE)
    stream = runtime.agent.submit("in main")
    assert isinstance(await anext(stream), TurnStarted)
    assert runtime.agent.status.busy
    rest = [event async for event in stream]
    assert isinstance(rest[-1], TurnEnded)
    changed = await runtime.sessions.resume(work[:8])
    assert (changed.session_key, changed.session_id) == ("work", work)
    assert (await runtime.sessions.resume("work")).session_id == work
    other = await Runtime.open(OFFLINE)
    assert other.agent.status.session_key == "main"
    with pytest.raises(SessionLockedError):
        await runtime.sessions.resume("main")
    with pytest.raises(UnknownSessionError):
        await runtime.sessions.resume("no-such")
    assert runtime.agent.status.session_id == work
    assert await reply_of(runtime, "still in work")
    await other.close()
    await runtime.close()


async def test_preview_reads_another_session_without_taking_it() -> None:
    runtime = await Runtime.open(options(session="work"))
    await reply_of(runtime, "in work")
    other = await Runtime.open(OFFLINE)
    items = await other.sessions.preview("work")
    assert [item.message.text for item in items if isinstance(item.message, UserMessage)] == ["in work"]
    assert {summary.name for summary in await other.sessions.all()} == {"main", "work"}
    await other.close()
    await runtime.close()


async def test_what_was_survived_while_opening_is_told() -> None:
    runtime = await Runtime.open(OFFLINE)
    await reply_of(runtime, "hello")
    path = runtime.agent.conversation.session.transcript.path
    await runtime.close()
    with path.open("ab") as stream:
        stream.write(b'{"type":"message","id":"0123')
    runtime = await Runtime.open(OFFLINE)
    [notice] = runtime.notices
    assert isinstance(notice, Notice)
    assert ".torn" in notice.text
    await runtime.close()


async def test_what_was_survived_while_resuming_is_told_with_the_next_message() -> None:
    runtime = await Runtime.open(options(session="work"))
    await reply_of(runtime, "hello")
    path = runtime.agent.conversation.session.transcript.path
    await runtime.close()
    with path.open("ab") as stream:
        stream.write(b'{"type":"message","id":"0123')
    runtime = await Runtime.open(OFFLINE)
    await runtime.sessions.resume("work")
    notices = [event.text async for event in runtime.agent.submit("go on") if isinstance(event, Notice)]
    assert [".torn" in text for text in notices] == [True]
    await runtime.close()


async def test_workspace_files_are_read_and_written_inside_it_only(tmp_path: Path) -> None:
    runtime = await Runtime.open(options(workspace=tmp_path / "ws"))
    assert "AGENTS.md" in await runtime.workspace.files()
    await runtime.workspace.write("memory/2026-11-21.md", "- likes tabs\n")
    assert await runtime.workspace.read("memory/2026-11-21.md") == "- likes tabs\n"
    assert await runtime.workspace.read("new.md") == ""
    for name in ("../outside.md", str(tmp_path / "outside.md")):
        with pytest.raises(ToolError):
            await runtime.workspace.write(name, "x")
    (tmp_path / "ws" / "bad.md").write_bytes(b"\xff")
    with pytest.raises(ToolError, match="UTF-8"):
        await runtime.workspace.read("bad.md")
    assert await runtime.workspace.count_tokens("hello world") > 0
    await runtime.close()


async def test_a_key_that_was_handed_over_is_kept_private_and_used_at_once() -> None:
    runtime = await Runtime.open(OFFLINE)
    await runtime.save_key("OPENAI_API_KEY", " sk-abc'def ")
    assert os.environ["OPENAI_API_KEY"] == "sk-abc'def"
    kept = home() / ".env"
    assert kept.stat().st_mode & 0o777 == 0o600
    assert any(info.ref.startswith("openai/") for info in await runtime.models())
    await runtime.close()


async def test_export_writes_one_file_that_holds_the_talk() -> None:
    runtime = await Runtime.open(OFFLINE)
    await reply_of(runtime, "hello exporter")
    path = await runtime.sessions.export("json", None)
    assert path.parent == runtime.agent.status.workspace / "exports"
    assert "hello exporter" in json.dumps(json.loads(path.read_text()))
    with pytest.raises(ClawbotError, match="exists already"):
        await runtime.sessions.export("md", path)
    await runtime.close()


NO_KEY = "agents: {defaults: {memory_search: {provider: openai}}}"


async def test_vectors_that_cannot_be_had_are_told_once_and_stand_in_the_status() -> None:
    configure(NO_KEY)
    runtime = await Runtime.open(RuntimeOptions(model="offline"))
    events: list[Event] = []
    runtime.agent.listen(events.append)
    await until(lambda: bool(runtime.agent.status.memory_problem))
    for text in ("/status", "hello there", "and again"):
        events += [event async for event in runtime.agent.submit(text)]
    await runtime.close()
    answers = [event.text for event in events if isinstance(event, CommandOutput)]
    assert "**memory** words only: OPENAI_API_KEY is not set." in answers[0].replace("OpenAI: ", "")
    assert len([event for event in events if isinstance(event, Notice) and "words only" in event.text]) == 1


NO_QMD = "memory: {backend: qmd, qmd: {command: /nowhere/qmd}}\nagents: {defaults: {memory_search: {provider: none}}}"


async def test_a_backend_that_is_not_there_is_told_once_and_the_builtin_index_answers() -> None:
    configure(NO_QMD)
    runtime = await Runtime.open(RuntimeOptions(model="offline"))
    events: list[Event] = []
    runtime.agent.listen(events.append)
    await until(lambda: bool(runtime.agent.status.memory_problem))
    (runtime.agent.status.workspace / "MEMORY.md").write_text("- the proxy moved to port 8443\n")
    for text in ("/status", "/memory proxy", "/new", "/memory 8443", "/status"):
        events += [event async for event in runtime.agent.submit(text)]
    await runtime.close()
    answers = [event.text for event in events if isinstance(event, CommandOutput)]
    assert all("there is no program /nowhere/qmd" in answer for answer in (answers[0], answers[-1]))
    assert ["8443" in answer for answer in answers].count(True) == 2
    assert len([event for event in events if isinstance(event, Notice) and "/nowhere/qmd" in event.text]) == 1


async def test_one_message_without_a_screen_is_told_of_them_too(capsys: pytest.CaptureFixture[str]) -> None:
    configure(NO_KEY)
    assert await run_one_turn(OFFLINE, "hello there", as_json=False) == 0
    told = capsys.readouterr().err
    assert told.count("memory: words only: ") == 1
    assert "OPENAI_API_KEY is not set" in told


@pytest.mark.parametrize(
    ("session", "idle", "daily"), [("main", None, time(4)), ("agent:main:telegram:group:42", 5, None)]
)
async def test_sessions_of_a_type_end_by_rules_of_their_own(session: str, idle: int | None, daily: time | None) -> None:
    configure("session: {reset_by_type: {group: {mode: idle, idle_minutes: 5}}}\n")
    runtime = await Runtime.open(options(session=session))
    assert (runtime.agent.deps.rules.reset.idle_minutes, runtime.agent.deps.rules.reset.daily_at) == (idle, daily)
    await runtime.close()


async def test_a_close_that_is_cancelled_from_its_beginning_leaves_nothing_that_watches(tmp_path: Path) -> None:
    runtime = await Runtime.open(options(watch=True))
    await until(lambda: bool(_watching()))
    await runtime.agent.close(hasty=True, last=True)
    runtime.services.remove(runtime.agent)

    async def end() -> None:
        current = asyncio.current_task()
        assert current is not None
        current.cancel()
        await runtime.services.close()

    [ended] = await asyncio.gather(end(), return_exceptions=True)
    assert isinstance(ended, asyncio.CancelledError)
    await until(lambda: not _watching())


def _watching() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if "watchdog" in type(thread).__module__]


@pytest.mark.few(3)
@pytest.mark.parametrize("steps", [0, 1, 2, 3, 4, 6, 9, 14, 22, 60])
async def test_a_close_that_is_cancelled_saves_to_memory_no_longer(tmp_path: Path, steps: int) -> None:
    """Whatever the closing is at just then; the model would never answer."""
    configure("agents: {defaults: {compaction: {memory_flush: {quit_min_tokens: 1, quit_timeout: 3600}}}}")
    script = tmp_path / "script.yaml"
    script.write_text("turns: [{reply: {text: Noted.}}, {reply: {text: NO_REPLY, fault: stall}}]")
    runtime = await Runtime.open(RuntimeOptions(model=f"script:{script}"))
    await reply_of(runtime, "the harbour is deep")
    assert runtime.agent.will_flush
    closing = asyncio.create_task(runtime.close())
    for _ in range(steps):
        await asyncio.sleep(0)
    closing.cancel()
    ended, _ = await asyncio.wait([closing], timeout=100)
    assert ended
    # What was cancelled, unless the script has its say first: one of its turns was never asked for.
    assert closing.cancelled() or isinstance(closing.exception(), ScriptUnused)


@pytest.mark.parametrize(("text", "warmed"), [("hello there", True), ("/status", False)])
async def test_one_message_has_the_model_loaded_while_the_session_is_opened(
    text: str, warmed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """litellm takes two seconds; nobody waits for it who asks no model."""
    begun: list[bool] = []

    async def warm(self: OfflineModel) -> None:
        begun.append(True)

    monkeypatch.setattr(OfflineModel, "warm", warm)
    assert await run_one_turn(OFFLINE, text, as_json=False) == 0
    assert bool(begun) == warmed
