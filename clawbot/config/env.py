"""API keys in `$CLAWBOT_HOME/.env`: read at the start, written when the user enters a key."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from io import StringIO
from typing import TYPE_CHECKING, NamedTuple

from clawbot.config.errors import config_error, read_text, text_of
from clawbot.config.paths import Paths
from clawbot.files import PRIVATE_FILE, ensure_private_dir, write_atomic
from clawbot.text.interface import _
from clawbot.text.patterns import lazy_re

if TYPE_CHECKING:
    from dotenv.parser import Binding

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# Of what others wrote: `$env:KEY="x"` is a line for PowerShell.
_ANY_NAME = lazy_re(r"[\w.-]+")
# NUL would end the variable; lone surrogates can't be encoded in UTF-8, and U+FFFD is what was not UTF-8.
_UNWRITABLE = lazy_re(r"[\x00\ud800-\udfff\ufffd]")


class EnvFile(NamedTuple):
    """The variables of a `.env` file, and a notice for each line that is none; no text of the file is in it."""

    values: dict[str, str]
    notices: tuple[str, ...] = ()


def read_env(paths: Paths) -> EnvFile:
    """The variables of the `.env` file; none without a file. Raises ConfigError if it cannot be read. Blocks."""
    try:
        text = read_text(paths.env_file, errors="replace")
    except FileNotFoundError:
        return EnvFile({})
    found: dict[str, str] = {}
    notices: list[str] = []
    for binding in _bindings(text):
        name, value, line = binding.key, binding.value, binding.original.string.strip()
        if name and value is not None and _ANY_NAME.fullmatch(name) and not _UNWRITABLE.search(value):
            found[name] = value
        elif binding.error or (name and not line.startswith("export ")):
            notice = _("{place}: expected NAME=value; the line is left out")
            notices.append(notice.format(place=f"{paths.env_file}:{binding.original.line}"))
    return EnvFile(found, tuple(notices))


def load_env(paths: Paths) -> EnvFile:
    """Add the variables of the `.env` file to the environment, without replacing existing ones.

    Returns those that were added. Raises ConfigError if the file cannot be read.
    """
    values, notices = read_env(paths)
    added = {name: value for name, value in values.items() if name not in os.environ}
    os.environ.update(added)
    return EnvFile(added, notices)


def save_key(paths: Paths, name: str, value: str) -> None:
    """Write `name=value` to the `.env` file (0600), replacing an older value, and set it in the environment.

    The rest of the file is kept; spaces around the value are stripped. Raises ConfigError for an invalid name or value,
    and if the file cannot be read.
    """
    value = value.strip()
    place = str(paths.env_file)
    if not _NAME.fullmatch(name):
        raise config_error(place, "the name of a key has letters, digits and _ only, such as OPENAI_API_KEY")
    if not value or _UNWRITABLE.search(value):
        raise config_error(place, f"the value of {name} is empty or not text")
    old = text_of(paths.env_file)
    quoted = value.replace("\\", "\\\\").replace("'", "\\'")
    ensure_private_dir(paths.home)

    def demand_unchanged() -> None:
        if text_of(paths.env_file) != old:
            raise config_error(place, "was changed by another program meanwhile: try again")

    data = _replaced(old, name, f"{name}='{quoted}'\n").encode()
    write_atomic(paths.env_file, data, mode=PRIVATE_FILE, check=demand_unchanged)
    os.environ[name] = value


def _bindings(text: str) -> Iterator[Binding]:
    from dotenv.parser import parse_stream  # 25 ms, and most users have no such file

    return parse_stream(StringIO(text))


def _replaced(text: str, name: str, line: str) -> str:
    """`text` with `line` in place of the first binding of `name`, or at the end; further bindings are removed."""
    pieces: list[str] = []
    placed = False
    for binding in _bindings(text):
        if binding.key != name:
            pieces.append(binding.original.string)
        elif not placed:
            pieces.append(line)
            placed = True
    whole = "".join(pieces)
    if placed:
        return whole
    return f"{whole}\n{line}" if whole and not whole.endswith("\n") else whole + line
