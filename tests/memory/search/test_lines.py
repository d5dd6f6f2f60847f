from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import date
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis
from hypothesis import strategies as st

from clawbot.config.schema_memory import LineWeights, MemorySearchSettings
from clawbot.memory.search import engine
from clawbot.memory.search.engine import Search
from clawbot.memory.search.results import joined
from clawbot.memory.search.scale import on_scale
from clawbot.memory.store.reader import IndexReader
from clawbot.memory.store.records import ChunkRow
from clawbot.memory.store.writer import IndexWriter
from clawbot.memory.values import Mode, SearchRequest
from tests.memory.search.notes import TODAY, Searcher, build, write

NOTES = {
    "MEMORY.md": "# Memory\n\n- The user lives in Hangzhou and speaks Chinese and English.\n- 妻子对花生过敏。\n",
    "memory/2026-03-02.md": (
        "# 2026-03-02\n\n## Proxy\n\n"
        "Anna: Where does the proxy listen now?\n"
        "Ben: On 8443, since the old port was taken.\n"
        "Anna: Fine, I will tell the others about the certificate.\n"
        "\n## 家里\n\n- 早上只喝乌龙茶,不喝咖啡。\n- 周三下午接孩子放学。\n"
    ),
    "memory/2026-03-09.md": (
        "# 2026-03-09\n\nAnna: I saw the dentist yesterday, nothing to do.\nBen: Good. 错误码 E4107 表示额度不足。\n"
        "Anna: The function getUserName is slow, see user_id in foo/bar.py.\n"
    ),
    "memory/2026-05-01-trip.md": "# Trip\n\nWe went up the mountain with the red tent.\n\nThe automobile broke down.\n",
}


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[IndexReader]:
    found = build(tmp_path / "index.sqlite", NOTES)
    yield found
    found.close()


@pytest.fixture(params=["in memory", "from disk"])
def ways(request: pytest.FixtureRequest, reader: IndexReader, monkeypatch: pytest.MonkeyPatch) -> Searcher:
    """Both ways to search: with all lines in memory, and with those alone that come into question."""
    if request.param == "in memory":
        return Searcher(reader).load()
    monkeypatch.setattr(engine, "SMALL_CHUNKS", -1)
    return Searcher(reader)


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("which port does the proxy use", "8443"),
        ("E4107", "额度不足"),
        ("额度不足是什么错误码", "E4107"),
        ("getUserName", "foo/bar.py"),
        ("user name function", "getUserName"),
        ("foo/bar.py", "user_id"),
        ('"red tent"', "red tent"),
        ("她对什么过敏", "花生"),
        ("What is the user's wife allergic to?", "花生"),
        ("早上喝什么茶", "乌龙茶"),
        ("car broke down", "automobile"),
        ("哪天接孩子", "周三"),
        ("mountains", "mountain"),
    ],
)
def test_what_was_written_is_the_best_hit(ways: Searcher, query: str, said: str) -> None:
    assert said in ways.best(query)


@pytest.mark.parametrize("query", ["E4107", "乌龙茶", "proxy port", "花生"])
def test_words_alone_find_it_too(ways: Searcher, query: str) -> None:
    ways.matrix = None
    assert ways.best(query, vectors=False)


def test_words_alone_find_nothing_for_words_that_are_nowhere(ways: Searcher) -> None:
    ways.matrix = None
    for _ in range(2):
        assert ways.ask("zeppelin", "齐柏林", "when?", vectors=False).hits == ()
        assert ways.best("E4107", vectors=False)


@pytest.mark.parametrize(
    ("query", "said"),
    [("cert", "certificate"), ("lis", "listen"), ("E41", "E4107"), ("the mountai", "mountain"), ("茶 hangz", "茶")],
)
def test_a_word_that_is_being_typed_is_found(ways: Searcher, query: str, said: str) -> None:
    ways.matrix = None
    assert said in ways.best(query, vectors=False, prefix=True)
    if " " not in query:
        assert ways.best(query, vectors=False) == ways.best(f"{query} ", vectors=False, prefix=True) == ""


