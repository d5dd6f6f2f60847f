"""Asks litellm over HTTP for every turn of a script, and prints what came as JSON.

Run as a process by `test_litellm.py`, since litellm is too large to share a process with other tests.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import litellm
import openai

from clawbot.llm.scripted import ScriptEngine, load_script
from clawbot.llm.scripted.server import serve_script

TOOL = {"type": "function", "function": {"name": "read", "description": "", "parameters": {"type": "object"}}}


async def ask(**where: Any) -> dict[str, Any]:
    """One streamed call; what came of it, in plain values."""
    seen: dict[str, Any] = {"text": "", "reasoning": "", "calls": {}, "usage": None}
    try:
        stream = await litellm.acompletion(
            messages=[{"role": "user", "content": "hello"}],
            tools=[TOOL],
            stream=True,
            stream_options={"include_usage": True},
            max_retries=0,
            _skip_mcp_handler=True,
            **where,
        )
        async for chunk in stream:
            note(seen, chunk)
        seen["finish"] = stream.received_finish_reason
    except openai.OpenAIError as error:
        cause = getattr(error, "original_exception", None) or error
        seen["error"] = type(cause).__name__
        seen["message"] = str(cause)
        seen["retry_after"] = wait_of(cause)
    return seen


def wait_of(error: Exception) -> str | None:
    """The Retry-After header: litellm puts those of a real answer beside the response, which it makes up."""
    headers = getattr(error, "litellm_response_headers", None) or getattr(
        getattr(error, "response", None), "headers", {}
    )
    found: str | None = headers.get("retry-after")
    return found


def note(seen: dict[str, Any], chunk: Any) -> None:
    """Add a chunk to what was seen."""
    usage = getattr(chunk, "usage", None)
    if usage is not None:
        cached = usage.prompt_tokens_details.cached_tokens if usage.prompt_tokens_details else None
        seen["usage"] = [usage.prompt_tokens, usage.completion_tokens, cached]
    for choice in chunk.choices:
        seen["text"] += choice.delta.content or ""
        seen["reasoning"] += getattr(choice.delta, "reasoning_content", None) or ""
        for call in choice.delta.tool_calls or ():
            entry = seen["calls"].setdefault(call.index, ["", ""])
            entry[0] += call.function.name or ""
            entry[1] += call.function.arguments or ""


async def main(path: Path) -> None:
    """Serve the script, and play it."""
    litellm.suppress_debug_info = True
    engine = ScriptEngine(load_script(path))
    async with serve_script(engine) as served:
        door = {"model": "openai/scripted", "api_base": served.url, "api_key": "none"}
        turns = [await ask(**door) for _ in engine.script.turns]
    sys.stdout.write(json.dumps({"turns": turns, "tools": engine.requests[0]["tools"]}))


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
