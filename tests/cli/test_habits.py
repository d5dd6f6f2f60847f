"""What users of other programs expect of a workspace, in one line each."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

from clawbot.cli.doctor import inspect_setup
from clawbot.cli.doctor_setup import expected_elsewhere
from clawbot.config.paths import MAIN_AGENT, find_home
from clawbot.config.schema import Settings

# Files of a workspace, and the beginnings of the lines about them.
WORKSPACES: dict[str, tuple[dict[str, str], list[str]]] = {
    "nothing of others": ({"AGENTS.md": "Be brief. Write to me@example.org.", "memory/2026-01-01.md": "x"}, []),
    "Claude Code": ({"CLAUDE.md": "Use tabs.", "AGENTS.md": "Be brief."}, ["CLAUDE.md: instructions of other"]),
    "Gemini and Cursor": (
        {"GEMINI.md": "a", ".cursorrules": "b", ".cursor/rules/x.mdc": "c"},
        ["GEMINI.md, .cursorrules, .cursor/rules: instructions"],
    ),
    "Windsurf, Cline, Copilot": (
        {".windsurfrules": "a", ".clinerules": "b", ".github/copilot-instructions.md": "c"},
        [".windsurfrules, .clinerules, .github/copilot-instructions.md: instructions"],
    ),
    "the same text is in AGENTS.md": ({"CLAUDE.md": "Use tabs.", "AGENTS.md": "Be brief.\nUse tabs.\n"}, []),
    "an include": (
        {"AGENTS.md": "See @docs/rules.md and @./style.md.\n", "docs/rules.md": "x", "style.md": "y"},
        ["AGENTS.md: @docs/rules.md, AGENTS.md: @./style.md: text here"],
    ),
    "an include of Claude's own file": (
        {"CLAUDE.md": "@AGENTS.md\n", "AGENTS.md": "x"},
        ["CLAUDE.md: instructions", "CLAUDE.md: @AGENTS.md: text here"],
    ),
    "no include": (
        {"AGENTS.md": "Mail a@rules.md, `@rules.md`, @nobody.md\n```\n@rules.md\n```\n", "rules.md": "x"},
        [],
    ),
    "Obsidian": (
        {".obsidian/app.json": "{}", "Daily/2026-03-05.md": "x", "日记/今天.md": "y"},
        ["2 Markdown files lie outside of memory/ and are not searched (a vault of Obsidian)"],
    ),
    "Logseq": (
        {"logseq/config.edn": "", "journals/2026_03_05.md": "x"},
        ["1 Markdown file lies outside of memory/ and is not searched (a vault of Logseq)"],
    ),
    "many notes": ({f"notes/{at}.md": "x" for at in range(30)}, ["30 Markdown files lie outside of memory/"]),
    "texts of other kinds": (
        {"memory/a.org": "x", "memory/b.txt": "y", "memory/c.canvas": "{}", "memory/d.mdx": "z", "memory/e.md": "m"},
        ["memory/: a.org, b.txt, c.canvas…: not searched, only Markdown is"],
    ),
    "a text of another kind": ({"memory/日记.org": "x"}, ["memory/: 日记.org: not searched"]),
    "no text": ({"memory/photo.png": "x", "memory/data.json": "{}", "notes.txt": "y"}, []),
    "few notes": ({"a.md": "x", "docs/b.md": "y", "node_modules/c/README.md": "z"}, []),
}


def told(files: dict[str, str], **search: Any) -> list[str]:
    workspace = find_home() / "workspace"
    for name, text in files.items():
        file = workspace / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    here = inspect_setup(MAIN_AGENT, ping=False)
    raw = {"agents": {"defaults": {"memory_search": search}}}
    settings = Settings.model_validate(raw, context={"home": find_home()}).agent("main")
    found = expected_elsewhere(msgspec.structs.replace(here, settings=settings))
    assert all(finding.state == "warning" and finding.fix for finding in found)
    return [finding.message for finding in found]


@pytest.mark.parametrize("name", WORKSPACES)
def test_what_is_expected_is_one_line_for_each_kind(name: str) -> None:
    files, lines = WORKSPACES[name]
    found = told(files)
    assert len(found) == len(lines), found
    assert all(text.startswith(line) for text, line in zip(found, lines, strict=True)), found


@pytest.mark.parametrize("path", [".", "Daily", "{workspace}", "{workspace}/.."])
def test_a_vault_that_is_searched_is_not_told(path: str) -> None:
    files = WORKSPACES["Obsidian"][0]
    assert told(files, extra_paths=[path.format(workspace=find_home() / "workspace")]) == []


def test_texts_that_a_pattern_may_find_are_not_told() -> None:
    assert told({"memory/a.org": "x"}, extra_paths=[{"path": "memory", "pattern": "*.org"}]) == []


def test_hostile_files_are_no_obstacle() -> None:
    workspace = find_home() / "workspace"
    workspace.mkdir(parents=True)
    (workspace / "AGENTS.md").symlink_to("/dev/zero")
    os.mkfifo(workspace / "CLAUDE.md")
    (workspace / "GEMINI.md").write_bytes(b"\xff" * 3_000_000)
    (workspace / "loop").symlink_to(workspace)
    assert [line.partition(":")[0] for line in told({})] == []


@pytest.mark.parametrize("name", ["handler.ts", "handler.js", "handler.mjs", "index.ts", "index.js"])
def test_a_hook_of_another_language_says_so(name: str) -> None:
    from clawbot.config.paths import Paths
    from clawbot.config.switches import Switches
    from clawbot.hooks.discovery import find_hooks

    folder = Path(find_home()) / "hooks" / "greet"
    folder.mkdir(parents=True)
    (folder / "HOOK.md").write_text("---\nname: greet\nevents: [command:new]\n---\n")
    (folder / name).write_text("export default async () => {};")
    hooks = find_hooks(Paths(find_home()), Settings().hooks, find_home() / "workspace", Switches(trusted={}))
    problem = next(hook.problem for hook in hooks if hook.name == "greet")
    assert problem == f"{name} is JavaScript of OpenClaw; hooks here are Python (docs/writing-hooks.md)"
