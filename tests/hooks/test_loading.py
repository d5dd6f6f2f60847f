"""A hook's code is a package of its own, and leaves nothing behind when it is loaded anew."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from clawbot.hooks.loading import HandlerError, Loaded, stamp
from tests.hooks.stage import write_handler


def own_modules() -> set[str]:
    return {name for name in sys.modules if name.startswith("_clawbot_hook_")}


def test_siblings_are_the_hooks_own_and_are_forgotten_with_it(tmp_path: Path) -> None:
    before = own_modules()
    loaded = []
    for name in ("一", "二"):
        folder = tmp_path / name
        folder.mkdir()
        folder.joinpath("words.py").write_text(f"WORD = {name!r}\n", encoding="utf-8")
        write_handler(folder, "from .words import WORD\nasync def handle(event): return WORD\n")
        loaded.append(Loaded(folder))
    assert [each.handle.__globals__["WORD"] for each in loaded] == ["一", "二"]
    assert len(own_modules() - before) == 4
    for each in loaded:
        each.forget()
    assert own_modules() == before
    assert not list(tmp_path.rglob("__pycache__"))


@pytest.mark.parametrize("code", ["raise SystemExit", "def handle(event): pass", "from . import absent", "("])
def test_what_cannot_be_loaded_leaves_nothing_behind(tmp_path: Path, code: str) -> None:
    before = own_modules()
    write_handler(tmp_path, code)
    with pytest.raises((SystemExit, HandlerError, ImportError, SyntaxError)):
        Loaded(tmp_path)
    assert own_modules() == before


def test_a_file_that_is_gone_has_an_empty_stamp(tmp_path: Path) -> None:
    assert stamp([tmp_path / "gone"]) == {tmp_path / "gone": None}
