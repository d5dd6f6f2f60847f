"""Opening models by name: where they are called, and with whose key."""

from __future__ import annotations

import subprocess
import sys
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from clawbot.clock import SystemClock
from clawbot.config.schema_agent import AgentSettings
from clawbot.errors import ClawbotError
from clawbot.llm import factory, models
from clawbot.llm.client import NO_KEY, LiteLLMModel
from clawbot.llm.errors import RefusedError
from clawbot.llm.factory import FallbackModel, open_model
from clawbot.llm.offline import OfflineModel
from clawbot.llm.process import acquire_worker, release_worker
from clawbot.llm.protocol import (
    ChatModel,
    ChatRequest,
    DetectedServer,
    FallbackPart,
    FinalPart,
    ModelInfo,
    RetryPart,
    TextPart,
)
from clawbot.llm.scripted import ScriptUnused
from clawbot.llm.servers import LocalModel, ServerConsent
from clawbot.llm.wire import rules_for
from clawbot.messages import UserMessage
from tests.llm.cases import read_cases
from tests.packages import install
from tests.tables import load_table

CASES = read_cases("factory")


@pytest.fixture(autouse=True)
def one_server(monkeypatch: pytest.MonkeyPatch) -> None:
    async def servers(wanted: Any = (), base: str | None = None, key: str | None = None) -> list[LocalModel]:
        return [LocalModel("ollama_chat/qwen3", "Ollama", base or "http://127.0.0.1:11434", window=32768)]

    monkeypatch.setattr(models, "find_local", servers)


async def opened(ref: str, **settings: Any) -> ChatModel:
    return await open_model(ref, AgentSettings(**settings), clock=SystemClock())


async def arguments(ref: str, **settings: Any) -> dict[str, Any]:
    """Where a call of `ref` would go: litellm's arguments."""
    model = await opened(ref, **settings)
    assert isinstance(model, LiteLLMModel)
    found = model._target.arguments()
    await model.aclose()
    return found


async def test_a_provider_with_its_usual_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "usual-key")
    monkeypatch.setenv("MY_KEY", "named-key")
    ref = "anthropic/claude-sonnet-5-5"
    assert await arguments(ref) == {"model": ref, "api_key": "usual-key"}
    assert (await arguments(ref, model=ref, api_key_env="MY_KEY"))["api_key"] == "named-key"
    assert (await arguments(ref, model=ref, api_key="given-key"))["api_key"] == "given-key"


async def test_a_key_that_is_set_later_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    model = await opened("openai/m")
    assert isinstance(model, LiteLLMModel)
    assert "api_key" not in model._target.arguments()
    monkeypatch.setenv("OPENAI_API_KEY", "new-key-of-the-user")
    assert model._target.arguments()["api_key"] == "new-key-of-the-user"
    await model.aclose()


async def test_the_address_and_key_of_the_settings_are_not_for_other_providers() -> None:
    settings = {"model": "openai/mine", "api_base": "http://10.0.0.5/v1", "api_key": "key-for-mine"}
    assert await arguments("openai/mine", **settings) == {
        "model": "openai/mine",
        "api_base": "http://10.0.0.5/v1",
        "api_key": "key-for-mine",
    }
    assert await arguments("deepseek/x", **settings) == {"model": "deepseek/x"}


async def test_a_server_on_this_machine_gets_no_key_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "real-key-of-openai")
    found = await arguments("mine", model="openai/mine", api_base="http://127.0.0.1:9/v1")
    assert found == {"model": "openai/mine", "api_base": "http://127.0.0.1:9/v1", "api_key": "not-needed"}
    monkeypatch.setenv("MY_KEY", "named-key")
    found = await arguments("mine", model="openai/mine", api_base="http://127.0.0.1:9/v1", api_key_env="MY_KEY")
    assert found["api_key"] == "named-key"


@pytest.mark.parametrize("ref", ["ollama/qwen3", "ollama_chat/qwen3"])
async def test_ollama_is_called_so_that_tools_work_and_with_its_window(ref: str) -> None:
    found = await arguments(ref)
    assert found["model"] == "ollama_chat/qwen3"
    assert found["num_ctx"] == 32768
    assert found["api_base"] == "http://127.0.0.1:11434"
    elsewhere = await arguments(ref, model=ref, api_base="http://10.0.0.5:11434")
    assert elsewhere["api_base"] == "http://10.0.0.5:11434"
    assert (await arguments(ref, context_tokens=8000))["num_ctx"] == 8000


