"""Makes folders and exports of other programs, in the forms that their public code and its tests document."""

from __future__ import annotations

import json
import uuid
import zipfile
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

BEGAN = datetime(2026, 3, 5, 9, 0, tzinfo=UTC)
BEGAN_MS = int(BEGAN.timestamp() * 1000)
ENGLISH = (
    ("Where do the hens sleep?", "In the blue coop behind the barn."),
    ("And who feeds the geese?", "Martha does, at seven."),
)
CHINESE = (
    ("备份照片的服务器在哪里？", "在地下室的蓝色柜子里。"),
    ("谁负责浇花？", "玛莎每天早上七点浇花。"),
)
Words = Iterable[tuple[str, str]]
WORDS = {"en": ENGLISH, "zh": CHINESE}
JOB: dict[str, Any] = {"id": "77", "name": "feeds", "enabled": True, "schedule": {"kind": "cron", "expr": "0 9 * * *"}}
JOB |= {"payload": {"kind": "agentTurn", "message": "Read the feeds"}}
TORN = b'{"type":"user","message":{"role":"us'
UNKNOWN = {"type": "hologram", "id": "feedf00d", "uuid": "feed", "payload": {"type": "hologram"}, "parentId": None}


def at(minute: int) -> str:
    return (BEGAN + timedelta(minutes=minute)).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def seconds(minute: int) -> float:
    return (BEGAN + timedelta(minutes=minute)).timestamp() + 0.25


def uid(number: int, kind: int = 1) -> str:
    return f"{kind:08x}-0000-4000-8000-{number:012x}"


def put_lines(path: Path, lines: Iterable[Any], end: bytes = b"") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        for line in lines:
            file.write(line if isinstance(line, bytes) else json.dumps(line, ensure_ascii=False).encode() + b"\n")
        file.write(end)
    return path


# -- OpenClaw and pi: a header, then entries with id and parentId --------------------------------------------------


def pi_lines(number: int, words: Iterable[tuple[str, str]], version: int = 3) -> list[dict[str, Any]]:
    header = {"type": "session", "version": version, "id": uid(number), "timestamp": at(0), "cwd": "/work"}
    lines: list[dict[str, Any]] = [header]
    parent = None

    def add(kind: str, **fields: Any) -> None:
        nonlocal parent
        ident = f"{number:04x}{len(lines):04x}"
        lines.append({"type": kind, "id": ident, "parentId": parent, "timestamp": at(len(lines)), **fields})
        parent = ident

    add("model_change", provider="anthropic", modelId="claude-opus-4")
    for place, (asked, answered) in enumerate(words):
        add("message", message={"role": "user", "content": [{"type": "text", "text": asked}], "timestamp": BEGAN_MS})
        if not place:
            call = {"type": "toolCall", "id": "c1", "name": "exec", "arguments": {"command": "touch /tmp/hacked"}}
            add(
                "message",
                message={"role": "assistant", "content": [call], "stopReason": "toolUse", "timestamp": BEGAN_MS},
            )
            result = {"toolCallId": "c1", "toolName": "exec", "content": [{"type": "text", "text": "ok"}]}
            add("message", message={"role": "toolResult", "isError": False, "timestamp": BEGAN_MS, **result})
        reply = {"role": "assistant", "content": [{"type": "text", "text": answered}], "model": "claude-opus-4"}
        add("message", message={**reply, "provider": "anthropic", "stopReason": "stop", "timestamp": BEGAN_MS})
        add("custom", customType="openclaw.cache-ttl", data={"at": 1})
    if version == 1:
        plain = [{name: value for name, value in line.items() if name not in ("id", "parentId")} for line in lines[1:]]
        return [{name: value for name, value in header.items() if name != "version"}, *plain]
    return lines


