"""Opening a model must not load what only a call needs: it stands before the first prompt."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = ("litellm", "httpx", "openai", "aiohttp", "pydantic", "tenacity", "tiktoken", "numpy", "textual")


@pytest.mark.parametrize("module", ["factory", "embedding"])
def test_what_opens_models_loads_nothing_heavy(module: str) -> None:
    program = f"import sys, clawbot.llm.{module}; print([name for name in {HEAVY!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
