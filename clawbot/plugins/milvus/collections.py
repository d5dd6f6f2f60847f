"""The door to pymilvus: the two collections of an identity, their rows, and their errors.

Passages and claims have collections of their own. The agent is the partition key of both. Everything blocks, and no
call takes longer than its time limit.
"""

from __future__ import annotations

import contextlib
import logging
from array import array
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from msgspec import Struct

from clawbot.errors import ClawbotError
from clawbot.extras import install_command
from clawbot.memory.values import Source
from clawbot.plugins.milvus.passages import (
    Claim,
    StoredPassage,
    collection_name,
    decode_claim,
    encode_claim,
    one_of,
    quoted,
    within,
)

if TYPE_CHECKING:
    from clawbot.memory.store.records import Identity

log = logging.getLogger(__name__)

T = TypeVar("T")

READ_SECONDS = 20.0
WRITE_SECONDS = 60.0
"""Time limits of one call. pymilvus repeats it until then, ever more slowly, while a server asks for patience."""

READ_AT_ONCE = 2_000
"""Rows of one query by id: below Milvus' limit of 16,384, and small enough for one message."""

WRITE_AT_ONCE = 500
"""Rows of one upsert: about a megabyte, far below the 64 MB that a server takes."""

_TEXT_BYTES = 65_535
_SPEAKER_BYTES = 256
_NAME_BYTES = 1_024
# Without lengths and repetitions, the score of a single term is its rarity (see `rarities`).
_BM25 = {"bm25_k1": 1.2, "bm25_b": 0.0}
_FIELDS = ["id", "agent", "ordinal", "start_line", "end_line", "kind", "heading", "flags", "speaker", "text", "words"]
_CLAIM_FIELDS = ["id", "agent", "owner", "path", "at", "body"]
_NOTHING = [0.0, 1.0]
"""Milvus wants a vector in every collection, also in that of the claims and in one without embeddings."""


_HINT = "Check that it runs at memory.milvus.uri."


class MilvusError(ClawbotError):
    """Milvus can't be used now."""


class Candidates(Struct, frozen=True):
    """What is asked of a search: the best by `words` (terms, "" for none) and by `vector` (None for none), at most
    `most` of either, in `source`, under the `conditions` of a filter."""

    source: Source
    words: str
    vector: Sequence[float] | None
    most: int
    conditions: tuple[str, ...] = ()


