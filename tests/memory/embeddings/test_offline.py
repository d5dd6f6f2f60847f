"""The offline vectors: exactly those of the model, with numpy and without, in every script, and no harm when broken."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer as Reference

from clawbot.memory.embeddings import offline
from clawbot.memory.embeddings.offline import OfflineEmbedder, OfflineFiles, find_offline, offline_problem
from clawbot.memory.embeddings.offline_model import (
    _ATOM,
    MAX_RUN,
    MAX_WORDS,
    Bpe,
    BrokenWeightsError,
    Tokenizer,
    WeightTable,
    WordPool,
    atoms_of,
)
from clawbot.memory.embeddings.protocol import EmbeddingError, Vectors
from tests.memory.embeddings.vectors import apart, cosine, figures
from tests.tables import load_table

TEXTS = load_table(__file__, "TEXTS")


@pytest.fixture(scope="module")
def files() -> OfflineFiles:
    found = find_offline()
    assert found is not None, offline_problem()
    return found


@pytest.fixture(scope="module")
def vocabulary(files: OfflineFiles) -> dict[str, int]:
    return msgspec.json.decode(files.tokenizer.read_bytes(), type=Tokenizer).model.vocab


@pytest.fixture(scope="module")
def bpe(vocabulary: dict[str, int]) -> Bpe:
    return Bpe(vocabulary)


@pytest.fixture(scope="module")
def reference(files: OfflineFiles) -> Reference:
    return Reference.from_file(str(files.tokenizer))


@pytest.fixture(scope="module")
def table(files: OfflineFiles) -> WeightTable:
    return WeightTable(files.weights)


def normal(vectors: bytes, dimensions: int) -> list[tuple[float, ...]]:
    return figures(Vectors(dimensions, vectors))


@pytest.mark.parametrize("text", TEXTS)
def test_tokens_are_those_of_the_models_own_tokenizer(text: str, bpe: Bpe, reference: Reference) -> None:
    assert bpe.text(text) == reference.encode(text, add_special_tokens=False).ids


@given(st.text(st.characters(codec="utf-8", exclude_categories=["Z", "C", "N"], exclude_characters="▁<"), max_size=40))
@settings(max_examples=300, deadline=None)
def test_tokens_of_any_word_are_those_of_the_models_own_tokenizer(bpe: Bpe, reference: Reference, word: str) -> None:
    words = " ".join(word.split())
    assert bpe.text(words) == (reference.encode(words, add_special_tokens=False).ids if words else [])


def test_no_token_reaches_over_the_edge_of_a_part(vocabulary: dict[str, int]) -> None:
    special = {"<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))}
    across = {token for token in vocabulary.keys() - special if _ATOM.findall(token) != [token]}
    # These make "m²." differ by nothing that counts.
    assert across == {"².", "²,", "²)."}


def test_each_token_is_reached_by_merging(vocabulary: dict[str, int], bpe: Bpe) -> None:
    # So a part that is a token needs no merging at all.
    longer = [token for token in vocabulary if len(token) > 1 and not token.startswith("<") and "▁" not in token[1:]]
    assert [token for token in longer if bpe._merged(list(token)) != [token]] == []


def test_half_a_surrogate_pair_is_a_question_mark(bpe: Bpe) -> None:
    assert bpe.text("a\ud83d") == [*bpe.text("a"), bpe._bytes[ord("?")]]


def test_a_run_without_end_is_cut(bpe: Bpe) -> None:
    assert max(map(len, atoms_of("a" * 10_000))) == MAX_RUN
    assert len(bpe.text("QUJD" * 5_000)) > 1_000


def test_with_numpy_and_without_gives_the_same(bpe: Bpe, table: WeightTable) -> None:
    many = normal(WordPool(bpe, table).embed(TEXTS), table.dimensions)
    few = [normal(table.unit_sum(bpe.text(text)), table.dimensions)[0] for text in TEXTS]
    for one, other in zip(many, few, strict=True):
        assert apart(one, other) < 1e-6
        assert cosine(one, other) > 0.999999


def test_a_vector_is_the_mean_of_its_tokens_rows(files: OfflineFiles, table: WeightTable, reference: Reference) -> None:
    import numpy as np

    rows = np.frombuffer(files.weights.read_bytes(), np.float16, offset=table.offset).reshape(-1, table.dimensions)
    text = TEXTS[0]
    mean = rows[reference.encode(text, add_special_tokens=False).ids].astype(np.float64).mean(axis=0)
    (ours,) = normal(table.unit_sum(Bpe(_vocabulary(files)).text(text)), table.dimensions)
    assert np.abs(mean / np.linalg.norm(mean) - np.array(ours)).max() < 1e-6


def _vocabulary(files: OfflineFiles) -> dict[str, int]:
    return msgspec.json.decode(files.tokenizer.read_bytes(), type=Tokenizer).model.vocab


def test_what_was_embedded_before_makes_no_difference(bpe: Bpe, table: WeightTable) -> None:
    pool = WordPool(bpe, table)
    first = pool.embed(TEXTS)
    pool.embed([f"word{number} 第{number}章" for number in range(500)])
    assert pool.embed(TEXTS) == first


def test_more_words_than_the_first_room_holds_are_right(
    bpe: Bpe, table: WeightTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = WordPool(bpe, table).embed(TEXTS)
    monkeypatch.setattr("clawbot.memory.embeddings.offline_model._FIRST_ROWS", 2)
    assert WordPool(bpe, table).embed(TEXTS) == plain


def test_words_beyond_what_is_kept_are_right_and_forgotten(
    bpe: Bpe, table: WeightTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("clawbot.memory.embeddings.offline_model.MAX_WORDS", 20)
    pool = WordPool(bpe, table)
    plain = WordPool(bpe, table).embed(TEXTS[:2])
    pool.embed(["one two three"])
    for _ in range(3):
        pool.embed([f"new{'abcdefghij'[number // 10]}{'abcdefghij'[number % 10]}" for number in range(50)])
        assert pool.embed(TEXTS[:2]) == plain
    assert len(pool._positions) < 50 < MAX_WORDS


@pytest.mark.parametrize(
    "form", ["{n}", "{n}:", "2026-11-{n}", "#{n}", "v1.{n}", "turn{n}", "{n:x}x", "第{n}章", "²{n}"]
)
def test_numbers_that_never_come_again_take_no_room(bpe: Bpe, table: WeightTable, form: str) -> None:
    pool = WordPool(bpe, table)
    held = []
    for start in (0, 1_000):
        pool.embed([f"turn {form.format(n=n)} is over" for n in range(start, start + 1_000)])
        held.append(len(pool._positions))
    assert held[1] - held[0] < 50 < 1_000


def test_a_text_that_is_longer_than_all_others_together(bpe: Bpe, table: WeightTable) -> None:
    long = "the meeting was moved " * 5_000
    short, repeated = normal(WordPool(bpe, table).embed(["the meeting was moved", long]), table.dimensions)
    assert cosine(short, repeated) > 0.99999


async def test_texts_that_say_nothing_are_zeros(files: OfflineFiles) -> None:
    embedder = OfflineEmbedder(files)
    for texts in (["", " \n\t", "word"], ["", " \n\t", "word"] + ["more words than fit"] * 500):
        vectors = await embedder.embed(texts, "document")
        assert len(vectors) == len(texts)
        assert vectors.row(0) == vectors.row(1) == bytes(4 * vectors.dimensions)
        assert abs(sum(figure**2 for figure in figures(vectors)[2]) - 1) < 1e-5
    assert len(await embedder.embed([], "document")) == 0


async def test_near_meanings_are_near(files: OfflineFiles) -> None:
    embedder = OfflineEmbedder(files)
    asked, near, far = figures(
        await embedder.embed(["What does she eat?", "her favourite food is pizza", "the server was rebooted"], "query")
    )
    assert cosine(asked, near) > cosine(asked, far) + 0.1
    asked, near, far = figures(await embedder.embed(["喝什么饮料", "他喜欢喝乌龙茶", "服务器昨天重启了"], "query"))
    assert cosine(asked, near) > cosine(asked, far) + 0.1


async def test_many_texts_come_in_their_order_in_batches(files: OfflineFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offline, "_BATCH_TEXTS", 7)
    monkeypatch.setattr(offline, "WITHOUT_NUMPY_CHARS", 0)
    embedder = OfflineEmbedder(files)
    texts = [f"note {number} about {'tea' if number % 2 else '茶'}" for number in range(50)]
    together = await embedder.embed(texts, "document")
    for number in (0, 6, 7, 49):
        assert (await embedder.embed([texts[number]], "query")).row(0) == together.row(number)
    await embedder.aclose()
    assert embedder._pool is None


async def test_the_memory_for_many_texts_is_given_back(files: OfflineFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offline, "WITHOUT_NUMPY_CHARS", 0)
    monkeypatch.setattr(offline, "IDLE_SECONDS", 0.01)
    rested = asyncio.Event()
    rest = OfflineEmbedder._rest

    def told(embedder: OfflineEmbedder) -> None:
        rest(embedder)
        rested.set()

    monkeypatch.setattr(OfflineEmbedder, "_rest", told)
    embedder = OfflineEmbedder(files)
    await embedder.embed(TEXTS, "document")
    await asyncio.wait_for(rested.wait(), 100)
    assert embedder._pool is None


async def test_a_call_that_is_stopped_leaves_the_next_one_whole(
    files: OfflineFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(offline, "WITHOUT_NUMPY_CHARS", 0)
    entered, go_on = threading.Event(), threading.Event()
    embed = WordPool.embed

    def slow(pool: WordPool, texts: list[str]) -> bytes:
        entered.set()
        go_on.wait(100)
        return embed(pool, texts)

    monkeypatch.setattr(WordPool, "embed", slow)
    embedder = OfflineEmbedder(files)
    stopped = asyncio.create_task(embedder.embed(TEXTS, "document"))
    await asyncio.to_thread(entered.wait, 100)
    stopped.cancel()
    with pytest.raises(asyncio.CancelledError):
        await stopped
    again = asyncio.create_task(embedder.embed(TEXTS, "document"))
    go_on.set()
    assert len(await again) == len(TEXTS)


async def test_a_failure_half_way_leaves_no_words_without_sums(
    files: OfflineFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(offline, "WITHOUT_NUMPY_CHARS", 0)
    embedder = OfflineEmbedder(files)
    right = await embedder.embed(TEXTS, "document")
    with monkeypatch.context() as patch:
        patch.setattr(Bpe, "atom", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            await embedder.embed(["words that are unheard of"], "document")
    await embedder.embed(["words that are unheard of"], "document")
    assert (await embedder.embed(TEXTS, "document")).data == right.data


def test_a_query_and_a_few_chunks_need_neither_numpy_nor_the_package() -> None:
    code = """
