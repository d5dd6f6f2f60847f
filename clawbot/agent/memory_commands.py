"""What the commands on the memory answer: `/memory`, `/forget`, `/undo`."""

from __future__ import annotations

import msgspec

from clawbot.agent.conversation import Conversation
from clawbot.agent.deps import MemoryAccess
from clawbot.authors import Author
from clawbot.clock import and_more
from clawbot.errors import ClawbotError
from clawbot.memory.values import SearchRequest
from clawbot.text.interface import _
from clawbot.text.sanitize import clean_line


async def search_memory(memory: MemoryAccess, query: str) -> tuple[str, object]:
    """Return the results of `query` as text and as data."""
    if memory.index is None:
        return _("The memory index is off: `memory_search.enabled` in the settings."), None
    if not query:
        return _("`/memory QUERY` searches the notes; the chat screen (`clawbot`) does so as you type."), None
    found = await memory.index.search(SearchRequest(queries=(query,)))
    lines: list[str] = []
    for hit in found.hits:
        where = f"{hit.path}:{hit.start_line}" if hit.said is None else f"{hit.location}, {hit.said.at:%Y-%m-%d %H:%M}"
        more = f" ({and_more(hit.more)})" if hit.more else ""
        lines.append(f"- **{where}** {' '.join(hit.snippet.split())}{more}")
    notes = [f"_{note}_" for note in found.warnings]
    return "\n".join([*(lines or [_("Nothing found.")]), *notes]), msgspec.to_builtins(found)


async def forget_words(memory: MemoryAccess, argument: str) -> str:
    """Forget the words after `yes`, or return what would be forgotten. Raises ClawbotError."""
    first, _space, rest = argument.partition(" ")
    sure = first == "yes" and bool(rest)
    words = rest if sure else argument
    if not words or memory.forget is None:
        unasked = _("Notes are forgotten only where you can be asked.")
        problem = _("Give the words to forget, or the path of a note.") if memory.forget else unasked
        raise ClawbotError(problem, hint=_("Outside of the chat: `clawbot memory forget`."))
    lines = [f"- {clean_line(line)}" for line in await memory.forget(words, sure)]
    if not sure:
        lines += ["", _("Forget this? `/forget yes {words}` does it.").format(words=clean_line(words))]
    return "\n".join(lines)


async def undo_change(memory: MemoryAccess, conversation: Conversation) -> str:
    """Take back the last change of a memory file in this conversation, or by a dream. Raises ClawbotError."""
    if memory.undo is None:
        raise ClawbotError(_("Nothing to undo."))
    author = Author("chat:/undo", conversation.session_id, conversation.session.record.key)
    return await memory.undo(author)
