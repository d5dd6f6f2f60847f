"""Hooks: Python code of users that runs at defined moments of a session."""

from clawbot.guarded import RefusedFileError, read_guarded
from clawbot.hooks.api import Hook, HookServiceError, Said
from clawbot.hooks.events import (
    AgentBootstrap,
    AnyEvent,
    CommandNew,
    CommandReset,
    CompactAfter,
    CompactBefore,
    ContextFlush,
    HookEvent,
    InjectedFile,
    MessageReceived,
    MessageSent,
    RuntimeStart,
    RuntimeStop,
    ScheduledJob,
    SessionAutoReset,
    SessionEnd,
    SessionStart,
    ToolAfter,
    ToolBefore,
)
from clawbot.text.globs import compile_glob
from clawbot.text.naming import bare_answer, gives_no_name, means_no_name
from clawbot.text.sanitize import clean, clean_line
from clawbot.text.topics import topics, words

__all__ = [
    "AgentBootstrap",
    "AnyEvent",
    "CommandNew",
    "CommandReset",
    "CompactAfter",
    "CompactBefore",
    "ContextFlush",
    "Hook",
    "HookEvent",
    "HookServiceError",
    "InjectedFile",
    "MessageReceived",
    "MessageSent",
    "RefusedFileError",
    "RuntimeStart",
    "RuntimeStop",
    "Said",
    "ScheduledJob",
    "SessionAutoReset",
    "SessionEnd",
    "SessionStart",
    "ToolAfter",
    "ToolBefore",
    "bare_answer",
    "clean",
    "clean_line",
    "compile_glob",
    "gives_no_name",
    "means_no_name",
    "read_guarded",
    "topics",
    "words",
]
