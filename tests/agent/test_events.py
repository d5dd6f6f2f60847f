"""The events' JSON spelling is a contract: it round-trips, and each event and field stands in the documentation."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

import msgspec
import pytest
from msgspec import structs

from clawbot.agent.events import Event, Notice, ToolFinished

DOCUMENT = Path(__file__).parents[2] / "docs" / "json.md"
KINDS = get_args(Event)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_event_is_documented_with_all_its_fields(kind: type[msgspec.Struct]) -> None:
    rows = {match[1]: match[0] for match in re.finditer(r"^\| `(\w+)` \|.*$", DOCUMENT.read_text(), re.MULTILINE)}
    tag = kind.__struct_config__.tag
    assert tag in rows
    for field in structs.fields(kind):
        assert f"`{field.encode_name}`" in rows[tag]


def test_events_are_one_line_of_json_and_come_back_the_same() -> None:
    event = ToolFinished(call_id="1", name="edit", output="a\nb", details={"diff": "+x"}, duration_ms=3)
    line = msgspec.json.encode(event)
    assert b"\n" not in line
    assert b'"callId"' in line
    assert msgspec.json.decode(line, type=Event) == event


def test_events_cannot_be_changed() -> None:
    for name in ("level", "text"):
        with pytest.raises(AttributeError):
            setattr(Notice(level="info", text="x"), name, "error")
