"""What is another agent's, the program's own or running code is out of reach of the file tools, by whatever name."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Collection, Iterator
from pathlib import Path
from typing import Any

import pytest

import clawbot
from clawbot.config.paths import Paths
from clawbot.config.schema import Settings
from clawbot.context.privacy import privacy_of
from clawbot.tools.paths import Barred, Bounds, Fence, agent_fence, foreign_fence
from clawbot.tools.protocol import ToolOutcome
from tests import workspace_watch
from tests.tools.conftest import box_of, call, move, nobody

pytestmark = pytest.mark.usefixtures("all_seen")

Use = Callable[..., Awaitable[ToolOutcome]]

CHANGES: list[tuple[str, dict[str, Any]]] = [
    ("write", {"content": "x"}),
    ("append", {"content": "x"}),
    ("edit", {"old": "geheim", "new": "x"}),
]
TOUCHES = [("read", {}), ("list", {}), ("grep", {"pattern": "geheim"}), *CHANGES]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """The state folder of a program with two agents: what each holds says `geheim`, the workspace of main 'open'."""
    home = tmp_path / "state"
    names = """workspace-research/MEMORY.md workspace-research/memory/2026-11-20.md agents/main/sessions/one.jsonl
        agents/research/sessions/two.jsonl memory/main.sqlite memory/research.sqlite-wal hooks/mine/handler.py
        logs/clawbot.log .env config.yaml history.jsonl schedule.json"""
    for name in names.split():
        _put(home / name, "geheim\n")
    _put(home / "workspace" / "MEMORY.md", "open\n")
    return home


def _put(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def _settings(home: Path, *, main: Path | None = None, research: Path | None = None, **more: Any) -> Settings:
    agents: dict[str, Any] = {
        "main": {"workspace": str(main or home / "workspace"), "tools": {"agents": more.pop("allowed", [])}},
        "research": {"workspace": str(research or home / "workspace-research")},
    }
    return Settings.model_validate({"agents": agents, **more}, context={"home": home})


def _tools(
    home: Path, settings: Settings, agent_id: str = "main", hooks: Callable[[], Collection[Path]] = tuple, **more: Any
) -> Use:
    agent = settings.agent(agent_id)
    fence = agent_fence(settings, agent_id, Paths(home), hooks, **more)
    toolbox = box_of(agent.workspace, agent, fence=fence)

    async def use(name: str, path: Path | str = ".", **arguments: Any) -> ToolOutcome:
        return await toolbox.run(call(name, {"path": str(path), **arguments}), nobody)

    return use


def _texts(folder: Path) -> dict[str, str]:
    return {str(path): path.read_text(encoding="utf-8") for path in folder.rglob("*") if path.is_file()}


# -- another agent's workspace -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("tool", "more"), TOUCHES)
@pytest.mark.parametrize("path", ["{other}/MEMORY.md", "../workspace-research/MEMORY.md", "link/MEMORY.md"])
async def test_another_workspace_is_out_of_reach(home: Path, tool: str, more: dict[str, Any], path: str) -> None:
    other = home / "workspace-research"
    (home / "workspace" / "link").symlink_to(other)
    before = _texts(home)
    outcome = await _tools(home, _settings(home))(tool, path.format(other=other), **more)
    assert outcome.is_error
    assert "belongs to agent research" in outcome.text
    assert "geheim" not in outcome.text
    assert _texts(home) == before


@pytest.mark.parametrize(("tool", "more"), TOUCHES)
@pytest.mark.parametrize("path", ["team/../team/research/MEMORY.md", "TEAM/Research/MEMORY.md"])
async def test_a_workspace_within_this_one_is_out_of_reach(
    home: Path, tool: str, more: dict[str, Any], path: str
) -> None:
    inner = home / "workspace" / "team" / "research"
    _put(inner / "MEMORY.md", "geheim\n")
    before = _texts(home)
    outcome = await _tools(home, _settings(home, research=inner))(tool, path, **more)
    assert outcome.is_error
    assert _texts(home) == before


async def test_walks_and_lists_pass_a_workspace_within_by(home: Path) -> None:
    inner = home / "workspace" / "team" / "研究"
    _put(inner / "memory" / "笔记.md", "geheim\n")
    _put(inner.parent / "open.md", "geheim: so called\n")
    use = _tools(home, _settings(home, research=inner))
    assert (await use("list", "team")).text == "open.md"
    assert (await use("list", pattern="**/*.md")).text == "MEMORY.md\nteam/open.md"
    assert (await use("grep", pattern="geheim")).text == "team/open.md:1:geheim: so called"
    assert (await use("grep", "team", pattern="geheim")).text == "team/open.md:1:geheim: so called"


@pytest.fixture
def inner(home: Path) -> Iterator[Path]:
    """A workspace within another one, whose root is a path below that."""
    yield home / "workspace" / "research"
    workspace_watch.noted.clear()


@pytest.mark.parametrize(("tool", "more"), TOUCHES)
async def test_the_workspace_around_this_one_is_out_of_reach_and_this_one_is_not(
    home: Path, inner: Path, tool: str, more: dict[str, Any]
) -> None:
    _put(inner / "MEMORY.md", "geheim\n")
    use = _tools(home, _settings(home, research=inner), "research")
    outcome = await use(tool, "../MEMORY.md", **more)
    assert outcome.is_error
    assert "belongs to agent main" in outcome.text
    assert not (await use(tool, "." if tool == "list" else "MEMORY.md", **more)).is_error


@pytest.mark.parametrize("path", ["mine.md", "linked.md"])
async def test_another_name_of_a_foreign_file_gives_nothing_away(home: Path, path: str) -> None:
    """A hard link is a file of this workspace by its path; the file itself is not."""
    workspace = home / "workspace"
    (workspace / "mine.md").hardlink_to(home / "workspace-research" / "MEMORY.md")
    (workspace / "linked.md").symlink_to("mine.md")
    use = _tools(home, _settings(home))
    for tool, more in TOUCHES:
        outcome = await use(tool, path, **more)
        assert "hard link" in outcome.text or tool == "list", tool
        assert outcome.is_error
    assert (await use("grep", pattern="geheim")).text == "No matches."
    assert (home / "workspace-research" / "MEMORY.md").read_text(encoding="utf-8") == "geheim\n"


async def test_hard_links_within_the_workspace_are_files_like_others(home: Path, inner: Path) -> None:
    (_put(inner / "a.md", "one\n").parent / "b.md").hardlink_to(inner / "a.md")
    use = _tools(home, _settings(home, research=inner), "research")
    assert (await use("read", "b.md")).text == "one\n"


async def test_two_agents_with_the_same_workspace_share_it(home: Path) -> None:
    (home / "by-another-name").symlink_to(home / "workspace")
    settings = _settings(home, research=home / "by-another-name")
    assert (await _tools(home, settings)("read", "MEMORY.md")).text == "open\n"
    assert not (await _tools(home, settings, "research")("write", "MEMORY.md", content="new\n")).is_error


# -- allowed by name ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("inside", [False, True], ids=["beside", "within"])
async def test_a_named_agents_workspace_is_read_and_never_written(home: Path, inside: bool) -> None:
    other = home / "workspace" / "research" if inside else home / "workspace-research"
    _put(other / "memory" / "2026-11-20.md", "geheim\n")
    use = _tools(home, _settings(home, research=other, allowed=["research"]))
    before = _texts(home)
    assert (await use("read", other / "memory" / "2026-11-20.md")).text == "geheim\n"
    assert (await use("list", other / "memory")).text == "2026-11-20.md"
    assert "2026-11-20.md:1:geheim" in (await use("grep", other, pattern="geheim", glob="memory/*.md")).text
    for tool, more in CHANGES:
        for path in (other / "memory" / "2026-11-20.md", other / "new" / "note.md", other):
            outcome = await use(tool, path, **more)
            assert outcome.is_error
            assert "can only be read" in outcome.text
    assert _texts(home) == before


def test_the_model_is_told_what_it_may_read_beside_its_workspace(home: Path) -> None:
    for allowed in ([], ["research"]):
        settings = _settings(home, allowed=allowed)
        fence = agent_fence(settings, "main", Paths(home))
        toolbox = box_of(home / "workspace", settings.agent("main"), fence=fence)
        telling = [spec.name for spec in toolbox.specs if str(home / "workspace-research") in spec.description]
        assert telling == (["read", "list", "grep"] if allowed else [])


async def test_what_is_private_to_a_session_is_so_in_a_named_agents_workspace(home: Path) -> None:
    settings = _settings(home, allowed=["research"])
    fence = agent_fence(settings, "main", Paths(home))
    toolbox = box_of(home / "workspace", settings.agent("main"), fence=fence)
    group = toolbox.for_session(privacy_of("agent:main:channel:team"))
    for folder in (home / "workspace", home / "workspace-research"):
        outcome = await group.run(call("read", {"path": str(folder / "MEMORY.md")}), nobody)
        assert outcome.is_error, folder


async def test_hits_outside_are_named_by_paths_that_can_be_read(home: Path) -> None:
    other = home / "workspace-research"
    use = _tools(home, _settings(home, allowed=["research"]))
    for where in (other, other / "memory"):
        hit = (await use("grep", where, pattern="geheim")).text.splitlines()[-1]
        assert not (await use("read", hit.partition(":")[0])).is_error


async def test_a_named_agents_links_lead_nowhere_else(home: Path, tmp_path: Path) -> None:
    _put(tmp_path / "secret.txt", "geheim")
    (home / "workspace-research" / "out.txt").symlink_to(tmp_path / "secret.txt")
    (home / "workspace-research" / "state").symlink_to(home / "agents")
    use = _tools(home, _settings(home, allowed=["research"]))
    for path in ("out.txt", "state/main/sessions/one.jsonl"):
        outcome = await use("read", home / "workspace-research" / path)
        assert outcome.is_error
        assert "geheim" not in outcome.text


async def test_what_one_may_read_the_other_may_not(home: Path) -> None:
    settings = _settings(home, allowed=["research"])
    assert (await _tools(home, settings, "research")("read", home / "workspace" / "MEMORY.md")).is_error


# -- the state folder --------------------------------------------------------------------------------------------------

STATE = [
    ".env", "config.yaml", "config.yaml.bak", "agents/main/sessions/one.jsonl", "agents/research/new.md",
    "memory/main.sqlite", "memory/research.sqlite-wal", "memory/new.sqlite", "hooks/mine/handler.py",
    "hooks/new/HOOK.md", "logs/clawbot.log", "history.jsonl", "schedule.json", "schedule.json.lock",
    "Agents/main/sessions/one.jsonl", "workspace-research/MEMORY.md", "workspaces/0.json", "commands/0.json",
]  # fmt: skip


@pytest.mark.parametrize("around", [False, True], ids=["is", "contains"])
async def test_a_workspace_that_holds_the_state_folder_does_not_open_it(home: Path, around: bool) -> None:
    top = home.parent if around else home
    use = _tools(home, _settings(home, main=top))
    before = _texts(home)
    for path in STATE:
        for tool, more in TOUCHES:
            outcome = await use(tool, home / path, **more)
            assert outcome.is_error or outcome.text == "No matches.", (tool, path)
            assert "geheim" not in outcome.text
    assert _texts(home) == before
    assert (await use("grep", pattern="geheim")).text == "No matches."
    assert "sqlite" not in (await use("list", pattern="**")).text


async def test_a_hook_that_runs_is_not_opened_by_being_kept_from_change(home: Path) -> None:
    mine = home / "hooks" / "mine"
    for top in (home, home / "workspace"):
        use = _tools(home, _settings(home, main=top, hooks={"dirs": [str(mine)]}), hooks=lambda: [mine])
        assert "geheim" not in (await use("read", mine / "handler.py")).text
        assert (await use("write", mine / "handler.py", content="x")).is_error


async def test_another_name_of_a_key_file_gives_nothing_away(home: Path) -> None:
    for number, name in enumerate((".env", "config.yaml", "memory/main.sqlite")):
        (home / "workspace" / f"{number}.md").hardlink_to(home / name)
        outcome = await _tools(home, _settings(home))("read", f"{number}.md")
        assert "hard link" in outcome.text


async def test_the_notes_beside_the_indexes_are_notes(home: Path) -> None:
    use = _tools(home, _settings(home, main=home))
    assert not (await use("append", "memory/2026-11-20.md", content="tabs")).is_error
    assert (await use("read", "memory/2026-11-20.md")).text == "tabs\n"
    assert (await use("list", "memory")).text == "2026-11-20.md"


async def test_a_workspace_in_the_state_folder_works_and_opens_nothing_beside_it(home: Path) -> None:
    use = _tools(home, _settings(home, main=home / "agents" / "main"))
    assert not (await use("write", "note.md", content="x")).is_error
    assert (await use("read", "sessions/one.jsonl")).is_error
    assert (await use("read", "../research/sessions/two.jsonl")).is_error


@pytest.mark.parametrize(
    "path", ["history.jsonl", "schedule.json", "schedule.json.lock", "workspace-gone/MEMORY.md", "new"]
)
async def test_a_state_folder_within_the_workspace_is_shut_as_a_whole(home: Path, path: str) -> None:
    """Also what no agent of the settings has any more, and what a later version keeps there."""
    _put(home.parent / "work" / "a.md", "x")
    inner = home.parent / "work" / "state"
    move(home, inner)
    _put(inner / path, "geheim\n")
    before = _texts(inner)
    use = _tools(inner, _settings(inner, main=inner.parent))
    for tool, more in TOUCHES:
        outcome = await use(tool, f"state/{path}", **more)
        assert outcome.is_error or outcome.text == "No matches.", tool
        assert "geheim" not in outcome.text
    assert _texts(inner) == before
    assert (await use("list")).text == "a.md"


# -- configuration, wherever it lies -----------------------------------------------------------------------------------


async def _is_shut(use: Use, path: Path | str) -> None:
    for tool, more in TOUCHES:
        outcome = await use(tool, path, **more)
        assert "geheim" not in outcome.text, tool
        assert outcome.is_error or outcome.text == "No matches.", tool


@pytest.mark.parametrize(
    "path",
    ["conf/own.yaml", "{top}/conf/own.yaml", "Conf/OWN.yaml", "link.yaml", "conf/own.yaml.bak", "conf/own.yaml~"],
)
async def test_a_configuration_in_the_workspace_is_shut(home: Path, path: str) -> None:
    top = home / "workspace"
    own = _put(top / "conf" / "own.yaml", "geheim\n")
    for copy in ("own.yaml.bak", "own.yaml~", ".own.yaml.swp"):
        _put(own.with_name(copy), "geheim\n")
    (top / "link.yaml").symlink_to("conf/own.yaml")
    _put(top / "conf" / "note.md", "open\n")
    before = _texts(top)
    use = _tools(home, _settings(home), config_file=own)
    await _is_shut(use, path.format(top=top))
    assert _texts(top) == before
    assert (await use("list", "conf")).text == "note.md"
    assert (await use("grep", pattern="geheim")).text == "No matches."


@pytest.mark.parametrize("name", ["config.yaml", ".env"])
async def test_what_the_state_folder_links_to_in_the_workspace_is_shut(home: Path, name: str) -> None:
    """Each link on the way, whether the next one is there or not."""
    top = home / "workspace"
    _put(top / "real.yaml", "geheim\n")
    (top / "middle.yaml").symlink_to("real.yaml")
    (home / name).unlink()
    (home / name).symlink_to(top / "middle.yaml")
    use = _tools(home, _settings(home))
    for gone in (None, "real.yaml", "middle.yaml"):
        if gone:
            (top / gone).unlink()
        for path in ("real.yaml", "middle.yaml") if gone != "middle.yaml" else ("middle.yaml",):
            await _is_shut(use, path)
    assert sorted(entry.name for entry in top.iterdir()) == ["MEMORY.md"]


@pytest.mark.parametrize("name", ["agents", "hooks", "logs"])
async def test_a_folder_of_the_state_that_links_into_the_workspace_is_shut(home: Path, name: str) -> None:
    (home / name).rename(home / "workspace" / "kept")
    (home / name).symlink_to(home / "workspace" / "kept")
    await _is_shut(_tools(home, _settings(home)), "kept/new.py")
    assert not (home / "workspace" / "kept" / "new.py").exists()


async def test_scripts_that_play_a_model_are_read_and_not_changed(home: Path) -> None:
    """They say what a model answers and calls: of this agent or another one, of a fallback, of the command line."""
    top = home / "workspace"
    names = ["model.yaml", "fallback.yaml", "other.yaml", "flush.yaml", "chosen.yaml"]
    for name in names:
        _put(top / name, "geheim\n")
    refs = [f"script:{top / name}" for name in names]
    settings = Settings.model_validate(
        {
            "agents": {
                "main": {"workspace": str(top), "model": refs[0], "fallbacks": [refs[1]]},
                "research": {"model": refs[2], "compaction": {"memory_flush": {"model": refs[3]}}},
            }
        },
        context={"home": home},
    )
    use = _tools(home, settings, model=refs[4])
    for name in names:
        assert (await use("read", name)).text == "geheim\n"
        for tool, more in CHANGES:
            assert "plays a model" in (await use(tool, name, **more)).text
    assert not (await use("write", "draft.yaml", content="x")).is_error


async def test_the_program_itself_is_read_and_not_changed(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What runs with the next start would run past every question."""
    top = home / "workspace"
    _put(top / "venv" / "lib" / "sitecustomize.py", "geheim\n")
    monkeypatch.setattr("sys.prefix", str(top / "venv"))
    use = _tools(home, _settings(home))
    for tool, more in CHANGES:
        assert "the program" in (await use(tool, "venv/lib/sitecustomize.py", **more)).text


