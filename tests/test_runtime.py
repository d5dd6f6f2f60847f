"""The composition root: what opens, what is left open when it can't, and which session and model it opens on."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from msgspec import structs

from clawbot.agent.agent import Agent
from clawbot.agent.events import Notice, TextDelta, TurnEnded, TurnStarted
from clawbot.config.errors import ConfigError
from clawbot.config.paths import Paths, find_home
from clawbot.errors import ClawbotError
from clawbot.llm.errors import RefusedError
from clawbot.messages import UserMessage
from clawbot.runtime import Runtime, RuntimeOptions
from clawbot.sessions.errors import SessionLockedError, UnknownSessionError
from clawbot.tools.protocol import ToolError

OFFLINE = RuntimeOptions(model="offline", interactive=False)


def home() -> Path:
    return Paths(find_home()).home


def configure(text: str) -> None:
    home().mkdir(parents=True, exist_ok=True)
    (home() / "config.yaml").write_text(text)


def options(**chosen: object) -> RuntimeOptions:
    return structs.replace(OFFLINE, **chosen)


async def said(runtime: Runtime, text: str) -> str:
    """The reply to `text`, which must come."""
    pieces = []
    async for event in runtime.submit(text):
        if isinstance(event, TextDelta):
            pieces.append(event.text)
        if isinstance(event, TurnEnded):
            assert event.status == "done", event.error
    return "".join(pieces)


async def test_the_first_start_makes_home_and_workspace_private_and_says_so() -> None:
    runtime = await Runtime.open(OFFLINE)
    assert runtime.first_start
    assert runtime.notices == []
    status = runtime.status
    assert (status.agent_id, status.session_key, status.model.ref) == ("main", "main", "offline")
    assert (status.busy, status.notes, status.cost) == (False, 1, None)
    assert (status.workspace / "AGENTS.md").is_file()
    for path in home().rglob("*"):
        assert path.stat().st_mode & 0o077 == 0, path
    await runtime.close()
    again = await Runtime.open(OFFLINE)
    assert not again.first_start
    await again.close()


async def test_the_conversation_goes_on_where_it_was_left() -> None:
    first = await Runtime.open(OFFLINE)
    assert await said(first, "hello there")
    session_id = first.status.session_id
    await first.close()
    second = await Runtime.open(OFFLINE)
    assert second.status.session_id == session_id
    texts = [item.message.text for item in await second.history() if item.message is not None]
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
    assert beside.status.session_key != "main"
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
    assert runtime.status.model.ref == "openai/usual"
    await runtime.set_model("offline")
    await runtime.close()
    runtime = await Runtime.open(RuntimeOptions())
    assert runtime.status.model.ref == "offline"
    await runtime.close()
    runtime = await Runtime.open(RuntimeOptions(model="openai/now"))
    assert runtime.status.model.ref == "openai/now"
    await runtime.close()
    runtime = await Runtime.open(RuntimeOptions())
    assert runtime.status.model.ref == "offline", "an option holds for one run"
    await runtime.close()


async def test_a_chosen_model_that_is_gone_does_not_lock_the_user_out(tmp_path: Path) -> None:
    script = tmp_path / "gone.yaml"
    configure("agents:\n  defaults:\n    model: offline\n")
    runtime = await Runtime.open(RuntimeOptions())
    store, record = runtime.agent.parts.store, runtime.agent.conversation.session.record
    store.update(structs.replace(record, model_override=f"script:{script}"))
    await runtime.close()
    runtime = await Runtime.open(RuntimeOptions())
    assert runtime.status.model.ref == "offline"
    [notice] = runtime.notices
    assert str(script) in notice.text
    assert "so offline answers" in notice.text
    await runtime.close()


async def test_set_model_tells_what_is_no_model_and_keeps_the_old_one() -> None:
    runtime = await Runtime.open(OFFLINE)
    with pytest.raises(RefusedError):
        await runtime.set_model("nonsense")
    assert runtime.status.model.ref == "offline"
    assert await said(runtime, "hello")
    await runtime.close()


async def test_resume_waits_for_the_running_turn_and_lets_go_of_the_old_session() -> None:
    runtime = await Runtime.open(options(session="work"))
    await said(runtime, "in work")
    work = runtime.status.session_id
    await runtime.close()
    runtime = await Runtime.open(OFFLINE)
    stream = runtime.submit("in main")
    assert isinstance(await anext(stream), TurnStarted)
    assert runtime.status.busy
    rest = [event async for event in stream]
    assert isinstance(rest[-1], TurnEnded)
    changed = await runtime.resume(work[:8])
    assert (changed.session_key, changed.session_id) == ("work", work)
    assert (await runtime.resume("work")).session_id == work
    other = await Runtime.open(OFFLINE)
    assert other.status.session_key == "main"
    with pytest.raises(SessionLockedError):
        await runtime.resume("main")
    with pytest.raises(UnknownSessionError):
        await runtime.resume("no-such")
    assert runtime.status.session_id == work
    assert await said(runtime, "still in work")
    await other.close()
    await runtime.close()


async def test_preview_reads_another_session_without_taking_it() -> None:
    runtime = await Runtime.open(options(session="work"))
    await said(runtime, "in work")
    other = await Runtime.open(OFFLINE)
    items = await other.preview("work")
    assert [item.message.text for item in items if isinstance(item.message, UserMessage)] == ["in work"]
    assert {summary.name for summary in await other.sessions()} == {"main", "work"}
    await other.close()
    await runtime.close()


async def test_what_was_survived_while_opening_is_told() -> None:
    runtime = await Runtime.open(OFFLINE)
    await said(runtime, "hello")
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
    await said(runtime, "hello")
    path = runtime.agent.conversation.session.transcript.path
    await runtime.close()
    with path.open("ab") as stream:
        stream.write(b'{"type":"message","id":"0123')
    runtime = await Runtime.open(OFFLINE)
    await runtime.resume("work")
    notices = [event.text async for event in runtime.submit("go on") if isinstance(event, Notice)]
    assert [".torn" in text for text in notices] == [True]
    await runtime.close()


async def test_workspace_files_are_read_and_written_inside_it_only(tmp_path: Path) -> None:
    runtime = await Runtime.open(options(workspace=tmp_path / "ws"))
    assert "AGENTS.md" in await runtime.workspace_files()
    await runtime.write_workspace_file("memory/2026-11-21.md", "- likes tabs\n")
    assert await runtime.read_workspace_file("memory/2026-11-21.md") == "- likes tabs\n"
    assert await runtime.read_workspace_file("new.md") == ""
    for name in ("../outside.md", str(tmp_path / "outside.md")):
        with pytest.raises(ToolError):
            await runtime.write_workspace_file(name, "x")
    (tmp_path / "ws" / "bad.md").write_bytes(b"\xff")
    with pytest.raises(ToolError, match="UTF-8"):
        await runtime.read_workspace_file("bad.md")
    assert await runtime.count_tokens("hello world") > 0
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
    await said(runtime, "hello exporter")
    path = await runtime.export("json", None)
    assert path.parent == runtime.status.workspace / "exports"
    assert "hello exporter" in json.dumps(json.loads(path.read_text()))
    with pytest.raises(ClawbotError, match="exists already"):
        await runtime.export("md", path)
    await runtime.close()
