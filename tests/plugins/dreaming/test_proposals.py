"""The record of proposals, and how accepted ones are written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from clawbot.plugins.dreaming.applying import apply
from clawbot.plugins.dreaming.proposals import Proposal, ProposalStore, identified
from tests.clocks import StillClock

ADD = Proposal("", "add", "MEMORY.md", "- The user's dentist is Dr. Kim (since 2026-03-09)", ("a:1",), "It is so.")
OLD = "- I live in Porto (since 2026-01-02)"
MOVED = structs.replace(
    ADD, kind="supersede", text="- I live in Lisbon (since 2026-03-09)", old=(OLD,), until="2026-03-09"
)


@pytest.fixture
def store(tmp_path: Path) -> ProposalStore:
    return ProposalStore(tmp_path / "dreams", StillClock())


@pytest.mark.parametrize("decision", ["declined", "never"])
@pytest.mark.parametrize(
    "text",
    [
        "- The user's dentist is Dr. Kim (since 2026-03-09)",
        "- Dr. Kim is the dentist (since 2026-03-16)",
        "* Dentist: Dr. Kim",
    ],
)
def test_what_was_turned_down_is_not_proposed_again(store: ProposalStore, decision: Any, text: str) -> None:
    [proposal] = store.record([identified(ADD)])
    store.decide(proposal.id, decision)
    assert store.record([identified(structs.replace(ADD, text=text, sources=("b:2",)))]) == []
    assert store.pending() == []


@pytest.mark.parametrize("text", ["- The dentist is not Dr. Kim", "- The dentist is Dr. Okafor", "- Anna likes tea"])
def test_another_idea_is_proposed(store: ProposalStore, text: str) -> None:
    [proposal] = store.record([identified(ADD)])
    store.decide(proposal.id, "declined")
    assert len(store.record([identified(structs.replace(ADD, text=text))])) == 1


def test_a_truncated_line_is_skipped_and_later_ones_are_read(store: ProposalStore, tmp_path: Path) -> None:
    first, second = identified(ADD), identified(MOVED)
    store.record([first])
    with (tmp_path / "dreams/proposals.jsonl").open("ab") as file:
        file.write(b'{"time":"2026","state":"declined","id":"' + first.id.encode())
    assert store.record([first, second, second]) == [second]
    store.decide(first.id, "later")
    assert store.pending() == [second, first]
    with pytest.raises(KeyError):
        store.decide("unknown", "accepted")


@pytest.mark.parametrize("text", ["# Facts\n\n- Anna likes tea\n", "- Anna likes tea", "", "\ufeff- Tea\r\n- Milk\r\n"])
def test_a_line_is_added_as_the_file_writes_lines_and_only_once(tmp_path: Path, text: str) -> None:
    file = tmp_path / "MEMORY.md"
    file.write_bytes(text.encode())
    assert [apply(tmp_path, None, each).status for each in (ADD, ADD)] == ["written", "already"]
    line_break = "\r\n" if "\r\n" in text else "\n"
    before = text if not text or text.endswith(line_break) else text + line_break
    assert file.read_bytes().decode() == f"{before}{ADD.text}{line_break}"


def test_a_line_goes_into_its_section(tmp_path: Path) -> None:
    (tmp_path / "MEMORY.md").write_text("# M\n\n## Preferences\n\n## Facts\n\n- x\n", "utf-8")
    apply(tmp_path, None, structs.replace(ADD, text="- I prefer tea"))
    assert (tmp_path / "MEMORY.md").read_text("utf-8") == "# M\n\n## Preferences\n\n- I prefer tea\n\n## Facts\n\n- x\n"


def test_an_old_line_stays_with_the_day_of_its_end(tmp_path: Path) -> None:
    (tmp_path / "MEMORY.md").write_text(f"{OLD}\n- x\n", "utf-8")
    assert [apply(tmp_path, None, each).status for each in (MOVED, MOVED)] == ["written", "already"]
    ended = "- I live in Porto (since 2026-01-02, until 2026-03-09)"
    assert (tmp_path / "MEMORY.md").read_text("utf-8") == f"{MOVED.text}\n{ended}\n- x\n"


def test_what_changed_since_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "MEMORY.md"
    file.write_text("- I live in Braga\n", "utf-8")
    drop = structs.replace(ADD, kind="drop", text="", old=("- I live in Braga",))
    assert [apply(tmp_path, None, each).status for each in (MOVED, drop)] == ["refused", "refused"]
    assert file.read_text("utf-8") == "- I live in Braga\n"


def test_a_link_is_not_written_through(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere.md"
    elsewhere.write_text("- x\n", "utf-8")
    (tmp_path / "w").mkdir()
    (tmp_path / "w/MEMORY.md").symlink_to(elsewhere)
    applied = apply(tmp_path / "w", None, ADD)
    assert applied.status == "failed"
    assert elsewhere.read_text("utf-8") == "- x\n"
