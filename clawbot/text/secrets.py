"""Detection and redaction of secrets: one rule for everything that is remembered, indexed, quoted, exported, logged and
passed to hooks.

Three kinds of evidence count: values known to the program (keys in the settings and the environment), shapes that only
issued keys have (`secret_shapes`), and words that precede a password (`secret_words`). Transcripts keep every word;
everything derived from them is redacted here.
"""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Collection, Iterable, Iterator
from typing import Any, NamedTuple

from clawbot.text.interface import N_, _, ngettext
from clawbot.text.language import fold
from clawbot.text.patterns import lazy_re
from clawbot.text.secret_names import is_secret_name
from clawbot.text.secret_shapes import shapes_in
from clawbot.text.secret_words import values_in

MARK = "[secret left out]"
"""Replaces a secret."""

# Shorter values of the environment would redact ordinary words.
_SHORTEST_KNOWN = 8
_SHORTEST_SPOKEN = 4
# A separate word; digits must not be part of a date, a version or an issue number.
_WORD = r"(?<![A-Za-z0-9]){}(?![A-Za-z0-9])"
_FIGURE = r"(?<![A-Za-z0-9#])(?<![0-9][-./:,]){}(?![A-Za-z0-9])(?![-./:,][0-9])"
_MAX_WORD = 10_000
_SPACE = re.compile(r"\s")
_EDGES = " !?.,;:"
_KEEP = lazy_re(
    r"\s{0,9}(?:(?:please|请|你|帮我)\s?){0,2}(?:remember|note|记(?:住|下来?|一下)?)\s{0,2}--keep(?![\w-])",
    re.IGNORECASE,
)
KINDS = {
    "password": N_("a password"),
    "code": N_("a lock code or a PIN"),
    "phrase": N_("a recovery phrase"),
    "key": N_("a key"),
    "token": N_("a token"),
    "private key": N_("a private key"),
    "card": N_("the number of a card"),
    "number": N_("the number of an identity card"),
}
"""The description of each kind of secret."""

_known_secrets: set[str] = set()


class Secret(NamedTuple):
    """The position of a secret in characters, and its kind, one of `KINDS`."""

    start: int
    end: int
    kind: str


def find_secrets(text: str, known: Collection[str] = ()) -> list[Secret]:
    """The secrets in `text`, in order, without overlaps. `known` ones (`secret_values`) count wherever they occur as
    words.

    Linear: a microsecond per character, five for adversarial text. Process large texts in a thread.
    """
    return _find(text, known, _program_secrets())


def without_secrets(text: str, known: Collection[str] = ()) -> tuple[str, int]:
    """Return `text` with each secret replaced by `MARK`, and their number. The result contains none."""
    found = find_secrets(text, known)
    return _marked(text, found), len(found)


def cleaned(text: str, known: Collection[str], consented: Collection[str]) -> tuple[str, list[Secret]]:
    """Return `text` with each secret replaced by `MARK` except those that the user `consented` to keep, and what was
    replaced."""
    found = find_secrets(text, [value for value in known if value not in consented])
    found = [each for each in found if text[each.start : each.end].strip(_EDGES) not in consented]
    return _marked(text, found), found


def consented_in(message: str) -> frozenset[str]:
    """Return the secrets that the user asks to keep: those in the first line of a `message` that begins with
    `remember --keep`. Pass nothing but what the user typed."""
    line = message.lstrip().partition("\n")[0]
    return secret_values([line]) if asks_to_keep(line) else frozenset()


def asks_to_keep(message: str) -> bool:
    """Return whether the user's `message` begins with `remember --keep` or its Chinese form."""
    return _KEEP.match(message) is not None


def secret_values(texts: Iterable[str]) -> frozenset[str]:
    """Return the secrets in a conversation's `texts`: a summary may repeat them in other words."""
    own = _program_secrets()
    return frozenset(value for text in texts for value in _values(text, _find(text, (), own)))


def clean_session(texts: Iterable[str], known: Collection[str] = ()) -> tuple[list[str], frozenset[str]]:
    """The `texts` of a conversation with each secret replaced by `MARK`, and its secrets including the `known` ones: a
    secret found in one text is one in all."""
    own = _program_secrets()
    checked = [(text, _find(text, (), own)) for text in texts]
    values = frozenset(known).union(*(_values(*each) for each in checked))
    found = [(text, _find(text, values, own) if _holds(text, values) else secrets) for text, secrets in checked]
    return [_marked(*each) for each in found], values


def without_known(text: str, known: Collection[str]) -> str:
    """Return `text`, already redacted, without the secrets `known` by now."""
    return without_secrets(text, known)[0] if _holds(text, known) else text


