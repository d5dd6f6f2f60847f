"""The models in the home: which files there are, which are known by name, the hashes they had when they came."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from clawbot.errors import ClawbotError
from clawbot.files import PRIVATE_FILE, ensure_private_dir, write_atomic
from clawbot.local_model.gguf import MAGIC, OVERHEAD_BYTES, WINDOWS, read_head, shown_size
from clawbot.text.interface import _

SUFFIX = ".gguf"
LOCAL = "local/"
"""Prefix of the name of a stored model in the settings: `local/NAME`."""
HASHES = "hashes.json"
_NAME = re.compile(r"[\w][\w.+-]{0,150}")


class Offer(Struct, frozen=True):
    """A model that can be downloaded by name. `machine` is the memory, in GB, of a machine that runs it next to other
    programs; `size` are about the bytes of the file."""

    name: str
    url: str
    licence: str
    machine: int
    size: float

    @property
    def host(self) -> str:
        """Who has it."""
        return urlsplit(self.url).hostname or ""


_HUB = "https://huggingface.co/bartowski/Qwen_{0}-GGUF/resolve/main/Qwen_{0}-Q4_K_M.gguf"
OFFERS: tuple[Offer, ...] = (
    Offer("qwen3-1.7b", _HUB.format("Qwen3-1.7B"), "Apache-2.0", 4, 1.28e9),
    Offer("qwen3-4b", _HUB.format("Qwen3-4B"), "Apache-2.0", 8, 2.5e9),
    Offer("qwen3-8b", _HUB.format("Qwen3-8B"), "Apache-2.0", 16, 5.03e9),
)
"""None of them has a hash here: the first download's is kept, and every later one is checked by it."""


class LocalOffer(Struct, frozen=True):
    """A model that can be chosen: it is `here`, or can be had. `detail` is half a sentence for the user: size, memory,
    origin. `best`: the one to take on this machine."""

    name: str
    here: bool
    detail: str
    best: bool = False


class Known(Struct, frozen=True):
    """What a file was when it came: its SHA-256 in hex, its size in bytes, the address without a secret in it."""

    sha256: str
    size: int
    url: str


class ModelStore:
    """The folder of the models. Everything blocks; a folder that is not there is empty."""

    def __init__(self, folder: Path, suffix: str = SUFFIX, begins: bytes = MAGIC) -> None:
        """A file ends with `suffix` and has `begins` as its first bytes."""
        self.folder = folder
        self.suffix = suffix
        self.begins = begins

    def files(self) -> dict[str, Path]:
        """Return the models by name, in the order of their names."""
        if not self.folder.is_dir():
            return {}
        return {path.stem: path for path in sorted(self.folder.glob(f"*{self.suffix}")) if path.is_file()}

    def offers(self, memory: int) -> list[LocalOffer]:
        """The models that are here, then those that can be had by name, for a machine with `memory` bytes. Blocks."""
        here, best = self.files(), _recommended(memory)
        details = {name: _needs(file) for name, file in here.items()}
        text = _("{size} download · {memory} GB of memory · {licence} · {host}")
        for each in (offer for offer in OFFERS if offer.name not in here):
            details[each.name] = text.format(
                size=shown_size(each.size), memory=each.machine, licence=each.licence, host=each.host
            )
        return [LocalOffer(name, name in here, detail, name == best) for name, detail in details.items()]

    def path(self, name: str) -> Path:
        """Return the file of the model `name`, which need not exist. Raises ClawbotError for a name that is none."""
        name = name.removesuffix(self.suffix)
        if not _NAME.fullmatch(name):
            raise ClawbotError(
                f"{name!r} is no name of a model: letters, digits, `.`, `+`, `-` and `_`.", hint="Choose one: --name."
            )
        return self.folder / f"{name}{self.suffix}"

    def find(self, name: str) -> Path:
        """Return the file of the model `name`. Raises ClawbotError when there is none."""
        path = self.path(name)
        if not path.is_file():
            there = ", ".join(self.files()) or "none yet"
            raise ClawbotError(
                f"There is no model {path.stem} in {self.folder} (there: {there}).",
                hint=f"Get it with: clawbot model pull {path.stem if offer_of(path.stem) else 'URL'}",
            )
        return path

    def known(self) -> Mapping[str, Known]:
        """What is on record of the files, by name. An unreadable record counts as none."""
        try:
            return msgspec.json.decode((self.folder / HASHES).read_bytes(), type=dict[str, Known])
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
            return {}

    def keep(self, name: str, known: Known) -> None:
        """Put what came on record. Raises OSError."""
        ensure_private_dir(self.folder)
        record = {**self.known(), name: known}
        write_atomic(self.folder / HASHES, msgspec.json.encode(record), mode=PRIVATE_FILE)


def _needs(file: Path) -> str:
    """What a model that is here takes, as half a sentence."""
    size = file.stat().st_size
    need = size + OVERHEAD_BYTES
    with contextlib.suppress(ClawbotError):
        need = read_head(file).memory(WINDOWS[-1])
    return _("{size}, is here · needs {memory} of memory").format(size=shown_size(size), memory=shown_size(need))


def _recommended(memory: int) -> str:
    """The name of the largest model for a machine with `memory` bytes; empty when even the smallest is too large."""
    return next((each.name for each in reversed(OFFERS) if each.machine <= round(memory / 1e9)), "")


def offer_of(name: str) -> Offer | None:
    """What can be had by that name."""
    return next((offer for offer in OFFERS if offer.name == name), None)


def is_offered(url: str) -> bool:
    """Return whether the address is that of an offered model."""
    return any(offer.url == url for offer in OFFERS)
