"""Keys in files: `$CLAWBOT_HOME/.env`, which is read at the start and written when the user hands over a key."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from io import StringIO
from typing import TYPE_CHECKING

from clawbot.config.errors import config_error
from clawbot.config.paths import Paths
from clawbot.config.source import read_text
from clawbot.files import PRIVATE_FILE, ensure_private_dir, write_atomic

if TYPE_CHECKING:
    from dotenv.parser import Binding

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# NUL ends a variable, and lone surrogates are no UTF-8.
_UNWRITABLE = re.compile(r"[\x00\ud800-\udfff]")


def load_env(paths: Paths) -> list[str]:
    """Put the variables of the `.env` file into the environment, except those that it has already.

    Returns the names that were put there. No file is no error; ConfigError when it cannot be read, or for a line that
    is no `NAME=value`.
    """
    try:
        text = read_text(paths.env_file)
    except FileNotFoundError:
        return []
    found: dict[str, str] = {}
    for binding in _bindings(text):
        if binding.error:
            raise config_error(f"{paths.env_file}:{binding.original.line}", "expected NAME=value")
        if binding.key and binding.value is not None and binding.key not in os.environ:
            found[binding.key] = binding.value
    os.environ.update(found)
    return list(found)


def save_key(paths: Paths, name: str, value: str) -> None:
    """Write `name=value` to the `.env` file (0600), in place of an older value, and put it into the environment.

    Everything else in the file stays as it is. Spaces around the value are dropped. Raises ConfigError for a name or
    value that cannot be written, and when the file cannot be read.
    """
    value = value.strip()
    place = str(paths.env_file)
    if not _NAME.fullmatch(name):
        raise config_error(place, "the name of a key has letters, digits and _ only, such as OPENAI_API_KEY")
    if not value or _UNWRITABLE.search(value):
        raise config_error(place, f"the value of {name} is empty or no text")
    try:
        old = read_text(paths.env_file)
    except FileNotFoundError:
        old = ""
    quoted = value.replace("\\", "\\\\").replace("'", "\\'")
    ensure_private_dir(paths.home)
    write_atomic(paths.env_file, _replaced(old, name, f"{name}='{quoted}'\n").encode(), mode=PRIVATE_FILE)
    os.environ[name] = value


def _bindings(text: str) -> Iterator[Binding]:
    from dotenv.parser import parse_stream  # 25 ms, and most people have no such file

    return parse_stream(StringIO(text))


def _replaced(text: str, name: str, line: str) -> str:
    """`text` with `line` where the first binding of `name` is, or at the end; further bindings go."""
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
