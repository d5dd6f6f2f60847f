"""The log file: rotating, private, redacted, and never printed on the screen."""

from __future__ import annotations

import logging
import os
import sys
from io import TextIOWrapper
from logging.handlers import RotatingFileHandler
from pathlib import Path

from clawbot.files import PRIVATE_FILE, ensure_private_dir
from clawbot.text.sanitize import clean
from clawbot.text.secrets import redact

# At our own log level these libraries log every request with its URL.
_CHATTY = ("LiteLLM", "LiteLLM Router", "LiteLLM Proxy", "httpx", "httpcore", "openai", "watchdog", "markdown_it")


class RedactingFormatter(logging.Formatter):
    """Removes terminal control sequences and redacts secrets, exceptions and stack traces included."""

    def format(self, record: logging.LogRecord) -> str:
        return redact(clean(super().format(record)))


class PrivateRotatingHandler(RotatingFileHandler):
    """A rotating file of mode 0600 that several processes may write to.

    A record that cannot be written (disk full) is dropped, see `setup_logging`.
    """

    def _open(self) -> TextIOWrapper:
        descriptor = os.open(self.baseFilename, os.O_WRONLY | os.O_APPEND | os.O_CREAT, PRIVATE_FILE)
        os.fchmod(descriptor, PRIVATE_FILE)
        return TextIOWrapper(os.fdopen(descriptor, "ab"), encoding="utf-8", errors="backslashreplace")

    def emit(self, record: logging.LogRecord) -> None:
        """Write one record; reopen the file first if another process has rotated it."""
        try:
            self._follow()
        except OSError:
            self.handleError(record)
            return
        super().emit(record)

    def _follow(self) -> None:
        if self.stream is None:
            return
        opened = os.fstat(self.stream.fileno())
        try:
            named = Path(self.baseFilename).stat()
        except FileNotFoundError:
            named = None
        if named is None or (named.st_ino, named.st_dev) != (opened.st_ino, opened.st_dev):
            stale, self.stream = self.stream, self._open()
            stale.close()


def setup_logging(
    log_file: Path | None, level: str = "info", max_bytes: int = 2 * 1024**2, backups: int = 3
) -> str | None:
    """Send all records of this process, including warnings and those of libraries, to `log_file` only.

    Returns None, or why there is no log file: the program continues without one, and the caller reports it once. May be
    called again with other values.
    """
    handler: logging.Handler = logging.NullHandler()
    problem = None
    if log_file is not None:
        try:
            ensure_private_dir(log_file.parent)
            handler = PrivateRotatingHandler(log_file, maxBytes=max_bytes, backupCount=backups, encoding="utf-8")
        except OSError as error:
            problem = f"There is no log file: {log_file} cannot be written ({error.strerror or error})."
    handler.setFormatter(RedactingFormatter("%(asctime)s %(levelname)s %(process)d %(name)s: %(message)s"))
    root = logging.getLogger()
    for old in list(root.handlers):
        if isinstance(old, PrivateRotatingHandler | logging.NullHandler) or _is_on_screen(old):
            root.removeHandler(old)
            old.close()
    root.addHandler(handler)
    root.setLevel(level.upper())
    # Otherwise logging prints a traceback over the screen when a record cannot be formatted or written.
    logging.raiseExceptions = False
    logging.captureWarnings(True)
    silence_libraries()
    return problem


def _is_on_screen(handler: logging.Handler) -> bool:
    screens = (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__)
    return isinstance(handler, logging.StreamHandler) and handler.stream in screens


def silence_libraries() -> None:
    """Remove the handlers of libraries that would write to the screen. Call again after `import litellm`."""
    for name in (*_CHATTY, "asyncio", "py.warnings"):
        logger = logging.getLogger(name)
        logger.handlers.clear()
        logger.propagate = True
        if name in _CHATTY:
            logger.setLevel(logging.WARNING)
