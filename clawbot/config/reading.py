"""Reads the text of a settings file, or says what is wrong with it. Without the parser of YAML."""

from __future__ import annotations

from pathlib import Path

from clawbot.config.errors import config_error

MAX_BYTES = 1024**2
"""Far above any real file: this stops /dev/zero."""


def read_text(path: Path, *, limit: int = MAX_BYTES) -> str:
    """The text of `path`. Raises FileNotFoundError, and ConfigError if it cannot be read as UTF-8."""
    place = str(path)
    try:
        # Reading a pipe would block, and it would be empty the second time.
        if path.is_fifo():
            raise config_error(place, "is a pipe; expected a file")
        with path.open("rb") as stream:
            data = stream.read(limit + 1)
    except FileNotFoundError:
        raise
    except IsADirectoryError as error:
        raise config_error(place, "is a folder; expected a file") from error
    except NotADirectoryError as error:
        raise config_error(
            place,
            "cannot be read: a file stands where a folder should be",
            hint="Move that file away, or name another folder (CLAWBOT_HOME, --config).",
        ) from error
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise config_error(place, f"cannot be read: {reason}") from error
    if len(data) > limit:
        raise config_error(place, f"is larger than {limit // 1024} KB")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise config_error(f"{place}:{line}", "is not UTF-8 text", hint="Save the file as UTF-8.") from error
