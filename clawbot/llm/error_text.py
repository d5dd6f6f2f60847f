"""Reads what vendors write in errors: JSON, JSON in JSON, the repr of bytes or of a dict, a page of HTML, each behind
the class names that litellm puts before it."""

from __future__ import annotations

import ast
import html
import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from msgspec import Struct

from clawbot.text.patterns import lazy_re
from clawbot.text.tables import packaged_table

# litellm's own words before and after those of the vendor: "litellm.BadRequestError: AnthropicException - ".
_CLASSES = lazy_re(
    r"(?:litellm\.)?\w*(?:Error|Timeout|Exception)(?: \w+(?:Error|Exception))*(?: -|:) ?|Error code: \d+(?: - |$)|"
    r"Message: (?=.*, Metadata: \{)",
    re.DOTALL,
)
_TAIL = lazy_re(r"\.? Handle with `litellm\.\w+`\.?$|, Metadata: \{.*, User ID:.*$", re.DOTALL)
_TRACEBACK = "Traceback (most recent call last)"
_MAX_CHARS = 8_000
_STRUCTURE = lazy_re(r"(?:b['\"])?\s*(?:\{\s*[\"'}]|\[\s*[{\[])")
_JSON = json.JSONDecoder(strict=False)
_BYTES = lazy_re(r"b(['\"]).*\1", re.DOTALL)
_BEHIND_PROSE = lazy_re(r"[-:(]\s+(?=[{\[<]|b['\"])")
_CUT_OFF = lazy_re(r"""["'](?:message|msg|detail)["']\s*:\s*(["'])((?:\\.|(?!\1).)+)""", re.DOTALL)
_HEADING = lazy_re(r"<(title|h1|h2|message)\b[^<>]*>([^<]+)</\1>", re.IGNORECASE)
_TAGS = lazy_re(r"<(script|style)\b.*?</\1>|<[^<>]*>", re.IGNORECASE | re.DOTALL)
_INNER = ("response", "error", "errors", "issues", "fault", "detail", "message", "metadata", "raw", "base_resp")
_WORDS = (
    *("message", "Message", "msg", "raw", "error_description", "error", "detail", "description", "status_msg"),
    *("error_msg", "error_message", "errorMessage", "err", "faultstring", "reason", "title"),
)
_KINDS = ("status", "code", "type", "error_type")
_KIND = lazy_re(r"[a-z]+(?:_[a-z]+)+|[A-Z]{5,}(?:_[A-Z]+)*")
_DULL = {"invalid_request_error", "unknown_error", "INVALID_ARGUMENT"}
_ANSWERS = ("choices", "candidates", "output", "content")


class ErrorText(Struct, frozen=True):
    """The words of an error, the vendor's `kind` of it ("overloaded_error"), and the status that the body states (0:
    none); `structured`: a body was found, so a server has answered."""

    text: str
    kind: str = ""
    status: int = 0
    structured: bool = False


def read_error(message: str) -> ErrorText:
    """Read the error message of a library or a server."""
    message = message[:_MAX_CHARS].partition(_TRACEBACK)[0]
    nodes = list(_nodes(_parsed(message)))
    text = next(filter(None, map(_words, reversed(nodes))), "")
    if not text and not _STRUCTURE.match(prose := _without_classes(message)):
        return ErrorText(prose)
    kinds = [str(node[name]) for node in reversed(nodes) for name in _KINDS if _KIND.fullmatch(str(node.get(name)))]
    text = text or _longest(nodes[0] if nodes else "")
    numbers = [str(node.get(name)) for node in reversed(nodes) for name in ("code", "status", "status_code")]
    stated = [int(number) for number in numbers if re.fullmatch("[45][0-9][0-9]", number)]
    kind = next((kind for kind in kinds if kind not in _DULL), "")
    return ErrorText(text, kind, stated[0] if stated else 0, structured=True)


def error_in(body: str) -> str:
    """Return the error that the body of an answer with a good status holds, the last one of a stream; "" if none."""
    events = [line[5:].strip() for line in body.splitlines() if line.startswith("data:")]
    if not events:
        value = _parsed(body.strip())
        alone = isinstance(value, Mapping) and any(map(_words, _nodes(value))) and not any(map(value.get, _ANSWERS))
        events = [body.strip()] if alone else body.strip().splitlines()
    return next((event for event in reversed(events) if _is_error(event)), "")


