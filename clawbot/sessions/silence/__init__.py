"""What of a reply is for the user: the rule of the tokens NO_REPLY and HEARTBEAT_OK (reference sheet 9). Pure."""

from clawbot.sessions.silence.end import CONTEXT, end_of
from clawbot.sessions.silence.rule import asks_for_silence, is_silent, names_token, spoken, spoken_message, was_cut
from clawbot.sessions.silence.start import start_of
from clawbot.sessions.silence.tokens import completed

__all__ = [
    "CONTEXT",
    "asks_for_silence",
    "completed",
    "end_of",
    "is_silent",
    "names_token",
    "spoken",
    "spoken_message",
    "start_of",
    "was_cut",
]