import asyncio, sys
from clawbot.memory.embeddings.offline import OfflineEmbedder, find_offline
embedder = OfflineEmbedder(find_offline())
asyncio.run(embedder.embed(["where did she go"] + ["a piece of text about 茶"] * 20, "query"))
print(sorted({"numpy", "tokenizers", "wordllama", "safetensors"} & sys.modules.keys()))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "[]\n"


def test_without_the_package_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offline, "_PACKAGE", "no_such_package_of_vectors")
    assert find_offline() is None
    assert "not installed" in offline_problem()


def test_with_the_package_there_is_no_problem() -> None:
    assert offline_problem() == ""


@pytest.fixture
def copy(tmp_path: Path, files: OfflineFiles, monkeypatch: pytest.MonkeyPatch) -> OfflineFiles:
    """A package of its own, to be broken."""
    root = tmp_path / "broken_vectors"
    copied = OfflineFiles(root / offline._TOKENIZER, root / offline._WEIGHTS)
    for source, target in ((files.tokenizer, copied.tokenizer), (files.weights, copied.weights)):
        target.parent.mkdir(parents=True)
        target.write_bytes(source.read_bytes())
    (root / "__init__.py").write_text("raise RuntimeError('imported')")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(offline, "_PACKAGE", "broken_vectors")
    return copied


