"""Downloads a model: resumes, checks first whether it fits, checks the hash before the file gets its name."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import math
import os
import re
import shutil
import socket
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO
from urllib.parse import unquote, urlsplit
from urllib.request import url2pathname

import msgspec
from msgspec import Struct

from clawbot.errors import ClawbotError
from clawbot.files import PRIVATE_FILE, ensure_private_dir, sweep_asides, sync_dir, write_atomic
from clawbot.local_model.gguf import MAGIC, OVERHEAD_BYTES, is_complete, shown_size
from clawbot.local_model.machine import total_memory
from clawbot.local_model.store import Known, ModelStore, is_offered, offer_of
from clawbot.locks import try_lock
from clawbot.text.interface import N_, _
from clawbot.text.numbers import whole_number

PART = ".part"
SOURCE = ".part.json"
CHUNK = 1024**2
"""Bytes of a file of this machine that are read at once."""
SPARE = 256 * 1024**2
"""Bytes that remain free on the disk: a full one stops transcripts, too."""
SILENCE = 30.0
"""Seconds in which a server has to send something."""
_PAGES = N_("Check the address: huggingface.co has files at /resolve/, and pages that show them at /blob/.")
_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_NO_NETWORK = (errno.ENETUNREACH, errno.EHOSTUNREACH, errno.ENETDOWN)
_NUMBER = re.compile(r"\[Errno -?\d+\] ")
_RANGE = re.compile(r"bytes (?:(\d{1,18})-\d+|\*)/(\d{1,18})")
_AGAIN = N_("Try again: it goes on from there.")


class PullError(ClawbotError):
    """A model that could not be got."""


class _CutError(Exception):
    """The connection ended before the file did."""


class Source(Struct, frozen=True):
    """Where a model comes from; `sha256` is the one that the user demands, in hex."""

    name: str
    url: str
    sha256: str | None = None


class _Body(Struct):
    """What a server began to send: from byte `start` on, of `size` bytes; `etag` is empty when it has none."""

    start: int
    size: int | None
    etag: str
    chunks: Iterator[bytes]


class _Begun(Struct, frozen=True):
    """What an existing partial file was begun with."""

    url: str
    etag: str
    size: int | None = None


Watch = Callable[[int, int | None], None]
"""Called with the bytes that are there, and the total (None: unknown)."""


def source_for(text: str, store: ModelStore, *, name: str | None = None, sha256: str | None = None) -> Source:
    """Resolve `text`, a name or an address. Raises ClawbotError for anything else."""
    offer = offer_of(text)
    if offer is not None:
        return Source(store.path(name or offer.name).stem, offer.url, sha256)
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https", "file"):
        raise PullError(
            f"{text} is no name of a model and no address.",
            hint="See clawbot model list, or give a URL of a .gguf file.",
        )
    found = name or unquote(parts.path).rpartition("/")[2]
    if name is None and not found.endswith(".gguf"):
        raise PullError(f"{_bare(text)} does not end with .gguf.", hint="Give the model a name with --name.")
    return Source(store.path(found).stem, text, sha256)


def pull(source: Source, store: ModelStore, watch: Watch, *, memory: int | None = None) -> Known:
    """Download the model into the store; one that is complete there is only checked. Blocks.

    `memory` is what the machine has, in bytes, None: that is asked. Raises PullError and OSError. What came so far
    remains, except with a wrong hash.
    """
    try:
        ensure_private_dir(store.folder)
        return _Pull(source, store, watch, total_memory() if memory is None else memory).run()
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise PullError(
                _("The disk with {folder} is full.").format(folder=store.folder),
                hint=f"{_('Make room there.')} {_(_AGAIN)}",
            ) from error
        raise


class _Pull:
    """One download."""

    def __init__(self, source: Source, store: ModelStore, watch: Watch, memory: int) -> None:
        self._source = source
        self._store = store
        self._watch = watch
        self._memory = memory
        self._file = store.path(source.name)
        self._part = self._file.with_name(self._file.name + PART)
        self._begun = self._file.with_name(self._file.name + SOURCE)
        self._url = _bare(source.url)

    def run(self) -> Known:
        for path in (self._part, self._begun):
            _demand_plain(path)
        with _opened(self._part) as part:
            sweep_asides(self._store.folder, self._begun.name, age=-math.inf)
            if self._file.exists():
                known = self._check(self._file, "")
                self._part.unlink(missing_ok=True)
                return known
            self._fetch_all(part)
            part.seek(0)
            self._check_begin(part.read(len(self._store.begins)), self._store.begins)
            if self._store.begins == MAGIC and not is_complete(self._part):
                raise self._refused(_("no whole GGUF file: its head or its tensors are missing"))
            os.fsync(part.fileno())
            known = self._check(self._part, "It was deleted. ")
            self._part.replace(self._file)
            self._begun.unlink(missing_ok=True)
            sync_dir(self._store.folder)
        self._store.keep(self._source.name, known)
        return known

    def _fetch_all(self, part: BinaryIO) -> None:
        """Ask until all is there, as long as each time something comes."""
        while True:
            before = _length(part)
            try:
                self._fetch(part)
                return
            except _CutError as cut:
                if (there := _length(part)) <= before:
                    hint = _("Check the network and the address.")
                    if there:
                        hint = f"{_('{size} are here.').format(size=shown_size(there))} {_(_AGAIN)}"
                    text = _no_network(cut.__cause__, self._url) or f"{self._url}: {cut}."
                    raise PullError(text, hint=hint) from cut.__cause__

    def _fetch(self, part: BinaryIO) -> None:
        there = _length(part)
        begun = self._read_begun() if there else None
        etag = begun.etag if begun is not None and begun.url == self._url else ""
        asked = there if etag else 0
        with _body(self._source.url, asked, etag) as body:
            is_other = body.etag not in ("", etag) or (begun is not None and begun.size not in (None, body.size))
            if body.start and is_other:
                self._part.unlink()
            if body.start > asked or (body.start and is_other):
                raise PullError(_("{address} sends another part than was asked for.").format(address=self._url))
            self._demand_room(body, there)
            if body.start != there:
                part.truncate(body.start)
            begun = _Begun(self._url, body.etag or (etag if body.start else ""), body.size)
            write_atomic(self._begun, msgspec.json.encode(begun), mode=PRIVATE_FILE)
            part.seek(body.start)
            self._write(part, body)

    def _write(self, part: BinaryIO, body: _Body) -> None:
        done = body.start
        self._watch(done, body.size)
        for chunk in body.chunks:
            if done == 0:
                self._check_begin(chunk, self._store.begins[: len(chunk)])
            part.write(chunk)
            done += len(chunk)
            self._watch(done, body.size)
        part.flush()
        if body.size is not None and done < body.size:
            raise _CutError(_("the connection ended early"))

    def _check_begin(self, data: bytes, expected: bytes) -> None:
        """Raises PullError for what does not begin as a model, which is deleted."""
        if not data.startswith(expected):
            raise self._refused(_what_is_no_model(data))

    def _refused(self, what: str) -> PullError:
        """Delete what came, which is `what`."""
        self._part.unlink(missing_ok=True)
        self._begun.unlink(missing_ok=True)
        return PullError(_("{address} is {what}.").format(address=self._url, what=what), hint=_(_PAGES))

    def _demand_room(self, body: _Body, there: int) -> None:
        """Raises PullError for what would not fit this machine."""
        if body.size is None:
            return
        if body.size + OVERHEAD_BYTES > self._memory:
            size, memory = shown_size(body.size), shown_size(self._memory)
            raise PullError(
                _("{model} has {size}; this machine has {memory} of memory.").format(
                    model=self._source.name, size=size, memory=memory
                ),
                hint=_("Take a smaller model: clawbot model list."),
            )
        free, missing = shutil.disk_usage(self._store.folder).free + there, body.size + SPARE
        if missing > free:
            raise PullError(
                _("{model} needs {size} on the disk with {folder}; {free} are free.").format(
                    model=self._source.name,
                    size=shown_size(missing),
                    folder=self._store.folder,
                    free=shown_size(free),
                ),
                hint=_("Make room there, or set CLAWBOT_HOME to a folder on another disk."),
            )

    def _check(self, path: Path, done: str) -> Known:
        """Return what the file holds. Raises PullError for a wrong hash; `done` then describes what was done."""
        on_record = self._store.known()
        # The same address gives the same file, whatever it is called here.
        known = next(
            (each for name, each in on_record.items() if name == self._source.name and each.url == self._url),
            next((each for each in on_record.values() if each.url == self._url), None),
        )
        recorded = known.sha256 if known is not None else None
        expected = (self._source.sha256 or recorded or "").lower()
        found = _sha256(path)
        if expected and found != expected:
            if done:
                path.unlink()
                self._begun.unlink(missing_ok=True)
            whose = "you gave" if self._source.sha256 else "was recorded when it was got first"
            text = f"{self._file.name} has the SHA-256 {found}; the one that {whose} is {expected}. {done}"
            wanted = "If the new file is wanted, give its hash with --sha256."
            raise PullError(text.rstrip(), hint=wanted if done else f"Delete {path} and pull it again.")
        return Known(found, path.stat().st_size, self._url)

    def _read_begun(self) -> _Begun | None:
        try:
            return msgspec.json.decode(self._begun.read_bytes(), type=_Begun)
        except (OSError, msgspec.MsgspecError):
            return None


def _demand_plain(path: Path) -> None:
    """Delete a link, a pipe or another name of a file at `path`: writing there would change what it leads to."""
    with contextlib.suppress(FileNotFoundError):
        found = path.lstat()
        if not stat.S_ISREG(found.st_mode) or found.st_nlink > 1:
            path.unlink()


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    """The part, for this process alone. Raises PullError when another one writes it."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, PRIVATE_FILE)
    with os.fdopen(handle, "r+b") as stream:
        if not try_lock(handle):
            raise PullError(
                _("{file} is being written by another process.").format(file=path), hint=_("Wait for that one.")
            )
        yield stream