def test_the_word_itself_comes_before_longer_ones(tmp_path: Path) -> None:
    notes = {"MEMORY.md": "# A\n\n- the portrait hangs\n- nothing\n- nothing\n- nothing\n- a port is open\n"}
    searcher = Searcher(build(tmp_path / "index.sqlite", notes))
    assert searcher.ask("port", prefix=True, vectors=False).hits[0].snippet == "- a port is open"
    assert "portrait" in searcher.best("portr", prefix=True, vectors=False)


def test_hits_are_the_lines_of_the_file(ways: Searcher) -> None:
    for query in ("proxy port certificate", "乌龙茶", "mountain tent", "Hangzhou"):
        for hit in ways.ask(query).hits:
            lines = NOTES[hit.path].split("\n")[hit.start_line - 1 : hit.end_line]
            assert hit.snippet == "\n".join(lines).strip()


def test_an_answer_is_found_by_its_question(ways: Searcher) -> None:
    hit = ways.ask("Where does the proxy listen?").hits[0]
    assert "8443" in hit.snippet
    assert hit.path == "memory/2026-03-02.md"


def test_list_items_stand_for_themselves(ways: Searcher) -> None:
    places = ways.places("乌龙茶 接孩子放学")
    assert {"memory/2026-03-02.md:11-11", "memory/2026-03-02.md:12-12"} <= set(places)


def test_a_heading_brings_the_line_below_it(reader: IndexReader) -> None:
    searcher = Searcher(reader, weights=_narrow())
    assert searcher.ask("trip").hits[0].snippet == "# Trip\n\nWe went up the mountain with the red tent."


def test_whom_the_question_names_is_preferred(tmp_path: Path) -> None:
    talk = (
        "# Talk\n\nAnna: I like hiking a lot.\nBen: I like hiking a lot.\n"
        "\n## Later\n\n小明：我喜欢爬山。\n小红：我喜欢爬山。\n"
    )
    searcher = Searcher(build(tmp_path / "i", {"memory/2026-01-01.md": talk}), weights=_narrow()).load()
    assert searcher.best("What does Ben like?").startswith("Ben:")
    assert searcher.best("What does Anna like?").startswith("Anna:")
    assert searcher.best("小红喜欢什么").startswith("小红")


def test_days_of_the_question_are_looked_up(tmp_path: Path) -> None:
    files = {
        f"memory/2026-03-{day:02}.md": f"# Notes\n\nWe met the team {day} minutes after lunch.\n"
        for day in range(1, 29)
    }
    searcher = Searcher(build(tmp_path / "i", files)).load()
    assert searcher.places("what happened on 17 March 2026")[0].startswith("memory/2026-03-17.md")
    assert searcher.places("3月9日开会了吗", today=date(2026, 4, 1))[0].startswith("memory/2026-03-09.md")
    assert searcher.places("the team yesterday", today=date(2026, 3, 6))[0].startswith("memory/2026-03-05.md")


@pytest.mark.parametrize(
    ("line", "query"),
    [("I saw the dentist yesterday.", "dentist on 8 March 2026"), ("上周三去看了牙医。", "2026年3月4日看牙医")],
)
def test_relative_dates_of_lines_count_from_their_file(tmp_path: Path, line: str, query: str) -> None:
    files = {
        "memory/2026-03-09.md": f"Something else.\n\n{line}\n",
        "memory/2026-03-29.md": f"Something else.\n\n{line}\n",
    }
    searcher = Searcher(build(tmp_path / "i", files)).load()
    hits = searcher.ask(query).hits
    assert hits[0].path == "memory/2026-03-09.md"
    assert hits[0].score > hits[1].score


