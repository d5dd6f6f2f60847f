"""The object behind the fixture `scripted_llm`: one script, available in the test's process, over HTTP and as a file,
and checked at the end of the test."""

from __future__ import annotations

import asyncio
import json
import re
import threading
from collections.abc import AsyncGenerator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from clawbot.clock import Clock, SystemClock
from clawbot.llm.client import ClientOptions, RetryPolicy
from clawbot.llm.protocol import ChatRequest, ModelInfo, StreamPart
from clawbot.llm.scripted import ScriptEngine, load_script
from clawbot.llm.scripted.engine import ScriptModel
from clawbot.llm.scripted.server import serve_script


class ServerThread:
    """Serves `engine` at `url` on a free loopback port until `stop` is called."""

    def __init__(self, engine: ScriptEngine) -> None:
        self.url = ""
        self._engine = engine
        self._ready = threading.Event()
        self._stopped = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._failure: OSError | None = None
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), name="scripted-llm", daemon=True)
        self._thread.start()
        self._ready.wait()
        if self._failure is not None:
            raise self._failure

    def stop(self) -> None:
        """Stop serving and abort running replies. Returns when the port is free."""
        if self._loop is not None and self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stopped.set)
        self._thread.join()

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        try:
            async with serve_script(self._engine) as served:
                self.url = served.url
                self._ready.set()
                await self._stopped.wait()
        except OSError as error:
            self._failure = error
        finally:
            self._ready.set()


class ScriptedModel(ScriptModel):
    """Answers with the turns of `engine`, as `script:FILE` does, and without retries.

    A request that does not match the script raises ScriptMismatch. `requests` holds the requests in order.
    """

    def __init__(self, engine: ScriptEngine, *, clock: Clock | None = None) -> None:
        window = engine.script.window
        source = "from the script" if window else ""
        info = ModelInfo(f"script:{engine.script.path}", reason="scripted", window=window, window_source=source)
        super().__init__(engine, info, ClientOptions(clock or SystemClock(), RetryPolicy(attempts=1, loading=0.0)))
        self.requests: list[ChatRequest] = []

    def _attempt(self, request: ChatRequest) -> AsyncGenerator[StreamPart, None]:
        if request.purpose != "title":
            self.requests.append(request)
        return super()._attempt(request)


Turns = Sequence[Mapping[str, Any]]


class ScriptedLLM:
    """One script for a test, read from `path`. `model` and `serve()` share one engine and its turns.

    `ref` is played wherever the model is opened, possibly in another process; there, closing the model raises for unmet
    expectations and unused turns.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.engine = ScriptEngine(load_script(path))
        self.model = ScriptedModel(self.engine)
        self._named = False
        self._server: ServerThread | None = None

    @property
    def ref(self) -> str:
        """The model's name in settings: `script:FILE`."""
        self._named = True
        return f"script:{self.path}"

    @property
    def requests(self) -> list[dict[str, Any]]:
        """The requests to `model` and the server, as OpenAI chat requests, in order."""
        return self.engine.requests

    def serve(self) -> str:
        """Serve the script on loopback until the test ends. Returns the address for `api_base`."""
        if self._server is None:
            self._server = ServerThread(self.engine)
        return self._server.url

    def close(self) -> None:
        if self._server is not None:
            self._server.stop()
            self._server = None

    def problems(self) -> list[str]:
        """Mismatches and unused turns; empty for a script used only by its `ref`."""
        if self._named and not self.requests:
            return []
        return [problem.message for problem in self.engine.problems()]


# A file's name has no line break, and starts neither like a key nor like a list or mapping.
_TEXT = re.compile(r"\n|^\s*(?:[\"']?\w+[\"']?\s*:(?:\s|$)|-\s|[\[{])")


def scripted(source: str | Path | Turns, folder: Path) -> ScriptedLLM:
    """Make a script from turns, YAML text or a file; the first two are stored in `folder`."""
    if isinstance(source, Path) or (isinstance(source, str) and not _TEXT.search(source)):
        return ScriptedLLM(Path(source).resolve())
    path = folder / f"script-{len(list(folder.glob('script-*.yaml'))) + 1}.yaml"
    path.write_text(source if isinstance(source, str) else _as_yaml(source), encoding="utf-8")
    return ScriptedLLM(path)


def _as_yaml(turns: Turns) -> str:
    plain = json.loads(json.dumps({"turns": list(turns)}))
    return yaml.safe_dump(plain, sort_keys=False, allow_unicode=True, width=float("inf"))