def openclaw(home: Path, words: Iterable[tuple[str, str]] = ENGLISH) -> Path:
    root = home / ".openclaw"
    folder = root / "agents" / "main" / "sessions"
    put_lines(folder / f"{uid(1)}.jsonl", pi_lines(1, words), TORN)
    put_lines(folder / f"{uid(2)}.jsonl.reset.2026-03-06T04-00-00.000Z", pi_lines(2, words))
    job = [("[cron:77 heartbeat] Read the feeds and reply NO_REPLY", "NO_REPLY"), *words]
    put_lines(folder / f"{uid(3)}.jsonl", pi_lines(3, job))
    put_lines(folder / f"{uid(4)}.jsonl.deleted.2026-03-06T04-00-00.000Z", pi_lines(4, words))
    put_lines(folder / f"{uid(1)}.checkpoint.1.jsonl", pi_lines(1, words)[:4])
    put_lines(folder / "stray.jsonl", claude_code_lines(9, words))
    (folder / f"{uid(1)}.jsonl.lock").write_text("{}")
    (folder / "leads-out.jsonl").symlink_to("/etc/passwd")
    index = {"agent:main:main": {"sessionId": uid(1), "displayName": "Hens", "updatedAt": 1}}
    (folder / "sessions.json").write_text(json.dumps(index))
    (root / "cron").mkdir()
    (root / "cron" / "jobs.json").write_text(json.dumps({"version": 1, "jobs": [JOB]}))
    put_lines(root / "workspace" / "MEMORY.md", [b"- The coop is blue.\n"])
    put_lines(root / "workspace" / "memory" / "2026-03-05.md", [b"- Fed the geese.\n"])
    put_lines(root / "workspace" / "USER.md", [b"# Martha's friend\n"])
    put_lines(root / "workspace" / "BOOTSTRAP.md", [b"# Hello\n"])
    put_lines(root / "workspace" / ".git" / "notes.md", [b"no note\n"])
    (root / "workspace" / "memory" / "out.md").symlink_to("/etc/hosts")
    return root


def pi(home: Path, words: Iterable[tuple[str, str]] = ENGLISH) -> Path:
    folder = home / ".pi" / "agent" / "sessions" / "--work--"
    put_lines(folder / f"2026-03-05T09-00-00-000Z_{uid(1)}.jsonl", [*pi_lines(1, words), UNKNOWN])
    put_lines(folder / f"2026-03-05T09-00-00-000Z_{uid(2)}.jsonl", pi_lines(2, words, version=1))
    return home / ".pi"


# -- Claude Code: a tree by uuid and parentUuid, one content block a line ------------------------------------------


def claude_code_lines(number: int, words: Iterable[tuple[str, str]], *, side: bool = False) -> list[dict[str, Any]]:
    lines: list[dict[str, Any]] = []
    parent = None
    session = uid(number)

    def add(kind: str, **fields: Any) -> str:
        nonlocal parent
        ident = f"{number:08x}-1111-4000-8000-{len(lines):012x}"
        shared = {"parentUuid": parent, "isSidechain": side, "cwd": "/work", "sessionId": session, "version": "2.1.0"}
        lines.append({**shared, "type": kind, "uuid": ident, "timestamp": at(len(lines)), **fields})
        parent = ident
        return ident

    def user(content: Any, **fields: Any) -> str:
        return add("user", message={"role": "user", "content": content}, **fields)

    def assistant(block: dict[str, Any], group: str, stop: str | None = None) -> str:
        model = {"model": "claude-opus-4-5", "id": group, "type": "message", "role": "assistant"}
        return add(
            "assistant", message={**model, "content": [block], "stop_reason": stop, "usage": {"input_tokens": 9}}
        )

    user("<command-name>/clear</command-name><command-message>clear</command-message><command-args></command-args>")
    user("Caveat: The messages below were generated by the user while running local commands.", isMeta=True)
    for place, (asked, answered) in enumerate(words):
        user(f"{asked}<system-reminder>the todo list is empty</system-reminder>")
        if not place:
            before = user("this was taken back")
            assistant({"type": "text", "text": "an answer that was taken back"}, "msg_x")
            parent = lines[-3]["uuid"] if before else None
            assistant({"type": "thinking", "thinking": "hm", "signature": "x"}, f"msg_{place}")
            first = assistant(
                {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "rm -rf /"}}, f"msg_{place}"
            )
            second = assistant(
                {"type": "tool_use", "id": "t2", "name": "Read", "input": {"file_path": "a.py"}}, f"msg_{place}"
            )
            parent = first
            user([{"tool_use_id": "t1", "type": "tool_result", "content": "gone", "is_error": True}])
            parent = second
            user([{"type": "tool_result", "tool_use_id": "t2", "content": [{"type": "text", "text": "print(1)"}]}])
            add("progress", data={"type": "hook"})
        assistant({"type": "text", "text": answered}, f"msg_b{place}", "end_turn")
    return lines


