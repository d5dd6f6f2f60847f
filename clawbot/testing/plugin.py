"""clawbot's pytest plugin: the fixture `scripted_llm`.

Every pytest run in an environment with clawbot loads it, so it imports nothing until the fixture is used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from clawbot.testing.fixture import ScriptedLLM, Turns


@pytest.fixture
def scripted_llm(tmp_path: Path) -> Iterator[Callable[[str | Path | Turns], ScriptedLLM]]:
    """Make scripted models: `scripted_llm(turns | path | yaml_text)`.

    The test fails at its end if a request did not match the script, or if turns are left.
    """
    from clawbot.testing.fixture import scripted

    made: list[ScriptedLLM] = []

    def make(source: str | Path | Turns) -> ScriptedLLM:
        made.append(scripted(source, tmp_path))
        return made[-1]

    yield make
    for llm in made:
        llm.close()
    problems = [problem for llm in made for problem in llm.problems()]
    if problems:
        pytest.fail("\n".join(problems), pytrace=False)
