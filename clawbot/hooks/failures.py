"""What went wrong in a hook, in one line that its author can act on."""

from __future__ import annotations

import asyncio
import re
import traceback
from pathlib import Path
from typing import Literal

from clawbot.hooks.loading import HandlerError

Status = Literal["ok", "failed", "timeout", "exited", "cancelled"]

_LONGEST = 300
_OWN_MODULE = re.compile(r"^_clawbot_hook_\d+\.")


class HookFailedError(Exception):
    """A hook did not handle an event. `error` is one line for the user."""

    def __init__(self, status: Status, error: str) -> None:
        super().__init__(error)
        self.status: Status = status
        self.error = error


def describe(error: BaseException, folder: Path) -> str:
    """Type and message of `error`, and the last line of the hook in `folder` that it came through:
    `ValueError: no such day (handler.py:12)`. One line; may hold secrets."""
    if isinstance(error, HandlerError):
        return one_line(str(error))
    where = _syntax_place(error) if isinstance(error, SyntaxError) else _place(error, folder.resolve())
    return f"{one_line(_words(error))}{where}{_hint(error)}"


def one_line(text: str) -> str:
    """`text` without line breaks, cut when it is long."""
    line = " ".join(text.split()).encode("utf-8", "backslashreplace").decode()
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 1]}…"


def _words(error: BaseException) -> str:
    if isinstance(error, SyntaxError):
        return f"{type(error).__name__}: {error.msg}"
    return _OWN_MODULE.sub("", traceback.format_exception_only(error)[0])


def _place(error: BaseException, folder: Path) -> str:
    place = ""
    for frame, line in traceback.walk_tb(error.__traceback__):
        file = Path(frame.f_code.co_filename)
        if file.is_relative_to(folder):
            place = f" ({file.relative_to(folder)}:{line})"
    return place


def _syntax_place(error: SyntaxError) -> str:
    return f" ({Path(error.filename).name}:{error.lineno})" if error.filename else ""


def _hint(error: BaseException) -> str:
    if isinstance(error, ModuleNotFoundError):
        return "; install it, and name it in HOOK.md under requires: python"
    if isinstance(error, SystemExit | KeyboardInterrupt | asyncio.CancelledError):
        return "; a handler ends by returning, or by raising an exception of its own"
    return ""
