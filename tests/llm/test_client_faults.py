"""What this process itself does wrong is told as that, and neither repeated nor taken for the network's fault."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import msgspec
import pytest

from clawbot.llm.client import RetryPolicy, wait_before_next
from clawbot.llm.errors import ClientFaultError, ModelError, UnreachableError
from clawbot.llm.failures import Failure, to_error
from tests.conftest import KEPT

# Calls each model with a part of litellm broken as told, and writes what the engine makes of it.
BREAKING = """
import asyncio, importlib, json, sys
from clawbot.llm.worker import _prepare_environment
_prepare_environment()
from clawbot.llm.engine import LiteLLMEngine, litellm, msgspec
from clawbot.llm.frames import Complete, Embed
engine = LiteLLMEngine()

def call(ref):
    tool = {"type": "function", "function": {"name": "read", "description": "d", "parameters": {"type": "object"}}}
    target = {"model": ref, "api_key": "sk-x", "timeout": 20}
    if "embedding" in ref:
        return engine.embed(Embed(1, {**target, "input": ["x"]}))
    talk = [{"role": "user", "content": "hello"}]
    return engine.stream(Complete(1, {**target, "messages": talk, "tools": [tool]}, 100), lambda chunk: None)

def failure(ref, place, code):
    module, _, path = place.partition(":")
    holder = importlib.import_module(module)
    *outer, name = path.split(".")
    for each in outer:
        holder = getattr(holder, each)
    kept = vars(holder)[name]
    def broken(*args, **named):
        exec(code)
    setattr(holder, name, broken)
    try:
        asyncio.run(call(ref))
    except Exception as error:
        return engine.failure_of(error, streaming=False)
    finally:
        setattr(holder, name, kept)

cases, texts = json.load(sys.stdin)
found = [failure(*case) for case in cases]
for name, text in texts:
    error = getattr(litellm.exceptions, name)(message=text, llm_provider="openai", model="m")
    found.append(engine.failure_of(error, streaming=False))
sys.stdout.buffer.write(msgspec.json.encode(found))
"""
_SDK = "litellm.llms.openai.openai:OpenAIChatCompletion"
# Which model is called, what is broken, how, and what is told of it.
BROKEN = (
    (
        "openai/responses/m",
        "litellm.responses.main:_resolve_responses_api_provider_config",
        "import litellm.no_such_module",
        "No module named 'litellm.no_such_module' (ModuleNotFoundError)",
    ),
    (
        "openai/m",
        f"{_SDK}.make_openai_chat_completion_request",
        "from json import nothing",
        "cannot import name 'nothing' from 'json'",
    ),
    (
        "anthropic/claude-x",
        "litellm.llms.anthropic.chat.transformation:AnthropicConfig.transform_request",
        "None.items()",
        "'NoneType' object has no attribute 'items' (AttributeError)",
    ),
    (
        "gemini/gemini-x",
        "litellm.llms.vertex_ai.gemini.vertex_and_google_ai_studio_gemini:async_transform_request_body",
        "{}['contents']",
        "'contents' (KeyError)",
    ),
    (
        "ollama_chat/m",
        "litellm.llms.ollama.chat.transformation:OllamaChatConfig.transform_request",
        "import pydantic; pydantic.TypeAdapter(int).validate_python('x')",
        "1 validation error for int",
    ),
    ("openai/m", "litellm.main:get_llm_provider", "undefined", "name 'undefined' is not defined (NameError)"),
    (
        "deepseek/m",
        "litellm.llms.deepseek.chat.transformation:DeepSeekChatConfig.map_openai_params",
        "len()",
        "len() takes exactly one argument (0 given) (TypeError)",
    ),
    ("openai/text-embedding-3-small", f"{_SDK}.aembedding", "[][0]", "list index out of range (IndexError)"),
    ("openai/m", "litellm.main:get_llm_provider", "open('/no/such/table.json')", "/no/such/table.json"),
    ("openai/m", "litellm.main:get_llm_provider", "'é'.encode('ascii')", "'ascii' codec can't encode"),
)
# litellm's errors without the one that they are made of, and what is told; None: it is the network's or a server's.
TEXTS = (
    ("APIConnectionError", "OpenAIException - No module named 'mcp'", "No module named 'mcp'"),
    ("APIConnectionError", "APIConnectionError: cannot import name 'x' from 'y'", "cannot import name 'x' from 'y'"),
    ("APIConnectionError", "OpenAIException - the server says: No module named 'vllm'", None),
    ("APIConnectionError", "OpenAIException - Connection error.", None),
    ("APIConnectionError", "Cannot connect to host module-named.example:443", None),
    ("InternalServerError", "AnthropicException - No module named 'vllm'", None),
)


@pytest.fixture(scope="module")
def failures() -> list[Failure]:
    """What the engine makes of all cases, in one process; the network refuses."""
    given = json.dumps([[case[:3] for case in BROKEN], [case[:2] for case in TEXTS]])
    kept = {name: os.environ[name] for name in KEPT & os.environ.keys()}
    environment = {**kept, "HTTPS_PROXY": "http://127.0.0.1:9", "PYTHONUTF8": "1"}
    command = [sys.executable, "-c", BREAKING]
    done = subprocess.run(command, input=given, text=True, capture_output=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    return msgspec.json.decode(done.stdout, type=list[Failure])


def assert_told_as_a_fault(error: ModelError, text: str) -> None:
    assert type(error) is ClientFaultError
    assert error.kind == "internal"
    assert error.message.startswith(f"the model client failed: {text}")
    assert "clawbot doctor" in error.hint
    assert "network" not in str(error)
    assert wait_before_next(error, 1, RetryPolicy(attempts=4)) is None


@pytest.mark.few(3)
@pytest.mark.parametrize(("number", "case"), enumerate(BROKEN), ids=[case[2] for case in BROKEN])
def test_a_mistake_in_the_client_is_no_fault_of_the_network(
    failures: list[Failure], number: int, case: tuple[str, ...]
) -> None:
    error = to_error(failures[number], ref=case[0])
    assert case[3] in error.message
    assert_told_as_a_fault(error, "")


@pytest.mark.parametrize(("number", "case"), enumerate(TEXTS), ids=[case[1][-30:] for case in TEXTS])
def test_litellms_words_for_a_mistake_count_where_it_hides_the_mistake(
    failures: list[Failure], number: int, case: tuple[str, str, str | None]
) -> None:
    error = to_error(failures[len(BROKEN) + number], ref="openai/m")
    if case[2] is None:
        assert type(error) is UnreachableError
    else:
        assert_told_as_a_fault(error, case[2])
