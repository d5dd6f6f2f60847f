"""Whole settings files of other programs: what is moved, what one notice names, what refuses the start."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from clawbot.config.errors import ConfigError
from clawbot.config.load import load_settings
from clawbot.config.paths import Paths, find_home

FILES: list[dict[str, Any]] = yaml.safe_load((Path(__file__).parent / "samples/foreign.yaml").read_text("utf-8"))
LOADED = [each for each in FILES if "problems" not in each]
REFUSED = [each for each in FILES if "problems" in each]


def written(sample: dict[str, Any]) -> Path:
    file = Path(sample["file"])
    file.write_text(sample["text"], encoding="utf-8")
    return file


@pytest.mark.parametrize("sample", LOADED, ids=lambda sample: str(sample["name"]))
def test_a_file_of_another_program_loads_with_what_it_means_here(sample: dict[str, Any]) -> None:
    loaded = load_settings(Paths(find_home()), config_file=written(sample))
    values = loaded.settings.model_dump(mode="json", by_alias=True)
    for key, wanted in sample["expect"].items():
        found: Any = values
        for step in key.split("."):
            found = found[step]
        assert found == wanted, key
    told = [notice for notice in loaded.notices if "no effect here: " in notice or " is ignored: " in notice]
    assert len(told) <= 1
    for key in sample.get("ignored", ()):
        assert key in told[0]
    assert not any(word in notice for notice in loaded.notices for word in ("invented", "two-key", "hidden-host"))


@pytest.mark.parametrize("sample", REFUSED, ids=lambda sample: str(sample["name"]))
def test_what_restricts_and_can_t_be_kept_says_where_to_write_it(sample: dict[str, Any]) -> None:
    with pytest.raises(ConfigError) as caught:
        load_settings(Paths(find_home()), config_file=written(sample))
    found = [f"{problem.key}: {problem.text}" for problem in caught.value.problems]
    assert len(found) == len(sample["problems"]), found
    for wanted in sample["problems"]:
        assert any(problem.startswith(" ".join(wanted.split())) for problem in found), (wanted, found)
