"""What a client of OpenAI's protocol sends as a talk, and which conversation here goes on with it.

Such a client keeps the talk itself and sends all of it each time. A conversation here keeps it too, so of a talk
that is known only the last message is new.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct, structs

from clawbot.agent.slash import parse_command
from clawbot.plugins.serve.answers import invalid

MOST_TALKS = 4096
MOST_ALIKE = 64
"""Conversations that said the very same; of more only the newest go on."""
MOST_MESSAGES = 10_000
MOST_INSTRUCTIONS = 20_000
"""Characters, as much as one workspace file may have in the prompt."""
_INSTRUCTING = ("system", "developer")


class Said(Struct, frozen=True):
    """One message of the talk: `role` is `user` or `assistant`."""

    role: str
    text: str


class Talk(Struct, frozen=True):
    """What a client sent: its instructions, what was said before, and the new message."""

    instructions: str
    earlier: tuple[Said, ...]
    text: str

    def with_reply(self, reply: str) -> Talk:
        """The talk as the client sends it next time, up to the message that is not there yet."""
        said = (*self.earlier, Said("user", self.text), Said("assistant", reply))
        return structs.replace(self, earlier=said, text="")

    def first_message(self) -> str:
        """What a conversation begins with that knows nothing of the talk."""
        if not self.earlier or parse_command(self.text) is not None:
            return self.text
        said = "\n\n".join(f"{each.role}: {each.text}" for each in self.earlier)
        return f"{self.text}\n\n[What was said before this message, elsewhere]\n\n{said}"


def read_talk(body: Mapping[str, Any]) -> Talk:
    """The talk in the body of a request. Raises RefusalError."""
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages or len(messages) > MOST_MESSAGES:
        raise invalid(f"`messages` must be a list of 1 to {MOST_MESSAGES:,} messages.")
    instructions: list[str] = []
    said: list[Said] = []
    for message in messages:
        role, text = _message(message)
        if role in _INSTRUCTING:
            instructions.append(text)
        elif role in ("user", "assistant") and text:
            said.append(Said(role, text))
    if not said or said[-1].role != "user" or _message(messages[-1])[0] != "user":
        raise invalid("The last message must be one of the role `user`, with text.")
    wishes = "\n\n".join(filter(None, instructions))
    if len(wishes) > MOST_INSTRUCTIONS:
        raise invalid(f"The instructions (`system`, `developer`) have more than {MOST_INSTRUCTIONS:,} characters.")
    return Talk(wishes, tuple(said[:-1]), said[-1].text)


def _message(message: Any) -> tuple[str, str]:
    if not isinstance(message, dict) or not isinstance(message.get("role"), str):
        raise invalid("Each of `messages` must be an object with `role` and `content`.")
    return message["role"], _text(message.get("content"))


def _text(content: Any) -> str:
    if content is None:
        return ""
    if isinstance(content, str):
        return content.strip()
    if not isinstance(content, list):
        raise invalid("`content` must be a text or a list of parts.")
    texts = []
    for part in content:
        if not isinstance(part, dict) or part.get("type") != "text" or not isinstance(part.get("text"), str):
            raise invalid("Only parts of the type `text` are taken.")
        texts.append(part["text"])
    return "\n".join(texts).strip()


class Continuations:
    """Which conversation a talk goes on in. Each is given out once, until it has been put back with its new end: two
    clients that said the same never meet, and one that goes back to an earlier message gets a conversation of its
    own."""

    def __init__(self) -> None:
        self._keys: OrderedDict[bytes, list[str]] = OrderedDict()

    def take(self, owner: str, earlier: Sequence[Said]) -> str | None:
        """The session whose talk ended like `earlier`, for `owner` (agent and user); None if there is none."""
        keys = self._keys.get(found := _digest(owner, earlier))
        if not keys:
            return None
        key = keys.pop()
        if not keys:
            del self._keys[found]
        return key

    def put(self, owner: str, earlier: Sequence[Said], key: str) -> None:
        """The talk of the session `key` ends like `earlier` now."""
        digest = _digest(owner, earlier)
        keys = self._keys.setdefault(digest, [])
        keys.append(key)
        del keys[:-MOST_ALIKE]
        self._keys.move_to_end(digest)
        if len(self._keys) > MOST_TALKS:
            self._keys.popitem(last=False)


def _digest(owner: str, earlier: Sequence[Said]) -> bytes:
    digest = hashlib.sha256(owner.encode("utf-8", "replace"))
    for said in earlier:
        text = " ".join(said.text.split()).encode("utf-8", "replace")
        digest.update(b"%s %d " % (said.role.encode(), len(text)))
        digest.update(text)
    return digest.digest()
