"""Folders as somebody makes them who wants to break a program: deep, wide, with odd names and what is no file."""

from __future__ import annotations

import contextlib
import os
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import strategies as st

ODD_NAMES = (
    "-rf",
    " ",
    "a\nb.md",
    "\x1b[31m.md",
    "..md",
    "*",
    "**",
    "[",
    "{a,b}.md",
    "$(id).md",
    "memory",
    "会议记录.md",
    "\u202etxt.md",
    "é" * 127 + "x",
    "n" * 252 + ".md",
    os.fsdecode(b"caf\xe9.md"),
    os.fsdecode(b"\xed\xa0\x80.md"),  # half a character, as bytes
    os.fsdecode(b"\xff\xfe"),
    "2026-11-20.md",
    "2026-99-99.md",
    "HOOK.md",
    "handler.py",
    "AGENTS.md",
    "BOOTSTRAP.md",
    "sessions.json",
    "4f4f4f4f-1111-4111-8111-111111111111.jsonl",
)
CONTENTS = (
    b"",
    b"\0" * 100,
    b"\xff" * 50,
    b"[" * 20_000,
    b'{"a":' * 5_000,
    b"- " * 8_000,
    b"---\nname: [\n---\n",
    b"> " * 3_000,
)
KINDS = ("file", "folder", "fifo", "link to itself", "link out", "link to zero", "deep", "large")

Thing = tuple[tuple[str, ...], str, bytes]

names = st.sampled_from(ODD_NAMES) | st.text(
    st.characters(codec="utf-8", exclude_characters="/\0"), min_size=1, max_size=20
)
things: st.SearchStrategy[list[Thing]] = st.lists(
    st.tuples(st.lists(names, min_size=1, max_size=4).map(tuple), st.sampled_from(KINDS), st.sampled_from(CONTENTS)),
    max_size=12,
)


def make_deep(top: Path, depth: int, leaf: str = "n.md", name: str = "d") -> None:
    """`depth` folders inside each other below `top`, with a file in the last one."""
    top.mkdir(parents=True, exist_ok=True)
    current = os.open(top, os.O_RDONLY)
    try:
        for _ in range(depth):
            os.mkdir(name, dir_fd=current)
            following = os.open(name, os.O_RDONLY, dir_fd=current)
            os.close(current)
            current = following
        os.close(os.open(leaf, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600, dir_fd=current))
    finally:
        os.close(current)


def make_things(top: Path, chosen: list[Thing]) -> None:
    """Put what hypothesis chose below `top`, as far as the disk takes it."""
    for parts, kind, content in chosen:
        path = top.joinpath(*parts)
        # A name that is taken, too long or "..": the next one then.
        with contextlib.suppress(OSError, ValueError):
            if top not in Path(os.path.normpath(path)).parents:
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            _make(path, kind, content)


def _make(path: Path, kind: str, content: bytes) -> None:
    match kind:
        case "folder":
            path.mkdir()
        case "fifo":
            os.mkfifo(path)
        case "link to itself":
            path.symlink_to(path.name)
        case "link out":
            path.symlink_to("/etc/passwd")
        case "link to zero":
            path.symlink_to("/dev/zero")
        case "deep":
            make_deep(path, 90)
        case "large":
            with path.open("xb") as stream:
                stream.truncate(30 * 1024**2)
        case _:
            # Never through what is there: that may be a pipe, or a link to a file of the system.
            with path.open("xb") as stream:
                stream.write(content)


def device(folder: Path, name: str) -> Path:
    """A path in `folder` that leads to the device `name` ("null", "full"). Root gets a node of its own: a program that
    replaces the device, which is what tests look for, would replace the one of the system."""
    path, original = folder / name, Path("/dev", name)
    if not original.is_char_device():
        pytest.skip(f"no device {original}")
    if os.geteuid() != 0:
        path.symlink_to(original)
        return path
    try:
        os.mknod(path, stat.S_IFCHR | 0o666, original.stat().st_rdev)
        os.close(os.open(path, os.O_WRONLY))
    except OSError as error:
        pytest.skip(f"no device of one's own here: {error}")
    return path


@contextlib.contextmanager
def removed(top: Path) -> Iterator[Path]:
    """A folder that is deleted in the end: what deletes pytest's folders is itself no match for a deep one."""
    top.mkdir(parents=True, exist_ok=True)
    try:
        yield top
    finally:
        subprocess.run(["rm", "-rf", "--", str(top)], check=True)
