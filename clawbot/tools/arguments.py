"""Tool arguments as typed structs: their JSON schema for the model, and lenient conversion of its input."""

from __future__ import annotations

import asyncio
import difflib
import functools
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Container, Iterable, Mapping
from typing import Annotated, Any, ClassVar, Generic, TypeVar

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import FieldInfo

from clawbot.messages import ToolSpec
from clawbot.text.visible import title_of
from clawbot.tools.protocol import Need, ToolError, ToolOutcome


class Arguments(Struct, frozen=True, forbid_unknown_fields=True):
    """The base class of argument structs. Optional fields have a default other than null, so that their schema is
    the plain one that every provider understands. `spellings` maps names that other programs have for a field to it."""

    spellings: ClassVar[Mapping[str, str]] = {}


PathArgument = Annotated[str, Meta(description="In the workspace.", min_length=1)]


class PathArguments(Arguments, frozen=True):
    """Arguments of a tool that works on one file."""

    path: PathArgument


A = TypeVar("A", bound=Arguments)
T = TypeVar("T")

_BOUNDS = ("minLength", "minimum", "default")
# Models that learnt other tools explain their calls. Names of a location or a person are different.
_EXPLAINING = re.compile("comment|description|explanation|intent|justification|purpose|reason|reasoning|thought")
_LOCATING = re.compile("agent|cwd|dir|directory|folder|host|path|repo|root|user|workdir|workspace")
_HUMP = re.compile(r"(?<=[a-z0-9])[A-Z]")


@functools.cache
def schema_of(arguments: type[Arguments]) -> dict[str, Any]:
    """The JSON schema of `arguments`: one flat object without references, closed to unknown names. Every call of a
    model carries it, so it omits minimum values of 0 and 1, empty defaults, and
    deprecated arguments, which are accepted all the same. The same object each time: don't change it."""
    _, components = msgspec.json.schema_components([arguments], ref_template="{name}")
    schema = dict(components[arguments.__name__])
    schema["properties"] = {key: _plain(each) for key, each in schema["properties"].items() if "deprecated" not in each}
    unsaid = {"title", "description", *(() if schema.get("required") else ("required",))}
    return {key: value for key, value in schema.items() if key not in unsaid}


def _plain(argument: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in argument.items() if not (key in _BOUNDS and value in ("", False, 0, 1))}


def parse(arguments: type[A], raw: dict[str, Any]) -> A:
    """Convert `raw` to `arguments`: "3" is accepted for 3, `maxResults` for `max_results`, and null for an omitted
    optional one.

    Raises ToolError that names the argument, what was expected and the valid names.
    """
    known, offered = _fields_of(arguments), schema_of(arguments)["properties"]
    raw = {_spelled(name, arguments, raw): value for name, value in raw.items()}
    for name in raw:
        if name not in known:
            near = difflib.get_close_matches(name, offered, n=1)
            meant = f" Did you mean `{near[0]}`?" if near else ""
            raise ToolError(f"Unknown argument `{name}`.{meant} Valid arguments: {', '.join(offered)}.")
    given = {name: value for name, value in raw.items() if value is not None or known[name].required}
    try:
        return msgspec.convert(given, arguments, strict=False)
    except msgspec.ValidationError as error:
        raise ToolError(f"Wrong arguments: {_in_words(str(error))}. Valid arguments: {', '.join(offered)}.") from None


def ignorable(arguments: type[Arguments], given: Iterable[str], *, read_only: bool) -> list[str]:
    """Return the names in `given` without which a call does what was meant: those that explain it; for `read_only`
    tools also other unknown names, unless they are near a known one or name a location."""
    known = _fields_of(arguments)
    unknown = [name for name in given if _spelled(name, arguments, ()) not in known]
    far = [
        name for name in unknown if not _LOCATING.fullmatch(name) and not difflib.get_close_matches(name, known, n=1)
    ]
    return [name for name in far if read_only or _EXPLAINING.fullmatch(name)]


@functools.cache
def _fields_of(arguments: type[Arguments]) -> dict[str, FieldInfo]:
    """The fields by the names that a model uses. Cached, since computing them takes longer than most calls."""
    return {field.encode_name: field for field in msgspec.structs.fields(arguments)}


def _spelled(name: str, arguments: type[Arguments], given: Container[str]) -> str:
    """`max_results` for `maxResults`, if that is a known name or a spelling of one and not given as well."""
    plain = _HUMP.sub(r"_\g<0>", name).lower()
    plain = arguments.spellings.get(plain, plain)
    return plain if plain in _fields_of(arguments) and plain not in given else name


def _in_words(problem: str) -> str:
    """msgspec's message with the location first and without path syntax."""
    what, _, where = problem.partition(" - at `$.")
    return f"`{where.rstrip('`')}`: {what}" if where else what.replace("Object missing required field", "missing")


async def completed(work: Callable[[], T]) -> T:
    """Run `work`, which blocks and changes something, in a thread. Once started it completes even if the caller is
    cancelled, so that nothing is written during the next step."""
    task = asyncio.create_task(asyncio.to_thread(work))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        if not task.cancelled():
            task.exception()  # retrieved, so that asyncio does not complain: the caller sees the cancellation
        raise


class ArgumentTool(ABC, Generic[A]):
    """A tool whose arguments are a struct. `subject` names the argument shown in its title."""

    name: ClassVar[str]
    description: ClassVar[str]
    subject: ClassVar[str] = "path"
    read_only: ClassVar[bool] = True
    needs: ClassVar[frozenset[Need] | None] = None
    arguments: type[A]

    @property
    def spec(self) -> ToolSpec:
        return ToolSpec(self.name, self.description, schema_of(self.arguments))

    def title(self, arguments: dict[str, Any]) -> str:
        return title_of(self.name, arguments.get(self.subject, ""))


class AsyncTool(ArgumentTool[A]):
    """A tool that awaits its work. Implements `Tool`."""

    async def run(self, arguments: dict[str, Any]) -> ToolOutcome:
        return await self.act(parse(self.arguments, arguments))

    @abstractmethod
    async def act(self, arguments: A) -> ToolOutcome:
        """Do the work; never blocks the event loop. Raises ToolError with a text for the model."""


class TypedTool(ArgumentTool[A]):
    """A tool whose work blocks and runs in a thread. Implements `Tool`."""

    async def run(self, arguments: dict[str, Any]) -> ToolOutcome:
        """Check the arguments and run the work in a thread. A started change completes despite a cancellation."""
        parsed = parse(self.arguments, arguments)
        if self.read_only:
            return await asyncio.to_thread(self.act, parsed)
        return await completed(functools.partial(self.act, parsed))

    @abstractmethod
    def act(self, arguments: A) -> ToolOutcome:
        """Do the work; blocks. Raises ToolError with a text for the model."""
