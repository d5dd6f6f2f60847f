"""Words as the tokens of the offline weights: the byte-pair encoding of Llama 2, exact for text between blanks."""

from __future__ import annotations

import re

from msgspec import Struct

WORD_START = "▁"
"""What stands before a word where a blank was."""
HAN = "\u3400-\u9fff\uf900-\ufaff"
"""The Han characters, as part of a class of a regular expression."""
LONGEST_RUN = 48
"""Characters. Longer runs (base64, Thai) are cut: merging costs the square of the length, and a token has 16."""

# No token of the vocabulary reaches over the edge of one of these, so each is encoded by itself. Verified by a test.
_ATOM = re.compile(rf"▁?[^\W\d_{HAN}]+|\d|[{HAN}]|▁?(?:[^\w▁]|_)+|▁+|.", re.DOTALL)


def atoms_of(word: str) -> list[str]:
    """The parts of `word` (text without blanks) that are encoded one by one; the first begins with WORD_START."""
    return [
        atom[start : start + LONGEST_RUN]
        for atom in _ATOM.findall(WORD_START + word)
        for start in range(0, len(atom), LONGEST_RUN)
    ]


class _Model(Struct):
    vocab: dict[str, int]


class Tokenizer(Struct):
    """The part of a tokenizer file (`tokenizer.json` of Hugging Face) that is needed here.

    The merges are left out: their order is the order of the ids.
    """

    model: _Model


class Bpe:
    """Encodes by merging, again and again, the neighbours whose token has the lowest id."""

    def __init__(self, vocabulary: dict[str, int]) -> None:
        """Raises KeyError when the vocabulary lacks the 256 tokens for single bytes."""
        self._ids = vocabulary
        self._bytes = [vocabulary[f"<0x{byte:02X}>"] for byte in range(256)]

    def text(self, text: str) -> list[int]:
        """The tokens of `text`; any blanks and line breaks count as one blank."""
        return [token for word in text.split() for atom in atoms_of(word) for token in self.atom(atom)]

    def atom(self, atom: str) -> list[int]:
        """The tokens of one part of a word; a character that the vocabulary lacks becomes its bytes."""
        parts = [atom] if atom in self._ids else self._merged(list(atom))
        return [token for part in parts for token in self._tokens(part)]

    def _merged(self, parts: list[str]) -> list[str]:
        ids = self._ids
        while len(parts) > 1:
            ranked = [(ids[pair], at) for at in range(len(parts) - 1) if (pair := parts[at] + parts[at + 1]) in ids]
            if not ranked:
                break
            at = min(ranked)[1]
            parts[at : at + 2] = [parts[at] + parts[at + 1]]
        return parts

    def _tokens(self, part: str) -> list[int]:
        token = self._ids.get(part)
        if token is not None:
            return [token]
        return [self._bytes[byte] for byte in part.encode("utf-8", "replace")]
