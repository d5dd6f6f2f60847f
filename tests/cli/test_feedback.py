"""What is told in a bug report, and what is kept out of it."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from clawbot import __version__
from clawbot.cli.feedback import LOG_BYTES
from clawbot.cli.main import root

KEY = "sk-abcdef-1234567890abcdef"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The state folder; the working folder is another one."""
    monkeypatch.chdir(tmp_path)
    folder = Path(os.environ["CLAWBOT_HOME"])
    (folder / "logs").mkdir(parents=True, mode=0o700)
    return folder


def run(*arguments: str) -> Result:
    return CliRunner().invoke(root, arguments)


def feedback(*arguments: str) -> str:
    result = run("feedback", "report.md", *arguments)
    assert result.exit_code == 0, result.output
    return Path("report.md").read_text()


def test_it_holds_versions_findings_own_settings_and_the_log(home: Path) -> None:
    (home / "config.yaml").write_text("tui: {theme: light}\n")
    (home / "logs/clawbot.log").write_text("2026-11-20 ERROR the index is torn\n")
    report = feedback()
    assert f"clawbot    {__version__}" in report
    assert "ok, " in report
    assert "      theme: light  # ~/.clawbot/config.yaml:1" in report
    assert "editor: builtin" not in report
    assert "the index is torn" in report
    assert "## local-model.log\n\n    (No such file or directory)" in report


def test_secrets_talks_and_the_name_of_the_home_folder_are_left_out(home: Path) -> None:
    (home / "config.yaml").write_text(f"agents: {{defaults: {{api_key: {KEY}}}}}\n")
    (home / ".env").write_text("OPENAI_API_KEY=sk-of-the-environment-12345\n")
    (home / "logs/clawbot.log").write_text(f"ERROR {home}/memory: refused Authorization: Bearer {KEY}\n\x1b[2J")
    run("chat", "-p", "remember that the parrot is called Zacharias", "--config", str(home / "none.yaml"))
    report = feedback()
    assert "~/.clawbot/memory: refused" in report
    for kept_out in (KEY, "sk-of-the-environment-12345", str(home), str(Path.home()), "Zacharias", "\x1b"):
        assert kept_out not in report


def test_only_the_end_of_a_long_log_is_told(home: Path) -> None:
    lines = [f"line {number} {'x' * 90}" for number in range(3000)]
    (home / "logs/clawbot.log").write_text("\n".join(lines) + "\n")
    report = feedback()
    assert lines[-1] in report
    assert lines[0] not in report
    assert len(report) < 2 * LOG_BYTES


def test_a_fresh_home_has_nothing_of_its_own(home: Path) -> None:
    assert "## Settings\n\n    none of your own\n" in feedback()


def test_broken_settings_are_told_and_the_rest_is_there(home: Path) -> None:
    (home / "config.yaml").write_text("tui: {them: light}\n")
    report = feedback()
    assert "did you mean theme?" in report.lower()
    assert "none of your own" in report


def test_a_file_that_exists_stays(home: Path) -> None:
    Path("report.md").write_text("mine")
    result = run("feedback", "report.md")
    assert result.exit_code == 1
    assert "report.md exists already" in result.stderr
    assert Path("report.md").read_text() == "mine"


def test_it_is_the_users_alone_and_named_by_the_time(home: Path) -> None:
    result = run("feedback")
    assert result.exit_code == 0, result.output
    (path,) = Path().glob("clawbot-feedback-*.md")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert path.name in result.stdout
    assert "Nothing was sent" in result.stdout


def test_the_version_says_more_when_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM_PROGRAM", "a terminal")
    monkeypatch.setenv("TMUX", "/tmp/secret/place,1,0")
    short, long = run("--version"), run("--version", "--verbose")
    assert short.stdout == f"clawbot, version {__version__}\n"
    assert long.stdout.startswith(short.stdout)
    assert run("--verbose", "--version").stdout == long.stdout
    assert "pytest" not in long.stdout
    for told in ("python ", "textual ", "TERM_PROGRAM=a terminal", "TMUX is set"):
        assert told in long.stdout
    assert "/tmp/secret" not in long.stdout


def test_verbose_alone_is_no_command() -> None:
    result = run("--verbose")
    assert result.exit_code == 2
    assert "--verbose goes with --version" in result.stderr
