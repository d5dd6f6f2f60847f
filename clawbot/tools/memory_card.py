"""What people see of an answer of the memory tools: the same as the model is told, without its form."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

_OF_HIT = ("path", "startLine", "endLine", "score", "snippet")


def card_of(text: str) -> dict[str, Any]:
    """The details of an outcome whose text is `text`, the JSON of `memory_output`.

    `results` are the hits of a search, `excerpt` (path, startLine, endLine, text) the lines of a note, where there are
    any; `notes` are sentences about them. Read from the answer itself, so that the two never differ.
    """
    answer: dict[str, Any] = msgspec.json.decode(text)
    card: dict[str, Any] = {"notes": list(_notes(answer))}
    if "results" in answer:
        card["results"] = [{key: hit[key] for key in _OF_HIT} for hit in answer["results"]]
    if answer.get("text"):
        lines = {"startLine": answer["from"], "endLine": answer["to"]}
        card["excerpt"] = {"path": answer["path"], **lines, "text": answer["text"]}
    return card


def _notes(answer: dict[str, Any]) -> Iterator[str]:
    if "error" in answer:
        yield answer["error"]
        if "action" in answer:
            yield answer["action"]
    elif "results" in answer:
        yield from _notes_of_search(answer)
    elif answer["status"] == "not_found":
        yield "There is no such file."
    elif not answer["text"]:
        yield answer.get("continuation", "The file is empty.")
    elif answer.get("truncated"):
        yield f"Up to line {answer['to']:,} of {answer['totalLines']:,}."


def _notes_of_search(answer: dict[str, Any]) -> Iterator[str]:
    if not answer["results"]:
        yield "No hits."
    if fallback := answer.get("fallback"):
        yield f"{fallback['from']} was not used: {fallback['reason']}"
    if answer.get("partial"):
        yield "Time was up before everything was searched."
    yield from answer.get("notes", ())
