"""What is sent to a server that may have any model behind it passes the templates of those models, and the types of
OpenAI's own package. The templates are short ones of ours with the rules of Gemma 2, Mistral Nemo, Llama 3 and
Qwen 2.5."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jinja2 import Template
from jinja2.sandbox import ImmutableSandboxedEnvironment
from pydantic import ConfigDict, TypeAdapter, with_config

from clawbot.llm.protocol import ChatRequest
from clawbot.llm.wire import Speller
from clawbot.messages import (
    AssistantMessage,
    ImageBlock,
    Message,
    StopReason,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolResultMessage,
    ToolSpec,
    UserMessage,
)

BASE = "http://127.0.0.1:8080/v1"
TOOLS = (ToolSpec("read", "Reads.", {"type": "object", "properties": {"path": {"type": "string"}}}),)

GEMMA_2 = """
{%- if messages[0].role == 'system' %}{{ raise('System role not supported') }}{% endif %}
{%- for m in messages %}
{%- if (m.role == 'user') != (loop.index0 % 2 == 0) %}{{ raise('Conversation roles must alternate') }}{% endif %}
{{- '<start_of_turn>' + ('model' if m.role == 'assistant' else m.role) + '\n' + m.content.strip() + '<end_of_turn>\n' }}
{%- endfor %}<start_of_turn>model
"""
MISTRAL_NEMO = """
{%- set talk = messages[1:] if messages[0].role == 'system' else messages %}
{%- set ns = namespace(index=0) %}
{%- for m in talk if not (m.role == 'tool' or m.tool_calls) %}
{%- if (m.role == 'user') != (ns.index % 2 == 0) %}{{ raise('conversation roles must alternate') }}{% endif %}
{%- set ns.index = ns.index + 1 %}
{%- endfor %}
{%- for m in talk %}
{%- if m.tool_calls %}[TOOL_CALLS]{% for call in m.tool_calls %}
{%- if call.id | length != 9 %}{{ raise('Tool call IDs should have length 9!') }}{% endif %}
{{- call.function | tojson + call.id }}{% endfor %}
{%- elif m.role == 'tool' %}
{%- if m.tool_call_id | length != 9 %}{{ raise('Tool call IDs should have length 9!') }}{% endif %}
{{- '[TOOL_RESULTS]' + m.content | string + m.tool_call_id }}
{%- elif m.role == 'user' %}{{ '[INST]' + m.content + '[/INST]' }}
{%- elif m.role == 'assistant' %}{{ m.content + '</s>' }}
{%- else %}{{ raise('Only user and assistant roles are supported') }}{% endif %}
{%- endfor %}"""
LLAMA_3 = """
{%- set talk = messages[1:] if messages[0].role == 'system' else messages %}
{%- if tools and not talk %}{{ raise('Cannot put tools in the first user message when there is none') }}{% endif %}
{%- for m in talk %}
{%- if m.tool_calls %}
{%- if m.tool_calls | length != 1 %}{{ raise('This model only supports single tool-calls at once!') }}{% endif %}
{{- m.tool_calls[0].function.arguments | tojson }}
{%- elif m.role == 'tool' %}{{ '<ipython>' + (m.content | string) }}
{%- else %}{{ '<' + m.role + '>' + m.content.strip() }}{% endif %}
{%- endfor %}"""
QWEN_2_5 = """
{%- for m in messages %}
{%- if m.role == 'assistant' and m.tool_calls %}<|im_start|>assistant
{%- if m.content %}{{ '\n' + m.content }}{% endif %}
{%- for call in m.tool_calls %}{{ call.function.name + (call.function.arguments | tojson) }}{% endfor %}<|im_end|>
{%- elif m.role == 'tool' %}{{ '<tool_response>' + m.content + '</tool_response>' }}
{%- else %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>' }}{% endif %}
{%- endfor %}"""
TEMPLATES = {"Gemma 2": GEMMA_2, "Mistral Nemo": MISTRAL_NEMO, "Llama 3": LLAMA_3, "Qwen 2.5": QWEN_2_5}


@cache
def types_of_openai() -> tuple[TypeAdapter[Any], TypeAdapter[Any]]:
    """Those of a message and of a tool, without any other field; the package is 50 MB."""
    from openai.types.chat import ChatCompletionMessageParam, ChatCompletionToolParam

    forbid = with_config(ConfigDict(extra="forbid"))
    for kind in get_args(ChatCompletionMessageParam):
        forbid(kind)
    return TypeAdapter(ChatCompletionMessageParam), TypeAdapter(forbid(ChatCompletionToolParam))


class TemplateError(Exception):
    """A template that refuses a conversation."""


def refuse(text: str) -> str:
    raise TemplateError(text)


_environment = ImmutableSandboxedEnvironment()
_environment.globals["raise"] = refuse


def render(template: str, body: dict[str, Any], *, system: bool = True) -> str:
    """What llama.cpp does with a body: parts of a content become one text, none an empty one, arguments objects, and a
    system prompt goes to the first message of a template that knows none."""
    messages = [_plain(message) for message in json.loads(json.dumps(body["messages"]))]
    if not system and messages[0]["role"] == "system":
        first, *messages = messages
        messages[0]["content"] = f"{first['content']}\n{messages[0]['content']}"
    return _compiled(template).render(messages=messages, tools=body.get("tools"))


@cache
def _compiled(template: str) -> Template:
    return _environment.from_string(template)


def _plain(message: dict[str, Any]) -> dict[str, Any]:
    message["content"] = message["content"] or ""
    if isinstance(message["content"], list):
        message["content"] = "\n".join(part.get("text", "<image>") for part in message["content"])
    for call in message.get("tool_calls", ()):
        call["function"]["arguments"] = json.loads(call["function"]["arguments"])
    return message


def called(*identities: str, text: str = "", stop: StopReason = "toolUse") -> AssistantMessage:
    calls = [ToolCallBlock(identity, "read", {"path": "a"}) for identity in identities]
    return AssistantMessage([TextBlock(text), *calls] if text else list(calls), stop_reason=stop)


def returned(identity: str, *more: ImageBlock) -> ToolResultMessage:
    return ToolResultMessage(identity, "read", [TextBlock("content"), *more])


ASKED, SAID = UserMessage("q"), AssistantMessage([TextBlock("a")])
PICTURE = ImageBlock("QUJD", "image/png")
LONG = "toolu_01ABCDEFGHIJKLMNOPQR"
TWO = called("call_1", "call_2", text="I look.")
TALKS: dict[str, tuple[Message, ...]] = {
    "after a compaction": (UserMessage("summary"), ASKED),
    "after a turn that failed": (ASKED, AssistantMessage([], stop_reason="error"), ASKED),
    "after a tool loop that was stopped": (ASKED, called(LONG), returned(LONG), ASKED),
    "begun by the assistant": (SAID, ASKED),
    "two answers in a row": (ASKED, SAID, called("call_1", stop="aborted", text="half"), ASKED),
    "calls side by side": (ASKED, TWO, returned("call_1"), returned("call_2"), SAID, ASKED),
    "a call without a result": (ASKED, TWO, returned("call_2"), SAID, called("x", text="so"), ASKED),
    "pictures from a tool": (ASKED, called("a"), returned("a", PICTURE), called("b"), returned("b", PICTURE), ASKED),
    "ids that repeat": (ASKED, called("a"), returned("a"), called("a"), returned("a"), SAID, ASKED),
}


def _read(value: object) -> None:
    """Read all of it: pydantic checks what its types call iterable only then."""
    inner = value.values() if isinstance(value, Mapping) else value
    if isinstance(inner, Iterable) and not isinstance(inner, str):
        for one in inner:
            _read(one)


def check(messages: Sequence[Message]) -> None:
    """Every template accepts the conversation, with tools and without any."""
    for tools in (True, False):
        request = ChatRequest("Be brief.", tuple(messages), TOOLS if tools else ())
        body = Speller().body(request, "openai/any", BASE, tools=tools)
        a_turn, a_tool = types_of_openai()
        _read([a_turn.validate_python(turn) for turn in body["messages"]])
        _read([a_tool.validate_python(tool) for tool in body.get("tools", ())])
        assert all(turn["content"] not in ("", []) for turn in body["messages"])
        ids = [call["id"] for turn in body["messages"] for call in turn.get("tool_calls", ())]
        assert all(re.fullmatch("[A-Za-z0-9]{9}", identity) for identity in ids)
        for name, template in TEMPLATES.items():
            # Gemma 2 has no tools, which its server says, so it never gets any.
            if not tools or name != "Gemma 2":
                assert render(template, body, system=name != "Gemma 2")


@pytest.mark.parametrize("talk", TALKS)
def test_every_template_accepts_what_is_sent(talk: str) -> None:
    check(TALKS[talk])


_words = st.sampled_from(["", " ", "text", "{more}"])
_ids = st.sampled_from(["call_1", "toolu_01ABCDEFGHIJKLMNOP", "ABCDEF123", "x__thought__y"])
_answers = st.builds(
    lambda text, ids, stop: AssistantMessage(
        [ThinkingBlock("hm"), TextBlock(text), *(ToolCallBlock(one, "read", {"path": "a"}) for one in ids)],
        stop_reason=stop,
    ),
    _words,
    st.lists(_ids, max_size=3, unique=True),
    st.sampled_from(["stop", "toolUse", "error", "aborted", "length"]),
)
_results = st.builds(lambda one, text: ToolResultMessage(one, "read", [TextBlock(text), PICTURE]), _ids, _words)
_turns = st.one_of(st.builds(UserMessage, _words), _answers, _results)


@given(st.lists(_turns, max_size=12))
def test_whatever_was_said_is_accepted_by_every_template(talk: list[Message]) -> None:
    check([*talk, UserMessage("at last")])


def test_the_templates_refuse_what_a_vendors_own_address_gets() -> None:
    """So the tests above show something."""
    bodies = [Speller().body(ChatRequest("", talk, TOOLS), "openai/m") for talk in TALKS.values()]
    refused = {name for name, template in TEMPLATES.items() if any(_refuses(template, body) for body in bodies)}
    assert refused == {"Gemma 2", "Mistral Nemo", "Llama 3"}


def _refuses(template: str, body: dict[str, Any]) -> bool:
    try:
        render(template, body)
    except TemplateError:
        return True
    return False


def test_a_model_without_tools_reads_what_another_one_did_with_them() -> None:
    request = ChatRequest("", (ASKED, called("a", text="I look."), returned("a"), SAID))
    assert [turn["content"] for turn in Speller().body(request, "openai/any", BASE, tools=False)["messages"]] == [
        "q",
        'I look.\n\n(I called the tool read with {"path":"a"})',
        "(The tool read returned:)\ncontent",
        "a",
    ]
