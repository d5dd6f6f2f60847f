"""What a result belongs to: headings, lead lines and parent items above it, and the list below it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.memory.search.notes import Searcher, build
from tests.tables import load_table

PARENTS = "".join(f"  - part {number}\n" for number in range(40))
NOTES = {
    "memory/2026-03-09.md": (
        "# Harbour\n\n## Plan\n\nThe critical steps:\n- pump: check the valves\n  - ask Ruta\n"
        "    - spare gasket in box 7\n"
        "  - close the hatch\n- lights off\n\nMinor remarks\n\n- paint is dry\n"
    ),
    "memory/2026-03-10.md": (
        f"# Long\n\n- turbine by Kwan\n{PARENTS}  - rotor balanced\n\nWhy we moved:\n1. rent\n2. noise\n\n- other\n"
    ),
    "memory/2026-03-11.md": "# 错误\n\n失败页面的教训：\n1. 先备份\n2. 写测试\n   - 覆盖登录\n\n## 结束\n",
}


@pytest.mark.parametrize(("query", "snippet", "above", "below"), load_table(__file__, "results"))
@pytest.mark.parametrize("vectors", [True, False])
def test_a_result_knows_what_it_belongs_to(
    tmp_path: Path, query: str, snippet: str, above: list[str], below: list[str], vectors: bool
) -> None:
    reader = build(tmp_path / "index.sqlite", NOTES)
    hit = next(hit for hit in Searcher(reader).load().ask(query, vectors=vectors).hits if snippet in hit.snippet)
    assert [line.text for line in hit.above] == above
    assert [line.text for line in hit.below] == below
    text = NOTES[hit.path].split("\n")
    assert all(text[line.line - 1].strip() == line.text.strip() for line in (*hit.above, *hit.below))
    reader.close()
