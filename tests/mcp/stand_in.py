"""An MCP server over stdio, written without the library, with the faults that a server can have.

`python stand_in.py [FAULT]`: a fault is something that it does instead of what a server should do.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from typing import Any

FAULT = sys.argv[1] if len(sys.argv) > 1 else ""


def send(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0"} | message) + "\n")
    sys.stdout.flush()


def text(said: str, *, is_error: bool = False) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": said}], "isError": is_error}


def echo(arguments: dict[str, Any]) -> dict[str, Any]:
    return text(f"你好 {arguments['text']}")


def environment(_: dict[str, Any]) -> dict[str, Any]:
    return text(json.dumps(dict(os.environ)))


def die(_: dict[str, Any]) -> dict[str, Any]:
    os._exit(3)


def hang(_: dict[str, Any]) -> dict[str, Any]:
    while True:
        time.sleep(60)


def fail(_: dict[str, Any]) -> dict[str, Any]:
    return text("no such page", is_error=True)


def grow(_: dict[str, Any]) -> dict[str, Any]:
    TOOLS.append({"name": "new", "description": "New.", "inputSchema": {"type": "object"}})
    send({"method": "notifications/tools/list_changed"})
    return text("grown")


def child(_: dict[str, Any]) -> dict[str, Any]:
    started = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    return text(f"{os.getpid()} {started.pid}")


def flood(_: dict[str, Any]) -> dict[str, Any]:
    while True:
        sys.stdout.write("x" * 65536)


def chatter(_: dict[str, Any]) -> dict[str, Any]:
    while True:
        send({"method": "notifications/message", "params": {"level": "info", "data": "x"}})


def lie(_: dict[str, Any]) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": {"not": "text"}}]}


def escape(arguments: dict[str, Any]) -> dict[str, Any]:
    """Start a process that gets away, as `how` says; it holds `fifo` open for writing as long as it lives."""
    how = arguments["how"]
    held = os.open(arguments["fifo"], os.O_WRONLY)
    if (first := os.fork()) == 0:
        if how != "child":
            os.setsid()
        if how != "holds our pipes":
            null = os.open(os.devnull, os.O_RDWR)
            for descriptor in (0, 1, 2):
                os.dup2(null, descriptor)
        if how not in ("child", "session") and os.fork():
            os._exit(0)
        get_away(how, held)
    os.close(held)
    if how not in ("child", "session"):
        os.waitpid(first, 0)
    return text("away")


def get_away(how: str, held: int) -> None:
    if how == "ignores signals":
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGPIPE):
            signal.signal(number, signal.SIG_IGN)
    elif how == "hops":
        ends = time.monotonic() + 60  # also where a test is killed, and nobody ends it
        while time.monotonic() < ends and not os.fork():
            time.sleep(0.005)
            os.setsid()
        os._exit(0)
    elif how == "many":
        for _ in range(30):
            if not os.fork():
                os.setsid()
                break
    elif how == "stopped":
        os.kill(os.getpid(), signal.SIGSTOP)
    elif how == "another name":
        os.set_inheritable(held, True)
        os.execve("/bin/sh", ["x) R 1 (", "-c", "while :; do sleep 1; done"], {})
    time.sleep(600)


CALLS = {call.__name__: call for call in (echo, environment, die, hang, fail, grow, child, flood, chatter, lie, escape)}
TEXT = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
TOOLS: list[dict[str, Any]] = [
    {"name": name, "description": f"Does {name}.", "inputSchema": TEXT if name == "echo" else {"type": "object"}}
    for name in CALLS
]


def answer(request: dict[str, Any]) -> dict[str, Any]:
    match request["method"]:
        case "initialize":
            version = request["params"]["protocolVersion"]
            info = {"name": "stand-in", "version": "1"}
            return {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}
        case "tools/list":
            if FAULT == "mute":
                time.sleep(600)
            return {"tools": TOOLS}
        case "tools/call":
            return CALLS[request["params"]["name"]](request["params"].get("arguments", {}))
        case _:
            return {}


def main() -> None:
    if FAULT == "stubborn":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if FAULT == "exit":
        sys.exit("no licence")
    if FAULT == "junk":
        while True:
            sys.stdout.write("Welcome!\n")
    sys.stderr.write("starting up\n")
    for line in sys.stdin:
        request = json.loads(line)
        if "id" not in request:
            continue
        if request["method"] == "server/discover":
            send({"id": request["id"], "error": {"code": -32601, "message": "unknown method"}})
        else:
            send({"id": request["id"], "result": answer(request)})
    while FAULT == "stubborn":
        time.sleep(60)


if __name__ == "__main__":
    main()
