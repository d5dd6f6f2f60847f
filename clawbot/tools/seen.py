"""What a session's model has seen of files, by the records in the details of results.

A version of a file is identified by its digest, under whatever name it was seen. Only what the context still holds
counts: after a compaction the model could not repeat the rest.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from contextvars import ContextVar

from clawbot.files import digest_of
from clawbot.messages import Message, ToolResultMessage, UserMessage
from clawbot.tools.text import decode


def unseen_lines(data: bytes, sent: Sequence[Message] = (), since: Sequence[Message] = ()) -> list[str] | None:
    """The lines of a file with the content `data` that are new to the model; None if it has seen all of it.

    `sent` is the request that the model answered, `since` the results of the calls in this answer, of which only its
    own changes count: it wrote all calls before it saw any result.
    """
    text, seen, shown = decode(data)[0], {digest_of(b"")}, defaultdict[str, set[int]](set)
    attached = "\n```text\n{}\n```\n".format(text.rstrip("\n"))
    for at, message in enumerate((*sent, *since)):
        match message:
            case UserMessage() if attached in f"{message.sent}\n":
                return None
            case ToolResultMessage(details={"seen": {"was": str(was), "digest": str(new)}}) if was in seen:
                seen.add(new)
            case ToolResultMessage(details={"seen": {"digest": str(old), "part": [int(a), int(b), int(of), int(n)]}}):
                if at < len(sent) and n == len(message.text):  # not shortened later
                    shown[old] |= {*range(a, min(b, a + n) + 1)}
                    seen |= {old} if len(shown[old]) >= of else set()
    if digest_of(data) in seen:
        return None
    known = {line for each in sent if isinstance(each, ToolResultMessage) for line in each.text.splitlines()}
    return [line for line in text.splitlines() if line.strip() and line not in known]


UNSEEN: ContextVar[Callable[[bytes], Sequence[str] | None]] = ContextVar("UNSEEN", default=unseen_lines)
"""`unseen_lines` for the model whose calls run; without a session nothing was seen."""
