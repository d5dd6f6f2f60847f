"""What both the writer and readers ask an index about itself: identity, generation, totals, the form of its vectors."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from clawbot.memory.store.database import get_meta, set_meta
from clawbot.memory.store.errors import DamagedIndexError
from clawbot.memory.store.identity import Identity
from clawbot.memory.store.records import Totals
from clawbot.memory.store.vectors import VectorTable, vector_table
from clawbot.memory.values import Source

if TYPE_CHECKING:
    import apsw

_TOTALS = """
SELECT source, count(*), sum(chunks), sum(chunks - pending - mute), sum(pending), sum(chars), sum(tokens), sum(size)
FROM files GROUP BY source
"""


def read_identity(connection: apsw.Connection) -> Identity | None:
    """What the index was built with; None for a new one. Raises DamagedIndexError."""
    stored = get_meta(connection, "identity")
    try:
        return None if stored is None else msgspec.json.decode(stored, type=Identity)
    except msgspec.DecodeError as error:
        raise DamagedIndexError(Path(connection.filename), f"does not know what it is ({error})") from error


def write_identity(connection: apsw.Connection, identity: Identity) -> None:
    """Note what the index is built with."""
    set_meta(connection, "identity", msgspec.json.encode(identity).decode())


def read_generation(connection: apsw.Connection) -> int:
    """A number that is another one after each change of what a search may find."""
    return int(get_meta(connection, "generation"))


def read_last_sync(connection: apsw.Connection) -> dt.datetime | None:
    """When the last complete sync was; None before the first."""
    stored = get_meta(connection, "last_sync")
    return None if stored is None else dt.datetime.fromisoformat(stored)


def read_totals(connection: apsw.Connection) -> dict[Source, Totals]:
    """How much there is of each source."""
    return {source: Totals(*counts) for source, *counts in connection.execute(_TOTALS)}


def table_of(connection: apsw.Connection, identity: Identity | None) -> VectorTable | None:
    """The vectors of an index with `identity`; None before the first one came."""
    if identity is None or not identity.dimensions:
        return None
    return vector_table(connection, identity.profile, identity.dimensions)
