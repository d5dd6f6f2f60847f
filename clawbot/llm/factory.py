"""Opens a model by its name in the settings: clawbot's own kinds, those of installed packages, all others
with litellm. A list of models is one model: when one fails in a way that another may not, the next one answers."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from clawbot.clock import Clock
from clawbot.config.keys import KeyMap
from clawbot.config.paths import Paths, find_home
from clawbot.entry_points import BrokenExtension, installed
from clawbot.errors import ClawbotError
from clawbot.llm.client import LiteLLMModel, Target, client_options, target_for
from clawbot.llm.errors import AuthenticationError, ContextOverflowError, ModelError, RefusedError, UnreachableError
from clawbot.llm.failures import loading_error
from clawbot.llm.models import (
    AUTO,
    CHOSEN,
    LOADS,
    OFFLINE,
    SCRIPT,
    UsableModel,
    capped,
    describe,
    describe_local,
    is_own,
    look_up,
    may_name_provider,
    missing_key,
    normal_ref,
    resolve_auto,
)
from clawbot.llm.offline import OfflineModel, ProgramFacts
from clawbot.llm.protocol import (
    ChatModel,
    ChatRequest,
    DetectedServer,
    FallbackPart,
    LoadingPart,
    ModelInfo,
    ReadingPart,
    RetryPart,
    StreamPart,
    TextPart,
    ToolCallPart,
    WaitingModel,
)
from clawbot.llm.providers import LLAMA_CPP, OLLAMA, is_known, is_vendors_own, local_server, title_of
from clawbot.llm.scripted import ScriptEngine, load_script
from clawbot.llm.scripted.engine import ScriptModel
from clawbot.llm.servers import LocalModel, ServerConsent
from clawbot.local_model.process import acquire_process, release_process
from clawbot.local_model.register import Running
from clawbot.local_model.store import LOCAL
from clawbot.text.interface import _

if TYPE_CHECKING:
    from clawbot.config.schema_agent import AgentSettings


GROUP = "clawbot.models"
"""Entry points of packages that bring models: the name is the part before the slash of `name/model`, the value a
function that is given the rest and the settings (`AgentSettings`), and returns a `ChatModel`."""
RETURN_SECONDS = 300.0
"""How long a fallback remains the current model; then the first one is tried again."""
_OTHER_MODEL = "Mend or remove the package, or choose another model with /model; the log says more."
_logger = logging.getLogger(__name__)


class FallbackModel:
    """Answers with the first of `models` that can.

    On anything but an overflow (compaction's to solve) and a refusal (another model would be asked for what the first
    one declined) the next model is asked, and a FallbackPart reports it: with `discard` when text of the failed one
    was already shown. One without its key (`missing` returns the variable for a ref) is skipped. `models` must not be
    empty; they are closed together.
    """

    def __init__(
        self, models: Sequence[ChatModel], clock: Clock, missing: Callable[[str], str] = lambda ref: ""
    ) -> None:
        self._models = list(models)
        self._clock = clock
        self._missing = missing
        self._current = 0
        self._changed_at = 0.0

    @property
    def info(self) -> ModelInfo:
        return self._models[self._current].info

    async def warm(self) -> None:
        await self._models[self._current].warm()

    async def stream(self, request: ChatRequest) -> AsyncGenerator[StreamPart, None]:
        """Answer `request`. Raises the last model's error, which names the others. Reading ahead never switches the
        model: others may cost something."""
        failures: list[ModelError] = []
        ahead = request.purpose == "ahead"
        if not ahead and self._current and self._clock.monotonic() - self._changed_at >= RETURN_SECONDS:
            self._current = 0
            yield FallbackPart(self.info.ref, "it is tried again")
        while True:
            shown = False
            try:
                async with aclosing(self._models[self._current].stream(request)) as parts:
                    async for part in parts:
                        shown = shown or isinstance(part, TextPart | ToolCallPart)
                        yield part
                return
            except ModelError as error:
                reason = str(error)
                failures.append(error)
                if ahead or not self._advance(error, failures):
                    _name_all(error, failures)
                    raise
            yield FallbackPart(self.info.ref, reason, discard=shown)

    def _advance(self, error: ModelError, failures: list[ModelError]) -> bool:
        """Switch to the next model, adding those without a key to `failures`; False if there is none, or `error`
        forbids it."""
        if isinstance(error, ContextOverflowError | RefusedError):
            return False
        failed = self.info.ref
        for at in range(self._current + 1, len(self._models)):
            ref = self._models[at].info.ref
            if key := self._missing(ref):
                what = _("{key} is not set.").format(key=key)
                failures.append(AuthenticationError(what, provider=title_of(ref)))
                continue
            self._current = at
            _logger.warning("%s failed (%s), %s goes on", failed, error.kind, ref)
            self._changed_at = self._clock.monotonic()
            return True
        # All have failed: the next call begins at the first one again, instead of keeping the last.
        self._changed_at = float("-inf")
        return False

    async def wait_ready(self) -> AsyncGenerator[LoadingPart, None]:
        if isinstance(model := self._models[self._current], WaitingModel):
            async with aclosing(model.wait_ready()) as parts:
                async for part in parts:
                    yield part

    async def aclose(self) -> None:
        """Close all models; raises the first error."""
        results = await asyncio.gather(*(model.aclose() for model in self._models), return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                raise result


def _name_all(error: ModelError, failures: Sequence[ModelError]) -> None:
    """Make `error` name all `failures` in their order."""
    if len(failures) > 1 and not isinstance(error, ContextOverflowError):
        named = [f"{each.provider}: {each.message}" if each.provider else each.message for each in failures]
        named[0], error.provider = failures[0].message, failures[0].provider
        error.message = _("; then ").join([*(text.rstrip(".。") for text in named[:-1]), named[-1]])


class PackageError(RefusedError):
    """The model of an installed package can't be used."""