async def test_offline_and_auto_without_anything(monkeypatch: pytest.MonkeyPatch) -> None:
    assert (await opened("offline")).info.ref == "offline"
    assert (await opened("auto")).info.ref == "ollama_chat/qwen3"

    async def nothing(*_: object) -> list[LocalModel]:
        return []

    monkeypatch.setattr(models, "find_local", nothing)
    info = (await opened("auto")).info
    assert info.ref == "offline"
    assert "no key was found" in info.reason


async def test_a_server_that_was_found_by_itself_waits_for_the_users_word(tmp_path: Path) -> None:
    consent = ServerConsent(tmp_path / "servers.json")
    settings = AgentSettings.model_validate({"model": "auto"})

    async def opened_with_consent(ref: str) -> ModelInfo:
        model = await open_model(ref, settings, clock=SystemClock(), consent=consent)
        await model.aclose()
        return model.info

    info = await opened_with_consent("auto")
    assert info.ref == "offline"
    assert info.found == DetectedServer("ollama_chat/qwen3", "Ollama", "http://127.0.0.1:11434")
    assert (await opened_with_consent("ollama_chat/qwen3")).ref == "ollama_chat/qwen3"
    consent.allow("http://127.0.0.1:11434", always=False)
    assert (await opened_with_consent("auto")).ref == "ollama_chat/qwen3"


