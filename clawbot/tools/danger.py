"""The kinds of what a command may do beyond reading, in words, and how grave they are."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Literal

Danger = Literal["", "caution", "grave"]


class Risk(Enum):
    """What a command seems to do, in the words of the question; the worst first."""

    UNREADABLE = "can't be read in full by this hint"
    NETWORK_CODE = "runs code from the network"
    OTHER_USER = "runs as another user"
    DISKS = "writes to devices"
    POWER = "turns the machine off"
    SECRETS = "reaches for keys or passwords"
    DELETES = "deletes files"
    THROWS_AWAY = "throws away changes"
    OVERWRITES = "changes files in place"
    HISTORY = "changes git history"
    OUTSIDE = "writes outside the workspace"
    SOMEWHERE = "writes to a place that it works out first"
    PERMISSIONS = "changes permissions"
    INSTALLS = "installs software"
    MADE_UP = "runs a command that it makes up first"
    OTHER_CODE = "runs code of another language"
    CONTAINERS = "starts containers"
    LATER = "changes what runs later by itself"
    STOPS = "stops processes"
    ELSEWHERE = "runs commands on another machine"
    NETWORK = "uses the network"
    UNSEEN = "holds characters that are hard to see"
    ALIKE = "holds characters that only look like # $ & ; and quotes"


# What can't be taken back, reaches beyond the workspace, or can't be judged.
GRAVE = frozenset(
    risk.value
    for risk in (
        Risk.UNREADABLE,
        Risk.NETWORK_CODE,
        Risk.OTHER_USER,
        Risk.DISKS,
        Risk.POWER,
        Risk.SECRETS,
        Risk.DELETES,
        Risk.THROWS_AWAY,
        Risk.HISTORY,
        Risk.OUTSIDE,
        Risk.SOMEWHERE,
        Risk.UNSEEN,
        Risk.ALIKE,
    )
)


def danger_of(risks: Sequence[str]) -> Danger:
    """How grave `risks` are, the words of a question; those that are no `Risk` ask for caution."""
    if not risks:
        return ""
    return "grave" if any(risk in GRAVE for risk in risks) else "caution"
