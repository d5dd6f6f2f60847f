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
    """Every file of the tree but what tools make, and this one."""
    for folder, folders, names in os.walk(ROOT):
        folders[:] = [
            name for name in folders if name not in NO_TEXTS and (name in (".ci", ".github") or name[0] != ".")
        ]
        yield from (Path(folder, name) for name in names if Path(folder, name) != Path(__file__))


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
    [
        'pip install "clawbot[local]"',
        "pip install 'clawbot[mcp]'",
        "pip install clawbot",
        "pip3.11 install -U clawbot",
        "python -m pip install --upgrade --quiet clawbot==0.1",
        "pip install clawbot-agent",
        "pip install 'Clawbot_Agent>=0.1'",
        "pip install --index-url https://example.org/simple clawbot",
        "pip install rich 'clawbot'",
        "pip download clawbot",
        "pip wheel --no-deps clawbot",
        "pipx install clawbot",
        "pipx install --python 3.12 clawbot",
        "pipx run clawbot chat",
        "pipx run --spec clawbot-agent clawbot",
        "pipx inject other clawbot",
        "uv tool install clawbot",
        "uv tool install --with rich clawbot",
        "uv pip install --python .venv/bin/python clawbot",
        "uv tool run clawbot",
        "uv add clawbot",
        "poetry add clawbot",
        "uvx clawbot",
        "uvx --with rich clawbot",
        "uvx --from 'clawbot[mcp]' clawbot",
        "uv run --with clawbot python",
        "npx -y clawbot",
        "npm install -g clawbot",
        "brew install clawbot",
        "`pip\ninstall clawbot`",
        "pip install\n  clawbot",
        "# run `pip install\n# clawbot[web]`",
        "> pip install -U\n> clawbot",
        "pip install --upgrade \\\n    clawbot",
        '"pip install "\n    "clawbot"',
        "hint = f\"pip install \"\n    f'clawbot[{extra}]'",
        'msgid "Install it with: pip install "\n"clawbot"',
        '["pip", "install", "-q", "clawbot"]',
        '{"command": "pip install \\"clawbot\\""}',
        '["uv", "pip", "install", "rich", "clawbot"]',
        "Install clawbot again.",
        "Reinstall clawbot, or go on without.",
        "install `clawbot`",
        "重新安装 clawbot。",
        "from the package `clawbot[rerank]`",
        'dependencies = ["rich", "clawbot"]',
        'dependencies = [\n  "clawbot-agent>=1",\n]',
        "pip&#160;install&#160;clawbot",
        "pip install clawbot; clawbot chat",
    ],
)
def test_an_installation_by_our_name_is_found(text: str) -> None:
    assert advice(text) != []


@pytest.mark.parametrize(
    "text",
    [
        "pip install .",
        "pip install -e '.[local]'",
        ".venv/bin/python -m pip install -e '.[local]'",
        "pip install ./clawbot",
        "pip install '/home/me/clawbot[mcp]'",
        "pip install ~/src/clawbot",
        "pip install git+https://example.org/clawbot",
        "pip install 'git+https://example.org/clawbot.git#egg=x'",
        "pip install 'clawbot @ git+https://example.org/clawbot.git'",
        "pip install clawbot-0.1.0-py3-none-any.whl",
        "pip install dist/clawbot_agent-0.1.0.tar.gz",
        "pip install acme-clawbot",
        "pip install . && clawbot chat",
        "pip install .; clawbot chat",
        "pip install .\nclawbot chat",
        "pip install --quiet -e .  # then clawbot",
        "`pipx install .`, then `clawbot`",
        "cd clawbot && pip install .",
        "pipx inject clawbot-agent 'xllamacpp<2027'",
        "pipx upgrade clawbot-agent",
        "pip uninstall --yes clawbot",
        "uv tool uninstall clawbot",
        "uvx --from . clawbot",
        "uvx --from ./clone clawbot chat",
        "pipx run --spec . clawbot",
        "uv run clawbot chat",
        "clawbot mcp add time -- uvx mcp-server-time",
        "clawbot [OPTIONS] COMMAND",
        "what installed packages add to clawbot",
        "clawbot is installed in a virtual environment",
        "the packages that clawbot requires are installed",
        "npm install -g @tobilu/qmd, then clawbot memory index",
        "clawbot extras install local",
        "Install it with: clawbot extras install mcp",
        "安装命令：/srv/.venv/bin/clawbot extras install mcp",
        "pipx runpip clawbot-agent install --no-deps -r /srv/clawbot/requirements/web.txt",
    ],
)
def test_an_installation_from_a_folder_is_left_alone(text: str) -> None:
    assert advice(text) == []