def test_when_prefers_lines_with_a_time(tmp_path: Path) -> None:
    text = "Ben: The concert was loud.\n\nAnna: Later we danced.\n\nBen: The concert was last Friday.\n"
    searcher = Searcher(build(tmp_path / "i", {"memory/2026-03-09.md": text}), weights=_narrow()).load()
    assert searcher.best("When was the concert?") == "Ben: The concert was last Friday."


def test_how_many_prefers_lines_with_a_number(tmp_path: Path) -> None:
    text = "Ben: The rooms are bright.\n\nBen: The rooms are twelve.\n\n小王：房间很亮。\n\n小王：房间是十二。\n"
    searcher = Searcher(build(tmp_path / "i", {"memory/2026-03-09.md": text}), weights=_narrow()).load()
    assert searcher.best("How many rooms are there?", vectors=False) == "Ben: The rooms are twelve."
    assert searcher.best("房间有多少", vectors=False) == "小王：房间是十二。"


def test_a_line_with_more_of_the_words_is_preferred(tmp_path: Path) -> None:
    text = "# A\n\n- a lamp\n- a shelf\n- lamp at the shelf\n- zinc\n- 台灯坏了\n- 台灯在书架上\n"
    weights = LineWeights(first_ranges=1, term=0, section=0, note=0, exact=0, together=8)
    searcher = Searcher(build(tmp_path / "i", {"memory/2026-03-09.md": text}), weights=weights)
    assert searcher.best("lamp shelf", vectors=False) == "- lamp at the shelf"
    assert searcher.best("书架 台灯", vectors=False) == "- 台灯在书架上"


def test_words_that_say_little_are_searched_together_where_there_are_no_others(tmp_path: Path) -> None:
    talk = "".join(f"- he was off for one of {n} days, by then\n" for n in range(40))
    text = f"# A\n\n{talk}- an off by one in the loop\n"
    searcher = Searcher(build(tmp_path / "i", {"memory/2026-03-09.md": text}))
    assert searcher.best("off by one", vectors=False) == "- an off by one in the loop"
    assert searcher.best("Off-by-one?", vectors=False) == "- an off by one in the loop"


def test_a_line_of_a_note_about_the_subject_is_preferred(tmp_path: Path) -> None:
    files = {
        f"memory/2026-03-{day:02}.md": f"# {day}\n\nThe {topic} came.\n\n## Evening\n\n- paid the bill\n"
        for day, topic in enumerate(("gardener", "plumber", "automobile"), start=1)
    }
    searcher = Searcher(build(tmp_path / "i", files)).load()
    assert searcher.places("plumber bill")[:2] == ["memory/2026-03-02.md:1-3", "memory/2026-03-02.md:7-7"]
    paid = [place for place in searcher.places("paid for the car") if place.endswith(":7-7")]
    assert paid[0] == "memory/2026-03-03.md:7-7"


def test_lines_like_the_best_ones_come_before_others(tmp_path: Path) -> None:
    text = (
        "# A\n\n- the zither teacher is Ada\n- violin lesson moved\n- the automobile is sold\n- the car is repaired\n"
    )
    files = {"memory/2026-03-09.md": text}
    searcher = Searcher(build(tmp_path / "i", files), weights=LineWeights(echo=6, first_ranges=1)).load()
    assert searcher.ask("automobile sold").hits[1].snippet == "- the car is repaired"


def test_variants_are_fused_by_the_best_of_each(ways: Searcher) -> None:
    fused = ways.places("E4107", "mountain tent", "乌龙茶")
    for query in ("E4107", "mountain tent", "乌龙茶"):
        assert ways.places(query)[0] in fused


def test_the_order_is_always_the_same(tmp_path: Path) -> None:
    files = {f"memory/2026-01-{day:02}-{chr(96 + day)}.md": "- same line\n" for day in range(1, 27)}
    results = []
    for name in ("a", "b"):
        searcher = Searcher(build(tmp_path / name, files))
        results += [searcher.places("same line"), searcher.load().places("same line")]
    assert results[0] == [f"memory/2026-01-{day:02}-{chr(96 + day)}.md:1-1" for day in range(1, 25)]
    assert all(each == results[0] for each in results)


