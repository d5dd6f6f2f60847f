"""The kinds of what a command may do beyond reading, in words, and how grave they are."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Literal

from clawbot.text.interface import N_

Danger = Literal["", "caution", "grave"]


class Risk(Enum):
    """What a command seems to do, in the words of the question; the worst first."""

    UNREADABLE = N_("this list may be incomplete")
    NETWORK_CODE = N_("runs code from the network")
    OTHER_USER = N_("runs as another user")
    DISKS = N_("writes to devices")
    POWER = N_("turns the machine off")
    SECRETS = N_("reaches for keys or passwords")
    DELETES = N_("deletes files")
    THROWS_AWAY = N_("throws away changes")
    OVERWRITES = N_("changes files in place")
    HISTORY = N_("changes git history")
    OUTSIDE = N_("writes outside the workspace")
    SOMEWHERE = N_("writes to a place that it works out first")
    PERMISSIONS = N_("changes permissions")
    INSTALLS = N_("installs software")
    MADE_UP = N_("runs a command that it makes up first")
    OTHER_CODE = N_("runs code of another language")
    CONTAINERS = N_("starts containers")
    LATER = N_("changes services or scheduled jobs")
    STOPS = N_("stops processes")
    ELSEWHERE = N_("runs commands on another machine")
    NETWORK = N_("uses the network")
    UNSEEN = N_("holds characters that are hard to see")
    ALIKE = N_("holds characters that only look like # $ & ; and quotes")


# What can't be taken back, reaches beyond the workspace, or can't be judged.
GRAVE = frozenset(
    risk.value
    for risk in (
        Risk.UNREADABLE, Risk.NETWORK_CODE, Risk.OTHER_USER, Risk.DISKS, Risk.POWER, Risk.SECRETS, Risk.DELETES,
        Risk.THROWS_AWAY, Risk.HISTORY, Risk.OUTSIDE, Risk.SOMEWHERE, Risk.UNSEEN, Risk.ALIKE,
    )
)  # fmt: skip


def danger_of(risks: Sequence[str]) -> Danger:
    """How grave `risks` are, the words of a question; those that are no `Risk` ask for caution."""
    if not risks:
        return ""
    return "grave" if any(risk in GRAVE for risk in risks) else "caution"
