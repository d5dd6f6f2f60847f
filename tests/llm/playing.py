"""Playing a script in a test: the engine, a request for it, and what came of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from clawbot.llm.scripted import ScriptEngine, parse_script
from clawbot.llm.scripted.replies import joined_answer

FILE = Path("talk.yaml")


def engine(turns: str, **seams: Any) -> ScriptEngine:
    return ScriptEngine(parse_script("turns:\n" + turns, FILE), **seams)


def asks(text: str, *more: dict[str, Any], **body: Any) -> dict[str, Any]:
    return {"model": "m", "messages": [{"role": "user", "content": text}, *more], **body}


async def chunks_of(played: ScriptEngine, request: dict[str, Any]) -> list[dict[str, Any]]:
    return [chunk async for chunk in played.reply(request)]


async def said(played: ScriptEngine, request: dict[str, Any]) -> str:
    return str(joined_answer(await chunks_of(played, request))["choices"][0]["message"]["content"])


def deltas(chunks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [choice["delta"] for chunk in chunks for choice in chunk["choices"]]
