"""Command output: answers on stdout, one line of error on stderr, JSON on request.

All output goes through here, so that no foreign text (from a model, a file name, a server's error) can control the
terminal; other modules of the command line must not write themselves.
"""

from __future__ import annotations

import codecs
import contextlib
import functools
import os
import sys
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TextIO, TypeVar, cast

import click
import msgspec

from clawbot.errors import ClawbotError
from clawbot.text.interface import N_
from clawbot.text.sanitize import StreamCleaner, clean, clean_line, json_escaped

if TYPE_CHECKING:
    from datetime import date

F = TypeVar("F", bound=Callable[..., Any])

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
config_option = click.option(
    "--config", "file", type=click.Path(path_type=Path), help="Use this file instead of the one in $CLAWBOT_HOME."
)


def agent_option(text: str) -> Callable[[F], F]:
    """Return `--agent`, the main one unless given."""
    return click.option("--agent", "agent_id", metavar="ID", default="main", show_default=True, help=text)


def options(*them: Callable[[F], F]) -> Callable[[F], F]:
    """Several options as one decorator, in the order of `--help`."""
    return lambda function: functools.reduce(lambda made, option: option(made), reversed(them), function)


shared_options = options(config_option, json_option)


def day_options(what: str) -> Callable[[F], F]:
    """Return `--after` and `--before` a day, a month or a year; `what` begins their help."""
    # Deferred: most commands do without.
    from clawbot.clock import first_day, last_day

    def option(name: str, parse: Callable[[str], date | None], text: str) -> Callable[[F], F]:
        def read(context: click.Context, parameter: click.Parameter, value: str | None) -> date | None:
            try:
                return parse(value or "")
            except ValueError as error:
                raise click.BadParameter(f"{error}.", context, parameter) from None

        return click.option(name, callback=read, metavar="DAY", help=f"{what} {text}")

    later = option("--after", first_day, "later: 2026-11-20, 2026-11, 2026.")
    return options(later, option("--before", last_day, "earlier."))


CLEAR = "\r\x1b[2K"  # moves to the start of the line and clears it
CUT_OFF = N_("The answer was cut off at the model's length limit.")


def counted(number: int, noun: str) -> str:
    """Return `1,024 files`, `1 file`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def print_json(value: Any) -> None:
    """Print `value` (plain data or msgspec structs) as indented JSON."""
    encoded = msgspec.json.format(msgspec.json.encode(value, order="deterministic"), indent=2)
    click.echo(json_escaped(encoded.decode()))


def answer(as_json: bool, data: Any, lines: Iterable[str], remarks: Iterable[str] = ()) -> None:
    """Print what a command found: `data` as JSON, or else the `lines`, with `remarks` as warnings."""
    if as_json:
        print_json(data)
        return
    for line in lines:
        echo(line)
    warn(*remarks)


def print_json_line(value: Any) -> None:
    """Print `value` as one line of JSON."""
    click.echo(json_escaped(msgspec.json.encode(value).decode()))


def echo(text: str, *, label: str = "", colour: str | None = None) -> None:
    """Print an answer on stdout: the cleaned `text`, after a `label` in one of click's colours."""
    shown = click.style(clean(label), fg=colour) if label else ""
    click.echo(f"{shown}{clean(text)}", color=False if os.environ.get("NO_COLOR") else None)


def echo_content(text: str) -> None:
    """Print foreign text on stdout: a reply, a file's lines. Unchanged if stdout is not a terminal."""
    click.echo(clean(text) if sys.stdout.isatty() else text)


