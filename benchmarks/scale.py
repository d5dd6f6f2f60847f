"""What one Milvus has to do for many agents: a simulation from costs that were measured, not ten million real chunks.

Run: .venv/bin/python benchmarks/scale.py [--agents 10,50,200,800] [--pieces 50000] [--questions 5] [--writes 30] …

Each agent has one writer, which appends a line to its log of the day at random moments, and asks questions at others.
An append is synced: the claim, the last block, the claim again, and the old block is deleted. What these rows weigh is
computed by the code that writes them. A searching machine reads an agent's list of files when it is older than
`--staleness`. A request waits until a core of the node is free.

Milvus Lite is one core; what a question costs it is measured (`benchmarks/milvus.py costs`) and grows with all chunks.
A query node of a cluster is the one of the "Milvus 2.2 Benchmark Test Report" (milvus.io/docs/benchmark.md): 8 cores
serve 7,153 searches a second, with one million vectors of 128 dimensions, HNSW with ef 64, one result. A question of
ours is one vector search with 300 results in 256 dimensions, taken for `--heavier` of these, and `--wordings` searches
by a word and `--ids` requests by id, taken for one each. These are assumptions: measure your cluster with
`benchmarks/milvus.py costs`, and give what it prints as options.
"""

from __future__ import annotations

import argparse
import heapq
import math
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tables import show

from clawbot.memory.store.records import ChunkRecord
from clawbot.plugins.milvus.passages import BLOCK, Claim, Version, as_rows, blocks_of, encode_claim, settled

LINE = "- the staging server answers on port 8443, and its certificate ends in June"
FILE_PIECES = 200
FLOAT_BYTES, NUMBER_BYTES = 4, 8


@dataclass(frozen=True)
class Weights:
    """Bytes of one piece as a row, and of one claim of a file of FILE_PIECES pieces."""

    piece: int
    claim: int


def weigh(dimensions: int) -> Weights:
    """The weights of typical rows, as the program makes them."""
    pieces = [ChunkRecord(n, n, "item", f"{LINE} {n}", f"{LINE} {n}") for n in range(FILE_PIECES)]
    blocks = blocks_of("main", "memory/2026-03-02.md", pieces)
    row = next(iter(as_rows("main", "memory", blocks[0], [()] * BLOCK)))
    plain = _bytes(row)
    ids = tuple(block.id for block in blocks)
    version = Version(
        size=1, mtime_ns=10**18, digest=bytes(16), source="memory", blocks=ids, chunks=FILE_PIECES, chars=9_999
    )
    claim = settled(Claim(agent="main", owner="host-12345678", path="memory/2026-03-02.md", at=10**12), version, 10**12)
    body = sum(
        len(value.encode()) if isinstance(value, str) else NUMBER_BYTES for value in encode_claim(claim).values()
    )
    return Weights(plain + FLOAT_BYTES * dimensions, body)


def _bytes(row: Mapping[str, object]) -> int:
    return sum(len(value.encode()) if isinstance(value, str) else NUMBER_BYTES for value in row.values())


@dataclass(frozen=True)
class Node:
    """What answers: `cores` that each serve one request at a time, what chunks fit into it (GB), and the seconds that
    a question over so many chunks takes one of them."""

    name: str
    cores: int
    gigabytes: float
    question: Callable[[float], float]


@dataclass(frozen=True)
class Outcome:
    """What a run did: seconds from each append until it could be found, and from each question to its answer; rows and
    bytes written; the share of all cores that was busy, above 1 where they do not keep up."""

    delays: list[float]
    answers: list[float]
    rows: int
    written: int
    busy: float


def run(options: argparse.Namespace, weights: Weights, agents: float, node: Node) -> Outcome:
    """Serve all appends and questions of so many agents, in the order in which they are due."""
    chance = random.Random(options.seed)
    seconds = options.minutes * 60
    asked, appended = (round(agents * rate * options.minutes) for rate in (options.questions, options.writes / 60))
    due = [(chance.uniform(0, seconds), True) for _ in range(asked)]
    due += [(chance.uniform(0, seconds) + options.debounce, False) for _ in range(appended)]
    cores = [0.0] * node.cores
    usual = node.question(agents * options.pieces)
    rows = written = 0
    worked = 0.0
    times: dict[bool, list[float]] = {True: [], False: []}
    for at, asks in sorted(due):
        work = usual * chance.lognormvariate(0, options.spread)
        if not asks:
            length = chance.randrange(BLOCK) + 1
            # Two claims, one after the deletion, the chunks of the last block, and the old ones that are deleted.
            work = (2 * length + 2) / options.rate + options.requests * options.latency
            rows += length + 3
            written += length * weights.piece + 3 * weights.claim
        end = max(heapq.heappop(cores), at) + work
        heapq.heappush(cores, end)
        worked += work
        later = options.here if asks else options.debounce + options.lag + chance.uniform(0, options.staleness)
        times[asks].append(end - at + later)
    return Outcome(times[False], times[True], rows, written, worked / seconds / node.cores)


def percent(values: list[float], share: float) -> float:
    """Return the value below which `share` of them are; 0 if there are none."""
    return sorted(values)[min(len(values) - 1, int(len(values) * share))] if values else 0.0


def shown(found: Outcome) -> str:
    """Return how busy a node is, and how soon it answers."""
    if found.busy >= 1:
        return "does not keep up"
    return f"{found.busy:.0%}; {percent(found.answers, 0.5):.2f}, {percent(found.answers, 0.99):.2f} s"