class _BrokenModel:
    """A fallback whose package can't be used: the next model answers and reports why."""

    def __init__(self, ref: str, error: PackageError) -> None:
        self.info = ModelInfo(ref, reason=error.message)
        self._error = UnreachableError(error.message, provider=error.provider, hint=error.hint)

    async def stream(self, request: ChatRequest) -> AsyncGenerator[StreamPart, None]:
        raise self._error
        yield  # makes it a generator

    async def warm(self) -> None: ...

    async def aclose(self) -> None: ...


async def open_model(
    ref: str,
    settings: AgentSettings,
    *,
    clock: Clock,
    log_path: Path | None = None,
    consent: ServerConsent | None = None,
    keys: KeyMap | None = None,
    checked: bool = False,
) -> ChatModel:
    """The model `ref` (`auto`, `offline`, `provider/model`, `script:FILE`), with the fallbacks of the settings.

    Nothing heavy is loaded by it; `warm` or the first call do that. `log_path` is named by errors of the worker
    process. A server that `auto` finds on this machine and `consent` does not cover does not answer: the offline model
    does, whose `info.found` names it; without `consent` all are used. The offline model names
    the user's `keys`.

    Raises RefusedError for a name that is none, also for a provider that litellm does not know if `checked`;
    ScriptFileError for a script that cannot be read.
    """
    opener = _Opener(settings, clock, log_path, consent, keys or KeyMap())
    opener.checked = checked
    models: list[ChatModel] = []
    try:
        for name in (ref, *settings.fallbacks):
            try:
                models.append(await opener.open(name))
            except PackageError as error:
                if not settings.fallbacks:
                    raise
                models.append(_BrokenModel(name, error))
    except BaseException:
        await asyncio.gather(*(model.aclose() for model in models), return_exceptions=True)
        raise
    if isinstance(models[0], ServedModel):
        models[0].begin()
    if len(models) == 1:
        return models[0]
    return FallbackModel(models, clock, lambda ref: missing_key(ref, settings))


