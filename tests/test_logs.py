"""The log file: private, rotating, quiet, and never with a secret in it."""

from __future__ import annotations

import errno
import logging
import sys
import warnings
from collections.abc import Iterator
from logging.handlers import RotatingFileHandler
from pathlib import Path

import pytest

from clawbot import logs
from clawbot.logs import setup_logging, silence_libraries
from clawbot.text import secrets
from clawbot.text.secrets import remember_secret
from tests.said_secrets import SECRETS, SaidSecret


@pytest.fixture(autouse=True)
def own_logging(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Give back what a test changes of the logging of the whole process."""
    monkeypatch.setattr(secrets, "_known_secrets", set())
    monkeypatch.setattr(logging, "raiseExceptions", True)
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    logging.captureWarnings(False)
    yield
    logging.captureWarnings(False)
    for handler in [handler for handler in root.handlers if handler not in handlers]:
        root.removeHandler(handler)
        handler.close()
    root.setLevel(level)


@pytest.fixture
def log_file(tmp_path: Path) -> Path:
    return tmp_path / "home" / "logs" / "clawbot.log"


def test_the_file_and_its_folder_are_private(log_file: Path) -> None:
    assert setup_logging(log_file) is None
    assert log_file.stat().st_mode & 0o777 == 0o600
    assert log_file.parent.stat().st_mode & 0o777 == 0o700


def test_a_file_that_others_may_read_becomes_private(log_file: Path) -> None:
    log_file.parent.mkdir(parents=True)
    log_file.touch(mode=0o644)
    setup_logging(log_file)
    assert log_file.stat().st_mode & 0o777 == 0o600


def test_the_file_rotates_and_keeps_its_backups_private(log_file: Path) -> None:
    setup_logging(log_file, max_bytes=500, backups=2)
    for number in range(40):
        logging.getLogger("clawbot.test").info("line %d", number)
    files = sorted(path.name for path in log_file.parent.iterdir())
    assert files == ["clawbot.log", "clawbot.log.1", "clawbot.log.2"]
    assert {path.stat().st_mode & 0o777 for path in log_file.parent.iterdir()} == {0o600}
    assert "line 39" in log_file.read_text()


def test_a_process_goes_on_in_the_new_file_when_another_has_rotated(log_file: Path) -> None:
    setup_logging(log_file)
    logging.getLogger("clawbot.test").info("before")
    log_file.rename(log_file.with_suffix(".1"))
    logging.getLogger("clawbot.test").info("after")
    assert "after" in log_file.read_text()
    assert "after" not in log_file.with_suffix(".1").read_text()


def test_nothing_goes_to_the_screen(log_file: Path, capfd: pytest.CaptureFixture[str]) -> None:
    for name in ("LiteLLM", "asyncio"):
        logging.getLogger(name).addHandler(logging.StreamHandler(sys.stderr))
    logging.getLogger().addHandler(logging.StreamHandler(sys.stdout))
    setup_logging(log_file)
    logging.getLogger("LiteLLM").error("from litellm")
    logging.getLogger("asyncio").error("from asyncio")
    logging.getLogger("clawbot.test").error("from us: %d", "no number")
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.warn("from a warning", stacklevel=1)
    assert capfd.readouterr() == ("", "")
    text = log_file.read_text()
    assert all(said in text for said in ("from litellm", "from asyncio", "from a warning"))


def test_libraries_that_come_later_are_silenced_again(log_file: Path, capfd: pytest.CaptureFixture[str]) -> None:
    setup_logging(log_file)
    litellm = logging.getLogger("LiteLLM")
    litellm.addHandler(logging.StreamHandler(sys.stderr))
    litellm.propagate = False
    silence_libraries()
    litellm.warning("late")
    litellm.info("POST https://provider")
    assert capfd.readouterr() == ("", "")
    assert "late" in log_file.read_text()
    assert "POST" not in log_file.read_text()


def test_the_level_counts_and_can_be_changed(log_file: Path) -> None:
    setup_logging(log_file, level="warning")
    logging.getLogger("clawbot.test").info("quiet")
    setup_logging(log_file, level="debug")
    logging.getLogger("clawbot.test").debug("loud")
    assert log_file.read_text().count("\n") == 1
    own = [handler for handler in logging.getLogger().handlers if isinstance(handler, RotatingFileHandler)]
    assert len(own) == 1


@pytest.mark.parametrize("obstacle", ["file in place of a folder", "folder in place of the file"])
def test_a_log_that_cannot_be_written_does_not_stop_the_program(
    log_file: Path, obstacle: str, capfd: pytest.CaptureFixture[str]
) -> None:
    if obstacle.startswith("file"):
        log_file.parent.parent.mkdir()
        log_file.parent.touch()
    else:
        log_file.mkdir(parents=True)
    problem = setup_logging(log_file)
    assert problem is not None
    assert str(log_file) in problem
    logging.getLogger("clawbot.test").error("into nothing")
    assert capfd.readouterr() == ("", "")


def test_a_disk_that_fills_up_while_running_does_no_harm(
    log_file: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    setup_logging(log_file)
    (handler,) = [found for found in logging.getLogger().handlers if isinstance(found, logs.PrivateRotatingHandler)]

    class FullDisk:
        def write(self, text: str) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

        def __getattr__(self, name: str) -> object:
            return getattr(stream, name)

    stream = handler.stream
    with monkeypatch.context() as patched:
        patched.setattr(handler, "stream", FullDisk())
        logging.getLogger("clawbot.test").error("lost")
    logging.getLogger("clawbot.test").error("kept")
    assert capfd.readouterr() == ("", "")
    assert "kept" in log_file.read_text()


def test_without_a_file_nothing_is_said(capfd: pytest.CaptureFixture[str]) -> None:
    assert setup_logging(None) is None
    logging.getLogger("clawbot.test").error("into nothing")
    assert capfd.readouterr() == ("", "")


def test_no_record_holds_a_secret(log_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_API_KEY", "environment-value")
    remember_secret("remembered-value")
    setup_logging(log_file)
    logger = logging.getLogger("clawbot.test")
    logger.info("sent %s and %s", "environment-value", {"x": "remembered-value"})
    try:
        raise ValueError("api_key=exception-value in remembered-value")
    except ValueError:
        logger.exception("failed", stack_info=True)
    text = log_file.read_text()
    assert "ValueError" in text
    assert not any(secret in text for secret in ("environment-value", "remembered-value", "exception-value"))


@pytest.mark.parametrize("secret", SECRETS, ids=lambda secret: secret.secret[:24])
def test_no_record_holds_what_looks_like_a_secret(log_file: Path, secret: SaidSecret) -> None:
    setup_logging(log_file)
    logging.getLogger("clawbot.test").warning("the model said %r", secret.text)
    assert secret.secret not in log_file.read_text()
    assert "the model said" in log_file.read_text()


@pytest.mark.parametrize("text", ["\x1b]0;owned\x07", "\x1b[2J", "\x9b31m", "\x08\x7f", "\u202e", "\x1bPq\x1b\\", "\r"])
def test_no_record_steers_the_terminal_that_shows_it(log_file: Path, text: str) -> None:
    setup_logging(log_file)
    logging.getLogger("clawbot.mcp.one").info("a %s b", text)
    try:
        raise ValueError(text)
    except ValueError:
        logging.getLogger("any").exception("failed")
    written = log_file.read_text(encoding="utf-8")
    assert "a " in written
    assert not {*written} & {*"\x1b\x07\x9b\x08\x7f\u202e\r"}
