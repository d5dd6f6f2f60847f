"""Deletes data that an agent should forget: notes, conversations, and everything derived from them."""

from clawbot.forget.files import Left
from clawbot.forget.forgetting import ForgetOutcome, Forgetting, NothingFoundError, Request
from clawbot.forget.notes import ForgottenPart

__all__ = ["ForgetOutcome", "Forgetting", "ForgottenPart", "Left", "NothingFoundError", "Request"]