class Redactor:
    """Redacts the texts of one conversation in order: a secret found once remains one. With `keep` nothing is redacted.
    `count` is the number of redacted secrets."""

    def __init__(self, *, keep: bool = False) -> None:
        self._keep = keep
        self._known: frozenset[str] = frozenset()
        self.count = 0

    def text(self, text: str) -> str:
        """Return the redacted `text`."""
        if self._keep:
            return text
        clean, count = without_secrets(text, self._known)
        if count:
            self._known |= secret_values([text])
            self.count += count
        return clean

    def tree(self, value: Any) -> Any:
        """JSON data with redacted texts."""
        match value:
            case str():
                # A picture is one long word, longer than any secret.
                return value if len(value) > _MAX_WORD and _SPACE.search(value) is None else self.text(value)
            case list() | tuple():
                return [self.tree(each) for each in value]
            case dict():
                return {key: self._named(key, each) for key, each in value.items()}
            case _:
                return value

    def _named(self, key: Any, value: Any) -> Any:
        if self._keep or not (isinstance(value, str) and value and isinstance(key, str) and is_secret_name(key)):
            return self.tree(value)
        self.count += value != MARK
        return MARK


def redact(text: str) -> str:
    """Return `text` with each secret replaced by `MARK`."""
    return without_secrets(text)[0]


def holds_secret(text: str) -> bool:
    """Return whether `text` contains a secret."""
    return bool(find_secrets(text))


def kinds_text(kinds: Iterable[str]) -> str:
    """Return `a password, a card number`: descriptions of `kinds`, for the user."""
    return ", ".join(dict.fromkeys(_(KINDS[kind]) for kind in kinds if kind in KINDS))


def left_out(count: int) -> str:
    """Return `1 secret left out`, `3 secrets left out`: for the user."""
    return ngettext("{n:,} secret left out", "{n:,} secrets left out", count).format(n=count)


def remember_secret(value: str) -> None:
    """Treat `value` (such as a key from the settings) as a secret from now on."""
    if len(value) >= _SHORTEST_KNOWN:
        _known_secrets.add(value)


def _find(text: str, known: Collection[str], own: Collection[str]) -> list[Secret]:
    folded = fold(text)
    spans = itertools.chain(
        _program_secrets_in(text, own), _words_in(text, known), shapes_in(folded), values_in(folded)
    )
    return _merged(sorted(Secret(*span) for span in spans))


def _marked(text: str, found: Iterable[Secret]) -> str:
    """Return `text` with the secrets in `found` replaced by `MARK`."""
    parts: list[str] = []
    end = 0
    for secret in found:
        parts += (text[end : secret.start], MARK)
        end = secret.end
    return "".join([*parts, text[end:]])


def _values(text: str, found: Iterable[Secret]) -> Iterator[str]:
    """Return the secrets in `found` that count wherever they occur in `text`."""
    values = (text[secret.start : secret.end].strip(_EDGES) for secret in found)
    return (value for value in values if len(value) >= _SHORTEST_SPOKEN and "\n" not in value)


def _holds(text: str, known: Collection[str]) -> bool:
    """Return whether `text` may contain one of `known`."""
    lowered = text.lower() if known else ""
    return any(value.lower() in lowered for value in known)


def _program_secrets() -> set[str]:
    """Return the secrets known to the program. Call it once for many texts: the environment is slow to read."""
    named = {value for name, value in os.environ.items() if is_secret_name(name)}
    return {value for value in _known_secrets | named if len(value) >= _SHORTEST_KNOWN}


def _program_secrets_in(text: str, own: Iterable[str]) -> Iterator[tuple[int, int, str]]:
    for secret in own:
        start = text.find(secret)
        while start >= 0:
            yield start, start + len(secret), "key"
            start = text.find(secret, start + len(secret))


def _words_in(text: str, known: Collection[str]) -> Iterator[tuple[int, int, str]]:
    lowered = text.lower() if known else ""
    for value in known:
        if value.lower() in lowered:
            pattern = (_FIGURE if value.isdigit() else _WORD).format(re.escape(value))
            for found in re.finditer(pattern, text, re.IGNORECASE):
                yield (*found.span(), "password")


def _merged(found: Iterable[Secret]) -> list[Secret]:
    """Return the union of `found`; of overlapping ones the first kind counts."""
    merged: list[Secret] = []
    for secret in found:
        if merged and secret.start < merged[-1].end:
            merged[-1] = merged[-1]._replace(end=max(merged[-1].end, secret.end))
        else:
            merged.append(secret)
    return merged
