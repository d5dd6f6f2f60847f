"""Finds dates in text, in English and Chinese, absolute and relative."""

from clawbot.memory.dates.find import dates_in
from clawbot.memory.dates.ranges import DateRange, Precision, Prefer

__all__ = ["DateRange", "Precision", "Prefer", "dates_in"]
