"""Calls with tools reach the vendors at their own addresses, in an environment that is made from the lock file alone.

litellm takes other roads there than at an `api_base` on loopback: see `tests/vendors.py`.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import AsyncIterator, Iterator
from typing import Any

import msgspec
import pytest
import pytest_asyncio

from clawbot.clock import SystemClock
from clawbot.config.schema_agent import AgentSettings
from clawbot.llm.errors import ModelError, UnreachableError
from clawbot.llm.factory import open_model
from clawbot.llm.models import _read_table
from clawbot.llm.protocol import ChatRequest
from clawbot.llm.providers import PROVIDERS, is_vendors_own, key_names
from clawbot.messages import ToolSpec, UserMessage
from tests.packages import hide_tools
from tests.vendors import Vendors, open_vendors, reply, worker_in

pytestmark = [pytest.mark.asyncio(loop_scope="module")]

READ = ToolSpec("read", "Read a file.", {"type": "object", "properties": {"path": {"type": "string"}}})
REQUEST = ChatRequest("You are a test.", (UserMessage("hello"),), tools=(READ,))


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def vendors(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Vendors]:
    """Vendors that refuse every connection, and one worker for all tests, which goes to them."""
    folder = tmp_path_factory.mktemp("vendors")
    site = folder / "site"
    assert "mcp" in hide_tools(site)
    path = os.pathsep.join([str(site), *filter(None, [os.environ.get("PYTHONPATH")])])
    async with open_vendors(folder) as vendors, worker_in({**vendors.environment, "PYTHONPATH": path}):
        yield vendors


async def called(vendors: Vendors, ref: str, settings: dict[str, Any]) -> tuple[str, list[str], ModelError]:
    """The model that `ref` stands for, the hosts that a call of it with tools asks for, and how it fails."""
    vendors.hosts.clear()
    model = await open_model(ref, AgentSettings.model_validate(settings), clock=SystemClock())
    try:
        parts = [part async for part in model.stream(REQUEST)]
    except ModelError as error:
        return model.info.ref, [*vendors.hosts], error
    finally:
        await model.aclose()
    raise AssertionError(parts)


def newest() -> Iterator[str]:
    """For each provider the models that litellm's table has last: of all with tools, and of those that are called by
    the Responses API alone."""
    table = [(name, msgspec.json.decode(entry)) for name, entry in _read_table().items()][::-1]
    for provider, modes in itertools.product(PROVIDERS, ({"chat", "responses"}, {"responses"})):
        for name, entry in table:
            usable = entry.get("mode") in modes and entry.get("supports_function_calling")
            if usable and entry.get("litellm_provider") == provider.name:
                yield f"{provider.name}/{name.removeprefix(f'{provider.name}/')}"
                break


ONCE = {"retries": {"attempts": 1}}
AT_AZURE = {**ONCE, "model": "azure/mine", "api_base": "https://mine.openai.azure.com", "api_key": "sk-x"}


@pytest.mark.few(5)
@pytest.mark.parametrize("key", [key for provider in PROVIDERS for key in provider.keys])
async def test_with_a_key_the_model_that_is_taken_for_it_is_called(
    vendors: Vendors, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    monkeypatch.setenv(key, "sk-x")
    ref, hosts, error = await called(vendors, "auto", ONCE)
    assert len(hosts) == 1
    assert is_vendors_own(ref, f"https://{hosts[0]}")
    assert type(error) is UnreachableError


@pytest.mark.few(6)
@pytest.mark.parametrize(
    "ref",
    [
        *dict.fromkeys(newest()),
        *[f"openai/{name}" for name in ("gpt-4o", "gpt-5", "responses/gpt-5", "responses/gpt-4o", "o3-pro")],
        *[f"azure/{name}" for name in ("mine", "gpt-5", "gpt-5.4", "responses/mine", "gpt-5.3-codex")],
    ],
)
async def test_a_model_of_a_vendor_is_called(vendors: Vendors, monkeypatch: pytest.MonkeyPatch, ref: str) -> None:
    for key in key_names(ref):
        monkeypatch.setenv(key, "sk-x")
    _, hosts, error = await called(vendors, ref, AT_AZURE if ref.startswith("azure/") else ONCE)
    assert len(hosts) == 1
    assert is_vendors_own(ref, f"https://{hosts[0]}")
    assert type(error) is UnreachableError


@pytest.mark.parametrize("ref", ["openai/gpt-4o", "openai/gpt-6.1-sol", "anthropic/claude-x", "gemini/m", "xai/m"])
@pytest.mark.parametrize("words", ["No module named 'vllm'", "'NoneType' object has no attribute 'x'", "KeyError: 'x'"])
async def test_a_mistake_of_the_server_is_the_servers(
    vendors: Vendors, monkeypatch: pytest.MonkeyPatch, ref: str, words: str
) -> None:
    monkeypatch.setenv(key_names(ref)[0], "sk-x")
    monkeypatch.setattr(vendors, "answer", lambda _: [reply(500, {"error": {"message": words, "type": "api_error"}})])
    _, hosts, error = await called(vendors, ref, ONCE)
    assert (len(hosts), type(error), error.retryable) == (1, UnreachableError, True)
    assert error.message.startswith("the server failed with status 500: ")
