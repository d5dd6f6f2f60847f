"""An MCP server over stdio that writes the bytes it is given, right or wrong, and checks nothing.

`python raw_server.py ANSWERS`: JSON with the `result` of each method; for `tools/list` one for each cursor ("" is the
first page), `exit` is the cursor at which it ends. A text is the rest of the line behind `{"jsonrpc":"2.0","id":N,`,
or all of it with `%d` for the id. U+DC80 to U+DCFF are single bytes.
"""

from __future__ import annotations

import json
import sys
from typing import Any

HELLO = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "raw", "version": "1"}}
UNKNOWN = '"error":{"code":-32601,"message":"unknown method"}}'


def line(number: int, answer: Any) -> str:
    if isinstance(answer, str):
        return answer.replace("%d", str(number)) if "%d" in answer else f'{{"jsonrpc":"2.0","id":{number},{answer}'
    return f'{{"jsonrpc":"2.0","id":{number},"result":{json.dumps(answer)}}}'


def main() -> None:
    answers: dict[str, Any] = {"initialize": HELLO, "server/discover": UNKNOWN, **json.loads(sys.argv[1])}
    for asked in sys.stdin.buffer:
        request = json.loads(asked)
        if "id" in request:
            answer = answers.get(request["method"], UNKNOWN)
            if request["method"] == "tools/list" and not isinstance(answer, str) and "tools" not in answer:
                cursor = (request.get("params") or {}).get("cursor", "")
                if cursor == answers.get("exit"):
                    sys.exit(3)
                answer = answer[cursor]
            sys.stdout.buffer.write(line(request["id"], answer).encode(errors="surrogateescape") + b"\n")
            sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
