"""The history of the memory files: who changed which one, when, and what it held before and after."""

from clawbot.history.background import Noticer
from clawbot.history.changes import History, history_in, history_of
from clawbot.history.values import Change, HistoryError, Undone

__all__ = ["Change", "History", "HistoryError", "Noticer", "Undone", "history_in", "history_of"]