def test_the_package_is_found_and_not_imported(copy: OfflineFiles) -> None:
    assert find_offline() == copy


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "it is empty"),
        (b"\x02\0\0\0\0\0\0\0{}", "it holds no table"),
        (b"\x02\0\0\0\0\0\0\0{]", "its header is broken"),
        (b"version https://git-lfs.github.com/spec/v1", "it is no safetensors file"),
    ],
)
def test_broken_weights_are_a_sentence(copy: OfflineFiles, content: bytes, reason: str) -> None:
    copy.weights.write_bytes(content)
    assert find_offline() is None
    assert reason in offline_problem()


def test_weights_that_are_cut_off(copy: OfflineFiles) -> None:
    copy.weights.write_bytes(copy.weights.read_bytes()[:100_000])
    assert "cut off" in offline_problem()
    with pytest.raises(BrokenWeightsError, match="cut off"):
        WeightTable(copy.weights)


def test_a_missing_file_is_named(copy: OfflineFiles) -> None:
    copy.tokenizer.unlink()
    assert str(copy.tokenizer) in offline_problem()


@pytest.mark.parametrize(
    "content", [b"{", b"\xff", b'{"model": {"vocab": {}}}', b'{"model": {"vocab": {"a": "b"}}}', b"[]"]
)
async def test_a_broken_vocabulary_is_an_error_for_people(copy: OfflineFiles, content: bytes) -> None:
    copy.tokenizer.write_bytes(content)
    with pytest.raises(EmbeddingError, match="cannot be read") as caught:
        await OfflineEmbedder(copy).embed(["text"], "query")
    assert not caught.value.retryable
    assert caught.value.hint


async def test_a_vocabulary_of_another_model_is_refused(copy: OfflineFiles) -> None:
    tokens = {f"<0x{byte:02X}>": byte for byte in range(256)} | {"beyond": 32_000}
    copy.tokenizer.write_bytes(msgspec.json.encode({"model": {"vocab": tokens}}))
    with pytest.raises(EmbeddingError, match="fewer rows"):
        await OfflineEmbedder(copy).embed(["text"], "query")
