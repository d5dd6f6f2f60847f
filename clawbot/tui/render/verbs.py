"""What a tool call is called on its card: an everyday verb in the user's language for each state of the call."""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import Any, Literal

from msgspec import Struct

from clawbot.text.language import Language
from clawbot.text.visible import one_line

CardState = Literal["asking", "running", "done", "failed", "declined", "stopped"]


class Verb(Struct, frozen=True):
    """A verb for a call that runs, one that is done, and one that did not come to that."""

    runs: str
    done: str
    wish: str


_VERBS: dict[str, dict[Language, Verb]] = {
    "read": {"en": Verb("Reading", "Read", "Read"), "zh": Verb("正在读取", "读取了", "读取")},
    "write": {"en": Verb("Writing", "Wrote", "Write"), "zh": Verb("正在写入", "写入了", "写入")},
    "edit": {"en": Verb("Editing", "Edited", "Edit"), "zh": Verb("正在修改", "修改了", "修改")},
    "append": {"en": Verb("Adding to", "Added to", "Add to"), "zh": Verb("正在添加到", "添加到了", "添加到")},
    "note": {"en": Verb("Noting →", "Noted →", "Note →"), "zh": Verb("正在记下 →", "记下了 →", "记下 →")},
    "list": {"en": Verb("Listing", "Listed", "List"), "zh": Verb("正在列出", "列出了", "列出")},
    "task": {
        "en": Verb("Sub-agent at work:", "Sub-agent done:", "Sub-agent:"),
        "zh": Verb("子代理正在处理:", "子代理完成了:", "子代理:"),
    },
    "grep": {
        "en": Verb("Searching files:", "Searched files:", "Search files:"),
        "zh": Verb("正在搜索文件:", "搜索了文件:", "搜索文件:"),
    },
    "notes": {
        "en": Verb("Searching notes:", "Searched notes:", "Search notes:"),
        "zh": Verb("正在搜索笔记:", "搜索了笔记:", "搜索笔记:"),
    },
    "sessions": {
        "en": Verb("Searching conversations:", "Searched conversations:", "Search conversations:"),
        "zh": Verb("正在搜索对话:", "搜索了对话:", "搜索对话:"),
    },
}
_KINDS = {"memory_search": "notes", "memory_get": "read", "sessions_search": "sessions", "sessions_read": "read"}
_WORDS: dict[str, dict[Language, str]] = {
    "asking": {"en": "waits for your answer", "zh": "等待你的回答"},
    "failed": {"en": "failed", "zh": "失败"},
    "declined": {"en": "declined", "zh": "已拒绝"},
    "stopped": {"en": "interrupted", "zh": "已中断"},
    "lost": {"en": "no result", "zh": "没有结果"},
    "more": {"en": "… {count:,} more lines", "zh": "… 还有 {count:,} 行"},
    "shared": {"en": "shared", "zh": "模型可见"},
    "kept": {"en": "not shared", "zh": "模型不可见"},
    "call": {"en": "{count:,} call", "zh": "{count:,} 次调用"},
    "calls": {"en": "{count:,} calls", "zh": "{count:,} 次调用"},
    "more calls": {"en": "… {count:,} more calls", "zh": "… 还有 {count:,} 次调用"},
    "tokens": {"en": "{count:,} tokens", "zh": "{count:,} token"},
    "thinking": {"en": "thinking", "zh": "思考中"},
    "workspace": {"en": "the workspace", "zh": "工作区"},
    "unanswered": {"en": "never answered", "zh": "没有得到回答"},
}
# What a pattern of a search holds beside words.
_SYNTAX = re.compile(r"\(\?[:=!<imsx]+|\[[^\]]*\][*+?]?|\\[bBdDsSwW][*+?]?|[\\^$()*+?{}]")
_HARD = re.compile(r"\(\?|\[\\W|\[\^")


def word(name: str, language: Language) -> str:
    """A state in words."""
    return _WORDS[name][language]


def is_note(path: str) -> bool:
    """Whether `path`, as a model names it, is one of the files that memory keeps."""
    place = PurePosixPath(path)
    return place.parts[:1] == ("memory",) or str(place) in ("MEMORY.md", "USER.md")


def title_words(name: str, title: str, arguments: dict[str, Any], state: CardState, language: Language) -> str:
    """The title of a call: `title` is its technical form, `NAME SUBJECT`, whose subject is shown behind the verb. That
    of an unknown tool stays."""
    subject = title.removeprefix(name).strip()
    if name == "shell":
        return f"$ {subject}"
    kind = _KINDS.get(name, name)
    if kind == "append" and is_note(str(arguments.get("path") or subject)):
        kind = "note"
    if kind == "grep":
        kind = "notes" if str(arguments.get("glob", "")).endswith(".md") else kind
        subject = readable(subject)
    if kind == "list" and subject in ("", "."):
        subject = one_line(str(arguments.get("pattern") or "")) or word("workspace", language)
    verb = _VERBS.get(kind, {}).get(language)
    if verb is None:
        return title
    said = verb.runs if state in ("running", "asking") else verb.done if state == "done" else verb.wish
    return f"{said} {subject}".rstrip()


def readable(pattern: str) -> str:
    """A regular expression that a program has made, by its words; one that a programmer would write stays."""
    if not _HARD.search(pattern):
        return pattern
    parts = [" ".join(_SYNTAX.sub(" ", part).split()) for part in pattern.split("|")]
    return one_line(", ".join(filter(None, parts))) or pattern