def test_scores_are_shares_and_fall(ways: Searcher) -> None:
    scores = [hit.score for hit in ways.ask("proxy port certificate").hits]
    assert scores == sorted(scores, reverse=True)
    assert all(0 <= score <= 1 for score in scores)
    assert (
        ways.ask("dentist yesterday nothing").hits[0].score > ways.ask("nothing quantum chromodynamics").hits[0].score
    )


@pytest.mark.parametrize("vectors", [True, False])
@pytest.mark.parametrize("query", ["proxy port certificate", "which port does the proxy use", "额度不足", "dentist"])
def test_the_least_score_drops_the_hits_below_it_and_changes_no_other(
    ways: Searcher, query: str, vectors: bool
) -> None:
    ways.ask(query)  # a process that has searched once reads the whole index
    hits = ways.ask(query, vectors=vectors).hits
    for score in (0.0, 0.35, *(hit.score for hit in hits), 1.0):
        found = ways.ask(query, vectors=vectors, min_score=score)
        assert (found.hits, found.warnings) == (tuple(hit for hit in hits if hit.score >= score), ())
    lower = ways.settings.query.model_copy(update={"min_score": hits[0].score})
    ways.settings = ways.settings.model_copy(update={"query": lower})
    assert {hit.score for hit in ways.ask(query, vectors=vectors).hits} == {hits[0].score}
    assert ways.ask(query, vectors=vectors, min_score=0.0).hits == hits


@pytest.mark.parametrize("order", [None, [4, 0, 2], [1, 1, 99], range(59, -1, -1)])
@pytest.mark.parametrize("score", [0.2, 0.35, 0.5, 0.6, 0.75])
def test_a_reordered_line_is_filtered_by_the_score_it_shows(
    ways: Searcher, score: float, order: Sequence[int] | None
) -> None:
    def results(least: float) -> dict[str, float]:
        request = SearchRequest(queries=("proxy port certificate",), min_score=least)
        search = Search(ways.reader, request, (None,), ways.settings, TODAY, ways.matrix)
        return {hit.location: hit.score for hit in ways.engine.rank(search).results(order).hits}

    ways = Searcher(ways.reader, weights=_narrow())
    everything = results(0.0)
    assert results(score) == {place: own for place, own in everything.items() if own >= score}


@pytest.mark.parametrize("mode", get_args(Mode))
def test_the_scale_keeps_the_order_and_three_decimals(mode: Mode) -> None:
    scores = [on_scale(share / 100, mode) for share in range(101)]
    assert (scores[0], scores[-1]) == (0, 1)
    assert scores == sorted(set(scores))
    assert all(score == round(score, 3) for score in scores)
    assert on_scale(0.7, mode) * on_scale(0.5, mode) == pytest.approx(on_scale(0.35, mode), abs=1e-3)


def test_results_keep_to_their_budget(tmp_path: Path) -> None:
    text = "\n\n".join(f"The garden has {number} roses and some more words of no interest." for number in range(200))
    searcher = Searcher(build(tmp_path / "i", {"memory/2026-03-09.md": text})).load()
    for chars, count in ((2_500, 6), (3_000, 12), (400, 6), (200, 1)):
        hits = searcher.ask("roses in the garden", max_chars=chars, max_results=count).hits
        assert 0 < len(hits) <= count
        assert sum(len(hit.snippet) for hit in hits) <= chars
        assert all(len(hit.snippet) <= 700 for hit in hits)


def test_a_line_longer_than_the_budget_is_cut_not_lost(tmp_path: Path) -> None:
    text = "Roses. " + "word " * 2_000 + "\n"
    searcher = Searcher(build(tmp_path / "i", {"memory/2026-03-09.md": text})).load()
    (hit,) = searcher.ask("roses", max_chars=300).hits
    assert hit.snippet == f"{text[:296]} …"