class _Opener:
    """Opens models with the same settings; if `checked`, only of providers that litellm may know."""

    def __init__(
        self, settings: AgentSettings, clock: Clock, log_path: Path | None, consent: ServerConsent | None, keys: KeyMap
    ) -> None:
        self._settings = settings
        self._facts = ProgramFacts(find_home(), settings.workspace, keys)
        self._clock = clock
        self._consent = consent
        self.checked = False
        self._options = client_options(settings, clock, log_path)

    async def open(self, ref: str) -> ChatModel:
        if ref.startswith(SCRIPT):
            return await self._script(ref.removeprefix(SCRIPT))
        if (packaged := await self._packaged(ref)) is not None:
            return packaged
        if ref == OFFLINE or ref.startswith(LOCAL):
            found = UsableModel(ModelInfo(ref, reason=_(CHOSEN) if ref != OFFLINE else ""))
        elif ref == AUTO:
            found = await resolve_auto(self._settings)
            server, consent = found.local, self._consent
            if server and consent and not await asyncio.to_thread(consent.covers, server):
                return self._waiting(found.info.ref, server)
        else:
            full = self._full_ref(ref)
            if self.checked and not await asyncio.to_thread(may_name_provider, full):
                raise RefusedError(_("litellm knows no provider of that name ({ref}).").format(ref=ref))
            found = await describe(full, self._settings)
        if found.info.ref == OFFLINE:
            return OfflineModel(self._clock, reason=found.info.reason, facts=self._facts)
        if found.info.ref.startswith(LOCAL):
            return await self._served(found.info.ref, found.info.reason)
        return await self._litellm(found)

    def _waiting(self, ref: str, server: LocalModel) -> OfflineModel:
        """Return the model that answers until the user has allowed `server`."""
        reason = f"{server.server} answers at {server.base}; before it hears anything you are asked"
        found = DetectedServer(ref, server.server, server.base)
        return OfflineModel(self._clock, reason=reason, found=found, facts=self._facts)

    async def _packaged(self, ref: str) -> ChatModel | None:
        """Return the model of an installed package; names of the tables are never replaced, since keys would go
        elsewhere. Raises PackageError."""
        name, _, model = ref.partition("/")
        if not model or is_known(name):
            return None
        offered = await asyncio.to_thread(installed, GROUP)
        extension = next((each for each in offered if each.name == name), None)
        if extension is None:
            return None
        make = await asyncio.to_thread(extension.load)
        made = make if isinstance(make, BrokenExtension) else extension.use(lambda _: make(model, self._settings))
        if isinstance(made, BrokenExtension):
            raise PackageError(f"{made.problem}.", provider=name, hint=_OTHER_MODEL)
        if not isinstance(made, ChatModel):
            what = f"{extension.point.value} of the package {extension.distribution} made no model"
            lacking = ", ".join(name for name in ("info", "stream", "warm", "aclose") if not hasattr(made, name))
            raise PackageError(f"{what}: {type(made).__name__}. It lacks: {lacking}.", provider=name, hint=_OTHER_MODEL)
        return made

    def _full_ref(self, ref: str) -> str:
        if "/" in ref.strip("/"):
            return ref
        if self._settings.api_base and ref:
            return f"openai/{ref}"
        raise RefusedError(
            f"`{ref}` is no model.",
            hint="Write auto, offline, provider/model (openai/gpt-6.1-sol, ollama_chat/qwen3) or script:FILE.yaml.",
        )

    async def _litellm(self, found: UsableModel) -> LiteLLMModel:
        target = self._target(found)
        facts = (await asyncio.to_thread(look_up, [target.ref]))[target.ref]

        async def ask() -> tuple[Target, ModelInfo]:
            again = await describe(found.info.ref, self._settings, reason=found.info.reason.removesuffix(_(LOADS)))
            if again.state == "loading":
                raise loading_error(target.answerer)
            return self._target(again), again.info

        asked = None if is_vendors_own(target.ref, target.base) else ask
        ready = found.state == "ready"
        return LiteLLMModel(target, found.info, self._options, prices=facts.prices, ask=asked, ready=ready)

    async def _served(self, ref: str, reason: str) -> ServedModel:
        """Raises RefusedError when there is no such file."""
        paths = Paths(find_home())
        try:
            file, info = await asyncio.to_thread(describe_local, ref, self._settings, paths, reason)
        except ClawbotError as error:
            raise RefusedError(error.message, hint=error.hint) from error

        # Its process knows when it has loaded.
        options = replace(self._options, policy=replace(self._options.policy, loading=0.0))

        def connect(server: Running) -> LiteLLMModel:
            name = f"{LLAMA_CPP.name}/{server.name}"
            return LiteLLMModel(Target(ref, name, base=server.base, key=server.key), info, options)

        return ServedModel(paths, file, info, connect)

    def _target(self, found: UsableModel) -> Target:
        ref = found.info.ref
        model = normal_ref(ref)
        server = local_server(model)
        own = self._settings if is_own(ref, self._settings) else None
        base = own.api_base if own else None
        if base is None and server is not None:
            base = found.local.base if found.local else server.base
        sized = {"num_ctx": found.info.window} if server is OLLAMA and found.info.window else {}
        secret, key_env = (own.api_key, own.api_key_env) if own else (None, None)
        target = target_for(ref, model, base=base, secret=secret, key_env=key_env)
        named = {"temperature": self._settings.temperature, "reasoning_effort": self._settings.reasoning_effort}
        wishes = {name: value for name, value in named.items() if value is not None}
        return replace(target, options={**sized, **wishes, **self._settings.options})

    async def _script(self, name: str) -> ScriptModel:
        script = await asyncio.to_thread(lambda: load_script(Path(name).expanduser().absolute()))
        window, source = capped(script.window, "from the script", self._settings)
        info = ModelInfo(f"{SCRIPT}{name}", reason=_(CHOSEN), window=window, supports_images=True, window_source=source)
        return ScriptModel(ScriptEngine(script), info, self._options)