def _is_error(event: str) -> bool:
    if event[:1] == "<":
        return True
    node = next(_nodes(_parsed(event)), None) if event[:1] in ("{", "[") else None
    if node is None or (any(map(node.get, _ANSWERS)) and not node.get("error")):
        return False
    inner = [part for name in ("response", "base_resp") if isinstance(part := node.get(name), Mapping)]
    stated = any(each.get(name) for each in (node, *inner) for name in ("error", "errors", "status_code"))
    return stated or "error" in (node.get("type"), node.get("object")) or isinstance(node.get("detail"), str | list)


def _without_classes(text: str) -> str:
    text = text.strip()
    while found := _CLASSES.match(text):
        text = text[found.end() :]
    return _TAIL.sub("", text)


def _parsed(text: str, *, behind_prose: bool = False) -> Any:
    """Return the mapping or list in `text`, a page as its heading, else `text` itself."""
    text = _without_classes(text)
    if found := _BYTES.match(text):
        try:
            return _parsed(ast.literal_eval(found[0]).decode("utf-8", "replace"))
        except (ValueError, SyntaxError):
            pass  # cut off in the middle
    if text[:1] == "<":
        headings = (found[2].strip() for found in _HEADING.finditer(text))
        return {"message": html.unescape(next(filter(None, headings), "") or _TAGS.sub(" ", text))}
    if text[:1] in ("{", "["):
        for decode in (lambda text: _JSON.raw_decode(text)[0], ast.literal_eval):
            try:
                return decode(text)
            except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
                continue
    if found := _CUT_OFF.search(text) if _STRUCTURE.match(text) else None:
        return {"message": found[2].replace("\\n", "\n").replace("\\", "")}
    if not behind_prose and (found := _BEHIND_PROSE.search(text)):
        behind = _parsed(text[found.end() :], behind_prose=True)
        return text if isinstance(behind, str) else behind
    return text


def _nodes(value: Any, depth: int = 0) -> Iterator[Mapping[str, Any]]:
    """Yield the mappings on the way to the message, the innermost last."""
    if isinstance(value, str):
        value = _parsed(value)
    if isinstance(value, list | tuple):
        value = value[0] if value else None
        value = {"message": value} if isinstance(value, str) else value
    if isinstance(value, Mapping) and depth < 9:
        yield value
        for name in _INNER:
            if not isinstance(value.get(name), str) or isinstance(_parsed(value[name]), Mapping | list):
                yield from _nodes(value.get(name), depth + 1)


def _longest(value: Any) -> str:
    """Return the longest text with blanks in a body of unknown form; "" if none."""
    values = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()
    return value if isinstance(value, str) and " " in value else max(map(_longest, values), key=len, default="")


def _words(node: Mapping[str, Any]) -> str:
    """Return the message in `node` itself, with the field that FastAPI names."""
    for name in _WORDS:
        value = node.get(name)
        if isinstance(value, str) and (text := _without_classes(value)) and isinstance(_parsed(value), str):
            where = ".".join(map(str, node["loc"])) if isinstance(node.get("loc"), list) else ""
            return f"{where}: {text}" if where else text
    return ""


# "8192", "128,000", "128k". Not of characters or bytes, which some limit as well.
_TOKENS = r"(\d[\d,_]{0,12})(?![\d,_])\s?(k\b)?(?!\s?(?:char|byte|[kmg]i?b\b))"
_DURATION = (
    r"((?:\d+(?:\.\d+)?\s?(?:ms|milli(?:second)?s?|s(?:ec(?:ond)?s?)?|m(?:in(?:ute)?s?)?|h(?:(?:ou)?rs?)?|d(?:ays?)?)"
    r"(?![a-z])[\s,]*(?:and )?)+|\d+(?:\.\d+)?)"
)


@cache
def wordings(table: str) -> dict[str, str]:
    """Return the patterns of `table` (`too_large`, `limits`, `exhausted`, `waits`) by who sends it. Blocks at the first
    call."""
    found = packaged_table("clawbot.llm", "wordings.toml", dict[str, dict[str, str]])[table]
    return {who: text.replace("TOKENS", _TOKENS).replace("DURATION", _DURATION) for who, text in found.items()}