@pytest.mark.parametrize(
    ("before", "said", "query"),
    [
        ("Nothing of note happened. ", "We planted the roses by the wall.", "where are the roses"),
        ("今天没有什么特别的事情。" * 2, "我们在墙边种了玫瑰。", "玫瑰种在哪里"),
    ],
)
def test_a_cut_shows_what_was_found(tmp_path: Path, before: str, said: str, query: str) -> None:
    searcher = Searcher(build(tmp_path / "i", {"memory/2026-03-09.md": f"{before * 200}{said}{before * 200}\n"})).load()
    for chars in (120, 300):
        hit = searcher.ask(query, max_chars=chars).hits[0]
        assert said in hit.snippet
        assert hit.snippet.endswith(" …")
        assert len(hit.snippet) <= chars


def test_slices_of_one_line_are_one_line_again() -> None:
    texts = ((1, 4, "Red roses."), (2, 4, "White ones。"), (3, 4, "Blue."), (4, 6, "Tulips."))
    rows = [ChunkRow(one, line, line, "prose", None, None, 0, text) for one, line, text in texts]
    assert joined(rows, "memory") == "Red roses. White ones。Blue.\n\nTulips."
    # In a transcript several lines of a message have the number of its line.
    assert joined(rows, "sessions") == "Red roses.\nWhite ones。\nBlue.\n\nTulips."


def test_blank_lines_are_within_the_budget(tmp_path: Path) -> None:
    searcher = Searcher(build(tmp_path / "i", {"MEMORY.md": "red roses\n\n\n\nred tulips\n\n\n\nred asters\n"})).load()
    for chars in range(1, 40):
        hits = searcher.ask("red roses tulips asters", max_chars=chars).hits
        assert 0 < sum(len(hit.snippet) for hit in hits) <= chars


@pytest.mark.parametrize(
    ("request_", "paths"),
    [
        ({"after": date(2026, 5, 1)}, {"memory/2026-05-01-trip.md"}),
        ({"before": date(2026, 3, 2)}, {"memory/2026-03-02.md"}),
        ({"after": date(2026, 3, 2), "before": date(2026, 3, 9)}, {"memory/2026-03-02.md", "memory/2026-03-09.md"}),
        ({"path": "MEMORY.md"}, {"MEMORY.md"}),
        ({"path": "memory/"}, set(NOTES) - {"MEMORY.md"}),
        ({"path": "./memory"}, set(NOTES) - {"MEMORY.md"}),
        ({"path": "memory/2026-03-*.md"}, {"memory/2026-03-02.md", "memory/2026-03-09.md"}),
        ({"path": "nowhere"}, set()),
        ({"after": date(2030, 1, 1)}, set()),
    ],
)
def test_bounds_and_paths(ways: Searcher, request_: dict[str, Any], paths: set[str]) -> None:
    found = {
        hit.path for hit in ways.ask("Anna proxy mountain Hangzhou E4107 automobile", max_results=30, **request_).hits
    }
    assert found == paths


def test_undated_files_are_named_when_dates_leave_them_out(ways: Searcher) -> None:
    assert ways.ask("Hangzhou", after=date(2026, 1, 1)).warnings == ("Left out because they have no date: MEMORY.md.",)
    assert ways.ask("Hangzhou").warnings == ()


def test_what_stands_outside_of_the_scope_does_not_crowd_it_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {f"memory/2026-01-{day:02}.md": "roses " * 3 + "\n\n" + "More roses.\n\n" * 40 for day in range(1, 29)}
    files["memory/2026-02-01.md"] = "One rose among all of the thorns.\n"
    monkeypatch.setattr(engine, "SMALL_CHUNKS", -1)
    searcher = Searcher(build(tmp_path / "i", files))
    assert searcher.places("roses", after=date(2026, 2, 1)) == ["memory/2026-02-01.md:1-1"]
    assert searcher.load().places("roses", after=date(2026, 2, 1)) == ["memory/2026-02-01.md:1-1"]