TITLE = "The local model"
SHOWN_AFTER = 0.3
"""Seconds before a LoadingPart is shown: a running server is found at once."""


class ServedModel:
    """The model in `file`. `connect` returns the client of a running server of it."""

    def __init__(self, paths: Paths, file: Path, info: ModelInfo, connect: Callable[[Running], LiteLLMModel]) -> None:
        self.info = info
        self._file = file
        self._connect = connect
        self._process = acquire_process(paths, file)
        self._server: Running | None = None
        self._model: LiteLLMModel | None = None

    def begin(self) -> None:
        self._process.begin()

    async def warm(self) -> None:
        self.begin()

    async def stream(self, request: ChatRequest) -> AsyncGenerator[StreamPart, None]:
        """Answer `request` after the server has loaded the model. Raises ModelError.

        A server that can't be reached is revived once: it may have died, or ended with the chat that started it.
        """
        wanted = self._process.endpoint()
        for last in (False, True):
            found = asyncio.create_task(self._found(wanted))
            async with aclosing(self._shown(found)) as loading:
                async for each in loading:
                    yield each
            server, answered = await found, False
            try:
                async with aclosing((await self._client_of(server)).stream(request)) as parts:
                    async for part in parts:
                        answered = answered or not isinstance(part, RetryPart | ReadingPart)
                        yield part
                return
            except UnreachableError as error:
                if answered or last:
                    raise
                wanted = self._revived(server, error)

    async def _shown(self, found: asyncio.Task[Any]) -> AsyncGenerator[StreamPart, None]:
        """Yield a LoadingPart until `found` is done. Closing this cancels `found`."""
        try:
            await asyncio.wait([found], timeout=SHOWN_AFTER)
            if not found.done():
                yield LoadingPart(self._file.stem)
                await asyncio.wait([found])
                yield LoadingPart(self._file.stem, done=True)
        finally:
            found.cancel()

    async def _revived(self, server: Running, refusal: UnreachableError) -> Running:
        revived = await self._process.revived(server, refused=refusal.dead)
        if revived is None:
            raise refusal
        return revived

    async def _found(self, wanted: Coroutine[Any, Any, Running]) -> Running:
        """Await a server. Raises UnreachableError with the reason."""
        try:
            return await wanted
        except ModelError:
            raise
        except ClawbotError as error:
            raise UnreachableError(error.message, provider=TITLE, hint=error.hint) from error
        except OSError as error:
            where = error.filename or self._file
            raise UnreachableError(f"{where}: {error.strerror or error}.", provider=TITLE) from error

    async def _client_of(self, server: Running) -> LiteLLMModel:
        """Return the client of `server`, whose address and key may differ from the last one's."""
        if self._model is None or server != self._server:
            # Before the old one goes: the last to leave ends the process in which litellm is loaded.
            old, self._model, self._server = self._model, self._connect(server), server
            if old is not None:
                await old.aclose()
        return self._model

    async def aclose(self) -> None:
        model, self._model = self._model, None
        try:
            if model is not None:
                await model.aclose()
        finally:
            await release_process(self._file)
