"""What the program and this model are: its commands, its abilities, the time, and a few friendly words."""

from __future__ import annotations

import re

from clawbot.llm.offline.answers import say
from clawbot.llm.offline.intents import Intent
from clawbot.llm.offline.language import Language
from clawbot.llm.offline.turn import Turn

COMMANDS: dict[str, dict[Language, str]] = {
    "/new": {"en": "starts a fresh session; the old one stays", "zh": "开始新的会话,旧的保留"},
    "/reset": {"en": "does the same as /new", "zh": "与 /new 相同"},
    "/status": {"en": "shows model, session and how full the context is", "zh": "显示模型、会话和上下文用量"},
    "/context": {"en": "shows what fills the context, part by part", "zh": "显示上下文由哪些部分占用"},
    "/compact": {"en": "summarises earlier turns to make room", "zh": "总结之前的对话,腾出空间"},
    "/memory": {"en": "searches your notes", "zh": "搜索笔记"},
    "/sessions": {"en": "lists the conversations, to go on with one", "zh": "列出所有会话,可以继续其中一个"},
    "/model": {"en": "shows the models and switches to another", "zh": "查看并切换模型"},
    "/tools": {"en": "lists the tools", "zh": "列出工具"},
    "/hooks": {"en": "lists the hooks", "zh": "列出钩子"},
    "/edit": {"en": "opens a file of the workspace in the editor", "zh": "在编辑器中打开工作区的文件"},
    "/export": {"en": "writes the conversation to a file, as Markdown or JSON", "zh": "把对话导出为 Markdown 或 JSON"},
    "/help": {"en": "shows all commands and keys", "zh": "显示所有命令和按键"},
    "/quit": {"en": "closes the program", "zh": "退出程序"},
}
ALWAYS = ("/help", "/model", "/status", "/new", "/sessions", "/edit", "/export", "/quit")
"""What is explained when the system prompt lists no commands."""

LISTED_AT_LEAST = 3
"""A system prompt that names fewer commands at the start of lines mentions them, and does not list them."""

_LISTED = re.compile(r"^[ \t]{0,4}(?:[-*][ ]{1,3})?`?(/[a-z]{2,20})\b([^\n]{0,300})", re.MULTILINE)
_HELP_TEXT = re.compile(r"`?[^:—–]{0,60}?`?\s?(?::|—|–| - )\s?(?P<help>.+)")
_WEEKDAYS: dict[Language, tuple[str, ...]] = {
    "en": ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"),
    "zh": ("星期一", "星期二", "星期三", "星期四", "星期五", "星期六", "星期日"),
}


def who(turn: Turn, intent: Intent) -> str:
    """What this model is, what it can do, and how to get another."""
    can, connect = (say(turn.language, key) for key in ("can", "connect"))
    return say(turn.language, "who", can=can, connect=connect)


def can(turn: Turn, intent: Intent) -> str:
    """What this model can do."""
    return say(turn.language, "can") + "\n\n" + say(turn.language, "connect")


def commands(turn: Turn, intent: Intent) -> str:
    """All commands, one a line."""
    return say(turn.language, "commands", lines=_lines(turn))


def command(turn: Turn, intent: Intent) -> str:
    """One command."""
    name = f"/{intent.text.lower()}"
    known = _known(turn)
    if name not in known:
        return say(turn.language, "unknown_command", text=intent.text, lines=_lines(turn))
    return f"`{name}` {known[name]}"


def time(turn: Turn, intent: Intent) -> str:
    """The date and time in the user's zone."""
    now = turn.now
    zone = getattr(now.tzinfo, "key", None) or now.tzname() or "UTC"
    weekday = _WEEKDAYS[turn.language][now.weekday()]
    return say(turn.language, "time", time=f"{now:%H:%M}", date=f"{now:%Y-%m-%d}", weekday=weekday, zone=zone)


def _lines(turn: Turn) -> str:
    return "\n".join(f"- `{name}` {text}" for name, text in _known(turn).items())


def _known(turn: Turn) -> dict[str, str]:
    """The commands that are there, each with what it does: those that the system prompt lists, or the usual ones."""
    listed = dict(_LISTED.findall(turn.system))
    if len(listed) < LISTED_AT_LEAST:
        return {name: COMMANDS[name][turn.language] for name in ALWAYS}
    return {
        name: COMMANDS[name][turn.language] if name in COMMANDS else _help_text(rest) for name, rest in listed.items()
    }


def _help_text(rest: str) -> str:
    found = _HELP_TEXT.match(rest)
    return (found["help"] if found else rest).strip()