def test_the_code_of_the_program_is_not_changed(home: Path) -> None:
    checkout = Path(clawbot.__file__).parent.parent
    for name in ("clawbot/__init__.py", "config.yaml"):
        verdict = Bounds(checkout, agent_fence(_settings(home, main=checkout), "main", Paths(home))).verdict(
            os.path.realpath(checkout / name)
        )
        assert verdict.access == "read"


# -- hooks -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("tool", "more"), CHANGES)
async def test_a_hook_that_is_enabled_is_read_and_not_changed(home: Path, tool: str, more: dict[str, Any]) -> None:
    handler = _put(home / "workspace" / "hooks" / "greet" / "handler.py", "geheim\n")
    enabled: list[Path] = []
    use = _tools(home, _settings(home), hooks=lambda: enabled)
    assert not (await use(tool, "hooks/greet/draft.py", content="x")).is_error or tool == "edit"
    enabled.append(handler.parent)
    assert (await use("read", "hooks/greet/handler.py")).text == "geheim\n"
    for path in ("hooks/greet/handler.py", "hooks/greet/new.py", "hooks/../hooks/GREET/new.py"):
        outcome = await use(tool, path, **more)
        assert outcome.is_error
        assert "only the user changes it" in outcome.text
    assert handler.read_text(encoding="utf-8") == "geheim\n"


