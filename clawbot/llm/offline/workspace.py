"""Files and commands of the workspace: one tool call for one plain request, its answer shown as data."""

from __future__ import annotations

import re

from clawbot.llm.offline.answers import say
from clawbot.llm.offline.intents import Intent
from clawbot.llm.offline.quoting import Block, one_line, quoted_lines
from clawbot.llm.offline.turn import Call, Outcome, Plan, Turn

_NOTHING = ("No matches.", "Nothing fits.")


def list_files(turn: Turn, intent: Intent) -> Plan:
    """Show what a folder holds, the workspace when none is named."""
    if "list" not in turn.tools:
        return say(turn.language, "no_tool", tool="list")
    path = intent.path or "."
    outcomes = yield [Call("list", {"path": path})]
    return _shown(turn, outcomes[0], "listing", path=path)


def read_file(turn: Turn, intent: Intent) -> Plan:
    """Show a file."""
    if "read" not in turn.tools:
        return say(turn.language, "no_tool", tool="read")
    outcomes = yield [Call("read", {"path": intent.path})]
    return _shown(turn, outcomes[0], "content", path=intent.path)


def search_files(turn: Turn, intent: Intent) -> Plan:
    """Show the lines of the workspace's files, or of one, that hold some words."""
    if "grep" not in turn.tools:
        return say(turn.language, "no_tool", tool="grep")
    arguments = {"pattern": re.escape(intent.text), "ignore_case": True}
    if intent.path:
        arguments["path"] = intent.path
    outcomes = yield [Call("grep", arguments)]
    if outcomes[0].text.strip() in _NOTHING:
        key = "no_matches_in" if intent.path else "no_matches"
        return say(turn.language, key, text=one_line(intent.text), path=intent.path)
    return _shown(turn, outcomes[0], "matches", text=one_line(intent.text))


def append_text(turn: Turn, intent: Intent) -> Plan:
    """Add a text at the end of a file."""
    if "append" not in turn.tools:
        return say(turn.language, "no_tool", tool="append")
    outcomes = yield [Call("append", {"path": intent.path, "content": _line(intent.text)})]
    return _done(turn, outcomes[0])


def write_file(turn: Turn, intent: Intent) -> Plan:
    """Make a new file; one that exists is left as it is."""
    if not intent.text:
        return say(turn.language, "write_what", path=intent.path)
    for tool in ("write", "list"):
        if tool not in turn.tools:
            return say(turn.language, "no_tool", tool=tool)
    path = intent.path.removeprefix("./")
    outcomes = yield [Call("list", {"pattern": path})]
    if outcomes[0].is_error:
        return _failed(turn, outcomes[0])
    if path in outcomes[0].text.splitlines():
        return say(turn.language, "file_exists", path=path)
    return (yield from overwrite_file(turn, intent))


def overwrite_file(turn: Turn, intent: Intent) -> Plan:
    """Write a file whatever was in it: the user said so."""
    if "write" not in turn.tools:
        return say(turn.language, "no_tool", tool="write")
    outcomes = yield [Call("write", {"path": intent.path, "content": _line(intent.text)})]
    return _done(turn, outcomes[0])


def replace_text(turn: Turn, intent: Intent) -> Plan:
    """Put one text in the place of another."""
    if "edit" not in turn.tools:
        return say(turn.language, "no_tool", tool="edit")
    outcomes = yield [Call("edit", {"path": intent.path, "old": intent.old, "new": intent.text})]
    return _done(turn, outcomes[0])


def run_command(turn: Turn, intent: Intent) -> Plan:
    """Run a command; whether it may is asked outside of this model."""
    if "shell" not in turn.tools:
        return say(turn.language, "no_tool", tool="shell")
    command = intent.text.strip()
    outcomes = yield [Call("shell", {"command": command})]
    return _shown(turn, outcomes[0], "ran", text=one_line(command, 80).replace("`", "'"))


def _line(text: str) -> str:
    return text if text.endswith("\n") else f"{text}\n"


def _failed(turn: Turn, outcome: Outcome) -> str:
    return say(turn.language, "tool_failed", tool=outcome.call.name, reason=quoted_lines(outcome.text))


def _done(turn: Turn, outcome: Outcome) -> str:
    if outcome.is_error:
        return _failed(turn, outcome)
    return say(turn.language, "written", detail=one_line(outcome.text))


def _shown(turn: Turn, outcome: Outcome, key: str, **values: str) -> str:
    if outcome.is_error:
        return _failed(turn, outcome)
    block = Block(outcome.text)
    answer = say(turn.language, key, block=block.text, **values)
    if not block.cut:
        return answer
    notice = "shortened" if key == "content" else "shortened_lines"
    return answer + say(turn.language, notice, shown=block.shown, total=block.total, **values)