def claude_code(home: Path, words: Iterable[tuple[str, str]] = ENGLISH) -> Path:
    folder = home / ".claude" / "projects" / "-work"
    first = claude_code_lines(1, words)
    extra = [
        {"type": "file-history-snapshot", "messageId": "x", "snapshot": {}},
        {"type": "summary", "summary": "Hens and geese", "leafUuid": first[-1]["uuid"]},
        {"type": "summary", "summary": "Of another file", "leafUuid": "elsewhere"},
    ]
    put_lines(folder / f"{uid(1)}.jsonl", [*extra, *first], TORN)
    second = claude_code_lines(2, words)
    boundary: dict[str, Any] = {
        "type": "system",
        "subtype": "compact_boundary",
        "uuid": "b1",
        "parentUuid": None,
        "timestamp": at(50),
    }
    boundary |= {"logicalParentUuid": second[-1]["uuid"], "isSidechain": False, "sessionId": uid(2)}
    summary: dict[str, Any] = {
        "type": "user",
        "uuid": "b2",
        "parentUuid": "b1",
        "timestamp": at(51),
        "isCompactSummary": True,
    }
    summary["message"] = {"role": "user", "content": "This session is being continued from a previous conversation"}
    after: dict[str, Any] = {"type": "user", "uuid": "b3", "parentUuid": "b2", "timestamp": at(52)}
    after["message"] = {"role": "user", "content": "after the compaction"}
    put_lines(folder / f"{uid(2)}.jsonl", [*second, UNKNOWN, boundary, summary, after])
    put_lines(
        folder / f"agent-{uid(3)[:8]}.jsonl",
        [{**line, "sessionId": uid(1)} for line in claude_code_lines(3, words, side=True)],
    )
    put_lines(folder / f"{uid(4)}.jsonl", [{"type": "summary", "summary": "Only a title", "leafUuid": "elsewhere"}])
    return home / ".claude"


# -- Codex: one event a line ---------------------------------------------------------------------------------------


def codex_lines(number: int, words: Iterable[tuple[str, str]], **meta: Any) -> list[dict[str, Any]]:
    lines: list[dict[str, Any]] = []

    def add(kind: str, **payload: Any) -> None:
        lines.append({"timestamp": at(len(lines)), "type": kind, "payload": payload})

    def message(role: str, *texts: str) -> None:
        name = "output_text" if role == "assistant" else "input_text"
        add("response_item", type="message", role=role, content=[{"type": name, "text": text} for text in texts])

    add("session_meta", id=uid(number), timestamp=at(0), cwd="/work", originator="codex_cli_rs", source="cli", **meta)
    message("developer", "<permissions instructions>be careful</permissions instructions>")
    message(
        "user", "# AGENTS.md instructions for /work", "<environment_context>\n<cwd>/work</cwd></environment_context>"
    )
    add("turn_context", cwd="/work", model="gpt-5-codex", approval_policy="never")
    for place, (asked, answered) in enumerate(words):
        message("user", asked)
        add("event_msg", type="user_message", message=asked)
        if not place:
            add("response_item", type="reasoning", summary=[], encrypted_content="gAAAA")
            arguments = json.dumps({"command": ["rm", "-rf", "/"]})
            add("response_item", type="function_call", name="shell", arguments=arguments, call_id="call_1")
            add("response_item", type="function_call_output", call_id="call_1", output='{"output":"gone"}')
            add("response_item", type="custom_tool_call", name="apply_patch", input="*** Begin", call_id="call_2")
            add("response_item", type="custom_tool_call_output", call_id="call_2", output="Done")
            add("response_item", type="hologram", call_id="call_3")
            message("user", "this was taken back")
            message("assistant", "an answer that was taken back")
            add("event_msg", type="thread_rolled_back", num_turns=1)
        message("assistant", answered)
        add("event_msg", type="token_count", info=None)
    return lines


