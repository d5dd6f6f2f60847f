"""Which files are instructions, by their names."""

from __future__ import annotations

import pytest

from clawbot.config.paths import INSTRUCTIONS, UNASKED, is_instruction, shipped


@pytest.mark.parametrize("name", INSTRUCTIONS)
def test_instructions_are_known_in_any_folder_and_spelling(name: str) -> None:
    for parts in ((name,), ("projects", "site", name), (name.lower(),), (name, "below.md")):
        assert is_instruction(parts), parts


@pytest.mark.parametrize(
    "parts", [("USER.md",), ("memory", "2026-11-20.md"), ("MY_AGENTS.md",), ("AGENTS.md.txt",), ()]
)
def test_other_files_are_none(parts: tuple[str, ...]) -> None:
    assert not is_instruction(parts)


def test_each_file_of_a_new_workspace_is_an_instruction_or_is_not_asked_for() -> None:
    names = {path.name for path in shipped("workspace_template").iterdir()}
    assert names == {*INSTRUCTIONS, *UNASKED} - {"BOOT.md"}
