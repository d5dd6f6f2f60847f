"""What the doctor says of the memory index."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from clawbot.cli import doctor_storage as storage
from clawbot.cli.doctor import inspect_setup
from clawbot.cli.doctor_storage import Findings, Here
from clawbot.errors import ClawbotError
from clawbot.memory.values import Fallback, IndexStatus, Issue, Probe
from tests.memory.fake_index import STATUS, FakeIndex


@pytest.fixture
def home() -> Path:
    folder = Path(os.environ["CLAWBOT_HOME"])
    folder.mkdir(mode=0o700)
    return folder


@pytest.fixture
def here(home: Path) -> Here:
    """A place where an index was built."""
    found = inspect_setup("main", ping=True)
    database = found.paths.memory_db("main")
    database.parent.mkdir()
    database.touch()
    return found


async def findings_of(here: Here, index: FakeIndex) -> Findings:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(storage, "open_index", lambda *_, **__: index)
        return await storage.index(here)


async def findings(here: Here, **changes: Any) -> Findings:
    return await findings_of(here, FakeIndex(state=structs.replace(STATUS, **changes)))


async def test_an_index_that_works_is_told_with_its_figures(here: Here) -> None:
    index = FakeIndex()
    [found] = await findings_of(here, index)
    assert (found.check, found.state) == ("memory", "ok")
    assert found.message == "3 of 3 files in 41 pieces, found by offline wordllama-256"
    assert index.calls == ["status deep=True"]
    assert index.closed


def test_nothing_is_made_where_there_is_no_index() -> None:
    [found] = asyncio.run(storage.index(inspect_setup("main", ping=False)))
    assert (found.state, found.fix) == ("ok", "clawbot memory index")
    assert not Path(os.environ["CLAWBOT_HOME"]).exists()


@pytest.mark.parametrize(
    ("config", "state", "said"),
    [
        ("agents: {main: {memory_search: {enabled: false}}}", "ok", "switched off"),
        ("agents: {main: {memory_search: {enabledd: false}}}", "warning", "not tried"),
    ],
)
async def test_the_settings_come_first(home: Path, config: str, state: str, said: str) -> None:
    (home / "config.yaml").write_text(config)
    [found] = await storage.index(inspect_setup("main", ping=False))
    assert found.state == state
    assert said in found.message


async def test_a_backend_that_is_not_there_is_named_with_the_way_to_install_it(home: Path) -> None:
    (home / "config.yaml").write_text("memory: {backend: qmd, qmd: {command: no-such-qmd}}")
    found = (await storage.index(inspect_setup("main", ping=False)))[1]
    assert found.state == "warning"
    assert "no program no-such-qmd on the PATH. Install it with `npm install -g @tobilu/qmd@latest`" in found.message
    assert "memory.backend: builtin in " in (found.fix or "")
    assert not (home / "memory").exists()


async def test_an_index_that_cannot_be_opened_can_be_deleted(here: Here) -> None:
    class Broken(FakeIndex):
        async def status(self, *, deep: bool = False) -> IndexStatus:
            raise ClawbotError("The database is on fire.")

    broken = Broken()
    broken.location = here.paths.memory_db("main")
    [found] = await findings_of(here, broken)
    assert (found.state, found.message) == ("problem", "The database is on fire.")
    assert f"rm {here.paths.memory_db('main')}*" in (found.fix or "")


async def test_a_folder_in_place_of_the_index_is_no_full_disk(here: Here) -> None:
    database = here.paths.memory_db("main")
    database.unlink()
    database.mkdir()
    [found] = await storage.index(here)
    assert (found.state, found.fix) == ("problem", f"mv {database} {database}.folder")
    assert "is a folder" in found.message


@pytest.mark.parametrize(
    ("changes", "state", "said"),
    [
        ({"fallback": Fallback(from_="openai", reason="no key")}, "warning", "openai was not used: no key"),
        ({"embedding_probe": Probe(ok=False, error="HTTP 500")}, "warning", "offline makes no vectors now: HTTP 500"),
        ({"issues": (Issue("memory/a.md", "is not UTF-8"),)}, "warning", "memory/a.md: is not UTF-8"),
        ({"rerank_problem": "model.onnx can't be read."}, "warning", "model.onnx can't be read"),
    ],
)
async def test_what_does_not_work_is_a_finding_of_its_own(
    here: Here, changes: dict[str, Any], state: str, said: str
) -> None:
    quiet = structs.replace(here, ping=False)
    _, found = await findings(quiet, **changes)
    assert found.state == state
    assert said in found.message


async def test_words_alone_by_choice_is_no_fault(here: Here) -> None:
    [found] = await findings(here, requested_provider="none", provider="none", vectors=0)
    assert found.state == "ok"
    assert "by words alone" in found.message


async def test_a_cause_is_told_once(here: Here) -> None:
    quiet = structs.replace(here, ping=False)
    reason = "openai: OPENAI_API_KEY is not set."
    changes = {
        "requested_provider": "openai",
        "provider": "none",
        "model": "",
        "fallback": Fallback(from_="openai", reason=reason),
        "embedding_probe": Probe(ok=False, error=reason),
    }
    state, cause = await findings(quiet, **changes)
    assert state.message.endswith("found by words alone")
    assert cause.message == f"openai was not used: {reason}"
    *_, other = await findings(quiet, **{**changes, "embedding_probe": Probe(ok=False, error="HTTP 500")})
    assert other.message == "openai makes no vectors now: HTTP 500"


async def test_no_vectors_by_choice_need_no_answer(here: Here) -> None:
    quiet = structs.replace(here, ping=False)
    probe = Probe(ok=False, error="No embedding provider is set.")
    [found] = await findings(quiet, requested_provider="none", provider="none", model="", embedding_probe=probe)
    assert found.message.endswith("found by words alone")


async def test_many_issues_are_counted(here: Here) -> None:
    issues = tuple(Issue(f"memory/{at}.md", "is not UTF-8") for at in range(9))
    found = await findings(here, issues=issues, pending_vectors=3)
    assert "3 pieces wait for a vector" in found[0].message
    assert len(found) == 7
    assert found[-1].message == "4 more files could not be taken in"


async def test_each_issue_says_what_to_do(here: Here) -> None:
    here.settings.workspace.mkdir(parents=True)
    (here.settings.workspace / "memory").symlink_to(here.paths.home)
    issues = (Issue("memory", "it is a symlink"), Issue("MEMORY.md", "is not UTF-8"))
    _, link, text = await findings(here, issues=issues)
    assert (link.fix or "").startswith("replace by what it leads to:")
    assert (text.fix or "").startswith("mend ")


async def test_a_linked_folder_of_notes_is_to_be_named_in_the_settings(here: Here, tmp_path: Path) -> None:
    (here.settings.workspace / "memory").mkdir(parents=True)
    (here.settings.workspace / "memory" / "vault").symlink_to(tmp_path)
    _, link = await findings(here, issues=(Issue("memory/vault", "it is a link to a folder"),))
    assert link.fix == f"name {tmp_path} in memory_search.extra_paths in {here.config_file}"


async def test_one_is_counted_as_one(here: Here) -> None:
    found = (await findings(here, files=1, total_files=1, chunks=1, pending_vectors=1))[0]
    assert found.message.startswith("1 of 1 file in 1 piece,")
    assert found.message.endswith("; 1 piece waits for a vector")


@pytest.mark.parametrize(
    ("locale", "names", "state", "said"),
    [
        ("en_US.UTF-8", ("03-04-2026.md",), "warning", "is read as 4 March 2026, as LC_ALL, LC_TIME or LANG set"),
        ("en_GB.UTF-8", ("03-04-2026.md", "05-06-2026.md"), "warning", "and 1 more note"),
        ("C", ("03-04-2026.md",), "warning", "has no day"),
        ("C", ("03-04-2026.md", "25-04-2026.md"), "ok", "3 April 2026, as other names in the folder show"),
        ("C", ("2026-04-03.md", "25-04-2026.md"), "", ""),
    ],
)
async def test_a_name_of_two_days_is_told(
    here: Here, monkeypatch: pytest.MonkeyPatch, locale: str, names: tuple[str, ...], state: str, said: str
) -> None:
    monkeypatch.setenv("LC_ALL", locale)
    (here.settings.workspace / "memory").mkdir(parents=True)
    for name in names:
        (here.settings.workspace / "memory" / name).write_text("- text")
    found = (await findings(here))[1:]
    assert [each.state for each in found] == ([state] if state else [])
    assert all(said in each.message for each in found)
