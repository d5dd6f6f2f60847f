"""What the program loads when: the quick commands stay quick because they import little."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = {
    "litellm",
    "mcp",
    "textual",
    "apsw",
    "numpy",
    "tiktoken",
    "aiohttp",
    "httpx",
    "apscheduler",
    "pydantic",
    "yaml",
}


def modules_loaded_by(code: str) -> set[str]:
    """The modules that are loaded after `code` ran in a fresh interpreter."""
    return set(last_line(f"{code}\nimport sys; print(*sys.modules, file=sys.stderr)").split())


def loaded_by(code: str) -> set[str]:
    """The top-level ones of these modules."""
    return {name.partition(".")[0] for name in modules_loaded_by(code)}


def last_line(code: str) -> str:
    """What `code` says last on stderr, in a fresh interpreter."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stderr.splitlines()[-1]


def test_version_loads_nothing_heavy() -> None:
    code = "from clawbot.cli.main import root; root.main(['--version'], standalone_mode=False)"
    loaded = loaded_by(code)
    assert "click" in loaded
    assert loaded & HEAVY == set()


def test_the_screen_is_painted_with_textual_and_little_else() -> None:
    loaded = loaded_by("import clawbot.cli.chat, clawbot.tui.app")
    assert "textual" in loaded
    assert loaded & (HEAVY - {"textual"}) == set()


def test_the_runtime_never_loads_litellm_into_this_process() -> None:
    assert loaded_by("import clawbot.runtime") & {"litellm", "mcp", "textual", "numpy", "apsw"} == set()


def test_a_process_for_one_short_turn_loads_no_vocabulary() -> None:
    turn = "root.main(['chat', '-p', 'hello', '--model', 'offline'], standalone_mode=False)"
    loaded = loaded_by(f"from clawbot.cli.main import root\ntry:\n    {turn}\nexcept SystemExit:\n    pass")
    assert loaded & {"tiktoken", "litellm", "textual"} == set()


def test_a_search_with_known_settings_loads_neither_their_models_nor_yaml() -> None:
    run = "from clawbot.cli.main import root; root.main(['memory', 'index'], standalone_mode=False)\n"
    home = Path(os.environ["HOME"]) / ".clawbot"
    home.mkdir()
    assert loaded_by(run) & {"pydantic", "yaml"} == {"pydantic", "yaml"}
    assert loaded_by(run) & (HEAVY - {"apsw"}) == set()
    assert loaded_by(run.replace("'index'", "'search', 'tea'")) & (HEAVY - {"apsw", "numpy"}) == set()


@pytest.fixture(scope="module")
def seeded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with notes that are indexed, whose settings are known."""
    home = tmp_path_factory.mktemp("seeded")
    notes = home / ".clawbot" / "workspace" / "memory"
    notes.mkdir(parents=True)
    for day in range(1, 29):
        lines = "\n".join(f"- on hour {hour} we drank tea number {day * hour} of the house" for hour in range(24))
        (notes / f"2026-02-{day:02}.md").write_text(f"# The day\n\n{lines}\n")
    environment = {"PATH": os.environ["PATH"], "HOME": str(home), "TZ": "UTC"}
    command = [sys.executable, "-m", "clawbot", "memory", "index"]
    subprocess.run(command, env=environment, cwd=home, check=True, capture_output=True)
    return home


@pytest.fixture
def at_home(seeded: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What runs now runs in that home, which it only reads."""
    monkeypatch.setenv("HOME", str(seeded))
    monkeypatch.delenv("CLAWBOT_HOME")


@pytest.mark.usefixtures("at_home")
def test_a_search_does_without_the_parts_of_numpy_that_few_need() -> None:
    run = "from clawbot.cli.main import root; root.main(['memory', 'search', 'tea'], standalone_mode=False)"
    loaded = modules_loaded_by(run)
    assert "numpy" in loaded
    assert loaded & {"numpy.ma", "numpy.random", "numpy.fft", "numpy.polynomial"} == set()


@pytest.mark.usefixtures("at_home")
def test_a_command_without_talks_and_mistakes_loads_none_of_what_reads_these() -> None:
    run = "from clawbot.cli.main import root; root.main(['memory', 'index'], standalone_mode=False)"
    needless = {"clawbot.messages", "clawbot.sessions.entries", "difflib", "json", "zoneinfo"}
    assert modules_loaded_by(run) & needless == set()


@pytest.mark.usefixtures("at_home")
@pytest.mark.parametrize("command", [["index"], ["search", "tea"]])
def test_a_command_never_collects_garbage_among_what_it_imported(command: list[str]) -> None:
    counted = (
        "import gc, sys\n"
        "from clawbot.__main__ import main\n"
        f"sys.argv = ['clawbot', 'memory', *{command!r}]\n"
        "def older(): return sum(each['collections'] for each in gc.get_stats()[1:])\n"
        "before = older()\n"
        "try:\n"
        "    main()\n"
        "except SystemExit:\n"
        "    print(older() - before, file=sys.stderr)\n"
    )
    assert last_line(counted) == "0"


def wide_patterns(code: str) -> int:
    """How many of the patterns that `code` compiles in a fresh interpreter have sets of Chinese or Korean characters.
    Each takes 2 ms."""
    noting = (
        "import re, sys\n"
        "from re import _compiler\n"
        "compiled, compile_ = [], _compiler.compile\n"
        "def note(pattern, flags=0):\n"
        "    compiled.append(str(pattern))\n"
        "    return compile_(pattern, flags)\n"
        "_compiler.compile = note\n"
    )
    ends = ["\u9fff", "\\u9fff", "\ud7a3", "\\ud7a3", "\\ud7ff"]
    counting = f"print(len(compiled), sum(any(end in each for end in {ends!r}) for each in compiled), file=sys.stderr)"
    found, wide = map(int, last_line(f"{noting}{code}\n{counting}").split())
    assert found > 0
    return wide


@pytest.mark.usefixtures("at_home")
def test_plain_words_are_searched_without_patterns_of_wide_characters() -> None:
    run = "from clawbot.cli.main import root\n"
    run += "root.main(['memory', 'search', 'who drank the tea?'], standalone_mode=False)"
    assert wide_patterns(run) == 0


def test_the_screen_is_loaded_without_patterns_of_wide_characters() -> None:
    assert wide_patterns("import clawbot.cli.chat, clawbot.tui.app") == 0


def test_the_runtime_is_loaded_without_patterns_of_wide_characters() -> None:
    assert wide_patterns("import clawbot.runtime") == 0