def write_nowhere() -> None:
    """Discard all further output: the window is closed, and a flush at the end of Python would fail and change the exit
    code."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):
        os.dup2(nowhere, stream)
    os.close(nowhere)


class Speech:
    """Foreign text on stdout as it streams, between lines of our own."""

    def __init__(self) -> None:
        self._cleaner = StreamCleaner()
        self.is_open = False  # whether the last line is not ended

    def write(self, text: str) -> None:
        shown = self._cleaner.feed(text) if sys.stdout.isatty() else text
        if shown:
            click.echo(shown, nl=False)
            self.is_open = not shown.endswith("\n")

    def end(self) -> None:
        """End the text, and its line."""
        self._cleaner = StreamCleaner()
        if self.is_open:
            click.echo()
        self.is_open = False


def echo_bytes(chunks: Iterable[bytes]) -> None:
    """Like `echo_content`, for UTF-8 text in chunks."""
    if not sys.stdout.isatty():
        for chunk in chunks:
            sys.stdout.buffer.write(chunk)
        return
    decoder, cleaner = codecs.getincrementaldecoder("utf-8")("replace"), StreamCleaner()
    for chunk in chunks:
        click.echo(cleaner.feed(decoder.decode(chunk)), nl=False)


def echo_error(text: str) -> None:
    """Print a line on stderr."""
    click.echo(clean_line(text), err=True)


def write_line(stream: TextIO, line: str) -> None:
    """Write a line to `stream`."""
    stream.write(f"{clean_line(line)}\n")


def draw(stream: TextIO, line: str = "") -> None:
    """Draw `line` over the current line of the terminal `stream`."""
    getattr(stream, "beneath", stream).write(f"{CLEAR}{clean(line)}")
    stream.flush()


def warn(*messages: str) -> None:
    """Print `clawbot: ` and the message for each of `messages` on stderr."""
    for message in messages:
        echo_error(f"clawbot: {message}")


def fail(message: str) -> NoReturn:
    """Print one line on stderr and exit with 1."""
    warn(message)
    sys.exit(1)


class _CleanText:
    """A stream for the output of others: click's errors, tracebacks, warnings. `beneath` is the real stream."""

    def __init__(self, beneath: TextIO) -> None:
        self.beneath = beneath

    def write(self, text: str) -> int:
        self.beneath.write(clean(text))
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.beneath, name)


@contextlib.contextmanager
def dependable_streams() -> Iterator[None]:
    """Make the standard streams safe for the program inside, wherever it was started.

    A stream closed at the start (`>&-`) is empty or discards its input; characters missing from the terminal's encoding
    are escaped. A full disk behind stdout results in one line and exit code 1, a closed pipe (`| head -1`) only in exit
    code 1.
    """
    _mend_streams()
    try:
        try:
            yield
        finally:
            sys.stdout.flush()
    except OSError as error:
        # Otherwise Python would try to flush the buffer again at exit, and complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):
            sys.exit(1)
        fail(f"The output can't be written: {error.strerror or error}.")


def _mend_streams() -> None:
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        stream = getattr(sys, name)
        if stream is None:
            # Uses the lowest free number, so that no other file or socket gets that of a standard stream.
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDWR), mode, encoding="utf-8"))
        elif mode == "w" and isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
            if name == "stderr":
                sys.stderr = cast("TextIO", _CleanText(stream))


@contextlib.contextmanager
def reporting_errors() -> Iterator[None]:
    """Turn ClawbotErrors, and OSErrors about a file, into exit code 1 and one line on stderr."""
    try:
        yield
    except ClawbotError as error:
        fail(str(error))
    except OSError as error:
        if error.filename is None:
            raise
        fail(f"{error.filename}: {error.strerror or error}.")


@contextlib.contextmanager
def listening(problem: str, hint: str) -> Iterator[None]:
    """Turn the OSError of a socket into a ClawbotError that begins with `problem`."""
    try:
        yield
    except OSError as error:
        if error.filename is not None:
            raise
        raise ClawbotError(f"{problem}: {error.strerror or error}.", hint=hint) from error


MIN_COLUMNS = 20  # columns of the cell that is truncated, in the narrowest terminal


def fitted(rows: Iterable[Sequence[str]], columns: int, cut: int) -> Iterator[str]:
    """Yield `rows` of a table as cleaned lines; the cells number `cut` are truncated to fit into `columns`."""
    cells = [[clean_line(cell) for cell in row] for row in rows]
    widths = [max(map(_width, column)) for column in zip(*cells, strict=True)]
    others = sum(widths) - widths[cut] + 2 * (len(widths) - 1)
    widths[cut] = min(widths[cut], max(MIN_COLUMNS, columns - others))
    for row in cells:
        row[cut] = _cut(row[cut], widths[cut])
        yield "  ".join(cell + " " * (width - _width(cell)) for cell, width in zip(row, widths, strict=True)).rstrip()


def _width(text: str) -> int:
    return sum(2 if unicodedata.east_asian_width(character) in "WF" else 1 for character in text)


def _cut(text: str, width: int) -> str:
    if _width(text) <= width:
        return text
    while _width(text) >= width:
        text = text[:-1]
    return f"{text.rstrip()}…"