def _what_is_no_model(data: bytes) -> str:
    """Half a sentence on a file that begins with `data`."""
    begin = data[:64].lstrip().lower()
    if begin.startswith((b"<!doctype", b"<html")):
        return _("a web page, not a GGUF file")
    if begin.startswith(b"version https://git-lfs"):
        return _("a pointer to a file, not the GGUF file")
    return _("no GGUF file: it begins with {begin!r}").format(begin=data[:12])


def _length(part: BinaryIO) -> int:
    part.flush()
    return os.fstat(part.fileno()).st_size


def _sha256(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _bare(url: str) -> str:
    """Return `url` without what may be a secret: names, passwords, the query."""
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="").geturl()


def _no_network(error: BaseException | None, url: str) -> str:
    """Return a sentence when the network was missing, by the chain of causes of `error`; else empty."""
    while error is not None:
        if isinstance(error, socket.gaierror) or getattr(error, "errno", None) in _NO_NETWORK:
            return _("No network connection: {host} can't be reached.").format(host=urlsplit(url).hostname)
        error = error.__cause__ or error.__context__
    return ""


@contextlib.contextmanager
def _body(url: str, start: int, etag: str) -> Iterator[_Body]:
    """What is behind `url` from byte `start` on, if it is still what had that `etag`; else all of it. Raises PullError,
    _CutError, OSError."""
    if url.startswith("file:"):
        with _file_body(url, start, etag) as body:
            yield body
        return
    # A third of the time that the command line takes to start.
    import httpx

    headers = {"Range": f"bytes={start}-", "If-Range": etag} if start else {}
    outside = urlsplit(url).hostname not in _LOOPBACK
    try:
        with (
            httpx.Client(follow_redirects=True, timeout=SILENCE, trust_env=outside) as client,
            client.stream("GET", url, headers={"Accept-Encoding": "identity", **headers}) as response,
        ):
            yield _http_body(response.status_code, dict(response.headers), url, response.iter_raw())
    except (httpx.TransportError, httpx.TooManyRedirects) as error:
        raise _CutError(_NUMBER.sub("", str(error)) or type(error).__name__) from error
    except httpx.InvalidURL as error:
        raise PullError(f"{_bare(url)} is no address: {error}.") from error


