"""No text of the tree leads anybody to an index by our name: what it has there is a program of somebody else."""

from __future__ import annotations

import html
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from clawbot.distribution import pip_install
from clawbot.extras import EXTRAS, install_command, manual_install, requirements_file
from tests.tables import load_table

ROOT = Path(__file__).parents[1]
NO_TEXTS = {"__pycache__", "build", "dist", "node_modules"}

# A requirement with our name, as indexes spell names; no path, file, address or `name @ address`.
NAME = r"(?<![\w./:@~$-])clawbot(?:[-_.]+agent)?(?![\w/-]|\.\w|\s*@)"
# Options and punctuation, also over the end of a line. `--from` and `--spec` name what is installed in place of a name.
GAP = r"(?:[\s\"'`,*>#\\]|(?<!\S)-(?!-from|-spec)[^\s,]+)*"
# The words of one command, which ends with its line or with the clause of a sentence; a list in code goes on.
COMMAND = r"(?:[^\n;&|`)#,]|,(?! )|(?<=[\"']),)*?"
FORMS = [
    rf"\b(?:re)?install\b{GAP}{NAME}",
    rf"\b(?:npx|uvx|bunx|pipx run|tool run|npm i|pip[\d.]* (?:download|wheel))\b{GAP}{NAME}",
    # Behind other words of one command: values of options, other requirements.
    rf"\b(?:pip[\d.]*|pipx|uv|poetry|pdm|rye|hatch|conda|mamba|npm)[\"',]* {COMMAND}"
    rf"\b(?:install|add|download|wheel|inject\s+\S+)\b{COMMAND}[ \"']{NAME}",
    rf"\buvx (?!{COMMAND}--from){COMMAND}[ \"']{NAME}",
    rf"--(?:from|spec|with)\b[\s=\"',]*{NAME}",
    # Requirements of a package.
    rf"{NAME}\[[a-z]",
    rf"\b(?:dependencies|requires|install_requires)\s*=\s*\[[^\]]*[\"']{NAME}",
    rf"安装\s*[`\"']*{NAME}",
]
BY_NAME = re.compile("|".join(FORMS), re.IGNORECASE)


def advice(text: str) -> list[str]:
    """Each place in `text` that installs by our name."""
    text = html.unescape(text).replace("\xa0", " ")
    text = re.sub(r"\\\n\s*(?:#\s*)?", "", text)  # one command on more lines
    text = re.sub(r"(?<!\\)([\"'])\s*\n\s*[frb]*[\"']", "", text)  # one string on more lines
    return [match[0] for match in BY_NAME.finditer(text)]


def texts() -> Iterator[Path]:
    """Every file of the tree but what tools make, and this test."""
    for folder, folders, names in os.walk(ROOT):
        folders[:] = [
            name for name in folders if name not in NO_TEXTS and (name in (".ci", ".github") or name[0] != ".")
        ]
        yield from (Path(folder, name) for name in names if Path(folder, name).stem != Path(__file__).stem)


def test_nothing_in_the_tree_installs_by_our_name() -> None:
    found, read = [], set()
    for file in texts():
        read.add(file.relative_to(ROOT).as_posix())
        text = file.read_text(encoding="utf-8", errors="replace")
        if file.suffix == ".svg":
            text = re.sub(r"<[^>]*>", "", text)
        found += [f"{file.relative_to(ROOT)}: {each}" for each in advice(text)]
    assert found == []
    kinds = {"README.md", "Makefile", "config.yaml", "pyproject.toml", ".ci/run", "docs/mcp.md", "docs/chat.svg"}
    assert kinds | {"clawbot/locale/zh/LC_MESSAGES/clawbot.po", "hooks/session-memory/HOOK.md"} <= read


@pytest.mark.parametrize("extra", EXTRAS)
def test_no_command_that_is_printed_installs_by_our_name(extra: str) -> None:
    path = str(requirements_file(extra))
    manual = [f"pipx runpip clawbot-agent install --no-deps --require-hashes -r {path}", *(manual_install(extra) or ())]
    assert advice("\n".join([install_command(extra), pip_install("-r", path), *manual])) == []


@pytest.mark.parametrize(
    "text",
    load_table(__file__, "an_installation_by_our_name_is_found"),
)
def test_an_installation_by_our_name_is_found(text: str) -> None:
    assert advice(text) != []


@pytest.mark.parametrize(
    "text",
    load_table(__file__, "an_installation_from_a_folder_is_left_alone"),
)
def test_an_installation_from_a_folder_is_left_alone(text: str) -> None:
    assert advice(text) == []
