"""Finds dates in text, absolute and relative, in English, Chinese, German, Spanish, French, Japanese and Korean."""

from clawbot.memory.dates.european import TIME_WORDS, means_yesterday, without_marks
from clawbot.memory.dates.find import DateRange, dates_in
from clawbot.memory.dates.ranges import Precision, Prefer

__all__ = [
    "TIME_WORDS",
    "DateRange",
    "Precision",
    "Prefer",
    "dates_in",
    "means_yesterday",
    "without_marks",
]
