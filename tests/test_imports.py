"""What the program loads when: the quick commands stay quick because they import little."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = {"litellm", "textual", "apsw", "numpy", "tiktoken", "aiohttp", "httpx", "apscheduler", "pydantic", "yaml"}


def loaded_by(code: str) -> set[str]:
    """The top-level modules that are loaded after `code` ran in a fresh interpreter."""
    report = "import sys; print(' '.join({name.partition('.')[0] for name in sys.modules}), file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", f"{code}\n{report}"], capture_output=True, text=True, check=True)
    return set(done.stderr.split())


def test_version_loads_nothing_heavy() -> None:
    code = "from clawbot.cli.main import root; root.main(['--version'], standalone_mode=False)"
    loaded = loaded_by(code)
    assert "click" in loaded
    assert loaded & HEAVY == set()


def test_the_screen_is_painted_with_textual_and_little_else() -> None:
    loaded = loaded_by("import clawbot.cli.chat, clawbot.tui.app")
    assert "textual" in loaded
    assert loaded & (HEAVY - {"textual"}) == set()


@pytest.mark.parametrize("module", ["clawbot.runtime", "clawbot.llm.factory"])
def test_the_runtime_never_loads_litellm_into_this_process(module: str) -> None:
    assert loaded_by(f"import {module}") & {"litellm", "textual", "numpy", "apsw"} == set()
