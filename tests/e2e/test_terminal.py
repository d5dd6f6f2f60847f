"""What the tests' terminal says when a program ends as it should not."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.e2e.terminal import Terminal

pytestmark = pytest.mark.e2e


@pytest.mark.smoke
def test_a_wrong_exit_code_comes_with_the_output_and_the_log(tmp_path: Path) -> None:
    log = tmp_path / "clawbot.log"
    log.write_text("the cause\n", encoding="utf-8")
    argv = [sys.executable, "-c", "print('last words'); raise SystemExit(3)"]
    with (
        Terminal(argv, env={"PATH": os.environ["PATH"]}, cwd=tmp_path, log=log) as terminal,
        pytest.raises(AssertionError, match=r"(?s)ended with 3, not 0.*last words.*the cause"),
    ):
        terminal.wait_end()
    with Terminal(argv, env={"PATH": os.environ["PATH"]}, cwd=tmp_path) as terminal:
        assert terminal.wait_end(3) == 3