async def test_a_hook_enabled_by_name_is_not_written_before_it_is_there(home: Path) -> None:
    entries = {"greet": {"enabled": True}, "later": {"enabled": False}}
    use = _tools(home, _settings(home, hooks={"entries": entries}))
    assert (await use("write", "hooks/greet/handler.py", content="x")).is_error
    assert not (await use("write", "hooks/later/handler.py", content="x")).is_error


async def test_folders_of_hooks_in_the_workspace_are_not_changed(home: Path) -> None:
    mine = home / "workspace" / "tools" / "hooks"
    use = _tools(home, _settings(home, hooks={"dirs": [str(mine)]}))
    assert (await use("write", "tools/hooks/new/handler.py", content="x")).is_error
    assert not (await use("write", "tools/note.md", content="x")).is_error


# -- the fence itself --------------------------------------------------------------------------------------------------


def test_the_innermost_folder_counts_and_of_equals_the_strictest(tmp_path: Path) -> None:
    root = Path(os.path.realpath(tmp_path))
    fence = Fence(
        readable=(root / "a" / "open",),
        denied=(Barred(root / "a", "closed"), Barred(root / "x", "never")),
        unwritable=(Barred(root / "x", "kept"), Barred(root / "y", "kept")),
    )
    bounds = Bounds(root, fence)
    found = {path: bounds.verdict(str(root / path)).access for path in ("b", "a/b", "a/open/b", "x/b", "y/b")}
    assert found == {"b": "write", "a/b": "none", "a/open/b": "read", "x/b": "none", "y/b": "read"}
    assert bounds.verdict(str(root.parent)).access == "none"


