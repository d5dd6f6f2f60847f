"""The log file: rotating, private, never on the screen, and never with a secret in it."""

from __future__ import annotations

import logging
import os
import re
import sys
from io import TextIOWrapper
from logging.handlers import RotatingFileHandler
from pathlib import Path

from clawbot.files import PRIVATE_FILE, ensure_private_dir

# What stands where a secret was.
HIDDEN = "[redacted]"
# Values of variables with such names are secrets; shorter ones than this would blacken ordinary words.
_SECRET_NAME = re.compile(r"(API-?_?KEY|_KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?|AUTHORIZATION)$", re.IGNORECASE)
_SHORTEST_SECRET = 8
_PATTERNS = (
    # Keys that are known by their first letters: OpenAI and Anthropic, Google, GitHub, Slack, Groq, xAI, Hugging Face.
    (re.compile(r"\b(?:sk|pk|rk)-[\w-]{8,}|\bAIza[\w-]{20,}|\bgh[pousr]_\w{16,}|\bgithub_pat_\w{16,}"), HIDDEN),
    (re.compile(r"\bxox[abeprs]-[\w-]{8,}|\bgsk_\w{16,}|\bxai-[\w-]{16,}|\bhf_\w{16,}"), HIDDEN),
    (re.compile(r"\b(Bearer|Basic)\s+[\w.~+/=-]{8,}", re.IGNORECASE), rf"\1 {HIDDEN}"),
    # name=value, "name": "value", name: value, ?key=value
    (
        re.compile(
            r"""((?:api[_-]?key|access[_-]?token|auth[_-]?token|client[_-]?secret|secret|passw(?:or)?d|authorization"""
            r"""|(?<=[?&])key)\\?["']?\s*[=:]\s*(?:\\?["'])?)(?!\[redacted\]|(?:Bearer|Basic)\s)[^\s"',;&\\)}\]]+""",
            re.IGNORECASE,
        ),
        rf"\1{HIDDEN}",
    ),
    # The password in an address.
    (re.compile(r"(://[^\s/:@]+:)[^\s/@]+@"), rf"\1{HIDDEN}@"),
)
# They log each request, with its address, at levels where we log a turn.
_CHATTY = ("LiteLLM", "LiteLLM Router", "LiteLLM Proxy", "httpx", "httpcore", "openai", "watchdog", "markdown_it")

_known_secrets: set[str] = set()


def is_secret_name(name: str) -> bool:
    """Whether a variable or key called `name` holds a secret, by its last word."""
    return _SECRET_NAME.search(name) is not None


def remember_secret(value: str) -> None:
    """Have `value` (a key from the settings, say) removed from everything that `redact` sees from now on."""
    if len(value) >= _SHORTEST_SECRET:
        _known_secrets.add(value)


def redact(text: str) -> str:
    """`text` without secrets: remembered ones, those in the environment, and what looks like one."""
    named = {value for name, value in os.environ.items() if is_secret_name(name)}
    for secret in sorted(_known_secrets | named, key=len, reverse=True):
        if len(secret) >= _SHORTEST_SECRET:
            text = text.replace(secret, HIDDEN)
    for pattern, replacement in _PATTERNS:
        text = pattern.sub(replacement, text)
    return text


class RedactingFormatter(logging.Formatter):
    """Formats records, exceptions and stacks included, without secrets."""

    def format(self, record: logging.LogRecord) -> str:
        """The lines of one record."""
        return redact(super().format(record))


class PrivateRotatingHandler(RotatingFileHandler):
    """A rotating file with mode 0600 that several processes may write to.

    A record that cannot be written (a full disk) is dropped, see `setup_logging`.
    """

    def _open(self) -> TextIOWrapper:
        descriptor = os.open(self.baseFilename, os.O_WRONLY | os.O_APPEND | os.O_CREAT, PRIVATE_FILE)
        os.fchmod(descriptor, PRIVATE_FILE)
        return TextIOWrapper(os.fdopen(descriptor, "ab"), encoding="utf-8", errors="backslashreplace")

    def emit(self, record: logging.LogRecord) -> None:
        """Write one record, to the new file when another process has rotated the old one away."""
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
    """Send all records of this process, with warnings and those of libraries, to `log_file` and nowhere else.

    Returns None, or why there is no log file: the program goes on without one, and the caller says so once. May be
    called again, to change any of it.
    """
    handler: logging.Handler = logging.NullHandler()
    problem = None
    if log_file is not None:
        try:
            ensure_private_dir(log_file.parent)
            handler = PrivateRotatingHandler(log_file, maxBytes=max_bytes, backupCount=backups, encoding="utf-8")
        except OSError as error:
            problem = f"There is no log: {log_file} cannot be written ({error.strerror or error})."
    handler.setFormatter(RedactingFormatter("%(asctime)s %(levelname)s %(process)d %(name)s: %(message)s"))
    root = logging.getLogger()
    for old in list(root.handlers):
        if isinstance(old, PrivateRotatingHandler | logging.NullHandler) or _is_on_screen(old):
            root.removeHandler(old)
            old.close()
    root.addHandler(handler)
    root.setLevel(level.upper())
    # Of a record that cannot be formatted or written, logging would print a traceback over the screen.
    logging.raiseExceptions = False
    logging.captureWarnings(True)
    silence_libraries()
    return problem


def _is_on_screen(handler: logging.Handler) -> bool:
    screens = (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__)
    return isinstance(handler, logging.StreamHandler) and handler.stream in screens


def silence_libraries() -> None:
    """Take from libraries the handlers that would write to the screen. To be called again after `import litellm`."""
    for name in (*_CHATTY, "asyncio", "py.warnings"):
        logger = logging.getLogger(name)
        logger.handlers.clear()
        logger.propagate = True
        if name in _CHATTY:
            logger.setLevel(logging.WARNING)
