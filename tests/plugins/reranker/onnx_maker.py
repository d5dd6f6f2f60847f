"""Makes small models of ONNX, in its own format, and a tokenizer for them: no model can be downloaded in a test.

The format is protobuf; the numbers of the fields are those of onnx.proto.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path

from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.normalizers import Lowercase
from tokenizers.pre_tokenizers import Whitespace
from tokenizers.processors import TemplateProcessing

from clawbot.plugins.reranker.onnx import MODEL, TOKENIZER

FLOAT, INT64, BOOL = 1, 7, 9
INPUTS = ("input_ids", "attention_mask", "token_type_ids")
WORDS = ("the", "proxy", "listens", "on", "port", "apple", "pie", "rain", "tuesday", "where", "does", "listen")


def varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def field(number: int, value: int | str | bytes) -> bytes:
    """One field of a message."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def attribute(name: str, value: int | bytes) -> bytes:
    """A number, or a graph."""
    kind, at = (2, 3) if isinstance(value, int) else (5, 6)
    return field(5, field(1, name) + field(at, value) + field(20, kind))


def node(kind: str, inputs: Sequence[str], output: str, *attributes: bytes) -> bytes:
    names = b"".join(field(1, name) for name in inputs)
    return field(1, names + field(2, output) + field(4, kind) + b"".join(attributes))


def constant(name: str, values: Sequence[float], kind: int = INT64, shape: Sequence[int] | None = None) -> bytes:
    sizes = b"".join(field(1, size) for size in ((len(values),) if shape is None else shape))
    data = struct.pack(f"<{len(values)}{'q' if kind == INT64 else 'f'}", *values)
    return field(5, sizes + field(2, kind) + field(8, name) + field(9, data))


def value(at: int, name: str, kind: int, rank: int) -> bytes:
    """An input (11) or output (12) of a graph."""
    sizes = b"".join(field(1, field(2, f"{name}{number}")) for number in range(rank))
    return field(at, field(1, name) + field(2, field(1, field(1, kind) + field(2, sizes))))


def model(
    *nodes: bytes, output: str = "logits", kind: int = FLOAT, rank: int = 2, inputs: Sequence[str] = INPUTS
) -> bytes:
    """A model with these nodes and constants."""
    ends = b"".join(value(11, name, INT64, 2) for name in inputs) + value(12, output, kind, rank)
    graph = b"".join(nodes) + field(2, "small") + ends
    return field(1, 8) + field(8, field(1, "") + field(2, 13)) + field(7, graph)


def _overlap(output: str) -> tuple[bytes, ...]:
    """How often a token of the first text stands in the second one `(n, 1)`."""
    return (
        constant("one", [1]),
        constant("two", [2]),
        constant("both", [1, 2]),
        node("Unsqueeze", ["input_ids", "two"], "down"),
        node("Unsqueeze", ["input_ids", "one"], "across"),
        node("Equal", ["down", "across"], "same"),
        node("Cast", ["same"], "equal", attribute("to", FLOAT)),
        node("Cast", ["token_type_ids"], "type", attribute("to", FLOAT)),
        node("Cast", ["attention_mask"], "mask", attribute("to", FLOAT)),
        node("Mul", ["type", "mask"], "second"),
        node("Sub", ["mask", "second"], "first"),
        node("Unsqueeze", ["first", "two"], "first3"),
        node("Unsqueeze", ["second", "one"], "second3"),
        node("Mul", ["equal", "first3"], "half"),
        node("Mul", ["half", "second3"], "pairs"),
        node("ReduceSum", ["pairs", "both"], "sum", attribute("keepdims", 0)),
        node("Unsqueeze", ["sum", "one"], output),
    )


def cross_encoder() -> bytes:
    """Scores a pair by the words that both have."""
    return model(*_overlap("logits"))


def endless_encoder(*, always: bool) -> bytes:
    """The same, but it never ends with more than one text; `always`: with one neither."""
    body = node("Identity", ["go"], "on") + node("Add", ["in", "in"], "out") + field(2, "body")
    body += value(11, "turn", INT64, 0) + value(11, "go", BOOL, 0) + value(11, "in", FLOAT, 1)
    body += value(12, "on", BOOL, 0) + value(12, "out", FLOAT, 1)
    return model(
        *_overlap("count"),
        constant("many", [2**40], shape=()),
        constant("first_row", [0], shape=()),
        constant("ending", [0 if always else 1], shape=()),
        constant("yes", [1], shape=()),
        constant("nothing", [0.0], FLOAT),
        node("Shape", ["input_ids"], "shape"),
        node("Gather", ["shape", "first_row"], "rows"),
        node("Sub", ["rows", "ending"], "more"),
        node("Mul", ["more", "many"], "turns"),
        node("Cast", ["yes"], "begin", attribute("to", BOOL)),
        node("Loop", ["turns", "begin", "nothing"], "still_nothing", attribute("body", body)),
        node("Add", ["count", "still_nothing"], "logits"),
    )


def nan_encoder() -> bytes:
    """Answers what is no number."""
    return model(*_overlap("count"), constant("no", [float("nan")], FLOAT), node("Mul", ["count", "no"], "logits"))


def constant_encoder() -> bytes:
    """Answers with one number whatever it is given."""
    return model(constant("one", [1.0], FLOAT, ()), node("Identity", ["one"], "logits"), rank=0)


def sentence_encoder() -> bytes:
    """A vector for each token, as wide as there are words."""
    width = len(WORDS) + 3
    table = [float(row == column) for row in range(width) for column in range(width)]
    nodes = (constant("table", table, FLOAT, (width, width)), node("Gather", ["table", "input_ids"], "tokens"))
    return model(*nodes, output="tokens", rank=3)


def tokenizer() -> str:
    """A tokenizer of whole words."""
    special = {"[CLS]": 0, "[SEP]": 1, "[UNK]": 2}
    words = {word: len(special) + number for number, word in enumerate(WORDS)}
    found = Tokenizer(WordLevel(special | words, unk_token="[UNK]"))
    found.normalizer, found.pre_tokenizer = Lowercase(), Whitespace()
    found.post_processor = TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 0), ("[SEP]", 1)],
    )
    return str(found.to_str())


def make(folder: Path, content: bytes | None = None) -> Path:
    """A folder with a model, a cross-encoder by default, and its tokenizer."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / MODEL).write_bytes(cross_encoder() if content is None else content)
    (folder / TOKENIZER).write_text(tokenizer(), encoding="utf-8")
    return folder
