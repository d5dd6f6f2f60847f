"""The scripted model: reading a script, playing it, and the doors to it (as a model, over HTTP)."""

from clawbot.llm.scripted.engine import ScriptEngine, ScriptMismatch, ScriptUnused
from clawbot.llm.scripted.file import Script, ScriptFileError, load_script, parse_script
from clawbot.llm.scripted.replies import ScriptedFault

__all__ = [
    "Script",
    "ScriptEngine",
    "ScriptFileError",
    "ScriptMismatch",
    "ScriptUnused",
    "ScriptedFault",
    "load_script",
    "parse_script",
]
