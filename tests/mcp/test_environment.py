"""How a server is started: the references in all its texts."""

from __future__ import annotations

from typing import Any

import pytest

from clawbot.config.env import UnresolvedError
from clawbot.config.schema_extensions import McpServer, McpSettings
from clawbot.mcp.client import start_of
from tests.tables import load_table

ENVIRON = {"PROGRAM": "/opt/x", "DATA": "/data", "HOST": "example.org", "TOKEN": "swordfish-9", "PATH": "/bin"}


def test_every_text_of_a_server_is_resolved() -> None:
    server = McpServer.model_validate(
        {
            "command": "${PROGRAM}",
            "args": ["$DATA", "{env:HOST}", "${NONE:-5}", "for F in *; do echo $FILE $DATA; done", "$$HOST"],
            "env": {"A": "os.environ/TOKEN", "B": "${env:HOST}"},
            "cwd": "${DATA}/sub",
        }
    )
    start, _ = start_of(server, McpSettings(), ENVIRON)
    assert start.command == "/opt/x"
    assert start.args == ("/data", "example.org", "5", "for F in *; do echo $FILE $DATA; done", "$HOST")
    assert (start.env["A"], start.env["B"], start.cwd) == ("swordfish-9", "example.org", "/data/sub")


def test_an_address_is_resolved_and_checked() -> None:
    server = McpServer.model_validate({"url": "https://${HOST}/mcp", "headers": {"Authorization": "Bearer $TOKEN"}})
    start, _ = start_of(server, McpSettings(), ENVIRON)
    assert (start.url, start.headers) == ("https://example.org/mcp", {"Authorization": "Bearer swordfish-9"})


@pytest.mark.parametrize(
    ("entry", "said"),
    load_table(__file__, "what_can_t_be_resolved_is_named_and_nothing_starts"),
)
def test_what_can_t_be_resolved_is_named_and_nothing_starts(entry: dict[str, Any], said: str) -> None:
    with pytest.raises(UnresolvedError, match=said):
        start_of(McpServer.model_validate(entry), McpSettings(), ENVIRON)
