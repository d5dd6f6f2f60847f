"""Turns the mentions of a message into blocks: finds the files, asks for those outside the workspace, reads them within
the limits."""

from __future__ import annotations

import asyncio
import base64
import os
import stat
from collections.abc import Sequence
from io import BufferedReader, BytesIO
from pathlib import Path

from msgspec import Struct, structs

from clawbot.attachments.mentions import HEAD, Mention, mentions, picture_type
from clawbot.config.schema_agent import AttachmentSettings
from clawbot.context.bootstrap import fence_for, fenced, tamed
from clawbot.files import version_of
from clawbot.messages import ImageBlock, TextBlock, UserBlock
from clawbot.text.interface import N_, _, ngettext
from clawbot.text.names import on_disk
from clawbot.text.visible import one_line
from clawbot.tools.folder import MissingFileError, WorkspaceFolder, WorkspacePath, explained
from clawbot.tools.listing import hidden_from, walk
from clawbot.tools.paths import Fence
from clawbot.tools.protocol import ApprovalQuestion, Approver, SessionAccess, ToolError
from clawbot.tools.text import PROBE_BYTES, describe_binary, in_utf8, is_binary, read_window

MIN_ROOM = 200  # characters; with less room left, nothing more is read
ALL_LINES = 1_000_000_000
_MAX_CHAR_BYTES = 4
REACH = N_("It lies outside the workspace. What is in it becomes part of this conversation and is sent to the model.")
REMEDY = "Copy it into the workspace, or attach it in the chat, which asks."


class Attached(Struct, frozen=True):
    """What became of the mentions: the `blocks` for the model, and in words what was not attached, and why."""

    blocks: tuple[UserBlock, ...] = ()
    problems: tuple[str, ...] = ()


class Found(Struct, frozen=True):
    """A mention and where it leads; `outside`: the user must be asked before it is read."""

    mention: Mention
    target: WorkspacePath
    outside: bool = False


class Attachments:
    """Reads what messages mention. `fence` is that of the file tools, `state` clawbot's own folder, of which nothing is
    attached but what the workspace holds."""

    def __init__(
        self, workspace: Path, settings: AttachmentSettings, *, state: Path, fence: Fence | None = None
    ) -> None:
        self._workspace = workspace
        self._settings = settings
        self._state = state
        self._fence = fence or Fence()

    async def attach(
        self, text: str, access: SessionAccess, approve: Approver, *, pictures: bool, room: int
    ) -> Attached:
        """What `text` mentions, for a session with `access`, in `room` characters at most. `pictures`: the model takes
        them. `approve` is asked about each path outside the workspace."""
        if not self._settings.enabled:
            return Attached()
        folder = WorkspaceFolder(self._workspace, fence=hidden_from(access, self._workspace, self._fence))
        found, problems = await asyncio.to_thread(self._find, text, folder)
        allowed: list[Found] = []
        for each in found:
            refusal = await self._refusal(each, approve) if each.outside else ""
            if refusal:
                problems.append(_problem(each.mention, refusal))
            else:
                allowed.append(each)
        reader = _Reader(folder, self._settings, min(room, self._settings.total_max_chars), pictures=pictures)
        blocks = await asyncio.to_thread(reader.read, allowed)
        return Attached(tuple(blocks), (*problems, *reader.problems))

    async def _refusal(self, found: Found, approve: Approver) -> str:
        question = ApprovalQuestion(
            "attach", found.target.shown, str(self._workspace), pattern="", reach=_(REACH), remedy=REMEDY
        )
        answer = await approve(question)
        return "" if answer.decision != "deny" else answer.reason or _("You declined.")

    def _find(self, text: str, folder: WorkspaceFolder) -> tuple[list[Found], list[str]]:
        """Where the mentions of `text` lead, and what is said of those that lead nowhere. Blocks."""
        found: list[Found] = []
        problems: list[str] = []
        for mention in mentions(text):
            try:
                target, outside = self._locate(mention.path, folder)
            except MissingFileError:
                if mention.looks_like_a_path:
                    problems.append(_problem(mention, _("there is no such file")))
            except ToolError as error:
                problems.append(_problem(mention, str(error)))
            else:
                found.append(Found(mention, target, outside))
        return found, problems

    def _locate(self, path: str, folder: WorkspaceFolder) -> tuple[WorkspacePath, bool]:
        """The place of `path`, and whether it lies outside. Raises ToolError, MissingFileError among them."""
        root = Path(os.path.realpath(self._workspace))
        try:
            real = Path(os.path.realpath(on_disk(root / Path(path).expanduser())))
            real.stat()
        except (FileNotFoundError, NotADirectoryError):
            raise MissingFileError(_("{path} does not exist.").format(path=path)) from None
        except (OSError, ValueError, RuntimeError) as error:
            raise ToolError(
                _("it can't be opened: {reason}").format(reason=getattr(error, "strerror", None) or error)
            ) from None
        verdict = folder.bounds().verdict(str(real))
        if verdict.access != "none":
            return folder.locate(str(real)), False
        if verdict.why or root in real.parents:
            raise ToolError(verdict.why or _("it is out of reach"))
        state = Path(os.path.realpath(self._state))
        if real == state or state in real.parents:
            raise ToolError(_("it belongs to clawbot itself"))
        base = real if real.is_dir() else real.parent
        return WorkspacePath(real.relative_to(base).parts, str(base)), True


