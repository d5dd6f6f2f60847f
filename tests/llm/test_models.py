"""Which models are found here: keys, servers on this machine (small fakes of them), windows and prices."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web

from clawbot.config.schema_agent import AgentSettings
from clawbot.llm import models
from clawbot.llm.models import NOTHING_FOUND, describe, find_models, look_up, may_name_provider, resolve_auto
from clawbot.llm.providers import LLAMA_CPP, LM_STUDIO, LOCAL_SERVERS, OLLAMA, PROVIDERS, VLLM, LocalServer
from clawbot.llm.servers import OLLAMA_WINDOW, LocalModel, base_of, find_local
from clawbot.messages import Usage
from tests.llm.cases import read_cases
from tests.tables import load_table

CASES = read_cases("models")


@pytest.fixture(autouse=True)
def no_servers(monkeypatch: pytest.MonkeyPatch) -> None:
    """What runs on this machine does not count."""

    async def nothing(*_: object) -> list[LocalModel]:
        return []

    monkeypatch.setattr(models, "find_local", nothing)


@asynccontextmanager
async def serving(answers: dict[str, Any]) -> AsyncIterator[str]:
    async def answer(request: web.Request) -> web.Response:
        found = answers.get(request.path)
        if found is None:
            return web.Response(status=404)
        if isinstance(found, tuple):
            return web.json_response(found[1], status=found[0])
        return web.Response(text=found) if isinstance(found, str) else web.json_response(found)

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


def listing(owner: str, *entries: dict[str, Any]) -> dict[str, Any]:
    return {"object": "list", "data": [{"owned_by": owner, **entry} for entry in entries]}


OLLAMA_ANSWERS: dict[str, Any] = {
    "/api/tags": {"models": [{"name": "qwen3:8b"}, {"name": "nomic-embed-text:latest"}]},
    "/api/show": {"model_info": {"qwen3.context_length": 131072}, "capabilities": ["completion", "tools", "vision"]},
}


LOADING = {"error": {"code": 503, "message": "Loading model", "type": "unavailable_error"}}


@pytest.mark.parametrize(
    ("server", "answers", "expected"),
    [
        (OLLAMA, OLLAMA_ANSWERS, [("ollama_chat/qwen3:8b", OLLAMA_WINDOW, True, True)]),
        (
            OLLAMA,
            {**OLLAMA_ANSWERS, "/api/show": {"parameters": "stop x\nnum_ctx    65536", "capabilities": ["completion"]}},
            [("ollama_chat/qwen3:8b", 65536, False, False)],
        ),
        (OLLAMA, {"/api/tags": OLLAMA_ANSWERS["/api/tags"]}, [("ollama_chat/qwen3:8b", OLLAMA_WINDOW, True, False)]),
        (
            LM_STUDIO,
            {
                "/api/v0/models": {
                    "data": [
                        {"id": "cold", "type": "llm", "state": "not-loaded", "max_context_length": 4096},
                        {"id": "warm", "type": "vlm", "state": "loaded", "loaded_context_length": 8192},
                        {"id": "e", "type": "embeddings"},
                    ]
                }
            },
            [("lm_studio/warm", 8192, True, True), ("lm_studio/cold", 4096, True, False)],
        ),
        (
            LLAMA_CPP,
            {
                "/v1/models": listing("llamacpp", {"id": "m.gguf"}),
                "/props": {"default_generation_settings": {"n_ctx": 4096}, "modalities": {"vision": False}},
            },
            [("llamafile/m.gguf", 4096, True, False)],
        ),
        (
            LLAMA_CPP,
            {
                "/v1/models": listing("llamacpp", {"id": "m"}),
                "/props": {
                    "default_generation_settings": {"n_ctx": 4096},
                    "chat_template_caps": {"supports_tools": False},
                    "modalities": {"vision": True},
                },
            },
            [("llamafile/m", 4096, False, True)],
        ),
        (LLAMA_CPP, {"/v1/models": (503, LOADING), "/props": (503, LOADING)}, [("llamafile/model", None, True, False)]),
        (LLAMA_CPP, {"/v1/models": (503, {"error": {"message": "Come back later"}})}, []),
        (
            VLLM,
            {"/v1/models": listing("vllm", {"id": "m", "max_model_len": 32768})},
            [("hosted_vllm/m", 32768, True, False)],
        ),
    ],
)
async def test_local_servers(server: LocalServer, answers: dict[str, Any], expected: list[tuple[Any, ...]]) -> None:
    async with serving(answers) as url:
        found = await find_local([server], url + server.path)
    assert [(model.ref, model.window, model.tools, model.images) for model in found] == expected


def ollama_with(made_for: int | None, running: int | None = None, parameters: str = "") -> dict[str, Any]:
    """The answers of an Ollama that has one model, which was made for a window and runs with another."""
    info = {"qwen3.context_length": made_for} if made_for else {}
    loaded = [{"name": "qwen3:8b", "context_length": running}] if running else []
    return {
        "/api/tags": {"models": [{"name": "qwen3:8b"}]},
        "/api/show": {"model_info": info, "parameters": parameters},
        "/api/ps": {"models": loaded},
    }


@pytest.mark.parametrize(
    ("server", "answers", "window", "source"),
    [
        (OLLAMA, ollama_with(131_072), OLLAMA_WINDOW, "Ollama is asked for that"),
        (OLLAMA, ollama_with(8_192), 8_192, "Ollama is asked for that"),
        (OLLAMA, ollama_with(None), OLLAMA_WINDOW, "Ollama is asked for that"),
        (OLLAMA, ollama_with(131_072, running=4_096), OLLAMA_WINDOW, "Ollama is asked for that"),
        (OLLAMA, ollama_with(131_072, running=16_384), 16_384, "Ollama runs it with that"),
        (OLLAMA, ollama_with(131_072, running=65_536), 65_536, "Ollama runs it with that"),
        (OLLAMA, ollama_with(131_072, 65_536, "num_ctx 8192"), 8_192, "num_ctx of the model in Ollama"),
        (OLLAMA, {**ollama_with(8_192), "/api/ps": {"models": [None, {"name": 1}]}}, 8_192, "Ollama is asked for that"),
        (
            LM_STUDIO,
            {"/api/v0/models": {"data": [{"id": "m", "type": "llm", "max_context_length": 4096}]}},
            4_096,
            "the most it can; LM Studio has not loaded it",
        ),
        (
            LM_STUDIO,
            {
                "/api/v0/models": {
                    "data": [{"id": "m", "type": "llm", "max_context_length": 9_999, "loaded_context_length": 4096}]
                }
            },
            4_096,
            "from the server",
        ),
        (
            LLAMA_CPP,
            {"/v1/models": listing("llamacpp", {"id": "m"}), "/props": {"n_ctx": 8_192}},
            8_192,
            "from the server",
        ),
        (VLLM, {"/v1/models": listing("vllm", {"id": "m", "max_model_len": 32_768})}, 32_768, "from the server"),
    ],
)
async def test_a_server_says_its_window_itself(
    server: LocalServer, answers: dict[str, Any], window: int, source: str
) -> None:
    async with serving(answers) as url:
        (found,) = await find_local([server], url + server.path)
    assert (found.window, found.window_source) == (window, source)


@pytest.mark.parametrize(("answers", "window"), CASES["the_server_at_api_base_is_asked_for_its_window"])
async def test_the_server_at_api_base_is_asked_for_its_window(answers: dict[str, Any], window: int | None) -> None:
    async with serving(answers) as url:
        found = await describe("openai/mine", AgentSettings(model="openai/mine", api_base=f"{url}/v1"))
    assert (found.info.window, found.info.window_source) == (window, "from the server" if window else "")


@pytest.mark.parametrize(("answers", "tools", "images"), CASES["the_server_at_api_base_is_asked_what_its_model_can"])
async def test_the_server_at_api_base_is_asked_what_its_model_can(
    answers: dict[str, Any], tools: bool, images: bool
) -> None:
    async with serving(answers) as url:
        found = await describe("openai/mine", AgentSettings(model="openai/mine", api_base=f"{url}/v1"))
    assert (found.info.supports_tools, found.info.supports_images) == (tools, images)


@pytest.mark.parametrize(
    ("ref", "answers", "local"),
    [
        ("openai/mine", {"/v1/models": listing("llamacpp", {"id": "mine"}), "/props": {}}, "llama.cpp"),
        ("openai/mine", {"/v1/models": (503, LOADING)}, "llama.cpp"),
        ("openai/mine", {"/v1/models": listing("vllm", {"id": "mine", "max_model_len": 4_096})}, "vLLM"),
        ("openai/mine", {"/v1/models": listing("library", {"id": "mine"}), "/api/show": {"details": {}}}, "Ollama"),
        ("openai/a-cloud", {"/v1/models": listing("library", {"id": "a-cloud"}), "/api/show": {"details": {}}}, ""),
        (
            "openai/mine",
            {
                "/v1/models": listing("openai", {"id": "mine"}),
                "/model/info": {"data": [{"model_name": "mine", "model_info": {}}]},
            },
            "",
        ),
        ("openai/mine", {"/v1/models": listing("me", {"id": "mine"})}, ""),
        ("openai/mine", {}, ""),
    ],
)
async def test_only_what_a_server_here_runs_itself_is_local(ref: str, answers: dict[str, Any], local: str) -> None:
    async with serving(answers) as url:
        found = await describe(ref, AgentSettings(model=ref, api_base=f"{url}/v1"))
    assert found.info.local == local


async def test_llama_cpp_answers_whatever_the_name_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(models, "find_local", find_local)
    ref = "llamafile/any"
    answers = {"/v1/models": listing("llamacpp", {"id": "m.gguf"}), "/props": {"n_ctx": 4_096}}
    async with serving(answers) as url:
        found = await describe(ref, AgentSettings(model=ref, api_base=f"{url}/v1"))
    assert (found.info.ref, found.info.window) == (ref, 4_096)


async def test_auto_takes_a_server_that_loads_its_model(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving({"/v1/models": (503, LOADING)}) as url:

        async def there(*_: object) -> list[LocalModel]:
            return await find_local([LLAMA_CPP], f"{url}/v1")

        monkeypatch.setattr(models, "find_local", there)
        found = await resolve_auto(AgentSettings())
    assert (found.info.ref, found.info.window) == ("llamafile/model", None)
    assert found.info.reason == "llama.cpp runs on this machine and loads its model"


async def test_what_api_base_says_goes_before_what_litellm_knows_of_a_model_with_that_name() -> None:
    ref = "openai/gpt-6-sol"
    async with serving({"/v1/models": listing("me", {"id": "gpt-6-sol", "max_model_len": 8_192})}) as url:
        found = await describe(ref, AgentSettings(model=ref, api_base=f"{url}/v1"))
    assert found.info.window == 8_192


async def test_another_providers_model_is_not_asked_for_at_api_base() -> None:
    ref = "anthropic/claude-sonnet-5-5"
    async with serving({"/v1/models": listing("me", {"id": "claude-sonnet-5-5", "max_model_len": 8_192})}) as url:
        found = await describe(ref, AgentSettings(model="openai/mine", api_base=f"{url}/v1"))
    assert (found.info.window, found.info.window_source) == (1_000_000, "litellm's model data")


@pytest.mark.parametrize("server", LOCAL_SERVERS)
@pytest.mark.parametrize(
    "answers",
    [
        {},
        {"/v1/models": "[" * 100_000, "/api/tags": "[" * 100_000, "/api/v0/models": "[" * 100_000},
        {"/v1/models": "<html>", "/api/tags": "<html>", "/api/v0/models": "<html>"},
        {"/v1/models": listing("somebody else", {"id": "m"}), "/api/tags": [1], "/api/v0/models": {"data": 1}},
        {"/v1/models": {"object": "list", "data": [None]}, "/api/tags": {"models": {}}, "/api/v0/models": []},
    ],
)
async def test_other_programs_on_such_a_port_are_not_believed(server: LocalServer, answers: dict[str, Any]) -> None:
    async with serving(answers) as url:
        assert await find_local([server], url + server.path) == []


async def test_nobody_there(unused_tcp_port: int) -> None:
    assert await find_local([OLLAMA, VLLM], f"http://127.0.0.1:{unused_tcp_port}") == []


@pytest.mark.parametrize(
    ("host", "base"),
    load_table(__file__, "ollama_host_counts_for_this_machine_only"),
)
def test_ollama_host_counts_for_this_machine_only(host: str, base: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OLLAMA_HOST", host)
    assert base_of(OLLAMA) == base


async def test_auto_takes_the_first_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MISTRAL_API_KEY", "x")
    monkeypatch.setenv("OPENAI_API_KEY", "x")
    monkeypatch.setenv("ANTHROPIC_API_KEY", " ")
    found = await resolve_auto(AgentSettings())
    assert found.info.ref == "openai/gpt-6.1-sol"
    assert found.info.reason == "OPENAI_API_KEY is set"
    assert found.info.window
    assert found.info.priced


async def test_auto_prefers_the_key_that_the_settings_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MISTRAL_API_KEY", "x")
    monkeypatch.setenv("OPENAI_API_KEY", "x")
    found = await resolve_auto(AgentSettings(api_key_env="MISTRAL_API_KEY"))
    assert found.info.ref == "mistral/mistral-large-latest"


async def test_auto_takes_a_local_server_without_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    async def one(*_: object) -> list[LocalModel]:
        return [LocalModel("lm_studio/m", "LM Studio", "http://127.0.0.1:1234/v1", window=8192)]

    monkeypatch.setattr(models, "find_local", one)
    found = await resolve_auto(AgentSettings(context_tokens=4096))
    assert (found.info.ref, found.info.window) == ("lm_studio/m", 4096)
    assert found.info.reason == "LM Studio runs on this machine"


async def test_auto_ends_offline() -> None:
    found = await resolve_auto(AgentSettings())
    assert (found.info.ref, found.info.reason) == ("offline", NOTHING_FOUND)


async def test_auto_with_an_address_takes_what_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "x")
    answers = {"/v1/models": listing("me", {"id": "text-embed"}, {"id": "mine", "max_model_len": 8192})}
    async with serving(answers) as url:
        found = await resolve_auto(AgentSettings(api_base=f"{url}/v1"))
    assert (found.info.ref, found.info.window) == ("openai/mine", 8192)
    assert found.info.reason == "the server at api_base has it"


async def test_the_list_holds_each_model_once_and_offline_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GEMINI_API_KEY", "x")
    monkeypatch.setenv("GOOGLE_API_KEY", "x")
    settings = AgentSettings(model="gemini/gemini-3.8-flash", fallbacks=["deepseek/deepseek-v4-pro", "offline"])
    refs = [info.ref for info in await find_models(settings)]
    assert refs == ["gemini/gemini-3.8-flash", "deepseek/deepseek-v4-pro", "offline"]


@pytest.mark.parametrize(("cap", "window"), [(None, 1_000_000), (50_000, 50_000), (9_000_000, 1_000_000)])
async def test_the_settings_cap_the_window_but_never_raise_it(cap: int | None, window: int) -> None:
    found = await describe("anthropic/claude-sonnet-5-5", AgentSettings(context_tokens=cap))
    source = "context_tokens in the settings" if cap == 50_000 else "litellm's model data"
    assert (found.info.window, found.info.window_source) == (window, source)


async def test_a_cap_stands_for_a_window_that_is_unknown() -> None:
    assert (await describe("openai/mine", AgentSettings(context_tokens=9000))).info.window == 9000
    assert (await describe("openai/mine", AgentSettings())).info.window is None


@pytest.mark.parametrize("provider", PROVIDERS, ids=lambda provider: provider.name)
def test_the_default_models_are_in_litellms_table(provider: Any) -> None:
    if provider.name == "openrouter":
        assert provider.default == "openrouter/auto"
        return
    facts = look_up([provider.default])[provider.default]
    assert facts.window
    assert facts.window >= 100_000
    assert facts.tools


def test_prices_rise_with_the_prompt() -> None:
    prices = look_up(["openai/gpt-6-sol"])["openai/gpt-6-sol"].prices
    assert prices is not None
    assert prices.cost(Usage(input=1_000_000)).input == pytest.approx(4.0)
    assert prices.cost(Usage(input=100_000)).input == pytest.approx(0.2)


def test_a_reseller_has_the_window_of_the_model_but_not_its_price() -> None:
    ref = "openrouter/anthropic/claude-sonnet-5.5"
    facts = look_up([ref])[ref]
    assert facts.window == 1_000_000
    assert facts.prices is None


@pytest.mark.parametrize(
    ("ref", "plain"), [(f"{name}/responses/gpt-5", f"{name}/gpt-5") for name in ("openai", "azure")]
)
def test_the_protocol_in_a_name_changes_neither_window_nor_price(ref: str, plain: str) -> None:
    facts = look_up([ref, plain])
    assert facts[ref].prices is not None
    assert facts[ref] == facts[plain]


def test_without_litellms_table_nothing_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(models, "_litellm_file", lambda name: None)
    assert look_up(["openai/never-asked-for"])["openai/never-asked-for"].window is None


PROVIDERS_OF_REFS = load_table(__file__, "PROVIDERS_OF_REFS")


@pytest.mark.parametrize(("ref", "is_known"), PROVIDERS_OF_REFS.items())
def test_providers_are_known_from_litellms_own_list(ref: str, is_known: bool) -> None:
    assert may_name_provider(ref) is is_known
