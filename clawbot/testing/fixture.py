"""The object behind the fixture `scripted_llm`: one script, available in the test's process, over HTTP and as a file,
and checked at the end of the test."""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
from collections.abc import AsyncGenerator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from clawbot.clock import Clock, SystemClock, epoch_ms
from clawbot.llm.collect import DeltaCollector
from clawbot.llm.errors import ModelError
from clawbot.llm.failures import Failure, to_error
from clawbot.llm.protocol import ChatRequest, ModelInfo, StreamPart
from clawbot.llm.scripted import ScriptedFault, ScriptEngine, load_script
from clawbot.llm.scripted.server import serve_script
from clawbot.llm.wire import to_openai


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


PROVIDER = "script"


class ScriptedModel:
    """Answers with the turns of `engine`, with the request encoding and stream collection of a real model.

    Scripted faults are raised as the `llm.errors` of a real provider, without retries. A request that does not match
    the script raises ScriptMismatch. `requests` holds the requests in order.
    """

    def __init__(self, engine: ScriptEngine, *, clock: Clock | None = None) -> None:
        self.engine = engine
        self.requests: list[ChatRequest] = []
        self._clock = clock or SystemClock()
        self._ref = f"{PROVIDER}:{engine.script.path}"

    @property
    def info(self) -> ModelInfo:
        """The script's file, model name and window."""
        window = self.engine.script.window
        source = "from the script" if window else ""
        return ModelInfo(ref=self._ref, reason="scripted", window=window, window_source=source)

    async def stream(self, request: ChatRequest) -> AsyncGenerator[StreamPart, None]:
        """Answer `request` with the next turn of the script. Raises ScriptMismatch and the scripted errors."""
        self.requests.append(request)
        model = self.engine.script.model
        collector = DeltaCollector(provider=PROVIDER, model=model, timestamp=epoch_ms(self._clock.now()))
        body = {"model": model, **to_openai(request)}
        shown = False
        async with contextlib.aclosing(self.engine.reply(body)) as chunks:
            try:
                async for chunk in chunks:
                    for part in collector.feed(chunk):
                        shown = True
                        yield part
            except ScriptedFault as fault:
                raise self._error(fault, streaming=shown) from fault
        for last in collector.finish():
            yield last

    async def warm(self) -> None:
        """Nothing needs to be loaded."""

    async def aclose(self) -> None:
        """Raise ScriptMismatch or ScriptUnused if the script was not followed to its end."""
        self.engine.finish()

    def _error(self, fault: ScriptedFault, *, streaming: bool) -> ModelError:
        failure = Failure(
            name="APIConnectionError" if fault.kind == "drop" else "",
            message=fault.message,
            status=fault.status,
            retry_after=fault.headers.get("Retry-After", ""),
            streaming=streaming,
        )
        return to_error(failure, ref=f"{PROVIDER}/{self.engine.script.model}", now=self._clock.now())


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


def scripted(source: str | Path | Turns, folder: Path) -> ScriptedLLM:
    """Make a script from turns, multi-line YAML text or a file; the first two are stored in `folder`."""
    if isinstance(source, Path) or (isinstance(source, str) and "\n" not in source):
        return ScriptedLLM(Path(source).resolve())
    path = folder / f"script-{len(list(folder.glob('script-*.yaml'))) + 1}.yaml"
    path.write_text(source if isinstance(source, str) else _as_yaml(source), encoding="utf-8")
    return ScriptedLLM(path)


def _as_yaml(turns: Turns) -> str:
    plain = json.loads(json.dumps({"turns": list(turns)}))
    return yaml.safe_dump(plain, sort_keys=False, allow_unicode=True, width=float("inf"))