def test_lines_that_say_nothing_of_the_question_are_no_results(tmp_path: Path) -> None:
    files = {
        "MEMORY.md": "# What stays true\n\n## Preferences\n\n## Facts\n\n## 决定\n",
        "memory/2026-03-01.md": "# Sunday\n\n- The proxy listens on port 8443.\n",
    }
    searcher = Searcher(build(tmp_path / "i", files))
    assert searcher.places("proxy port") == ["memory/2026-03-01.md:3-3"]
    assert searcher.load().places("proxy port") == ["memory/2026-03-01.md:3-3"]


def test_the_deadline_ends_a_search_with_what_it_has(ways: Searcher) -> None:
    nothing = ways.ask("proxy port", should_stop=lambda: True)
    assert nothing.partial
    some = ways.ask("proxy port", should_stop=_after(1))
    assert some.partial
    assert not ways.ask("proxy port").partial


def test_weights_of_the_settings_scale_the_legs(tmp_path: Path) -> None:
    files = {"memory/2026-03-01.md": "- The physician was kind.\n- Ward of the clinic car park is full.\n"}
    path = tmp_path / "i"
    build(path, files).close()

    def best(hybrid: dict[str, object]) -> str:
        settings = MemorySearchSettings.model_validate({"query": {"hybrid": hybrid}})
        return Searcher(IndexReader(path), settings).load().best("doctor clinic")

    assert "car park" in best({"vector_weight": 0.0, "text_weight": 1.0})
    shipped = Searcher(IndexReader(path)).load().ask("doctor clinic").hits
    for same in ({}, {"vector_weight": 0.7, "text_weight": 0.3}, {"vector_weight": 0.7}, {"text_weight": 0.3}):
        settings = MemorySearchSettings.model_validate({"query": {"hybrid": same}})
        assert Searcher(IndexReader(path), settings).load().ask("doctor clinic").hits == shipped


def test_by_meaning_alone_words_count_nothing(tmp_path: Path) -> None:
    files = {"memory/2026-03-01.md": "- The automobile.\n- Carpet bar.\n"}
    settings = MemorySearchSettings.model_validate({"query": {"hybrid": {"enabled": False}}})
    searcher = Searcher(build(tmp_path / "i", files), settings).load()
    assert searcher.best("car") == "- The automobile."
    assert searcher.best("carpet", vectors=False) == "- Carpet bar."


def test_more_wordings_than_are_taken(ways: Searcher) -> None:
    assert ways.ask("E4107", "zeppelin", "zeppelin", "zeppelin", "mountain").hits


def test_an_edited_note_is_found_by_the_same_engine(tmp_path: Path) -> None:
    path = tmp_path / "i"
    reader = build(path, {"memory/2026-03-01.md": "Roses.\n", "memory/2026-03-02.md": "Tulips.\n"})
    searcher = Searcher(reader).load()
    assert searcher.best("roses") == "Roses."
    writer = IndexWriter.open(path)
    write(writer, {"memory/2026-03-01.md": "Violets.\n\nDaisies.\n"})
    with writer.transaction():
        writer.remove(["memory/2026-03-02.md"])
    assert searcher.best("violets").startswith("Violets.")
    assert {hit.snippet for hit in searcher.ask("roses tulips").hits} <= {
        "Violets.",
        "Daisies.",
        "Violets.\n\nDaisies.",
    }
    searcher.load()
    assert searcher.best("daisies").endswith("Daisies.")


def test_vectors_of_another_size_do_no_harm(ways: Searcher) -> None:
    request = SearchRequest(queries=("proxy port",))
    found = ways.engine.rank(
        engine.Search(ways.reader, request, (b"\0" * 12,), ways.settings, TODAY, ways.matrix)
    ).results()
    assert "8443" in found.hits[0].snippet


def test_an_index_without_notes(tmp_path: Path) -> None:
    searcher = Searcher(build(tmp_path / "i", {}))
    assert searcher.ask("anything").hits == ()
    assert searcher.load().ask("anything", "别的").hits == ()