class Collections:
    """The collections of one identity on one server. For any thread.

    `strong` reads see everything that was written before anywhere; others may be seconds behind.
    """

    def __init__(self, client: Any, prefix: str, identity: Identity) -> None:
        """`client` is a MilvusClient. Nothing is made yet: call `prepare`."""
        self._client = client
        self.passages_name = collection_name(prefix, identity)
        self.claims_name = f"{self.passages_name}_claims"
        self.has_vectors = bool(identity.vectors)
        self.dimensions = 0

    def dimensions_there(self) -> int | None:
        """Return the size of the vectors of the collection; None if there is none yet. Raises MilvusError."""
        with _errors("find the collection"):
            if not self._client.has_collection(self.passages_name, timeout=READ_SECONDS):
                return None
            described = self._client.describe_collection(self.passages_name, timeout=READ_SECONDS)
        fields = {field["name"]: field for field in described["fields"]}
        return int(fields["dense"]["params"]["dim"])

    def prepare(self, dimensions: int) -> None:
        """Make what is missing of both collections, and load them. Raises MilvusError."""
        self.dimensions = dimensions
        with _errors("make the collections"):
            for name, make in ((self.passages_name, self._make_passages), (self.claims_name, self._make_claims)):
                if not self._client.has_collection(name, timeout=READ_SECONDS):
                    _if_new(make)
                self._client.load_collection(name, timeout=WRITE_SECONDS)

    def drop(self) -> None:
        """Delete both collections with everything in them. Raises MilvusError."""
        with _errors("delete the collections"):
            for name in (self.passages_name, self.claims_name):
                self._client.drop_collection(name, timeout=WRITE_SECONDS)

    def close(self) -> None:
        """End the connection. Never fails."""
        try:
            self._client.close()
        except Exception:
            log.info("the connection to Milvus did not end well", exc_info=True)

    def flush(self) -> None:
        """Turn what waits in memory into indexed segments. Only for Lite: a server does so by itself, and limits how
        often it may be asked. Raises MilvusError."""
        with _errors("flush"):
            self._client.flush(self.passages_name, timeout=WRITE_SECONDS)

    def claims(
        self, agents: Collection[str], *, owner: str | None = None, paths: Sequence[str] | None = None, strong: bool
    ) -> list[Claim]:
        """Return the claims of `agents`: all, or those of one owner, or of some paths. Raises MilvusError."""
        conditions = [f"owner == {quoted(owner)}"] if owner is not None else []
        if paths is not None:
            conditions.append(one_of("path", paths))
        return [
            claim
            for row in self._all(self.claims_name, within(agents, *conditions), _CLAIM_FIELDS, strong=strong)
            if (claim := _claim(row)) is not None and claim.agent in agents
        ]

    def put_claims(self, claims: Iterable[Claim]) -> None:
        """Write `claims` over their earlier forms. Raises MilvusError."""
        self._upsert(self.claims_name, [{**encode_claim(claim), "dense": _NOTHING} for claim in claims])

    def remove_claims(self, agent: str, ids: Collection[str]) -> None:
        """Delete claims by id. Raises MilvusError."""
        self._delete(self.claims_name, agent, "id", list(ids))

    def put_passages(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Write passages. Raises MilvusError."""
        self._upsert(self.passages_name, list(rows))

    def remove_blocks(self, agent: str, blocks: Collection[int]) -> None:
        """Delete all passages of `blocks`. Raises MilvusError."""
        self._delete(self.passages_name, agent, "block", list(blocks))

    def present(self, agents: Collection[str], ids: Sequence[int]) -> set[int]:
        """Those of the passages `ids` that exist, seen strongly. Raises MilvusError."""
        return {int(row["id"]) for row in self._by_id(agents, ids, ["id"], strong=True)}

    def every_passage(self, agent: str) -> list[int]:
        """The ids of all passages of `agent`, seen strongly. Raises MilvusError."""
        return [int(row["id"]) for row in self._all(self.passages_name, within([agent]), ["id"], strong=True)]

    def read(self, agents: Collection[str], ids: Sequence[int], *, strong: bool) -> list[StoredPassage]:
        """Those of the passages `ids` that exist, with their vectors, in any order. Raises MilvusError."""
        fields = [*_FIELDS, "dense"] if self.has_vectors else _FIELDS
        found = [_passage(row) for row in self._by_id(agents, ids, fields, strong=strong)]
        return [passage for passage in found if passage.agent in agents]

    def hybrid(self, agents: Collection[str], wanted: Candidates, *, strong: bool) -> list[int]:
        """Return the ids of the candidates, fused there. Raises MilvusError."""
        where = within(agents, f"source == {quoted(wanted.source)}", *wanted.conditions)
        with _errors("search"):
            asked = [_request(wanted.words, "sparse", wanted.most, where)] if wanted.words else []
            if wanted.vector is not None:
                asked.append(_request(wanted.vector, "dense", wanted.most, where))
            if not asked:
                return []
            found = self._client.hybrid_search(
                self.passages_name,
                asked,
                _ranker(),
                limit=wanted.most * len(asked),
                consistency_level=_level(strong=strong),
                timeout=READ_SECONDS,
            )
            return [int(hit["id"]) for hit in found[0]]

    def rarities(
        self, agents: Collection[str], source: Source, terms: Sequence[str], limit: int, *, strong: bool
    ) -> list[tuple[float, list[int]]]:
        """For each term how rare it is (the natural logarithm of BM25: 0 for one in no passage), and up to `limit`
        passages with it. Raises MilvusError."""
        if not terms:
            return []
        where = within(agents, f"source == {quoted(source)}")
        with _errors("search"):
            found = self._client.search(
                self.passages_name,
                data=list(terms),
                anns_field="sparse",
                filter=where,
                limit=limit,
                consistency_level=_level(strong=strong),
                timeout=READ_SECONDS,
            )
            # Lite negates the score.
            return [(abs(hits[0]["distance"]) if hits else 0.0, [int(hit["id"]) for hit in hits]) for hits in found]

    def _all(self, name: str, where: str, fields: Sequence[str], *, strong: bool) -> Iterator[Mapping[str, Any]]:
        with _errors("read"):
            pages = self._client.query_iterator(
                name,
                filter=where,
                output_fields=list(fields),
                batch_size=READ_AT_ONCE,
                consistency_level=_level(strong=strong),
                timeout=READ_SECONDS,
            )
            try:
                while page := pages.next():
                    yield from page
            finally:
                pages.close()

    def _by_id(
        self, agents: Collection[str], ids: Sequence[int], fields: Sequence[str], *, strong: bool
    ) -> Iterator[Mapping[str, Any]]:
        for start in range(0, len(ids), READ_AT_ONCE):
            with _errors("read"):
                yield from self._client.query(
                    self.passages_name,
                    filter=within(agents, one_of("id", ids[start : start + READ_AT_ONCE])),
                    output_fields=list(fields),
                    consistency_level=_level(strong=strong),
                    timeout=READ_SECONDS,
                )

    def _upsert(self, name: str, rows: Sequence[Mapping[str, Any]]) -> None:
        for start in range(0, len(rows), WRITE_AT_ONCE):
            with _errors("write"):
                self._client.upsert(name, list(rows[start : start + WRITE_AT_ONCE]), timeout=WRITE_SECONDS)

    def _delete(self, name: str, agent: str, field: str, values: list[Any]) -> None:
        for start in range(0, len(values), READ_AT_ONCE):
            with _errors("delete"):
                where = within([agent], one_of(field, values[start : start + READ_AT_ONCE]))
                self._client.delete(name, filter=where, timeout=WRITE_SECONDS)

    def _make_passages(self) -> None:
        types, schema, indexes = self._begun()
        schema.add_field("id", types.INT64, is_primary=True)
        for name in ("block", "ordinal", "start_line", "end_line", "kind", "heading", "flags"):
            schema.add_field(name, types.INT64)
        schema.add_field("source", types.VARCHAR, max_length=_SPEAKER_BYTES)
        schema.add_field("speaker", types.VARCHAR, max_length=_SPEAKER_BYTES)
        schema.add_field("text", types.VARCHAR, max_length=_TEXT_BYTES)
        analyzer = {"tokenizer": "standard"}
        schema.add_field("words", types.VARCHAR, max_length=_TEXT_BYTES, enable_analyzer=True, analyzer_params=analyzer)
        schema.add_field("sparse", types.SPARSE_FLOAT_VECTOR)
        schema.add_field("dense", types.FLOAT_VECTOR, dim=self.dimensions or len(_NOTHING))
        schema.add_function(_bm25())
        indexes.add_index("sparse", index_type="SPARSE_INVERTED_INDEX", metric_type="BM25", params=_BM25)
        indexes.add_index("dense", index_type="AUTOINDEX", metric_type="IP")
        self._client.create_collection(
            self.passages_name, schema=schema, index_params=indexes, consistency_level="Bounded", timeout=WRITE_SECONDS
        )

    def _make_claims(self) -> None:
        types, schema, indexes = self._begun()
        schema.add_field("id", types.VARCHAR, max_length=64, is_primary=True)
        schema.add_field("owner", types.VARCHAR, max_length=_NAME_BYTES)
        schema.add_field("path", types.VARCHAR, max_length=_TEXT_BYTES)
        schema.add_field("at", types.INT64)
        schema.add_field("state", types.VARCHAR, max_length=_SPEAKER_BYTES)
        schema.add_field("body", types.VARCHAR, max_length=_TEXT_BYTES)
        schema.add_field("dense", types.FLOAT_VECTOR, dim=len(_NOTHING))
        indexes.add_index("dense", index_type="AUTOINDEX", metric_type="IP")
        self._client.create_collection(
            self.claims_name, schema=schema, index_params=indexes, consistency_level="Strong", timeout=WRITE_SECONDS
        )

    def _begun(self) -> tuple[Any, Any, Any]:
        # Deferred: importing pymilvus takes seconds.
        from pymilvus import DataType

        schema = self._client.create_schema(auto_id=False, enable_dynamic_field=False)
        schema.add_field("agent", DataType.VARCHAR, max_length=_NAME_BYTES, is_partition_key=True)
        return DataType, schema, self._client.prepare_index_params()


def connect(uri: str, token: str, seconds: float) -> Any:
    """Return a MilvusClient for `uri`, connected within `seconds`. Raises MilvusError."""
    # Deferred: importing pymilvus takes seconds, and few have it.
    try:
        from pymilvus import MilvusClient
    except ImportError as error:
        raise MilvusError(
            f"The backend milvus needs packages that are not installed ({error}).",
            hint=f"Install them with: {install_command('milvus')}",
        ) from error
    # It writes every failed call with a traceback to the terminal; the caller reports it.
    logging.getLogger("pymilvus").setLevel(logging.CRITICAL)
    with _errors("connect"):
        return MilvusClient(uri=uri, token=token, timeout=seconds)


@contextlib.contextmanager
def _errors(verb: str) -> Iterator[None]:
    """What goes wrong inside is a MilvusError: nothing that a server or pymilvus does reaches the program."""
    try:
        yield
    except (ClawbotError, GeneratorExit):
        raise
    except Exception as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())[:300]
        raise MilvusError(f"Milvus failed to {verb} ({reason}).", hint=_HINT) from error


def _if_new(make: Callable[[], None]) -> None:
    """Make a collection, unless another process does so at the same moment."""
    try:
        make()
    except Exception as error:
        if "exist" not in str(error):
            raise


def _claim(row: Mapping[str, Any]) -> Claim | None:
    try:
        return decode_claim(row)
    except ValueError:
        log.warning("a claim in Milvus can't be read: %s", row.get("id"))
        return None


def _passage(row: Mapping[str, Any]) -> StoredPassage:
    plain = {name: row[name] for name in _FIELDS}
    return msgspec.convert({**plain, "vector": array("f", row.get("dense", ())).tobytes()}, StoredPassage)


def _level(*, strong: bool) -> str:
    return "Strong" if strong else "Bounded"


def _request(data: object, field: str, limit: int, where: str) -> Any:
    from pymilvus import AnnSearchRequest

    return AnnSearchRequest(data=[data], anns_field=field, param={}, limit=limit, expr=where)


def _ranker() -> Any:
    from pymilvus import RRFRanker

    return RRFRanker()


def _bm25() -> Any:
    from pymilvus import Function, FunctionType

    return Function(
        name="bm25", function_type=FunctionType.BM25, input_field_names=["words"], output_field_names=["sparse"]
    )