async def test_a_server_that_comes_later_is_asked_for_the_window_that_it_is_called_with(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found: list[LocalModel] = []

    async def there(*_: object) -> list[LocalModel]:
        return found

    monkeypatch.setattr(models, "find_local", there)
    model = await opened("ollama_chat/qwen3")
    assert isinstance(model, LiteLLMModel)
    assert model.info.window is None
    assert "num_ctx" not in model._target.arguments()
    found.append(LocalModel("ollama_chat/qwen3", "Ollama", "http://127.0.0.1:11434", window=32768))
    assert model._again is not None
    target, info = await model._again()
    assert (info.window, target.arguments()["num_ctx"]) == (32768, 32768)
    await model.aclose()


async def test_fallbacks() -> None:
    model = await opened("openai/m", fallbacks=["anthropic/x", "offline"])
    assert isinstance(model, FallbackModel)
    assert model.info.ref == "openai/m"
    await model.aclose()
    with pytest.raises(ClawbotError):
        await opened("openai/m", fallbacks=["script:no-such-file.yaml"])


@pytest.mark.parametrize(("ref", "settings", "environ", "missing"), CASES["the_key_that_a_model_misses"])
def test_the_key_that_a_model_misses(ref: str, settings: dict[str, Any], environ: dict[str, str], missing: str) -> None:
    read = AgentSettings.model_validate({**settings, "fallbacks": [ref]})
    assert models.missing_key(ref, read, environ) == missing
    assert [missing in text and ref in text for text in models.skipped_fallbacks(read, environ)] == [True] * bool(
        missing
    )


async def test_a_fallback_without_its_key_is_never_called(monkeypatch: pytest.MonkeyPatch) -> None:
    """But one whose key was entered since is."""
    settings = {"api_base": "http://127.0.0.1:9/v1", "model": "openai/m", "retries": {"attempts": 1}}
    model = await opened("openai/m", fallbacks=["anthropic/x", "offline"], **settings)
    request = ChatRequest("", (UserMessage("hello"),))
    changed = [part.model async for part in model.stream(request) if isinstance(part, FallbackPart)]
    assert changed == ["offline"]
    await model.aclose()
    monkeypatch.setenv("ANTHROPIC_API_KEY", "k")
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
    model = await opened("openai/m", fallbacks=["anthropic/x", "offline"], **settings)
    changed = [part.model async for part in model.stream(request) if isinstance(part, FallbackPart)]
    assert changed == ["anthropic/x", "offline"]
    await model.aclose()


async def test_a_fallback_that_cannot_be_opened_leaves_no_other_model_open() -> None:
    """Else the worker process would be kept for a model that nobody has."""
    before = acquire_worker()
    with pytest.raises(ClawbotError):
        await opened("openai/m", fallbacks=["anthropic/x", "script:no-such-file.yaml"])
    assert before.users == 1
    await release_worker(before)


@pytest.mark.parametrize("ref", ["gpt", "/gpt", "gpt/", ""])
async def test_what_is_no_name_of_a_model(ref: str) -> None:
    with pytest.raises(RefusedError, match="is no model"):
        await factory.open_model(ref, AgentSettings(), clock=SystemClock())


async def test_a_fault_of_a_script_is_retried_as_the_settings_say_and_loads_no_litellm(tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    path.write_text("turns:\n  - reply: {fault: 500}\n  - reply: {text: x}\n")
    model = await opened(f"script:{path}", retries={"attempts": 2, "first_wait": 0.001})
    await model.warm()
    parts = [part async for part in model.stream(ChatRequest("", (UserMessage("hello"),)))]
    assert [type(part) for part in parts] == [RetryPart, TextPart, FinalPart]
    await model.aclose()
    worker = acquire_worker()
    assert (worker.users, worker.pid) == (1, None)
    await release_worker(worker)


async def test_a_script_that_was_never_asked_fails_at_the_end_without_starting_anything(tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    path.write_text("window: 5000\nturns:\n  - reply: {text: x}\n")
    model = await opened(f"script:{path}", context_tokens=4000)
    assert model.info.window == 4000
    with pytest.raises(ScriptUnused):
        await model.aclose()


@pytest.mark.parametrize(
    ("variable", "ref"),
    [("OPENAI_BASE_URL", "openai/m"), ("ANTHROPIC_BASE_URL", "anthropic/m"), ("GROQ_API_BASE", "groq/m")],
)
async def test_the_address_of_the_environment_is_no_vendors_own(
    variable: str, ref: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """litellm goes there by itself, so the rules, the names in messages and the key are those of a foreign address."""
    monkeypatch.setenv(variable, "http://127.0.0.1:9/v1")
    monkeypatch.setenv("OPENAI_API_KEY", "key-of-the-gateway")
    model = await opened(ref)
    assert isinstance(model, LiteLLMModel)
    target = model._target
    assert (target.base, target.answerer) == ("http://127.0.0.1:9/v1", "127.0.0.1:9")
    assert rules_for(target.ref, target.base).merge_answers
    assert target.arguments()["api_key"] == ("key-of-the-gateway" if ref == "openai/m" else NO_KEY)
    await model.aclose()
    assert (await arguments(ref, model=ref, api_base="http://other.example/v1"))[
        "api_base"
    ] == "http://other.example/v1"


PACKAGE = """
from clawbot.llm.offline import OfflineModel
from clawbot.clock import SystemClock
def make(model, settings):
    return OfflineModel(SystemClock(), reason=f"{model} of {settings.model}")
def refuse(model, settings):
    raise ValueError("no licence")
NOTHING = lambda model, settings: 7
class Half:
    info = None
    def stream(self, request): pass
half = lambda model, settings: Half()
"""


async def test_a_package_brings_models_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(
        tmp_path, "acme_models", "[clawbot.models]\nacme = acme_models:make\nopenai = acme_models:refuse\n", PACKAGE
    )
    monkeypatch.syspath_prepend(tmp_path)
    model = await opened("acme/large/v2", model="acme/small")
    assert (type(model), model.info.reason) == (OfflineModel, "large/v2 of acme/small")
    # Nobody takes the place of a provider that is known, nor that of its key.
    assert isinstance(await opened("openai/m"), LiteLLMModel)
    mixed = await opened("acme/large", fallbacks=["offline"])
    assert isinstance(mixed, FallbackModel)


@pytest.mark.parametrize(
    ("point", "problem"),
    load_table(__file__, "a_package_that_is_broken_is_named_and_hurts_no_other_model"),
)
async def test_a_package_that_is_broken_is_named_and_hurts_no_other_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, point: str, problem: str
) -> None:
    install(tmp_path, "acme_broken", f"[clawbot.models]\nbroken = {point}\n", PACKAGE)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(RefusedError) as caught:
        await opened("broken/large")
    assert problem in str(caught.value)
    assert "/model" in caught.value.hint
    assert isinstance(await opened("offline"), OfflineModel)
    for ref, fallback in (("broken/large", "offline"), ("offline", "broken/large")):
        model = await opened(ref, fallbacks=[fallback])
        async with aclosing(model.stream(ChatRequest("", (UserMessage("hello"),)))) as stream:
            parts = [part async for part in stream]
        assert isinstance(parts[-1], FinalPart)
        reasons = [part.reason for part in parts if isinstance(part, FallbackPart)]
        assert [problem in reason for reason in reasons] == ([True] if fallback == "offline" else [])


HEAVY = ("litellm", "httpx", "openai", "aiohttp", "pydantic", "tenacity", "tiktoken", "numpy", "textual", "mcp", "apsw")


@pytest.mark.parametrize("module", ["factory", "embedding"])
def test_what_opens_models_loads_nothing_heavy(module: str) -> None:
    program = f"import sys, clawbot.llm.{module}; print([name for name in {HEAVY!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
