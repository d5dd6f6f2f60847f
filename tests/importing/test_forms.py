"""Forms in which the programs write what is no plain message: directives, attachments, copies, backups, old files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from clawbot.config.paths import Paths, find_home
from clawbot.runtime import Runtime, RuntimeOptions
from clawbot.sessions.text import spoken_part
from tests.clocks import StillClock
from tests.importing import homes
from tests.importing.test_import import Place, messages, paths, place_of, said
from tests.tables import load_table

SESSIONS = "agents/main/sessions"
DIRECTIVES = load_table(__file__, "DIRECTIVES")


@pytest.mark.parametrize(("stored", "shown"), DIRECTIVES.items())
@pytest.mark.parametrize("program", ["openclaw", "pi"])
def test_directives_of_openclaw_are_no_words(program: str, stored: str, shown: str, tmp_path: Path) -> None:
    place = place_of(program, tmp_path, [("where?", stored)])
    place.run()
    for path in paths(place):
        assert said(path)[-1].strip() == shown
        assert spoken_part(path).lines[-1].text == shown


def _user(program: str, content: Any, **more: Any) -> Any:
    """A conversation of one message of the user, and one answer, as the program stores it."""
    if program == "openclaw":
        lines: list[Any] = homes.pi_lines(9, [("x", "Nice.")])
        lines[2]["message"]["content"] = content
    elif program == "claude-code":
        lines = homes.claude_code_lines(9, [("x", "Nice.")])
        lines[2]["message"]["content"] = content
    elif program == "codex":
        lines = homes.codex_lines(9, [("x", "Nice.")])
        lines[4]["payload"]["content"] = content
    elif program == "chatgpt":
        lines = [homes.chatgpt_item(9, [("x", "Nice.")])]
        lines[0]["mapping"]["9-u0"]["message"] |= {"content": {"content_type": "text", "parts": content}, **more}
    else:
        lines = [homes.claude_ai_item(9, [("x", "Nice.")])]
        lines[0]["chat_messages"][0] |= {"text": "", "content": content, "attachments": [], **more}
    return lines


PICTURE = {"type": "image", "data": "aGk=", "mimeType": "image/png"}
ATTACHED = [
    # The program, the content of a message without words and what else it has; what is shown.
    ("openclaw", [PICTURE], {}, "[image/png]"),
    ("claude-code", [{"type": "image", "source": {"type": "base64", "data": "aGk="}}], {}, "[image]"),
    ("claude-code", [{"type": "document", "title": "plan.pdf", "source": {}}], {}, "[plan.pdf]"),
    ("codex", [{"type": "input_image", "image_url": "data:image/png;base64,aGk="}], {}, "[image]"),
    ("codex", [{"type": "input_file", "filename": "plan.pdf"}], {}, "[plan.pdf]"),
    ("chatgpt", [""], {"metadata": {"attachments": [{"id": "f", "name": "plan.pdf"}]}}, "[plan.pdf]"),
    ("chatgpt", [{"content_type": "image_asset_pointer", "asset_pointer": "file-service://x"}], {}, "[image]"),
    ("chatgpt", [""], {"metadata": {"attachments": [{"id": "f"}, 7]}}, "[file]"),
    ("claude-ai", [], {"files": [{"file_name": "照片.jpg", "file_uuid": "x"}]}, "[照片.jpg]"),
    ("claude-ai", [], {"attachments": [{"file_name": "a.txt", "extracted_content": "seed"}]}, "[a.txt]"),
    ("claude-ai", [{"type": "text", "text": ""}], {"files": [{"file_name": "a"}, {"file_name": "b"}]}, "[a]\n[b]"),
]  # fmt: skip


@pytest.mark.parametrize(("program", "content", "more", "shown"), ATTACHED)
def test_a_message_of_an_attachment_alone_names_it(
    program: str, content: Any, more: dict[str, Any], shown: str, tmp_path: Path
) -> None:
    names = {"openclaw": f"{SESSIONS}/9.jsonl", "claude-code": "projects/-w/9.jsonl", "codex": "rollout-9.jsonl"}
    root, lines = tmp_path / "theirs", _user(program, content, **more)
    data = lines if program in names else [json.dumps(lines).encode()]
    homes.put_lines(root / names.get(program, "conversations.json"), data)
    place = Place(tmp_path / "ours", root, StillClock())
    place.home.mkdir()
    place.run()
    (path,) = paths(place)
    assert next(each.shown for each in messages(path) if each.text != "/clear") == shown


def resumed(folder: Path, number: int, lines: list[dict[str, Any]]) -> None:
    summary = {"type": "summary", "summary": "Hens again", "leafUuid": lines[-1]["uuid"]}
    copies = [{**line, "sessionId": homes.uid(number)} for line in lines]
    homes.put_lines(folder / f"{homes.uid(number)}.jsonl", [summary, *copies])


@pytest.mark.parametrize("order", [(5, 6), (6, 5)])
@pytest.mark.parametrize("later", [False, True])
def test_copies_that_resuming_makes_are_one_conversation(order: tuple[int, int], later: bool, tmp_path: Path) -> None:
    place = place_of("claude-code", tmp_path)
    folder = place.path / "projects/-work"
    first = homes.claude_code_lines(50, homes.ENGLISH)
    more = homes.claude_code_lines(50, [*homes.ENGLISH, ("And now?", "Now it is bigger.")])
    side = [{**line, "sessionId": homes.uid(6)} for line in homes.claude_code_lines(8, homes.ENGLISH, side=True)]
    resumed(folder, order[0], first)
    before = place.run() if later else None
    resumed(folder, order[1], more)
    homes.put_lines(folder / "agent-8.jsonl", side)
    counted = place.run(dry_run=True)
    outcome = place.run()
    assert (counted.new, counted.grown, counted.messages) == (outcome.new, outcome.grown, outcome.messages)
    assert (outcome.new, outcome.grown) == ((0, 1) if before else (3, 0))
    (path,) = (path for path in paths(place) if "And now?" in said(path))
    assert len(said(path)) == len(set(said(path)))
    assert len(place.store.list()) == 3
    assert len(place.store.subagents(path.stem).list()) == 1
    for run in (outcome, *([before] if before else [])):
        assert not place.undo(run.run).stays
    assert paths(place) == []


def test_each_sub_agent_in_the_file_of_its_conversation_is_one_of_its_own(tmp_path: Path) -> None:
    place = place_of("claude-code", tmp_path)
    main = homes.claude_code_lines(50, homes.ENGLISH)
    sides = [homes.claude_code_lines(number, homes.ENGLISH, side=True) for number in (51, 52)]
    for side in sides:
        side[0]["parentUuid"] = main[-1]["uuid"]
    homes.put_lines(place.path / f"projects/-work/{homes.uid(50)}.jsonl", [*main, *sides[0], *sides[1]])
    assert place.run().subagents == 3


def test_files_of_the_first_codex_are_read_and_packed_ones_and_notes_are_named(tmp_path: Path) -> None:
    place = place_of("codex", tmp_path)
    old: dict[str, Any] = {"session": {"id": homes.uid(70), "timestamp": homes.at(0), "instructions": ""}}
    call = {"type": "function_call", "call_id": "c", "name": "shell", "arguments": '{"command":["ls"]}'}
    result = {"type": "function_call_output", "call_id": "c", "output": '{"output":"a.py"}'}
    texts = [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "list the files"}]}]
    texts += [{"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "One: a.py"}]}]
    old["items"] = [texts[0], call, result, texts[1]]
    folder = place.path / "sessions"
    (folder / f"rollout-2025-04-20-{homes.uid(70)}.json").write_text(json.dumps(old, indent=2))
    (folder / f"rollout-2025-04-21-{homes.uid(71)}.json").write_text('{"session": {"id": "x"}, "ite')
    homes.put_lines(place.path / "AGENTS.md", [b"- Use tabs.\n"])
    outcome = place.run()
    (path,) = (path for path in paths(place) if said(path)[0] == "list the files")
    assert [type(each).__name__ for each in messages(path)][1:3] == ["AssistantMessage", "ToolResultMessage"]
    assert said(path)[-1] == "One: a.py"
    assert outcome.skipped["compressed files (unpack them first)"] == 1
    assert outcome.skipped["files that can't be read"] == 1
    assert [line.split(",")[0] for line in outcome.remarks] == ["notes (1)"]


@pytest.mark.parametrize("inside", ["", "projects", "projects/-work"])
def test_notes_of_claude_code_are_named_with_their_number(inside: str, tmp_path: Path) -> None:
    place = place_of("claude-code", tmp_path)
    for name in ("MEMORY.md", "debugging.md"):
        homes.put_lines(place.path / "projects/-work/memory" / name, [b"- The coop is blue.\n"])
    place.path = place.path / inside
    (remark,) = place.run().remarks
    assert remark.startswith("notes (2), such as ")


BACKUPS = {
    # The files of one session in a folder, and how many conversations arrive from them.
    (".jsonl.bak-20260301-101500",): 1,
    (".jsonl.bak",): 1,
    (".jsonl.bak-1", ".jsonl.bak-2"): 1,
    (".jsonl", ".jsonl.bak-1"): 1,
    (".jsonl.reset.2026-03-06T04-00-00.000Z",): 1,
    (".jsonl.deleted.2026-03-06T04-00-00.000Z",): 0,
}


@pytest.mark.parametrize(("ends", "count"), BACKUPS.items())
def test_a_backup_whose_session_is_gone_is_the_session(ends: tuple[str, ...], count: int, tmp_path: Path) -> None:
    root = tmp_path / "theirs"
    for end in ends:
        homes.put_lines(root / SESSIONS / f"{homes.uid(1)}{end}", homes.pi_lines(1, homes.ENGLISH))
    place = Place(tmp_path / "ours", root, StillClock())
    place.home.mkdir()
    outcome = place.run()
    assert outcome.new == count
    assert sum(outcome.skipped.values()) == len(ends) - count


LINKS = {
    # The program, the link in its home, and what it leads to.
    "agent": ("openclaw", "agents/other", "agents/main"),
    "sessions": ("openclaw", "agents/other/sessions", "agents/main/sessions"),
    "transcript": ("openclaw", "agents/main/sessions/a.jsonl", f"agents/main/sessions/{homes.uid(9)}.jsonl"),
    "jobs": ("openclaw", "cron", "cron"),
    "workspace": ("openclaw", "workspace", "workspace"),
    "project": ("claude-code", "projects/-other", "projects/-work"),
    "day": ("codex", "sessions/2026/03/06", "sessions/2026/03/05"),
    "pi": ("pi", "agent/sessions/--other--", "agent/sessions/--work--"),
    "export": ("claude-ai", "more", "."),
}


@pytest.mark.parametrize("name", list(LINKS))
def test_no_link_out_of_the_home_is_followed(name: str, tmp_path: Path) -> None:
    program, link, target = LINKS[name]
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    place = place_of(program, tmp_path / "a")
    elsewhere = homes.HOMES[program](tmp_path / "b", [("a secret?", "the secret word")])
    if program == "openclaw":
        homes.put_lines(elsewhere / SESSIONS / f"{homes.uid(9)}.jsonl", homes.pi_lines(9, [("a secret?", "secret")]))
        homes.put_lines(elsewhere / "workspace/secret.md", [b"secret\n"])
    if (place.path / link).exists():
        (place.path / link).rename(place.path / "gone")
    (place.path / link).parent.mkdir(parents=True, exist_ok=True)
    (place.path / link).symlink_to(elsewhere / target)
    outcome = place.run()
    assert outcome.new > 0
    assert not any(b"secret" in data for data in place.files().values())
    assert bool(outcome.jobs) is (program == "openclaw" and name != "jobs")


@pytest.mark.parametrize("indexed", [False, True])
async def test_a_moved_conversation_goes_on_when_its_model_is_unknown(indexed: bool) -> None:
    folder = Paths(find_home()).sessions("main")
    lines = homes.pi_lines(1, homes.ENGLISH)
    lines[1] |= {"provider": "openclaw-cloud", "modelId": "kimi-k9"}
    homes.put_lines(folder / f"{homes.uid(1)}.jsonl", lines)
    if indexed:
        model = {"providerOverride": "openclaw-cloud", "modelOverride": "kimi-k9", "updatedAt": homes.BEGAN_MS}
        (folder / "sessions.json").write_text(json.dumps({"agent:main:main": {"sessionId": homes.uid(1), **model}}))
    runtime = await Runtime.open(RuntimeOptions(session=homes.uid(1)))
    try:
        told = [each.text for each in runtime.notices if "openclaw-cloud/kimi-k9" in each.text]
        assert len(told) == 1
        assert runtime.agent.deps.model.chat.info.ref == "offline"
    finally:
        await runtime.close()


def test_an_imported_conversation_goes_on_with_the_model_of_the_settings(tmp_path: Path) -> None:
    place = place_of("pi", tmp_path)
    place.run()
    (place.store.folder / "sessions.json").unlink()
    assert {each.model for each in place.store.list()} == {None}