def test_a_workspace_that_differs_by_case_alone_does_not_close_this_one(tmp_path: Path) -> None:
    own, other = tmp_path / "work", tmp_path / "WORK"
    bounds = Bounds(own, Fence(denied=(Barred(other, "another's"),)))
    assert bounds.verdict(os.path.realpath(own / "note.md")).access == "write"


def test_too_many_barred_files_make_every_hard_link_one_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("clawbot.tools.paths.MAX_TWINS_VISITED", 1)
    for name in ("a", "b"):
        _put(tmp_path / "other" / name, name)
    one = _put(tmp_path / "work" / "one", "x")
    (tmp_path / "work" / "two").hardlink_to(one)
    assert Bounds(tmp_path / "work", Fence(denied=(Barred(tmp_path / "other", "no"),))).is_twin(one.stat())


def test_the_memory_of_an_agent_leaves_out_what_is_anothers_unless_it_is_named(home: Path) -> None:
    def closed(allowed: list[str]) -> list[bool]:
        settings = _settings(home, allowed=allowed)
        bounds = Bounds(home / "workspace", foreign_fence(settings, "main", Paths(home)))
        places = ("workspace-research/MEMORY.md", "agents/research/sessions/two.jsonl", "workspace/MEMORY.md")
        return [bool(bounds.why_denied(os.path.realpath(home / place))) for place in places]

    assert closed([]) == [True, True, False]
    assert closed(["research"]) == [False, False, False]
