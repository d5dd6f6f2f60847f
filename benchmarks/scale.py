"""What one Milvus has to do for many agents: a simulation from costs that were measured, not ten million real pieces.

Run: .venv/bin/python benchmarks/scale.py [--agents 200] [--pieces 50000] [--hours 8] [--writes 30] [--rate 5500] …

Each agent has one writer. It appends a line to its log of the day at random moments; each append is synced: the claim,
the last block, the claim again, and the old block is deleted. What these rows weigh is computed by the code that writes
them. The server takes `--rate` rows a second, one request after another, and each request takes `--latency` beside. A
searching machine reads an agent's list of files when it is older than `--staleness`.

Everything printed is simulated, except what is named as an argument: measure those where it will run
(`benchmarks/milvus.py costs`).
"""

from __future__ import annotations

import argparse
import heapq
import random
from collections.abc import Mapping
from dataclasses import dataclass

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
class Outcome:
    """What a run did: seconds from each append until it could be found, rows and bytes written, and how long the
    server worked."""

    delays: list[float]
    rows: int
    written: int
    busy: float


def run(options: argparse.Namespace, weights: Weights) -> Outcome:
    """All appends of all agents, served one after another."""
    chance = random.Random(options.seed)
    seconds = options.hours * 3600
    events: list[tuple[float, int]] = []
    for agent in range(options.agents):
        for _ in range(round(options.writes * options.hours)):
            heapq.heappush(events, (chance.uniform(0, seconds), agent))
    lengths = [chance.randrange(FILE_PIECES) for _ in range(options.agents)]
    free = busy = 0.0
    rows = written = 0
    delays: list[float] = []
    while events:
        at, agent = heapq.heappop(events)
        lengths[agent] = lengths[agent] % FILE_PIECES + 1
        pieces = (lengths[agent] - 1) % BLOCK + 1
        # Two claims, one after the deletion, the pieces, and the old ones that are deleted.
        work = (pieces + 3 + max(0, pieces - 1)) / options.rate + options.requests * options.latency
        start = max(free, at + options.debounce)
        free, busy = start + work, busy + work
        rows += pieces + 3
        written += pieces * weights.piece + 3 * weights.claim
        delays.append(free - at + options.lag + chance.uniform(0, options.staleness))
    return Outcome(delays, rows, written, busy)


def percent(values: list[float], share: float) -> float:
    """The value below which `share` of them lie."""
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


def report(options: argparse.Namespace) -> None:
    """Simulate, and print one table."""
    weights = weigh(options.dimensions)
    found = run(options, weights)
    total = options.agents * options.pieces
    files = options.pieces / FILE_PIECES
    lists = options.agents * min(options.searches, 3600 / options.staleness) * files * weights.claim
    memory = total * (weights.piece + options.index * FLOAT_BYTES * options.dimensions)
    seconds = options.hours * 3600
    print(f"{options.agents} agents, {options.pieces:,} pieces each: {total:,} pieces. Simulated.\n")
    print("| | |\n|---|---|")
    print(f"| one piece, one claim of {FILE_PIECES} pieces | {weights.piece:,} and {weights.claim:,} bytes |")
    print(f"| all rows, with the vector index loaded | {memory / 1e9:,.1f} GB |")
    print(f"| written | {found.rows / seconds:,.1f} rows and {found.written / seconds / 1e3:,.1f} kB a second |")
    print(f"| the server works on writes | {found.busy / seconds:.1%} of the time |")
    median, late = percent(found.delays, 0.5), percent(found.delays, 0.99)
    print(f"| an append is found elsewhere after | median {median:.1f} s, p99 {late:.1f} s |")
    print(f"| lists of files read | {lists / 3600 / 1e6:,.2f} MB a second |")
    alone = options.pieces / min(options.embed, options.rate)
    everyone = total / min(options.embed * options.agents, options.rate)
    print(f"| rebuild of one agent, of all at once | {alone:,.0f} s and {everyone / 60:,.0f} minutes |")


def main() -> None:
    """Read the arguments, and simulate."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--agents", type=int, default=200)
    parser.add_argument("--pieces", type=int, default=50_000, help="of each agent")
    parser.add_argument("--hours", type=float, default=8.0)
    parser.add_argument("--writes", type=float, default=30.0, help="appends of an agent in an hour")
    parser.add_argument("--searches", type=float, default=60.0, help="of an agent in an hour")
    parser.add_argument("--rate", type=float, default=5_500.0, help="rows a second that the server takes (measured)")
    parser.add_argument("--embed", type=float, default=1_500.0, help="pieces a second that a machine embeds (measured)")
    parser.add_argument("--latency", type=float, default=0.005, help="seconds of a request beside its rows (measured)")
    parser.add_argument("--requests", type=int, default=7, help="of a sync of one file (counted)")
    parser.add_argument("--debounce", type=float, default=1.5, help="seconds until a writer notices a change (setting)")
    parser.add_argument("--staleness", type=float, default=5.0, help="seconds (setting)")
    parser.add_argument("--lag", type=float, default=5.0, help="seconds of bounded consistency (Milvus' default)")
    parser.add_argument("--index", type=float, default=1.25, help="bytes of the vector index for one of the vectors")
    parser.add_argument("--dimensions", type=int, default=256)
    parser.add_argument("--seed", type=int, default=1)
    report(parser.parse_args())


if __name__ == "__main__":
    main()
