"""The cosines of any model count like those of the offline model, whose scale the weights were learned on."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from clawbot.memory.embeddings.protocol import Purpose, Vectors
from clawbot.memory.search import engine
from clawbot.memory.search.vector_scores import DEVIATION, FEWEST, MEAN, NEAR, LineVectors, Sample, as_offline
from tests.memory.index_host import House, WordEmbedder, find, paths
from tests.memory.search.notes import Searcher, build, narrow_vector

if TYPE_CHECKING:
    from clawbot.memory.arrays import Floats

WAYS = ["all vectors", "matrix", "shortlist", "from disk"]


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    chosen = str(request.param)
    monkeypatch.setattr(engine, "SMALL_CHUNKS", 100_000 if chosen == "all vectors" else -1)
    if chosen == "shortlist":
        monkeypatch.setattr(engine, "WORTH_CHOOSING", 100)
    return chosen


def searcher(tmp_path: Path, files: dict[str, str], way: str) -> Searcher:
    found = Searcher(build(tmp_path / "index.sqlite", files, model=narrow_vector), model=narrow_vector)
    return found.load() if way in {"matrix", "shortlist"} else found


VERBS = ["painted", "repaired", "visited", "sold"]
THINGS = ["garden", "river", "bicycle", "kettle", "museum", "violin"]


def notes_with(line: str) -> dict[str, str]:
    """Two hundred notes, of which a fifth is about what was moved, and one with only `line`."""
    files = {}
    for number in range(200):
        done = "moved" if number % 5 == 0 else VERBS[number % 4]
        lines = [f"- {done} the {THINGS[(number + position) % 6]} {number}" for position in range(4)]
        files[f"memory/{number:03}.md"] = f"# Notes {number}\n\n" + "\n".join(lines) + "\n"
    return files | {"memory/last.md": f"# Notes\n\n{line}\n"}


@pytest.mark.parametrize("queries", [["moved gizmotron gizmotron"], ["moved", "gizmotron gizmotron moved"]])
def test_what_a_model_of_a_narrow_band_is_sure_of_outweighs_a_word(
    tmp_path: Path, way: str, queries: list[str]
) -> None:
    assert "wumpus" in searcher(tmp_path, notes_with("- my wumpus"), way).best(*queries)


class NarrowEmbedder(WordEmbedder):
    """Not the offline model."""

    async def embed(self, texts: Sequence[str], purpose: Purpose) -> Vectors:
        return Vectors.of_rows(map(narrow_vector, texts))


@pytest.mark.parametrize("long_lived", [False, True])
async def test_an_index_knows_whose_vectors_it_has(house: House, long_lived: bool) -> None:
    for path, text in notes_with("- my wumpus").items():
        house.write(path, text)
    async with house.opened(NarrowEmbedder(), long_lived=long_lived) as index:
        await index.sync()
        for _ in range(2):
            assert paths(await find(index, "moved gizmotron gizmotron"))[0] == "memory/last.md"


def test_a_model_of_a_narrow_band_finds_nothing_where_nothing_fits(tmp_path: Path, way: str) -> None:
    assert searcher(tmp_path, notes_with("- my wumpus"), way).ask("xylophone quantum zebra").hits == ()


@pytest.mark.parametrize("others", ["- I prefer tabs over spaces\n- tea at four\n", ""], ids=["some others", "alone"])
def test_of_a_few_lines_the_nearest_is_first(tmp_path: Path, way: str, others: str) -> None:
    files = {"MEMORY.md": f"# Memory\n\n- the wumpus sleeps\n{others}"}
    assert "wumpus" in searcher(tmp_path, files, way).best("gizmotron")


OWN = np.random.default_rng(5).normal(0, 1, 200)


def band(middle: float, width: float, count: int = len(OWN)) -> Floats:
    found: Floats = (middle + width * OWN[:count]).astype("<f4")
    return found


@pytest.mark.parametrize("count", [FEWEST - 1, FEWEST, 200])
def test_where_a_band_is_and_how_wide_does_not_matter(count: int) -> None:
    scaled = as_offline(band(0.8, 0.02), band(0.8, 0.02, count))
    assert scaled == pytest.approx(as_offline(band(0.6, 0.05), band(0.6, 0.05, count)), abs=1e-4)
    of_sample = scaled[:count]
    expected = (of_sample.min(), of_sample.max()) if count < FEWEST else (of_sample.mean(), of_sample.std())
    assert expected == pytest.approx((0, NEAR) if count < FEWEST else (MEAN, DEVIATION), abs=1e-3)


def test_of_a_few_lines_none_is_nearer_than_it_is() -> None:
    assert as_offline(np.array([0.05, 0], "<f4"), np.array([0.05, 0], "<f4")).max() < NEAR


@pytest.mark.parametrize("usual", [[], [0.8], [0.8] * 100])
def test_a_sample_without_a_difference_is_no_error(usual: list[float]) -> None:
    found = as_offline(np.array([0.8, 0.8], "<f4"), np.array(usual, "<f4"))
    assert np.isfinite(found).all()
    assert found[0] == found[1] > 0


def test_lines_at_the_end_of_a_file_are_as_near_as_others() -> None:
    rows = np.stack([np.frombuffer(narrow_vector(f"word{number}"), "<f4") for number in range(200)])
    asked = narrow_vector("word7")
    sample = Sample.of(rows)
    own = rows - sample.centre
    around = own + np.roll(own, 1, axis=0) + np.roll(own, -1, axis=0)
    known = np.ones(200, np.bool_)
    alone = LineVectors(own, own, known, sample).scores(asked).cosines
    inside = LineVectors(own, around, known, sample).scores(asked).cosines
    assert alone.mean() == pytest.approx(inside.mean(), abs=DEVIATION / 4)