def column(options: argparse.Namespace, weights: Weights, agents: int) -> list[tuple[str, str]]:
    """Return the rows of so many agents."""
    lite, node = nodes_of(options)
    found = run(options, weights, agents, node)
    total, seconds = agents * options.pieces, options.minutes * 60
    reads = agents * min(options.questions / 60, 1 / options.staleness)
    lists = reads * options.pieces / FILE_PIECES * weights.claim
    memory = gigabytes(options, weights, total)
    count = max(math.ceil(memory * options.headroom / node.gigabytes), math.ceil(found.busy / options.full))
    delays = (f"{percent(found.delays, share):.1f}" for share in (0.5, 0.99))
    return [
        ("chunks", f"{total:,}"),
        ("all rows, with the vector index loaded", f"{memory:,.1f} GB"),
        ("the same while segments are replaced", f"{memory * options.headroom:,.1f} GB"),
        ("written a second", f"{found.rows / seconds:,.1f} rows, {found.written / seconds / 1e3:,.0f} kB"),
        ("lists of files read a second", f"{lists / 1e6:,.2f} MB"),
        ("an append is found elsewhere after: median, p99", f"{', '.join(delays)} s"),
        ("a rebuild of all at once", f"{total / min(options.embed * agents, options.rate) / 60:,.0f} minutes"),
        ("questions a second", f"{agents * options.questions / 60:,.1f}"),
        (f"{lite.name}: busy; answer after, median, p99", shown(run(options, weights, agents, lite))),
        (f"{node.name}: the same", shown(found)),
        (f"query nodes of {node.cores} cores and {node.gigabytes:.0f} GB", f"{count}"),
    ]


def gigabytes(options: argparse.Namespace, weights: Weights, total: float) -> float:
    """Return what so many rows take in memory."""
    return total * (weights.piece + options.index * FLOAT_BYTES * options.dimensions) / 1e9


def nodes_of(options: argparse.Namespace) -> tuple[Node, Node]:
    """Return Milvus Lite as it was measured, and a query node as it was published."""
    # The vector search is the heavier one; each wording and each request by id is taken as one published search.
    searches = options.heavier + options.wordings + options.ids
    each = searches * options.cores / options.published
    lite = Node("Milvus Lite", 1, math.inf, lambda chunks: options.lite + options.lite_million * chunks / 1e6)
    return lite, Node("one query node", options.cores, options.memory, lambda _: each)


def end_of(options: argparse.Namespace, weights: Weights, node: Node) -> tuple[str, str, str]:
    """Return how many agents one node serves, how many chunks these are, and what ends it: memory, or the time until an
    answer."""
    served, step = 0.0, 1024.0
    while step * options.pieces > 100:
        late = percent(run(options, weights, served + step, node).answers, 0.99)
        served += step if late <= options.limit else 0
        step /= 2
    room = node.gigabytes / options.headroom / gigabytes(options, weights, options.pieces)
    reason = f"{node.gigabytes:.0f} GB of memory" if room < served else f"{options.limit:g} s until an answer, p99"
    return f"{min(room, served):,.1f}", f"{min(room, served) * options.pieces:,.0f}", reason


def options_of(parser: argparse.ArgumentParser) -> argparse.Namespace:
    """Read the arguments."""
    for name, default, meaning in (
        ("pieces", 50_000, "chunks of each agent"),
        ("minutes", 10.0, "that are simulated"),
        ("writes", 30.0, "appends of an agent in an hour"),
        ("questions", 5.0, "of an agent in a minute"),
        ("rate", 5_500.0, "rows a second that a core takes (measured)"),
        ("embed", 1_500.0, "chunks a second that a machine embeds (measured)"),
        ("latency", 0.005, "seconds of a request that writes, beside its rows (measured)"),
        ("requests", 7, "of a sync of one file (counted)"),
        ("debounce", 1.5, "seconds until a writer notices a change (setting)"),
        ("staleness", 5.0, "seconds (setting)"),
        ("lag", 5.0, "seconds of bounded consistency (Milvus' default)"),
        ("index", 1.25, "bytes of the vector index for one of the vectors"),
        ("dimensions", 256, "of a vector"),
        ("lite", 0.2, "CPU seconds of Lite for a question (measured)"),
        ("lite-million", 41.0, "CPU seconds more for each million chunks (measured)"),
        ("here", 0.35, "seconds of a question on the agent's machine (measured)"),
        ("spread", 0.2, "standard deviation of the logarithm of the time of a question (measured)"),
        ("published", 7_153.0, "searches a second of a query node (published)"),
        ("cores", 8, "of a query node (published)"),
        ("memory", 32.0, "GB of a query node"),
        ("headroom", 1.5, "times the memory while segments are replaced"),
        ("wordings", 23.0, "searches by a word in a question (counted)"),
        ("ids", 3.0, "requests by id in a question (counted)"),
        ("heavier", 10.0, "published searches that the vector search is taken for"),
        ("limit", 1.0, "seconds, p99: a node ends where an answer takes longer"),
        ("full", 0.7, "share of its cores that a node may be busy"),
        ("seed", 1, "of all that is random"),
    ):
        parser.add_argument(f"--{name}", type=type(default), default=default, help=f"{meaning}; {default:g}")
    return parser.parse_args()


def main() -> None:
    """Simulate, and print two tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--agents", default="10,50,200,800", help="numbers of agents, separated by commas")
    options = options_of(parser)
    weights = weigh(options.dimensions)
    columns = [column(options, weights, int(agents)) for agents in options.agents.split(",")]
    rows = ((row[0][0], *(value for _, value in row)) for row in zip(*columns, strict=True))
    show(("simulated", *(f"{agents} agents" for agents in options.agents.split(","))), rows)
    ends = ((node.name, *end_of(options, weights, node)) for node in nodes_of(options))
    show(("simulated: serves at most", "agents", "chunks", "and then ends by"), ends)


if __name__ == "__main__":
    main()
