"""Problems in the settings with their locations, the error with all of them; reads and rewrites the text of a settings
file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from clawbot.errors import ClawbotError
from clawbot.files import PRIVATE_FILE, ensure_private_dir, locked, write_atomic
from clawbot.text.encoding import decoded
from clawbot.text.numbers import whole_number


class ConfigProblem(NamedTuple):
    """One problem: `position` is `file:line`, a file or "command line"; `key` is dotted ("" for an entire file)."""

    position: str
    key: str
    text: str

    def __str__(self) -> str:
        return ": ".join(part for part in self if part)

    @property
    def line(self) -> int:
        """The line in `position`, 0 if it has none."""
        return whole_number(self.position.rpartition(":")[2]) or 0


class ConfigError(ClawbotError):
    """The settings cannot be used. `problems` are all that were found; no text contains a secret's value."""

    def __init__(self, problems: Sequence[ConfigProblem], *, hint: str = "") -> None:
        more = f" (and {len(problems) - 1} more: `clawbot config check` lists them)" if len(problems) > 1 else ""
        super().__init__(f"{problems[0]}{more}{'.' if hint else ''}", hint=hint)
        self.problems = tuple(problems)


def config_error(position: str, text: str, *, key: str = "", hint: str = "") -> ConfigError:
    """Return a ConfigError with one problem."""
    return ConfigError([ConfigProblem(position, key, text)], hint=hint)


def nearest(word: str, words: list[str], *, least: float = 0.6) -> str:
    """Return the most similar of `words`, or "" if none is similar by `least` (0 to 1)."""
    # Deferred: settings without a mistake need none.
    from difflib import get_close_matches

    folded = {known.replace("_", "").lower(): known for known in words}
    found = get_close_matches(word.replace("_", "").lower(), list(folded), n=1, cutoff=least)
    return folded[found[0]] if found else ""


MAX_BYTES = 1024**2
"""Far above any real file: this stops /dev/zero."""


def text_of(path: Path) -> str:
    """Return the text of `path`, "" if it does not exist. Raises ConfigError as `read_text`."""
    try:
        return read_text(path)
    except FileNotFoundError:
        return ""


def read_text(path: Path, *, limit: int = MAX_BYTES, errors: str = "strict") -> str:
    """The text of `path`. Raises FileNotFoundError, and ConfigError if it cannot be read as UTF-8 (with `errors`),
    or as UTF-16 or UTF-32 with a byte order mark, which Windows writes."""
    position = str(path)
    try:
        # Reading a pipe would block, and it would be empty the second time.
        if path.is_fifo():
            raise config_error(position, "is a pipe; expected a file")
        with path.open("rb") as stream:
            data = stream.read(limit + 1)
    except FileNotFoundError:
        raise
    except IsADirectoryError as error:
        raise config_error(position, "is a folder; expected a file") from error
    except NotADirectoryError as error:
        raise config_error(
            position,
            "cannot be read: a file is where a folder should be",
            hint="Move that file away, or name another folder (CLAWBOT_HOME, --config).",
        ) from error
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise config_error(position, f"cannot be read: {reason}") from error
    if len(data) > limit:
        raise config_error(position, f"is larger than {limit // 1024} KB")
    try:
        return decoded(data, errors=errors)
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise config_error(f"{position}:{line}", "is not UTF-8 text", hint="Save the file as UTF-8.") from error


def rewrite(path: Path, change: Callable[[str], str]) -> None:
    """Replace the text of `path` ("" if it does not exist) by what `change` makes of it, with mode 0600. Concurrent
    callers wait. Blocks; raises ConfigError, also where another program has changed the file since."""
    try:
        with locked(ensure_private_dir(path.parent)):
            before = text_of(path)

            def demand_unchanged() -> None:
                if text_of(path) != before:
                    raise config_error(str(path), "was changed by another program: try again")

            write_atomic(path, change(before).encode(), mode=PRIVATE_FILE, check=demand_unchanged, held=True)
    except OSError as error:
        raise config_error(str(path), f"cannot be written: {error.strerror or error}") from error