def codex(home: Path, words: Iterable[tuple[str, str]] = ENGLISH) -> Path:
    root = home / ".codex"
    day = root / "sessions" / "2026" / "03" / "05"
    put_lines(day / f"rollout-2026-03-05T09-00-00-{uid(1)}.jsonl", codex_lines(1, words), TORN)
    source = {"subagent": {"thread_spawn": {"parent_thread_id": uid(1), "depth": 1}}}
    lines = codex_lines(2, words)
    lines[0]["payload"]["source"] = source
    put_lines(day / f"rollout-2026-03-05T09-10-00-{uid(2)}.jsonl", lines)
    put_lines(root / "archived_sessions" / f"rollout-2026-03-04T09-00-00-{uid(3)}.jsonl", codex_lines(3, words))
    old: list[dict[str, Any]] = [{"id": uid(4), "timestamp": at(0), "instructions": None}, {"record_type": "state"}]
    for asked, answered in words:
        old.append({"type": "message", "role": "user", "content": [{"type": "input_text", "text": asked}]})
        old.append({"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": answered}]})
    put_lines(root / "sessions" / f"rollout-2025-05-07-{uid(4)}.jsonl", old)
    put_lines(root / "session_index.jsonl", [{"id": uid(1), "thread_name": "Hens and geese", "updated_at": at(9)}])
    (day / f"rollout-2026-03-01T09-00-00-{uid(5)}.jsonl.zst").write_bytes(b"(\xb5/\xfd")
    return root


# -- ChatGPT: a tree of nodes, current_node is its leaf ------------------------------------------------------------


def chatgpt_item(number: int, words: Iterable[tuple[str, str]]) -> dict[str, Any]:
    mapping: dict[str, Any] = {}
    parent: str | None = None

    def node(name: str, message: dict[str, Any] | None, above: str | None) -> str:
        ident = f"{number}-{name}"
        mapping[ident] = {"id": ident, "message": message, "parent": above, "children": []}
        if above:
            mapping[above]["children"].append(ident)
        return ident

    def said(role: str, content: dict[str, Any], **more: Any) -> dict[str, Any]:
        facts = {"author": {"role": role, "name": None, "metadata": {}}, "create_time": seconds(len(mapping))}
        shared = {
            "id": f"{number}-{len(mapping)}",
            "recipient": "all",
            "weight": 1.0,
            "status": "finished_successfully",
        }
        return {**shared, **facts, "content": content, "metadata": {"model_slug": "gpt-5"}, **more}

    def text(words: str) -> dict[str, Any]:
        return {"content_type": "text", "parts": [words]}

    parent = node("root", None, None)
    parent = node("system", said("system", text("")), parent)
    profile = {"content_type": "user_editable_context", "user_profile": "I keep geese", "user_instructions": "Be short"}
    hidden = {"is_visually_hidden_from_conversation": True}
    parent = node("profile", said("user", profile, metadata=hidden), parent)
    for place, (asked, answered) in enumerate(words):
        content = {"content_type": "multimodal_text", "parts": [{"content_type": "image_asset_pointer"}, asked]}
        parent = node(f"u{place}", said("user", content if place == 1 else text(asked)), parent)
        if not place:
            node("left", said("assistant", text("an answer that was taken back")), parent)
            code = {"content_type": "code", "language": "unknown", "text": "import os; os.system('rm -rf /')"}
            parent = node("call", said("assistant", code, recipient="python"), parent)
            output = {"content_type": "execution_output", "text": "gone"}
            tool = {"author": {"role": "tool", "name": "python", "metadata": {}}}
            parent = node("result", said("tool", output, **tool), parent)
            parent = node("think", said("assistant", {"content_type": "thoughts", "thoughts": []}), parent)
        parent = node(f"a{place}", said("assistant", text(f"{answered}\ue200cite\ue202turn0search0\ue201")), parent)
    ident = uid(number, 7)
    times = {"create_time": seconds(0), "update_time": seconds(len(mapping))}
    return {"title": f"Hens {number}", **times, "mapping": mapping, "current_node": parent, "conversation_id": ident}


