"""A model comes whole or not at all: resumed, checked, refused with words."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import socket
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from clawbot.local_model import store as storing
from clawbot.local_model.gguf import NoModelError, read_head, window_for
from clawbot.local_model.pull import PullError, pull, source_for
from clawbot.local_model.store import OFFERS, Known, ModelStore, Offer
from tests.local_model.hosts import SMALL, FileHost, serving, small_model

GB = 1024**3
DATA = SMALL + os.urandom(3_000_000)
HASH = hashlib.sha256(DATA).hexdigest()


@pytest.fixture
def shelf(tmp_path: Path) -> ModelStore:
    return ModelStore(tmp_path / "home" / "models")


@pytest.fixture
def host() -> Iterator[FileHost]:
    with serving(FileHost(DATA)) as found:
        yield found


def get(shelf: ModelStore, url: str, sha256: str | None = None, memory: int = 8 * GB) -> tuple[Known, list[int]]:
    seen: list[int] = []
    known = pull(source_for(url, shelf, sha256=sha256), shelf, lambda done, _: seen.append(done), memory=memory)
    return known, seen


def test_a_model_comes_private_whole_and_with_its_hash_on_record(shelf: ModelStore, host: FileHost) -> None:
    known, seen = get(shelf, host.url + "?token=sekret")
    file = shelf.find("tiny")
    assert file.read_bytes() == DATA
    assert (file.stat().st_mode & 0o777, shelf.folder.stat().st_mode & 0o777) == (0o600, 0o700)
    assert known == Known(HASH, len(DATA), host.url)
    assert shelf.known() == {"tiny": known}
    assert seen[-1] == len(DATA)
    assert sorted(path.name for path in shelf.folder.iterdir()) == ["hashes.json", "tiny.gguf"]
    assert "sekret" not in (shelf.folder / "hashes.json").read_text(encoding="utf-8")

    assert get(shelf, host.url)[0] == known
    assert len(host.asked) == 1, "what is there is checked, not got again"


def test_what_is_cut_off_goes_on_by_itself_while_something_comes(shelf: ModelStore, host: FileHost) -> None:
    host.cuts = [1_000_000, 1_500_000]
    assert get(shelf, host.url)[0].sha256 == HASH
    assert host.asked == [None, "bytes=1000000-", "bytes=2500000-"]


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("change", "asked"),
    [
        ("nothing", "bytes=1000000-"),
        ("a kill", "bytes=1000000-"),
        ("no ranges", "bytes=1000000-"),
        ("another file", "bytes=1000000-"),
    ],
)
def test_what_was_left_is_continued_or_begun_anew(shelf: ModelStore, host: FileHost, change: str, asked: str) -> None:
    host.cuts = [1_000_000, 0]
    with pytest.raises(PullError, match=r"1 MB are here\. Try again: it goes on"):
        get(shelf, host.url)
    host.asked.clear()
    host.ranges = change != "no ranges"
    if change == "a kill":
        (shelf.folder / f".tiny.gguf.part.json.{'0' * 32}.tmp").touch()
    if change == "another file":
        host.data, host.etag = SMALL + DATA[::-1], '"two"'
    assert get(shelf, host.url)[0].sha256 == hashlib.sha256(host.data).hexdigest()
    assert host.asked == [asked]
    assert sorted(path.name for path in shelf.folder.iterdir()) == ["hashes.json", "tiny.gguf"]


@pytest.mark.parametrize("given", [True, False])
def test_a_wrong_hash_is_refused(shelf: ModelStore, host: FileHost, given: bool) -> None:
    get(shelf, host.url)
    shelf.find("tiny").unlink()
    host.data = SMALL + b"something else"
    with pytest.raises(PullError, match="SHA-256") as refused:
        get(shelf, host.url, sha256=HASH if given else None)
    assert ("you gave" if given else "recorded when it was got first") in str(refused.value)
    assert shelf.files() == {}
    assert not list(shelf.folder.glob("*.part*"))
    found = hashlib.sha256(host.data).hexdigest()
    assert get(shelf, host.url, sha256=found.upper())[0].sha256 == found


def test_a_file_that_changed_on_the_shelf_is_told(shelf: ModelStore, host: FileHost) -> None:
    get(shelf, host.url)
    shelf.find("tiny").write_bytes(b"broken")
    with pytest.raises(PullError, match=r"recorded.*Delete .*tiny\.gguf and pull it again"):
        get(shelf, host.url)


def test_what_does_not_fit_is_refused_before_it_comes(
    shelf: ModelStore, host: FileHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(PullError, match=r"tiny has 3 MB; this machine has 100 MB of memory\. Take a smaller"):
        get(shelf, host.url, memory=100_000_000)
    usage = shutil.disk_usage(shelf.folder)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=1_000_000))
    with pytest.raises(
        PullError, match=r"needs 271 MB on the disk with .*models; 1 MB are free\. Make room"
    ) as refused:
        get(shelf, host.url)
    assert "CLAWBOT_HOME" in str(refused.value)


def test_a_disk_that_becomes_full_is_told_and_the_part_stays(
    shelf: ModelStore, host: FileHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        with pytest.raises(PullError, match=r"The disk with .*models is full\. Make room there\. Try again"):
            get(shelf, host.url)
    assert get(shelf, host.url)[0].sha256 == HASH


@pytest.mark.parametrize(("status", "words"), [(404, "Check the address"), (401, "account")])
def test_a_server_that_refuses_is_told(shelf: ModelStore, host: FileHost, status: int, words: str) -> None:
    host.status = status
    with pytest.raises(PullError, match=rf"status {status}\)?\. .*{words}"):
        get(shelf, host.url)


def test_a_model_of_the_list_is_checked_by_its_first_hash_whatever_it_is_called(
    shelf: ModelStore, host: FileHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storing, "OFFERS", (Offer("small", host.url, "MIT", 4, 2e6),))
    known, _ = get(shelf, "small")
    assert shelf.known() == {"small": Known(HASH, len(DATA), host.url)} == {"small": known}
    shelf.find("small").unlink()
    assert get(shelf, "small")[0] == known
    host.data = SMALL + b"another file at the same address"
    for name in (None, "other"):
        shelf.path("small").unlink(missing_ok=True)
        with pytest.raises(PullError, match="recorded when it was got first is " + HASH):
            pull(source_for("small", shelf, name=name), shelf, lambda *_: None, memory=8 * GB)
        assert shelf.files() == {}
    host.status = 404
    with pytest.raises(PullError, match=r"tiny\.gguf: there is no such file \(status 404\)\. It has moved since"):
        get(shelf, "small")


@pytest.mark.few(4)
@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"\n<!DOCTYPE html><title>\xe6\xa8\xa1\xe5\x9e\x8b", "a web page, not a GGUF file"),
        (b"version https://git-lfs.github.com/spec/v1", "a pointer to a file, not the GGUF file"),
        (b"PK\x03\x04", r"no GGUF file: it begins with b'PK"),
        (b"GGUF", "no whole GGUF file"),
        (b"GGUF" + bytes(5_000), "no whole GGUF file"),
        (SMALL.replace(b"F\x03", b"F\x09", 1), "no whole GGUF file"),
        (SMALL[:40], "no whole GGUF file"),
        (SMALL[:-128], "no whole GGUF file"),
        (SMALL.replace(b"architecture", b"architectura"), "no whole GGUF file"),
        (SMALL[:8] + b"\xff" * 16 + SMALL[24:], "no whole GGUF file"),
        (SMALL[:8] + bytes(8) + SMALL[16:], "no whole GGUF file"),
    ],
)
def test_what_is_no_model_is_told_and_leaves_nothing(
    shelf: ModelStore, host: FileHost, data: bytes, words: str
) -> None:
    host.data = data
    with pytest.raises(PullError, match=rf"tiny\.gguf is {words}.* Check the address: .*/resolve/"):
        get(shelf, host.url)
    assert list(shelf.folder.iterdir()) == []


class Liar(FileHost):
    """Answers each request with `status`, `headers` and `body`."""

    def __init__(self, status: int, headers: dict[str, str], body: bytes) -> None:
        super().__init__(body)
        self.status = status
        self.headers = headers

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(self.status)
        for name, value in {"Content-Length": str(len(self.data)), "ETag": '"x"', **self.headers}.items():
            handler.send_header(name, value)
        handler.end_headers()
        handler.wfile.write(self.data)
        handler.close_connection = True


@pytest.mark.few(4)
@pytest.mark.parametrize("left", [b"", SMALL], ids=["first", "continued"])
@pytest.mark.parametrize(
    ("status", "found", "body"),
    [
        (416, "bytes */5000", b""),
        (416, "bytes */999999999", b""),
        (416, "bytes */0", b""),
        (206, "bytes 4000-4999/5000", b"x" * 1000),
        (206, "bytes 5000-4999/5000", b""),
        (206, "bytes 0-4/5000", b"GGUFx"),
        (200, "", b""),
        (200, "", b"GG"),
    ],
)
def test_a_server_that_sends_what_nobody_asked_for_fills_no_file(
    shelf: ModelStore, status: int, found: str, body: bytes, left: bytes
) -> None:
    """`left` is there from an earlier try at the same address."""
    with serving(Liar(status, {"Content-Range": found} if found else {}, body)) as liar:
        if left:
            shelf.folder.mkdir(parents=True)
            (shelf.folder / "tiny.gguf.part").write_bytes(left)
            (shelf.folder / "tiny.gguf.part.json").write_text(json.dumps({"url": liar.url, "etag": '"x"'}))
        with pytest.raises(PullError):
            get(shelf, liar.url)
    assert shelf.known() == {}
    assert not (shelf.folder / "tiny.gguf").exists()


@pytest.mark.parametrize(
    ("status", "found", "etag"),
    [
        (206, f"bytes {len(SMALL)}-4999/5000", '"other"'),
        (206, f"bytes {len(SMALL)}-3999/4000", '"x"'),
        (416, f"bytes */{len(SMALL)}", '"x"'),
    ],
)
def test_two_files_are_not_put_together(shelf: ModelStore, status: int, found: str, etag: str) -> None:
    """A server, or a cache before it, goes on with another file than the one that was begun."""
    body = b"x" * (5000 - len(SMALL)) if status == 206 else b""
    with serving(Liar(status, {"Content-Range": found, "ETag": etag}, body)) as liar:
        shelf.folder.mkdir(parents=True)
        (shelf.folder / "tiny.gguf.part").write_bytes(SMALL)
        begun = {"url": liar.url, "etag": '"x"', "size": 5000}
        (shelf.folder / "tiny.gguf.part.json").write_text(json.dumps(begun))
        with pytest.raises(PullError, match="another part than was asked for"):
            get(shelf, liar.url)
    assert shelf.known() == {}
    assert not (shelf.folder / "tiny.gguf.part").exists()


@pytest.mark.few(4)
@pytest.mark.parametrize("name", ["tiny.gguf.part", "tiny.gguf.part.json", "tiny.gguf"])
@pytest.mark.parametrize("kind", ["link", "hard link", "dangling", "loop", "fifo"])
def test_a_link_on_the_shelf_is_not_written_through(shelf: ModelStore, host: FileHost, name: str, kind: str) -> None:
    shelf.folder.mkdir(parents=True)
    victim, planted = shelf.folder.parent / "victim", shelf.folder / name
    victim.write_bytes(b"GGUF mine")
    match kind:
        case "link":
            planted.symlink_to(victim)
        case "hard link":
            planted.hardlink_to(victim)
        case "dangling":
            planted.symlink_to(shelf.folder.parent / "new")
        case "loop":
            planted.symlink_to(planted)
        case _:
            os.mkfifo(planted)
    if name == "tiny.gguf" and kind in ("link", "hard link"):
        get(shelf, host.url)  # A model of the user's own at another place, which is only read.
    elif name != "tiny.gguf" or kind == "dangling":
        assert get(shelf, host.url)[0].sha256 == HASH
    assert victim.read_bytes() == b"GGUF mine"
    assert not (shelf.folder.parent / "new").exists()


def test_a_file_of_this_machine_and_a_server_that_is_gone(shelf: ModelStore, tmp_path: Path) -> None:
    assert get(shelf, small_model(tmp_path / "plain.gguf").as_uri())[0].size == len(SMALL)
    assert list(shelf.files()) == ["plain"]
    with pytest.raises(PullError, match=r"gone\.gguf: .*refused\. Check the network") as refused:
        get(shelf, "http://127.0.0.1:1/gone.gguf")
    assert "are here" not in str(refused.value)


@pytest.mark.parametrize("text", ["qwen", "ftp://x/y.gguf", "https://x/y", "https://x/%2e%2e.gguf"])
def test_what_is_no_source_is_refused(shelf: ModelStore, text: str) -> None:
    with pytest.raises(Exception, match=r"no name|\.gguf"):
        source_for(text, shelf)


def test_the_models_that_are_known_by_name_have_an_address_and_a_licence(shelf: ModelStore) -> None:
    assert [offer.machine for offer in OFFERS] == [4, 8, 16]
    for offer, each in zip(OFFERS, shelf.offers(8 * GB), strict=True):
        size = f"{offer.size / 1e9:.1f} GB download"
        assert each.detail == f"{size} · {offer.machine} GB of memory · {offer.licence} · huggingface.co"
        assert source_for(offer.name, shelf).url == offer.url


@pytest.mark.parametrize(
    ("memory", "best"),
    [(2e9, []), (3.9e9, ["qwen3-1.7b"]), (8.2e9, ["qwen3-4b"]), (16.6e9, ["qwen3-8b"]), (64e9, ["qwen3-8b"])],
)
def test_the_largest_model_that_fits_the_machine_is_recommended(
    shelf: ModelStore, memory: float, best: list[str]
) -> None:
    assert [each.name for each in shelf.offers(int(memory)) if each.best] == best


def test_a_model_that_is_here_has_its_size_and_memory(shelf: ModelStore) -> None:
    small_model(shelf.path("qwen3-4b"))
    shelf.path("broken").write_bytes(b"x" * 2_000_000)
    broken, tiny = shelf.offers(8 * GB)[:2]
    assert (tiny.here, tiny.best, broken.best) == (True, True, False)
    assert tiny.detail == "0 MB, is here · needs 672 MB of memory"
    assert broken.detail == "2 MB, is here · needs 673 MB of memory"


@pytest.mark.parametrize(
    ("cause", "words"),
    [
        (
            socket.gaierror(-2, "Name or service not known"),
            r"^No network connection: models\.test can't be reached\. Check",
        ),
        (
            OSError(errno.ENETUNREACH, "Network is unreachable"),
            r"^No network connection: models\.test can't be reached\.",
        ),
        (OSError(errno.ECONNRESET, "Connection reset by peer"), r"tiny\.gguf: Connection reset by peer\. Check"),
    ],
)
def test_a_machine_without_a_network_says_so(
    shelf: ModelStore, monkeypatch: pytest.MonkeyPatch, cause: OSError, words: str
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise cause

    monkeypatch.setattr(socket, "create_connection", fail)
    with pytest.raises(PullError, match=words):
        get(shelf, "http://models.test/tiny.gguf")


def test_the_head_tells_the_window_and_what_a_token_takes(tmp_path: Path) -> None:
    model = read_head(small_model(tmp_path / "m.gguf"))
    assert (model.trained, model.token_bytes) == (8192, 2 * 2 * (16 + 16) * 2)
    assert window_for(model, 8 * GB) == 8192
    assert window_for(model, model.memory(5000)) == 4096
    assert window_for(model, 8 * GB, 20_000) == 20_000
    for wanted in (None, 8192):
        with pytest.raises(NoModelError, match=r"needs .* of memory with a window .*; 100 MB are free"):
            window_for(model, 100_000_000, wanted)


@pytest.mark.parametrize("data", [b"", b"GGUF", b"<html>", SMALL[:60], b"GGUF" + b"\xff" * 40])
def test_a_broken_head_is_told(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(data)
    with pytest.raises(NoModelError, match="no GGUF file, or a broken one"):
        read_head(path)