def _problem(mention: Mention, why: str) -> str:
    return _("@{name} is not attached: {reason}.").format(name=one_line(mention.name), reason=why.rstrip("."))


class _Reader:
    """Reads one after the other as long as there is room. All methods block."""

    def __init__(self, folder: WorkspaceFolder, settings: AttachmentSettings, room: int, *, pictures: bool) -> None:
        self._folder = folder
        self._settings = settings
        self._room = room
        self._pictures = pictures
        self.problems: list[str] = []

    def read(self, found: Sequence[Found]) -> list[UserBlock]:
        """The blocks of `found`; what can't be read is told in `problems`."""
        blocks: list[UserBlock] = []
        for each in found:
            try:
                blocks.append(self._block(each))
            except ToolError as error:
                self.problems.append(_problem(each.mention, error.message))
        return blocks

    def _block(self, found: Found) -> UserBlock:
        target = found.target
        if not target.parts or self._is_folder(target):
            return self._listing(found)
        with self._folder.reading(target) as stream:
            size = os.fstat(stream.fileno()).st_size
            head = stream.peek(PROBE_BYTES)[:PROBE_BYTES]
            if kind := picture_type(head[:HEAD]):
                return self._picture(found, kind, size, stream.read(self._settings.image_max_bytes + 1))
            if is_binary(head):
                raise ToolError(_("it is no text ({kind})").format(kind=describe_binary(target.shown, size)))
            room = self._take_room()
            mention = found.mention
            limit = mention.last - mention.first + 1 if mention.first else ALL_LINES
            # Read at once what can be shown whole: the digest is of what is shown.
            data = stream.read(_MAX_CHAR_BYTES * room + 1) if size <= _MAX_CHAR_BYTES * room else b""
            text, size = in_utf8(BufferedReader(BytesIO(data)) if data else stream, len(data) or size)
            window = read_window(text, size, mention.first or 1, limit, room)
        if mention.first and window.last < mention.first:
            raise ToolError(ngettext("it has {n:,} line", "it has {n:,} lines", window.last).format(n=window.last))
        is_complete = not window.more and not window.cut and (window.first == 1 or bool(mention.first))
        lines = max(0, window.last - window.first + 1) if window.text else 0
        count = f"{lines:,} {'line' if lines == 1 else 'lines'}"
        total = f" of {window.total:,}" if window.total is not None and window.total != lines else ""
        cut = "" if is_complete or (mention.first and window.last >= mention.last) else ", cut at the limit"
        extent = f"lines {window.first:,}-{window.last:,}{total}{cut}" if total or cut else count
        block = self._text(found, f"file {_name(found)} ({extent})", window.text, f"{count}{cut}")
        if not data or window.first > 1 or window.more or window.cut or tamed(window.text) != window.text:
            return block
        return structs.replace(block, path=target.shown, digest=version_of(data))

    def _is_folder(self, target: WorkspacePath) -> bool:
        with self._folder.folder(target.parts[:-1], base=target.base) as parent, explained(target.shown):
            return stat.S_ISDIR(os.stat(target.parts[-1], dir_fd=parent, follow_symlinks=False).st_mode)

    def _listing(self, found: Found) -> UserBlock:
        room = self._take_room()
        hides = self._folder.bounds().hides(self._folder.real(found.target))
        most = self._settings.folder_entries
        entries: list[str] = []
        more = False
        with self._folder.folder(found.target.parts, base=found.target.base) as handle:
            for entry in walk(handle, hides):
                if any(part.startswith(".") for part in entry.path.split("/")):
                    continue
                line = one_line(f"{entry.path}/" if entry.is_folder else entry.path)
                room -= len(line) + 1
                if len(entries) == most or room < 0:
                    more = True
                    break
                entries.append(line)
        count = f"{len(entries):,} {'entry' if len(entries) == 1 else 'entries'}{', and more' if more else ''}"
        return self._text(found, f"folder {_name(found)} ({count})", "\n".join(entries), count)

    def _picture(self, found: Found, kind: str, size: int, data: bytes) -> UserBlock:
        if not self._pictures:
            raise ToolError(_("this model takes no pictures. /model chooses another"))
        if len(data) > self._settings.image_max_bytes:
            most = _bytes(self._settings.image_max_bytes)
            raise ToolError(_("it is larger than {size} (attachments.image_max_bytes)").format(size=most))
        label = f"{one_line(found.mention.name)} · {_bytes(size)}"
        return ImageBlock(data=base64.b64encode(data).decode(), mime_type=kind, attached=label)

    def _text(self, found: Found, title: str, text: str, count: str) -> TextBlock:
        tame = tamed(text.rstrip("\n"))
        self._room -= len(tame)
        label = f"{one_line(found.mention.name)} · {count}"
        return TextBlock(f"Attached {title}:\n{fenced(tame, fence_for([tame]))}", attached=label)

    def _take_room(self) -> int:
        if self._room < MIN_ROOM:
            raise ToolError(_("what was attached before it takes all the room (attachments.total_max_chars)"))
        return min(self._room, self._settings.max_chars)


def _name(found: Found) -> str:
    return one_line(found.target.shown)


def _bytes(size: int) -> str:
    return f"{size / 1e6:.1f} MB" if size >= 1_000_000 else f"{max(1, round(size / 1000)):,} kB"
