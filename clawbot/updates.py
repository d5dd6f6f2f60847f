"""Asks once a day whether there is a newer version of the program, at the address that the settings name."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
import threading
import urllib.request
from collections.abc import Callable
from datetime import datetime, timedelta
from http.client import HTTPException
from pathlib import Path

import msgspec
from msgspec import Struct

from clawbot import __version__
from clawbot.files import PRIVATE_FILE, read_plain, write_atomic
from clawbot.text.interface import _

log = logging.getLogger(__name__)

_PAUSE = timedelta(days=1)
_SECONDS = 10
# The description of a large package has two megabytes.
_LARGEST_ANSWER = 8 * 1024**2
_LARGEST_FILE = 4096
# A finished version: nobody is led to a release candidate.
_VERSION = re.compile(r"\d{1,9}(?:\.\d{1,9}){0,4}")


class _Asked(Struct, frozen=True):
    """The file that says when somebody asked last."""

    at: datetime


class _Info(Struct, frozen=True):
    version: str = ""


class _Answer(Struct, frozen=True):
    """What package indexes answer, as far as it matters here."""

    version: str = ""
    info: _Info = _Info()


def look_later(url: str, file: Path, now: datetime, tell: Callable[[str], object]) -> None:
    """Ask `url` in the background, unless `file` says that somebody did within a day; `tell` gets a sentence about a
    newer version, on the running loop. Nobody waits for it, not even the end of the program."""
    loop = asyncio.get_running_loop()

    def look() -> None:
        try:
            newer = look_for_newer(url, file, now)
        except (OSError, ValueError, HTTPException, msgspec.MsgspecError) as error:
            log.info("whether there is a newer version can't be told: %s", error)
            return
        if newer:
            # The loop is closed when the program has ended meanwhile.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(
                    tell, _("clawbot {newer} is out; this is {now}.").format(newer=newer, now=__version__)
                )

    threading.Thread(target=look, name="look-for-update", daemon=True).start()


def look_for_newer(url: str, file: Path, now: datetime) -> str | None:
    """The version that `url` names, if it is newer than this one; None also where `file` says that it is too early to
    ask again. Blocks.

    Raises OSError, ValueError, HTTPException and MsgspecError when nobody answers, or something else.
    """
    if not _is_due(file, now):
        return None
    # Before the question: an address that does not answer is not asked at each start either.
    write_atomic(file, msgspec.json.encode(_Asked(now)), mode=PRIVATE_FILE, lasting=False)
    found = _version_in(_fetch(url))
    return found if _numbers(found) > _numbers(__version__) else None


def _is_due(file: Path, now: datetime) -> bool:
    try:
        asked = msgspec.json.decode(read_plain(file, _LARGEST_FILE), type=_Asked).at
        # A clock that was ahead must not silence this for long.
        return abs(now - asked) >= _PAUSE
    except FileNotFoundError:
        return True
    except (OSError, TypeError, msgspec.MsgspecError) as error:
        log.info("%s is written anew: %s", file, error)
        return True


def _fetch(url: str) -> bytes:
    opener = urllib.request.build_opener()
    opener.addheaders = [("User-Agent", f"clawbot/{__version__}"), ("Accept", "application/json")]
    with opener.open(url, timeout=_SECONDS) as response:
        data: bytes = response.read(_LARGEST_ANSWER + 1)
    if len(data) > _LARGEST_ANSWER:
        raise ValueError(f"the answer is larger than {_LARGEST_ANSWER >> 20} MiB")
    return data


def _version_in(data: bytes) -> str:
    """Raises ValueError and MsgspecError where there is none."""
    text = data.strip()
    if text.startswith(b"{"):
        answer = msgspec.json.decode(text, type=_Answer)
        text = (answer.version or answer.info.version).encode()
    version = text[:64].decode()
    if not _VERSION.fullmatch(version):
        raise ValueError("the answer holds no finished version")
    return version


def _numbers(version: str) -> list[int]:
    """`1.10.0` is newer than `1.9`, and the same as `1.10`."""
    numbers = [int(part) for part in version.split(".")]
    while numbers and not numbers[-1]:
        numbers.pop()
    return numbers