def chatgpt(home: Path, words: Iterable[tuple[str, str]] = ENGLISH, *, split: bool = False) -> Path:
    path = home / "chatgpt.zip"
    items: list[dict[str, Any]] = [
        chatgpt_item(1, words),
        chatgpt_item(2, words),
        {"title": "empty", "mapping": {}, "id": "x"},
    ]
    files = [items[:1], items[1:]] if split else [items]
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for number, each in enumerate(files):
            name = f"conversations-{number:03}.json" if split else "conversations.json"
            archive.writestr(f"export/{name}", json.dumps(each, ensure_ascii=False))
        archive.writestr("../../evil.md", "leads out")
        archive.writestr("export/chat.html", "<html></html>")
    return path


# -- Claude.ai: a list of messages, sometimes with parents ---------------------------------------------------------


def claude_ai_item(number: int, words: Iterable[tuple[str, str]], *, tree: bool = False) -> dict[str, Any]:
    messages: list[dict[str, Any]] = []
    parent = "00000000-0000-4000-8000-000000000000"

    def add(sender: str, content: list[dict[str, Any]], **more: Any) -> None:
        nonlocal parent
        text = "\n".join(each.get("text", "") for each in content)
        ident = f"{number}-m{len(messages)}"
        links = {"parent_message_uuid": parent} if tree else {}
        facts = {"uuid": ident, "text": text, "content": content, "sender": sender, "created_at": at(len(messages))}
        messages.append({**facts, "attachments": [], "files": [], **links, **more})
        parent = ident

    for place, (asked, answered) in enumerate(words):
        pasted = [{"file_name": "list.txt", "file_type": "txt", "extracted_content": "seed, corn"}]
        add("human", [{"type": "text", "text": asked}], attachments=[] if place else pasted)
        if tree and not place:
            above = parent
            add("assistant", [{"type": "text", "text": "an answer that was taken back"}])
            parent = above
        tools: list[dict[str, Any]] = [
            {"type": "tool_use", "id": None, "name": "web_search", "input": {"query": "hens"}},
            {
                "type": "tool_result",
                "name": "web_search",
                "content": [{"type": "text", "text": "found"}],
                "is_error": False,
            },
        ]
        add("assistant", [*([] if place else tools), {"type": "text", "text": answered}])
    facts = {"uuid": uid(number, 8), "name": f"Geese {number}", "created_at": at(0), "updated_at": at(len(messages))}
    return {**facts, "account": {"uuid": "a"}, "chat_messages": messages}


def claude_ai(home: Path, words: Iterable[tuple[str, str]] = ENGLISH) -> Path:
    folder = home / "data-2026-03-05"
    folder.mkdir()
    items: list[Any] = [claude_ai_item(1, words), claude_ai_item(2, words, tree=True), 7]
    (folder / "conversations.json").write_text(json.dumps(items, ensure_ascii=False))
    (folder / "memories.json").write_text("[]")
    (folder / "users.json").write_text("[]")
    return folder


HOMES = {
    "openclaw": openclaw,
    "pi": pi,
    "claude-code": claude_code,
    "codex": codex,
    "chatgpt": chatgpt,
    "claude-ai": claude_ai,
}


# -- damage --------------------------------------------------------------------------------------------------------


