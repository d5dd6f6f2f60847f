"""Reads the sessions of Claude Code (`projects/FOLDER/ID.jsonl`, a tree of lines by `uuid` and `parentUuid`) and of
Codex (`rollout-*.jsonl` with one event a line; the first versions wrote one JSON object)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from msgspec import Struct

from clawbot.importing.source import (
    UUID,
    Blocks,
    Imported,
    Session,
    Skipped,
    Source,
    blocks_of,
    branch,
    entry_id,
    files_in,
    first_time,
    left_in,
    lines_of,
    numbered,
    real_folders,
    small_json,
    text_in,
    unit_of,
)
from clawbot.messages import AssistantMessage, Message, ToolResultMessage, UserMessage
from clawbot.sessions.envelopes import is_command

_COMMAND = re.compile(r"<command-name>/?(.*?)</command-name>", re.DOTALL)
_ARGUMENTS = re.compile(r"<command-args>(.*?)</command-args>", re.DOTALL)
_TYPED = re.compile(r"\A<bash-input>(.*)</bash-input>\Z", re.DOTALL)
# What the program, its editors and hooks add to the words of the user.
_ADDED = re.compile(
    r"<(system-reminder|ide_opened_file|ide_selection|ide_diagnostics|new-diagnostics|browser_instruction"
    r"|user-prompt-submit-hook|session-start-hook)\b[^>]*>.*?</\1>",
    re.DOTALL,
)
_TITLES = {"custom-title": "customTitle", "ai-title": "aiTitle", "summary": "summary"}
_SYNTHETIC = "<synthetic>"  # the model of answers that the program makes
_SPOKEN = ("user", "assistant")
_NO_MESSAGE = ("isMeta", "isCompactSummary", "isVisibleInTranscriptOnly", "isApiErrorMessage")
# What the program writes in place of the user.
_PROGRAM = re.compile(
    r"<(?:local-command-|bash-std|task-notification)|Caveat: The messages below|\[Request interrupted by user"
)


class _Line(Struct, gc=False):
    """A line: the answer `group` that it is a part of, its messages, and whether they are results of tools. One that
    `follows` continues the line before it in the file if it has no known parent."""

    parent: str
    group: str
    follows: bool
    is_result: bool
    messages: list[Message]

    @property
    def is_answer(self) -> bool:
        return any(isinstance(each, AssistantMessage) for each in self.messages)

    @property
    def is_spoken(self) -> bool:
        """Whether it is from a person or a model: commands like `/exit` and their output are no conversation."""
        users = (each for each in self.messages if isinstance(each, UserMessage))
        return self.is_answer or any(not is_command(each.text) for each in users)


def read_claude_code(root: Path, skipped: Skipped) -> Source:
    """Return the sessions below `root` (`~/.claude`, its folder `projects` or one in that). Blocks."""
    folder = real_folders(root, "projects", ".")[0]
    names = files_in(folder, lambda name: name.endswith(".jsonl"), skipped)
    units = [unit_of(folder / name, name, partial(_sessions, skipped=skipped)) for name in names]
    notes = ("CLAUDE.md", "projects/*/memory/*.md", "*/memory/*.md", "memory/*.md")
    left = left_in(root, "notes ({n}), such as {path}: copy what you want", *notes)
    return Source("claude-code", "Claude Code", units, left)


def _sessions(path: Path, skipped: Skipped) -> Iterator[Session]:
    """Yield the conversation in a file, and those of its sub-agents."""
    main: dict[str, _Line] = {}
    sides: dict[str, dict[str, _Line]] = {}
    roots, titles, facts = dict[str, str](), dict[str, str](), dict[str, str]()
    blocks = Blocks("anthropic")
    for at, value in lines_of(path, skipped):
        kind = str(value.get("type"))
        if isinstance(text := value.get(_TITLES.get(kind, "")), str):
            titles[str(value.get("leafUuid")) if kind == "summary" else kind] = text
        for name in ("cwd", "sessionId", "timestamp"):
            if isinstance(value.get(name), str):
                facts.setdefault(name, value[name])
        if kind in _SPOKEN or isinstance(value.get("uuid"), str):
            uuid, line = str(value.get("uuid") or at), _line(value, blocks)
            if value.get("isSidechain") is True:
                root = roots[uuid] = roots.get(line.parent, uuid)
                sides.setdefault(root, {}).setdefault(uuid, line)
            else:
                main.setdefault(uuid, line)
    began, cwd = first_time(facts.get("timestamp"), path.stat().st_mtime), facts.get("cwd", "")
    # A summary names a conversation by its last line, which may be in another file.
    title = next(filter(None, (titles.get(each, "") for each in ("custom-title", "ai-title", *main))), "")
    ident, chosen = _ident(path), _chosen(main)
    if any(main[uuid].is_spoken for uuid in chosen):
        yield Session(ident, _tree_entries(main, chosen), title, cwd, began)
    if not main and sides:
        sides = {path.stem: {uuid: line for side in sides.values() for uuid, line in side.items()}}
        ident = _held_for(path, facts.get("sessionId", path.stem))
    for root, side in sides.items():
        yield Session(f"{ident}/{root}", _tree_entries(side, side), "", cwd, began, parent=ident)


def _ident(path: Path) -> str:
    """Return the id of the conversation in a file, that of its first message: resuming a session may begin a new file,
    with the same messages."""
    spoken = (each for _, each in lines_of(path, Skipped()) if each.get("type") in _SPOKEN)
    first = str(next((each.get("uuid") for each in spoken if each.get("isSidechain") is not True), ""))
    return first if UUID.fullmatch(first) else path.stem


def _held_for(path: Path, session: str) -> str:
    """Return the id of the conversation for which the sub-agent at `path` worked, in the file of the `session`."""
    files = (folder / f"{session}.jsonl" for folder in (path.parent, path.parent.parent.parent))
    found = next((each for each in files if UUID.fullmatch(session) and each.is_file()), None)
    return _ident(found) if found else session


def _line(value: dict[str, Any], blocks: Blocks) -> _Line:
    message, messages = value.get("message"), [*_messages(value, blocks)]
    group = str(message.get("id") or "") if isinstance(message, dict) else ""
    parent = value.get("parentUuid") or value.get("logicalParentUuid")
    is_boundary = value.get("subtype") == "compact_boundary" or value.get("isCompactSummary") is True
    is_results = bool(messages) and all(isinstance(each, ToolResultMessage) for each in messages)
    follows = bool(parent) or is_boundary or is_results or "uuid" not in value or value.get("type") == "assistant"
    return _Line(parent if isinstance(parent, str) else "", group, follows, is_results, messages)


def _chosen(lines: dict[str, _Line]) -> list[str]:
    """Return the conversation that ends with the last message, without what the user went back from."""
    before = dict(zip(lines, ("", *lines), strict=False))
    parents = {
        uuid: line.parent if line.parent in lines else before[uuid] if line.follows else ""
        for uuid, line in lines.items()
    }
    is_list = not any(line.parent in lines for line in lines.values())
    last = next((uuid for uuid, line in reversed(lines.items()) if line.messages), "")
    chain = {*lines} if is_list else {*branch(parents, last)}
    # Calls that were made at once are branches of their own: each answer is complete, and has all its results.
    groups = {lines[uuid].group for uuid in chain} - {""}
    complete = {uuid for uuid, line in lines.items() if line.is_answer and line.group in groups} | chain
    return [uuid for uuid, line in lines.items() if uuid in complete or (line.is_result and line.parent in complete)]


def _tree_entries(lines: dict[str, _Line], chosen: Iterable[str]) -> Iterator[Imported]:
    for uuid in chosen:
        yield from numbered(uuid, lines[uuid].messages)


def _messages(value: dict[str, Any], blocks: Blocks) -> Iterator[Message]:
    message, at = value.get("message"), first_time(value.get("timestamp"))
    if not isinstance(message, dict) or any(value.get(each) is True for each in _NO_MESSAGE):
        return
    content, model = message.get("content"), str(message.get("model") or "")
    if value.get("type") == "user":
        yield from blocks.user([_typed(part) for part in (content if isinstance(content, list) else [content])], at)
    elif value.get("type") == "assistant" and model != _SYNTHETIC:
        yield from blocks.assistant(content, at, model, message.get("stop_reason"))


def _typed(part: Any) -> Any:
    """Return a part of the content with what the user typed, without what the program adds."""
    if isinstance(part, dict) and isinstance(part.get("text"), str):
        return {**part, "text": _typed(part["text"])}
    if not isinstance(part, str):
        return part
    text = _ADDED.sub("", part).strip()
    if named := _COMMAND.search(text):
        given = _ARGUMENTS.search(text)
        return f"/{named[1].strip()} {given[1].strip() if given else ''}".strip()
    if typed := _TYPED.match(text):
        return f"!{typed[1].strip()}"
    return "" if _PROGRAM.match(text) else text


# What the program puts before the words of the user.
_CONTEXT = re.compile(
    r"\s*(?:<(?:user_instructions|environment_context|instructions|permissions instructions|turn_aborted|skills?"
    r"|subagent_notification|collaboration_mode|model_switch|apps_instructions|plugins_instructions"
    r"|user_shell_command|personality_spec)\b|# AGENTS\.md instructions for |</?image\b[^>]*>\s*\Z)",
    re.IGNORECASE,
)
# Editors put files and pages above the words of the user.
_EDITOR = re.compile(r"\A\s*[#<].*?^## My request for Codex:[ \t]*\n", re.DOTALL | re.MULTILINE)
_CALLS = {"function_call": "arguments", "custom_tool_call": "input", "local_shell_call": "action"}
_OUTPUTS = {"function_call_output", "custom_tool_call_output", "local_shell_call_output"}
_ITEMS = {"response_item", "message", *_CALLS, *_OUTPUTS}  # older versions have no response_item
_OF_THE_PROGRAM = {"reasoning", "ghost_snapshot", "web_search_call", "compaction", "other", "message"}


def read_codex(root: Path, skipped: Skipped) -> Source:
    """Return the sessions below `root` (`~/.codex`, or a folder of rollouts), archived ones too. Blocks."""

    def fits(name: str) -> bool:
        _, is_rollout, rest = f"/{name}".rpartition("/rollout-")
        is_plain = rest.endswith((".jsonl", ".json"))
        skipped["compressed files (unpack them first)"] += bool(is_rollout) and ".json" in rest and not is_plain
        return bool(is_rollout) and is_plain

    index = root / "session_index.jsonl"
    named = [value for _, value in lines_of(index, skipped)] if index.is_file() else []
    titles = {str(value.get("id")): str(value.get("thread_name") or "") for value in named}
    sessions = partial(_codex_sessions, titles=titles, skipped=skipped)
    units = [unit_of(root / name, name, sessions) for name in files_in(root, fits, skipped)]
    left = left_in(root, "notes ({n}), such as {path}: copy what you want", "AGENTS.md", "memories/*.md")
    return Source("codex", "Codex", units, left)


def _lines(path: Path, skipped: Skipped) -> Iterator[dict[str, Any]]:
    """Yield the events in a file, the first of which describes the session."""
    if path.suffix == ".jsonl":
        yield from (value for _, value in lines_of(path, skipped))
        return
    complete = small_json(path)
    items = complete.get("items")
    skipped["files that can't be read"] += not isinstance(items, list)
    yield from (each for each in (complete.get("session"), *(items or ())) if isinstance(each, dict))


def _codex_sessions(path: Path, titles: dict[str, str], skipped: Skipped) -> Iterator[Session]:
    first = next(_lines(path, Skipped()), {})
    payload = first.get("payload")
    meta: dict[str, Any] = payload if first.get("type") == "session_meta" and isinstance(payload, dict) else first
    ident = str(meta.get("id") or next(iter(UUID.findall(path.name)), path.stem))
    parent, source = "", meta.get("source")
    if isinstance(source, dict) and "subagent" in source:
        parent = next((each for each in UUID.findall(str(source)) if each != ident), ident)
    began = first_time(meta.get("timestamp"), first.get("timestamp"), path.stat().st_mtime)
    messages = _entries(path, ident, began, skipped)
    yield Session(ident, messages, titles.get(ident, ""), str(meta.get("cwd") or ""), began, parent=parent)


def _entries(path: Path, ident: str, began: int, skipped: Skipped) -> Iterator[Imported]:
    """Yield the messages. What the user went back from remains as a branch that was left."""
    blocks = Blocks("openai")
    model = last = ""
    turns: list[str] = []  # the entry before each message of the user
    for number, line in enumerate(_lines(path, skipped)):
        payload, kind = line.get("payload"), str(line.get("type"))
        item = payload if isinstance(payload, dict) else line
        count = item.get("num_turns")
        if kind == "turn_context":
            model = str(item.get("model") or model)
        elif item.get("type") == "thread_rolled_back" and isinstance(count, int) and 0 < count <= len(turns):
            last = turns[-count]
            del turns[-count:]
        elif kind in _ITEMS:
            at = first_time(line.get("timestamp"), began)
            if message := _message(item, at, model, blocks, skipped):
                turns += [last] if isinstance(message, UserMessage) else []
                parent, last = last, entry_id(f"{ident}:{number}")
                yield Imported(last, message, parent)


def _message(item: dict[str, Any], at: int, model: str, blocks: Blocks, skipped: Skipped) -> Message | None:
    kind, role, content, output = str(item.get("type")), *map(item.get, ("role", "content", "output"))
    if kind in _CALLS:
        name = item.get("name") or ("shell" if kind == "local_shell_call" else "")
        call = blocks.call(item.get("call_id") or item.get("id"), name, item.get(_CALLS[kind]))
        return AssistantMessage([call], provider="openai", model=model, stop_reason="toolUse", timestamp=at)
    if kind in _OUTPUTS:
        complete = output if isinstance(output, dict) else {"content": output}
        failed = complete.get("success") is False
        return blocks.result({**complete, "tool_use_id": item.get("call_id"), "is_error": failed}, at)
    skipped["entries of unknown types"] += kind not in _OF_THE_PROGRAM
    if kind != "message" or role not in ("user", "assistant"):
        return None
    texts = [text for each in blocks_of(content) if (text := text_in(each))]
    if role == "assistant":
        return next(blocks.assistant("\n".join(texts), at, model), None)
    texts = [text for each in texts if not _CONTEXT.match(each) and (text := _EDITOR.sub("", each))]
    return next(blocks.user("\n".join(texts), at), None)
