"""Searches with qmd: what it is asked, what is taken of its answers, and what happens when it fails."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import stat
from datetime import date
from pathlib import Path

import pytest

from clawbot.cli.memory_output import status_lines
from clawbot.plugins.qmd import following
from clawbot.plugins.qmd.backend import QmdBackend
from clawbot.plugins.qmd.program import QmdError, QmdPaths, own_environment
from tests.indexing.test_transcripts import talk
from tests.memory.index_host import until
from tests.plugins.qmd.stand_in import Machine, answer, ask, places
from tests.tables import load_table


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def full_disk(path: Path, data: bytes, **_: object) -> None:
    """In place of a write."""
    raise OSError(errno.ENOSPC, "No space left on device", str(path))


async def test_a_search_indexes_asks_and_reads_the_lines_from_the_file(machine: Machine) -> None:
    memory = machine.memory()
    found = await ask(memory)
    [hit] = found.hits
    assert (hit.location, hit.line, hit.score) == ("MEMORY.md#L3-L4", 3, 0.8)
    assert hit.snippet == "- the proxy moved to port 8443\n- 喜欢乌龙茶"
    assert (found.mode, found.provider, found.model, found.fallback) == ("fts-only", "qmd", "qmd", None)
    assert [call.partition(" ")[0] for call in machine.calls] == ["update", "search"]
    assert machine.calls[1] == "search --json -n 18 -c main-memory -c main-notes -c main-sessions -- proxy"
    await ask(memory)
    assert [call.partition(" ")[0] for call in machine.calls] == ["update", "search", "search"], "nothing has changed"
    await memory.close()


async def test_a_question_is_put_as_words_of_which_any_may_match(machine: Machine) -> None:
    memory = machine.memory()
    machine.answers(answer("qmd://main-notes/2026-11-20.md", 1, 1.0))
    found = await ask(memory, "部署窗口改到什么时候?")
    assert found.hits[0].line == 3, "the line with the words of the question, which qmd does not know"
    [asked] = [call for call in machine.calls if call.startswith("query")]
    assert asked.startswith("query --no-rerank --json")
    await ask(memory, '-x --json "moved to" it\'s')
    text = (machine.bin / "calls").read_text(encoding="utf-8")
    assert 'lex: "moved to"' in text
    assert len([line for line in text.splitlines() if line.startswith("lex: ")]) <= 2 * 13
    before = len(machine.calls)
    assert (await ask(memory, "。。。")).hits == ()
    assert len(machine.calls) == before, "a question without a word is not asked"
    await memory.close()


async def test_what_was_just_written_is_found_since_the_search_waits_for_the_update(machine: Machine) -> None:
    memory = machine.memory()
    await ask(memory)
    machine.write("memory/new.md", "- the safe is in the cellar\n")
    machine.answers(answer("qmd://main-notes/new.md", 1))
    found = await ask(memory, "safe")
    assert places(found) == ["memory/new.md#L1"]
    assert [call.partition(" ")[0] for call in machine.calls].count("update") == 2
    await memory.close()


async def test_a_search_does_not_wait_for_a_slow_update(machine: Machine) -> None:
    memory = machine.memory(wait=0.05)
    await ask(memory)
    slow = (machine.bin / "qmd").read_text().replace("update) echo", "update) sleep 600; echo")
    (machine.bin / "qmd").write_text(slow)
    machine.write("memory/new.md", "- the safe is in the cellar\n")
    found = await ask(memory)
    assert found.hits
    assert found.warnings == ("Files changed a moment ago are not searched yet.",)
    assert found.fallback is None
    await memory.close()


@pytest.mark.parametrize(
    ("fault", "why"),
    load_table(__file__, "the_same_question_is_answered_by_the_builtin_index_and_told_once"),
)
async def test_the_same_question_is_answered_by_the_builtin_index_and_told_once(
    machine: Machine, fault: str, why: str
) -> None:
    before = machine.memory()
    assert (await ask(before)).fallback is None
    await before.close()
    machine.fails(fault)
    memory = machine.memory(timeout_ms=300 if fault == "hang" else 30_000)
    for _ in range(2):
        found = await ask(memory)
        assert places(found)[0].startswith("MEMORY.md")
        assert found.fallback is not None
        assert (found.fallback.from_, why in found.fallback.reason) == ("qmd", True)
    assert len(machine.told) == 1
    machine.fails("")
    machine.talk = "two"
    # A machine under load may take longer than the limit of the hanging one.
    assert fault == "hang" or (await ask(memory)).fallback is None, "put back, the next conversation uses it"
    await memory.close()


async def test_a_chat_does_not_wait_for_the_first_index(machine: Machine) -> None:
    machine.fails("hang")
    memory = machine.memory(timeout_ms=300, long_lived=True)
    found = await ask(memory)
    assert found.hits
    assert found.fallback is not None
    assert found.fallback.reason == "Its first index was not built within 0.3 s."
    await memory.close()


async def test_off_the_path_and_back_again_without_a_restart(machine: Machine) -> None:
    machine.remove()
    memory = machine.memory()
    found = await ask(memory)
    assert found.fallback is not None
    assert "there is no program" in found.fallback.reason
    assert "npm install -g @tobilu/qmd" in found.fallback.reason
    status = await memory.status()
    assert (status.fallback, status.files) == (found.fallback, 2)
    assert found.fallback.reason in memory.problem
    machine.install()
    machine.talk = "two"
    assert (await ask(memory)).fallback is None
    assert memory.problem == ""
    await memory.close()


async def test_an_old_node_is_named(machine: Machine) -> None:
    (machine.bin / "node").write_text("#!/bin/sh\necho v20.20.2\n")
    machine.fails("crashes")
    memory = machine.memory()
    found = await ask(memory)
    assert found.fallback is not None
    assert found.fallback.reason == "qmd update exited with 139. It needs Node 22 or later, found v20.20.2."
    await memory.close()


async def test_an_interrupted_search_leaves_no_process(machine: Machine) -> None:
    memory = machine.memory()
    await ask(memory)
    machine.fails("hang")
    search = asyncio.create_task(ask(memory))
    await until(lambda: len(machine.calls) == 3)
    search.cancel()
    await asyncio.wait([search])
    await memory.close()
    assert not processes_of(str(machine.bin / "qmd"))


def processes_of(program: str) -> list[Path]:
    """What runs `program`, where the system tells."""
    return [process for process in Path("/proc").glob("[0-9]*") if program in _command_of(process)]


def _command_of(process: Path) -> str:
    try:
        return (process / "cmdline").read_bytes().decode(errors="replace")
    except OSError:
        return ""


async def test_its_process_inherits_no_secret(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-never-to-be-seen")
    monkeypatch.setenv("SOMETHING", "else")
    memory = machine.memory()
    await ask(memory)
    environment = (machine.bin / "environment").read_text()
    assert "sk-never" not in environment
    assert "SOMETHING" not in environment
    assert f"INDEX_PATH={machine.paths.home / 'memory' / 'qmd' / 'main'}" in environment
    await memory.close()


def test_a_node_beside_the_program_comes_first(tmp_path: Path) -> None:
    place = QmdPaths(tmp_path, tmp_path)
    given = {"PATH": "/usr/bin", "HOME": "/home/ada", "AWS_SECRET_ACCESS_KEY": "x"}
    found = own_environment(given, place, tmp_path / "node_modules" / ".bin" / "qmd")
    assert found["PATH"] == f"{tmp_path}/node_modules/.bin{os.pathsep}/usr/bin"
    assert "AWS_SECRET_ACCESS_KEY" not in found


async def test_its_files_are_private(machine: Machine) -> None:
    memory = machine.memory()
    await ask(memory)
    top = machine.paths.home / "memory" / "qmd"
    for path in (top, *top.rglob("*")):
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path
    await memory.close()


async def test_answers_from_elsewhere_are_dropped(machine: Machine, tmp_path: Path) -> None:
    (tmp_path / "secret.md").write_text("- the proxy of somebody else\n")
    (machine.workspace / "memory" / "link.md").symlink_to(tmp_path / "secret.md")
    machine.answers(
        answer("qmd://main-memory/../secret.md", 1),
        answer("qmd://main-notes/link.md", 1),
        answer("qmd://main-notes/gone.md", 1),
        answer("qmd://other-memory/MEMORY.md", 1),
        answer("/etc/passwd", 1),
        answer("qmd://main-memory/MEMORY.md", 400),
    )
    memory = machine.memory()
    found = await ask(memory)
    assert (places(found), found.fallback) == (["MEMORY.md#L3-L4"], None)
    await memory.close()


async def test_dates_paths_and_counts_are_kept(machine: Machine) -> None:
    machine.answers(
        answer("qmd://main-memory/MEMORY.md", 3, 0.9),
        answer("qmd://main-notes/2026-11-20.md", 1, 0.8),
        answer("qmd://main-notes/2026-11-20.md", 1, 0.7),
    )
    memory = machine.memory()
    assert places(await ask(memory)) == ["MEMORY.md#L3-L4", "memory/2026-11-20.md#L1-L3"]
    assert places(await ask(memory, after=date(2026, 11, 1))) == ["memory/2026-11-20.md#L1-L3"]
    assert places(await ask(memory, before=date(2026, 11, 1))) == []
    assert places(await ask(memory, path="memory")) == ["memory/2026-11-20.md#L1-L3"]
    assert places(await ask(memory, max_results=1)) == ["MEMORY.md#L3-L4"]
    scored = await ask(memory, min_score=0.85)
    assert (places(scored), scored.warnings) == (
        places(await ask(memory)),
        ("`min_score` has no effect: the scores of qmd are on a scale of its own.",),
    )
    await memory.close()


async def test_what_was_said_is_exported_and_found_by_its_entry(machine: Machine) -> None:
    path = talk(machine.paths.sessions("main"), "我喜欢乌龙茶", "Noted: oolong.")
    memory = machine.memory()
    await memory.sync()
    folder = machine.paths.home / "memory/qmd/main"
    [export] = (folder / "sessions").iterdir()
    assert export.read_text(encoding="utf-8").splitlines()[-1] == "Assistant: Noted: oolong."
    machine.answers(answer(f"qmd://main-sessions/{export.name}", 1, 1.0), answer("qmd://main-memory/MEMORY.md", 1, 0.6))
    talks, notes = (await ask(memory, "oolong")).hits[:2]
    assert (talks.path, talks.line, talks.score) == (f"sessions/{path.name}", 3, 0.7), "talks weigh less"
    assert talks.said is not None
    assert (talks.said.who, notes.path) == ("agent", "MEMORY.md")
    assert places(await ask(memory, "oolong", without=f"sessions/{path.name}")) == ["MEMORY.md#L1-L3"]
    await ask(memory, "oolong", sources=("memory",))
    assert "-c main-sessions" not in machine.calls[-1]
    path.unlink()
    await memory.sync()
    assert not list((folder / "sessions").iterdir())
    await memory.close()


async def test_transcripts_that_are_too_old_are_not_exported(machine: Machine) -> None:
    folder = machine.paths.sessions("main")
    os.utime(talk(folder, "old"), (1_700_000_000, 1_700_000_000))
    talk(folder, "new")
    memory = machine.memory(sessions={"retention_days": 30})
    await memory.sync()
    assert len(list((machine.paths.home / "memory/qmd/main/sessions").iterdir())) == 1
    await memory.close()


async def test_extra_paths_are_collections_of_their_own(machine: Machine, tmp_path: Path) -> None:
    (tmp_path / "wiki" / "Sub Dir").mkdir(parents=True)
    (tmp_path / "wiki" / "Sub Dir" / "中文 #1%20.md").write_text("- the proxy\n")
    (tmp_path / "one [x].md").write_text("- proxy\n")
    memory = machine.memory(extra_paths=[str(tmp_path / "wiki"), str(tmp_path / "one [x].md")])
    machine.answers(
        answer("qmd://main-extra1/Sub Dir/中文 #1%20.md", 1), answer("qmd://main-extra2/one [x].md", 1, 0.7)
    )
    assert places(await ask(memory)) == ["../wiki/Sub Dir/中文 #1%20.md#L1", "../one [x].md#L1"]
    config = json.loads((machine.paths.home / "memory/qmd/main/config/index.yml").read_text())
    assert config["collections"]["main-extra2"] == {"path": str(tmp_path), "pattern": "one ?x?.md"}
    await memory.close()


async def test_the_rest_of_its_configuration_is_kept(machine: Machine) -> None:
    file = machine.paths.home / "memory/qmd/main/config/index.yml"
    file.parent.mkdir(parents=True)
    file.write_text("models: {embed: mine}\ncollections: {old: {path: /x, pattern: '*'}}\n")
    memory = machine.memory()
    await memory.sync()
    config = json.loads(file.read_text())
    assert config["models"] == {"embed": "mine"}
    assert sorted(config["collections"]) == ["main-memory", "main-notes", "main-sessions"]
    await memory.close()


async def test_a_sync_reports_what_changed_and_force_begins_anew(machine: Machine) -> None:
    memory = machine.memory()
    assert (await memory.sync()).added == 2
    machine.write("memory/new.md", "- new\n")
    (machine.workspace / "memory" / "2026-11-20.md").unlink()
    assert not (await memory.verify()).clean
    report = await memory.verify(fix=True)
    assert (report.clean, len(report.fixed)) == (True, 2)
    assert (await memory.verify()).clean
    assert ((await memory.sync()).unchanged, (await memory.sync(force=True)).added) == (2, 2)
    status = await memory.status(deep=True)
    assert (status.files, status.total_files, status.identity, status.dirty) == (2, 2, "qmd 2.8.3, search", False)
    assert (status.provider, status.requested_provider, status.model) == ("qmd", "qmd", "qmd")
    assert sum(one.chunks for one in status.source_counts) == status.chunks == 2
    assert "words alone" in "\n".join(status_lines("main", status, None, {}))
    assert await memory.scrub()
    assert machine.calls[-1] == "cleanup"
    await memory.close()


async def test_what_is_forgotten_is_gone_even_where_qmd_cannot_be_run(machine: Machine) -> None:
    talk(machine.paths.sessions("main"), "我喜欢乌龙茶")
    memory = machine.memory()
    await memory.sync()
    machine.remove()
    assert (await memory.verify()).problems == ("There is no memory index yet.",), "qmd was not compared"
    folder = machine.paths.home / "memory/qmd/main"
    assert await memory.scrub()
    assert [file.name for file in folder.rglob("*") if file.is_file()] == ["index.yml"]
    await memory.close()


async def test_vectors_are_computed_where_the_mode_wants_them(machine: Machine) -> None:
    memory = machine.memory(search_mode="vsearch")
    assert (await memory.sync()).fallback is None
    assert machine.calls[-1] == "embed"
    found = await ask(memory, "-where is\nthe proxy")
    assert (found.mode, machine.calls[-1].partition(" -- ")[2]) == ("vector-only", "where is the proxy")
    await memory.close()


async def test_in_a_chat_it_updates_at_the_start_and_follows_the_files(machine: Machine) -> None:
    memory = QmdBackend(machine.context(watch=True, update={"debounce_ms": 10}))
    memory.start()
    watcher = memory._watcher
    await until(lambda: memory.generation > 0 and watcher is not None and watcher._poll is not None)
    before = memory.generation
    machine.write("memory/new.md", "- new\n")
    await until(lambda: memory.generation > before)
    await memory.close()


async def test_a_change_during_an_update_is_followed_by_another_update(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = QmdBackend(machine.context())
    gate, runs = asyncio.Event(), asyncio.Event()
    run = memory._program.run

    async def slow(*arguments: str, seconds: float) -> bytes:
        runs.set()
        await gate.wait()
        return await run(*arguments, seconds=seconds)

    monkeypatch.setattr(memory._program, "run", slow)
    machine.write("memory/old.md", "- old\n")
    memory._follower.follow()
    await runs.wait()
    machine.write("memory/new.md", "- new\n")
    memory._follower.follow()
    gate.set()
    await until(lambda: memory.generation == 2)
    await memory.close()


async def test_vectors_that_fail_are_tried_again_later_and_later(machine: Machine) -> None:
    memory = QmdBackend(machine.context(search_mode="query"))
    await memory.sync()
    machine.fails("exits")
    assert [await memory._follower.embed() for _ in range(8)] == [60, 120, 240, 480, 960, 1920, 3600, 3600]
    machine.fails("")
    assert await memory._follower.embed() == 3_600
    await memory.close()


@pytest.mark.parametrize(
    ("version", "is_too_old"),
    [("0.9.0", True), ("2.7.11", True), ("1.0.0-beta.1", True), ("2.8.0", False), ("", False)],
)
async def test_a_failing_qmd_is_first_asked_for_its_age(machine: Machine, version: str, *, is_too_old: bool) -> None:
    folder = machine.bin.parent / "lib" / "node_modules" / "@tobilu" / "qmd"
    folder.mkdir(parents=True)
    (folder / "package.json").write_text(json.dumps({"name": "@tobilu/qmd", "version": version}))
    (machine.bin / "qmd").rename(folder / "qmd.js")
    (machine.bin / "qmd").symlink_to(folder / "qmd.js")
    machine.fails("exits")
    backend = QmdBackend(machine.context())
    with pytest.raises(QmdError) as caught:
        await backend.sync()
    await backend.close()
    assert (f"qmd {version} is too old" in str(caught.value)) is is_too_old
    assert ("@tobilu/qmd@latest" in caught.value.hint) is is_too_old


async def test_the_first_update_is_tried_three_times(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "BOOT_PAUSE", 0.0)
    machine.fails("exits")
    memory = QmdBackend(machine.context())
    await memory._follower.boot()
    assert machine.calls == ["update"] * 3
    await memory.close()


async def test_on_a_full_disk_an_index_that_is_there_answers_and_catches_up_later(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    memory = machine.memory()
    await memory.sync()
    with monkeypatch.context() as patched:
        patched.setattr(following, "write_atomic", full_disk)
        machine.write("memory/new.md", "- the safe is in the cellar\n")
        assert (await ask(memory)).hits
        assert "could not be recorded" in caplog.text
        talk(machine.paths.sessions("main"), "new")
        found = await ask(memory)
        assert found.hits
        assert found.warnings == ("Files changed a moment ago are not searched yet.",)
        assert found.fallback is None
        stood_in = (await memory.sync()).fallback
        assert stood_in is not None
        assert "qmd/main can't be written: No space left on device. Make room" in stood_in.reason
    machine.talk = "another"
    report = await memory.sync()
    assert (report.added, report.fallback) == (2, None)
    await memory.close()


async def test_on_a_full_disk_no_first_index_is_begun(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    memory = machine.memory()
    with monkeypatch.context() as patched:
        patched.setattr(following, "write_atomic", full_disk)
        found = await ask(memory)
        assert found.fallback is not None
        assert "No space left on device" in found.fallback.reason
        assert machine.calls == []
    machine.talk = "another"
    assert (await ask(memory)).fallback is None
    await memory.close()