def test_a_reranker_decides_the_order_of_lines(reader: IndexReader) -> None:
    searcher = Searcher(reader).load()
    request = SearchRequest(queries=("Anna proxy mountain",), max_results=3)
    ranking = searcher.engine.rank(engine.Search(reader, request, (None,), searcher.settings, TODAY, searcher.matrix))
    texts = ranking.texts(50)
    last = len(texts) - 1
    assert texts[last] in ranking.results([last, last, 999, -1]).hits[0].snippet
    assert ranking.results([last]).hits[0].score < ranking.results().hits[0].score, "each line has its own"
    assert ranking.results([]) == ranking.results()


ANY_TEXT = st.one_of(
    st.text(max_size=80),
    st.lists(
        st.sampled_from(
            ["proxy", '"', "OR", "*", "NEAR(", "乌龙茶", "的", "\ud800", "\0", "2026-03-02", ":", "yesterday"]
        )
    ).map(" ".join),
)


@hypothesis(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(ANY_TEXT, min_size=1, max_size=4))
def test_any_text_is_a_question(reader: IndexReader, queries: list[str]) -> None:
    found = Searcher(reader).ask(*queries, vectors=False)
    assert all(hit.path in NOTES and hit.snippet for hit in found.hits)


def _narrow() -> LineWeights:
    """Without the merging of lines, to see which one is the best."""
    return LineWeights(range_chars=1)


def _after(calls: int) -> Callable[[], bool]:
    left = iter(range(calls))
    return lambda: next(left, None) is None


@pytest.mark.parametrize("profile", ["lines", "classic"])
def test_without_vectors_words_count_whatever_their_weight(tmp_path: Path, profile: str) -> None:
    hybrid = {"vector_weight": 1, "text_weight": 0}
    settings = MemorySearchSettings.model_validate({"profile": profile, "query": {"hybrid": hybrid}})
    searcher = Searcher(build(tmp_path / "i", NOTES, settings), settings)
    found = searcher.ask("E4107", vectors=False)
    assert "E4107" in found.hits[0].snippet
    assert found.hits[0].score > 0
    assert found.warnings == ("There are no vectors for this search: words are used although text_weight is 0.",)
    assert searcher.ask("E4107").warnings == ()


def test_a_wording_without_a_vector_beside_one_with_it_does_no_harm(tmp_path: Path) -> None:
    settings = MemorySearchSettings.model_validate({"query": {"hybrid": {"vector_weight": 1, "text_weight": 0}}})
    searcher = Searcher(build(tmp_path / "i", NOTES), settings)
    hits = searcher.ask("the proxy listens on 8443", "?!").hits
    assert "8443" in hits[0].snippet
    assert all(0 <= hit.score <= 1 for hit in hits)


def test_bounds_the_wrong_way_round_are_told(reader: IndexReader) -> None:
    found = Searcher(reader).ask("proxy", after=date(2026, 5, 1), before=date(2026, 3, 1))
    assert (found.hits, found.warnings) == (
        (),
        ("Nothing can be found: `after` (2026-05-01) is later than `before` (2026-03-01).",),
    )


@pytest.mark.parametrize(
    ("question", "line"),
    [
        ("are the get-to-know-you questions still scheduled", "- Get-to-Know-X cron jobs removed"),
        ("how far is the knife project", "- BladeWorks: first draft"),
        ("which room has twenty-three seats", "- 23 chairs in the hall"),
        ("教室里有23把椅子吗", "- 大厅二十三个位子"),
        ("会持续7天吗", "- 展览一周"),
    ],
)
def test_parts_and_numbers_meet(tmp_path: Path, question: str, line: str) -> None:
    notes = {"memory/2026-10-02.md": f"{line}\n- the letter of the bank\n- 下午去游泳\n- tea with the neighbours\n"}
    hits = Searcher(build(tmp_path / "i", notes)).ask(question, vectors=False).hits
    assert [hit.snippet for hit in hits[:1]] == [line]
