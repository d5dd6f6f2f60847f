"""The token of the server: made once, kept in a file of its owner, compared in constant time."""

from __future__ import annotations

import asyncio
import hmac
import logging
import secrets
from pathlib import Path

from clawbot.clock import Clock
from clawbot.errors import ClawbotError
from clawbot.files import PRIVATE_FILE, create_complete, read_plain, write_atomic

log = logging.getLogger(__name__)

_BYTES = 32
_LARGEST = 4096
_SHORTEST = 32
_FRESH_SECONDS = 1.0


def load_token(path: Path) -> str:
    """The token in `path`, made now if there is none. Blocks. Raises OSError, and ClawbotError for a file that others
    may read or that holds no token."""
    if not path.exists():
        create_complete(path, f"{_new()}\n".encode())
    if path.stat().st_mode & 0o077:
        raise ClawbotError(f"{path} can be read by others.", hint="Make a new one: clawbot serve token --rotate")
    token = read_plain(path, _LARGEST).decode("utf-8", "replace").strip()
    if len(token) < _SHORTEST or not token.isascii():
        raise ClawbotError(f"{path} holds no token.", hint="Make a new one: clawbot serve token --rotate")
    return token


def rotate_token(path: Path) -> str:
    """Replace the token in `path`; returns the new one. A running server takes it within a second. Blocks; raises
    OSError."""
    token = _new()
    write_atomic(path, f"{token}\n".encode(), mode=PRIVATE_FILE)
    return token


def _new() -> str:
    return secrets.token_urlsafe(_BYTES)


class TokenChecker:
    """The token as it is on disk, read again at most once a second, and only while somebody asks."""

    def __init__(self, path: Path, token: str, clock: Clock) -> None:
        self._path = path
        self._token = token.encode()
        self._clock = clock
        self._read_at = clock.monotonic()

    async def accepts(self, offered: str) -> bool:
        """Return whether `offered` is the token. The time it takes reveals nothing. If the file can't be read any more,
        nothing is accepted."""
        if self._clock.monotonic() - self._read_at >= _FRESH_SECONDS:
            self._read_at = self._clock.monotonic()
            try:
                self._token = (await asyncio.to_thread(load_token, self._path)).encode()
            except (ClawbotError, OSError) as error:
                log.warning("the token of the server can't be read: %s", error)
                self._token = b""
        return bool(self._token) and hmac.compare_digest(offered.encode("utf-8", "replace"), self._token)
