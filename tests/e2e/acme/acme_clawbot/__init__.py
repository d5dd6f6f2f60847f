"""A package that adds to clawbot a tool, a memory backend, a slash command, and the hook beside this file."""

from clawbot.agent.commands import CommandHost
from clawbot.errors import ClawbotError
from clawbot.memory.backend import BackendContext, FileBackend
from clawbot.memory.values import Hit, IndexStatus, SearchRequest, SearchResult
from clawbot.tools.arguments import Arguments, TypedTool
from clawbot.tools.packages import ToolContext
from clawbot.tools.protocol import ToolOutcome


class RollArguments(Arguments, frozen=True):
    sides: int = 6


class Dice(TypedTool[RollArguments]):
    name = "roll"
    description = "Roll a die."
    arguments = RollArguments
    needs = frozenset()

    def __init__(self, context: ToolContext) -> None:
        self._folder = context.workspace

    def act(self, arguments: RollArguments) -> ToolOutcome:
        return ToolOutcome(f"One of {arguments.sides} in {self._folder.name}: 4.")


class LineMemory(FileBackend):
    def __init__(self, context: BackendContext) -> None:
        super().__init__(context.documents)

    async def search(self, request: SearchRequest, building: object = None) -> SearchResult:
        lines = enumerate((await self.text("MEMORY.md")).splitlines(), start=1)
        hits = tuple(Hit("MEMORY.md", at, at, 1.0, line, "memory") for at, line in lines if request.queries[0] in line)
        return SearchResult(hits, mode="fts-only", provider="acme", model="lines")

    async def status(self, *, deep: bool = False) -> IndexStatus:
        raise ClawbotError("There is nothing to tell.")


class Shout:
    name, help, arguments = "shout", "Say it loud.", "[text]"

    async def run(self, host: CommandHost, argument: str) -> str:
        return f"{argument.upper()}!"


SHOUT = Shout()