def _damaged_lines(program: str, lines: list[bytes]) -> list[bytes]:
    """`lines` of a transcript with a root that was left, a torn line and an unknown entry."""
    first, *rest = lines
    root_id, answer_id = (str(uuid.uuid5(uuid.NAMESPACE_OID, f"{name}{rest}")) for name in "ab")
    side = {"isSidechain": b'"isSidechain": true' in rest[0]}
    roots: dict[str, list[dict[str, Any]]] = {
        "claude-code": [
            {"type": "user", "uuid": root_id, "parentUuid": None, "message": {"content": "taken back"}, **side},
            {
                "type": "assistant",
                "uuid": answer_id,
                "parentUuid": root_id,
                "message": {"content": "taken back"},
                **side,
            },
        ],
        "codex": [{"type": "session_meta", "payload": {"id": uid(90, 9), "timestamp": at(0)}}],
    }
    ours: dict[str, Any] = {"type": "message", "id": "90909090", "parentId": None, "timestamp": at(0)}
    ours["message"] = {"role": "user", "content": "taken back", "timestamp": BEGAN_MS}
    root = [json.dumps(each).encode() + b"\n" for each in roots.get(program, [ours])]
    unknown = json.dumps(UNKNOWN).encode() + b"\n"
    return [first, *root, TORN + b"\n", unknown, *rest]


def damage(program: str, path: Path) -> None:
    """Damage each conversation at `path`: torn lines, unknown entries, two roots."""
    if program in ("openclaw", "pi", "claude-code", "codex"):
        for file in sorted(path.rglob("*.jsonl*")):
            lines = file.read_bytes().splitlines(keepends=True) if not file.is_symlink() else []
            if len(lines) > 4 and (b'"version": 3' in lines[0] or program in ("claude-code", "codex")):
                file.write_bytes(b"".join(_damaged_lines(program, lines)))
        return
    if program == "chatgpt":
        with zipfile.ZipFile(path) as archive:
            items = json.loads(archive.read("export/conversations.json"))
        for item in items[:2]:
            said = {"author": {"role": "user"}, "content": {"content_type": "text", "parts": ["taken back"]}}
            item["mapping"] |= {
                "r": {"id": "r", "message": said, "parent": None},
                "s": {"message": 7, "parent": "r"},
                "t": 7,
            }
            item["mapping"][item["current_node"]]["message"]["content"]["parts"].append({"content_type": "hologram"})
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("export/conversations.json", json.dumps([7, *items])[:-1] + ', {"title": "torn", "mapp')
    else:
        items = json.loads((path / "conversations.json").read_text())
        for item in items[:2]:
            left = {"uuid": "left", "sender": "human", "text": "taken back", "parent_message_uuid": "gone"}
            is_tree = "parent_message_uuid" in item["chat_messages"][0]
            item["chat_messages"] = [*([left] if is_tree else []), *item["chat_messages"], 7]
            item["chat_messages"][-2]["content"].append({"type": "hologram"})
        text = json.dumps(items)[:-1] + ', {"uuid": "torn", "chat_mess'
        (path / "conversations.json").write_text(text)


def large(program: str, home: Path, words: Words, size: int) -> Path:
    """A home with one conversation of `size` characters, which ends with `words`."""
    many = [*((f"question {number}", "corn " * 100_000) for number in range(size // 500_000)), *words]
    day = f"sessions/2026/03/05/rollout-2026-03-05T09-00-00-{uid(1)}.jsonl"
    match program:
        case "openclaw":
            put_lines(home / "agents/main/sessions" / f"{uid(1)}.jsonl", pi_lines(1, many))
        case "pi":
            put_lines(home / "agent/sessions/--work--" / f"2026_{uid(1)}.jsonl", pi_lines(1, many))
        case "claude-code":
            put_lines(home / "projects/-work" / f"{uid(1)}.jsonl", claude_code_lines(1, many))
        case "codex":
            put_lines(home / day, codex_lines(1, many))
        case _:
            item = chatgpt_item(1, many) if program == "chatgpt" else claude_ai_item(1, many, tree=True)
            put_lines(home / "conversations.json", [json.dumps([item]).encode()])
    return home