def _http_body(status: int, headers: dict[str, str], url: str, chunks: Iterator[bytes]) -> _Body:
    found = _RANGE.fullmatch(headers.get("content-range", ""))
    # A weak tag means an equivalent file, not the same bytes: no part can be continued by it.
    etag = headers.get("etag", "")
    etag = "" if etag.startswith("W/") else etag or headers.get("last-modified", "")
    length = headers.get("content-length", "")
    if status == 206 and found is not None and found[1]:
        return _Body(int(found[1]), int(found[2]), etag, chunks)
    if status == 416 and found is not None:
        return _Body(int(found[2]), int(found[2]), etag, iter(()))
    if status == 200:
        return _Body(0, whole_number(length), etag, chunks)
    if status in (404, 410):
        moved = is_offered(url)
        hint = _("It has moved since this list was made: pull its new address.") if moved else _("Check the address.")
        text = _("{address}: there is no such file (status {status}).")
        raise PullError(text.format(address=_bare(url), status=status), hint=hint)
    closed = status in (401, 403)
    hint = _("The model may ask for an account there.") if closed else _("Check the address, or try again later.")
    text = _("{address}: the server answered with status {status}.")
    raise PullError(text.format(address=_bare(url), status=status), hint=hint)


@contextlib.contextmanager
def _file_body(url: str, start: int, etag: str) -> Iterator[_Body]:
    path = Path(url2pathname(urlsplit(url).path))
    with path.open("rb") as stream:
        status = os.fstat(stream.fileno())
        now = f'"{status.st_mtime_ns}-{status.st_size}"'
        start = start if etag == now and start <= status.st_size else 0
        stream.seek(start)
        yield _Body(start, status.st_size, now, iter(lambda: stream.read(CHUNK), b""))
