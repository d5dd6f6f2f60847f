"""Cases of tests in files of their own: a line of JSON each, below `[section]`. Lines with `#` are comments."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def read_cases(name: str) -> dict[str, list[Any]]:
    """Return the cases in `name`.cases by section; lists are tuples, as in Python's tables."""
    sections: dict[str, list[Any]] = {}
    for line in (Path(__file__).parent / f"{name}.cases").read_text(encoding="utf-8").splitlines():
        if line.startswith("[") and line.endswith("]") and line[1:-1].isidentifier():
            cases = sections[line[1:-1]] = []
        elif line and not line.startswith("#"):
            case = json.loads(line)
            cases.append(tuple(case) if isinstance(case, list) else case)
    return sections
