"""How many secrets are held, over a table of sentences in English and Chinese and one of keys of issuers; prints the
figures (`pytest -s`)."""

from __future__ import annotations

import random
import re
import string
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from clawbot.text.secrets import without_secrets

HERE = Path(__file__).parent
ALPHABETS = {
    "A": string.ascii_letters + string.digits,
    "a": string.ascii_lowercase + string.digits,
    "h": "0123456789abcdef",
    "U": string.ascii_uppercase + string.digits,
    "L": string.ascii_letters,
    "d": string.digits,
    "w": string.ascii_letters + string.digits + "_-",
    "b": string.ascii_letters + string.digits + "+/",
    "B": "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz",
}


def sections() -> dict[str, list[str]]:
    """The sentences of each section."""
    found: dict[str, list[str]] = {}
    for line in (HERE / "secret_phrases.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            section = found.setdefault(line[3:], [])
        elif line and not line.startswith("#"):
            section.append(line)
    return found


def is_right(line: str) -> bool:
    """Whether the secrets in `line` are left out, and nothing is where there are none."""
    secrets, text = re.findall("⟦(.+?)⟧", line), re.sub("[⟦⟧]", "", line)
    clean, count = without_secrets(text)
    return not any(secret in clean for secret in secrets) if secrets else count == 0


def issuers() -> Iterator[tuple[str, str]]:
    """The name of each issuer, and the form of its keys."""
    for line in (HERE / "secret_issuers.txt").read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            name, _, form = line.partition(": ")
            yield name, form.replace(" ", "")


def key_of(form: str, seed: str) -> str:
    """A key of that `form`, the same for the same `seed`."""
    chance = random.Random(seed)

    def filled(part: re.Match[str]) -> str:
        if part[1] == "u":
            return str(uuid.UUID(int=chance.getrandbits(128)))
        return "".join(chance.choices(ALPHABETS[part[1]], k=int(part[2])))

    return re.sub(r"\{([A-Za-z])(\d*)\}", filled, form)


@pytest.mark.parametrize(("half", "first"), [("looked at", 0), ("not looked at", 1)])
def test_enough_is_held_and_little_else_is_touched(half: str, first: int) -> None:
    """Of each half, and of the one that was not looked at while the rules were made."""
    held: list[bool] = []
    kept: list[bool] = []
    for section, lines in sections().items():
        shown = lines[first::2] if "found open" not in section else lines[: 0 if first else None]
        right = [is_right(line) for line in shown]
        (kept if "harmless" in section else held).extend(right)
        sys.stdout.write(f"{half}: {section}: {sum(right)} of {len(right)}\n")
    touched = kept.count(False)
    sys.stdout.write(f"{half}: held {sum(held)} of {len(held)} secrets, touched {touched} of {len(kept)} others\n")
    assert sum(held) >= 0.95 * len(held)
    assert touched <= 0.02 * len(kept)


def test_the_tables_are_as_large_as_they_should_be() -> None:
    lines = sections()
    assert sum(len(found) for section, found in lines.items() if "harmless" in section) >= 300
    assert sum(len(found) for section, found in lines.items() if "harmless" not in section) >= 200
    assert all(("⟦" in line) == ("harmless" not in section) for section, found in lines.items() for line in found)


def test_keys_of_issuers_are_held() -> None:
    tried = [(name, key_of(form, f"{name} {seed}")) for name, form in issuers() for seed in range(5)]
    missed = [(name, key) for name, key in tried if key[-12:] in without_secrets(f"we use {key} for that")[0]]
    count = len({name for name, _ in tried})
    sys.stdout.write(f"keys of {count} issuers: {len(tried) - len(missed)} of {len(tried)} held; missed: {missed}\n")
    assert count >= 120
    assert len({name for name, _ in missed}) <= 0.05 * count
