"""The bounds of one sub-agent: the time it works, and the tokens it uses."""

from __future__ import annotations

import asyncio

from clawbot.config.schema_agent import SubagentSettings
from clawbot.deadline import Cancellation
from clawbot.tools.protocol import ApprovalAnswer, ApprovalQuestion, Approver


def exceeded_by_all(settings: SubagentSettings, together: list[int]) -> str:
    """Return what the sub-agents of one message used beyond what they may `together`; "" if nothing."""
    if (tokens := sum(together)) <= settings.max_total_tokens:
        return ""
    return f"all of this message used {tokens:,} tokens (agents.defaults.subagents.max_total_tokens in the config)"


class Limits:
    """Stops by `cancel` what takes longer or uses more than `settings` allow; `exceeded` says then what it was. The
    time in which the user is asked does not count. `together` are the tokens of all sub-agents of one message."""

    def __init__(self, settings: SubagentSettings, cancel: Cancellation, together: list[int]) -> None:
        self._settings = settings
        self._together = together
        self._number = len(together)
        together.append(0)
        self._cancel = cancel
        self._left = settings.timeout
        self._loop = asyncio.get_running_loop()
        self._since = 0.0
        self._alarm: asyncio.TimerHandle | None = None
        self._asked = 0
        self.exceeded = ""

    def start(self) -> None:
        """The time runs."""
        self._since = self._loop.time()
        self._alarm = self._loop.call_later(self._left, self._expire)

    def stop(self) -> None:
        """The time stands still."""
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
            self._left = max(0.0, self._left - (self._loop.time() - self._since))

    def spent(self, tokens: int, *, goes_on: bool) -> None:
        """It used so many tokens so far."""
        self._together[self._number] = tokens
        if goes_on and tokens > self._settings.max_tokens:
            self._exceed(f"it used {tokens:,} tokens (agents.defaults.subagents.max_tokens in the config)")
        elif goes_on and (problem := exceeded_by_all(self._settings, self._together)):
            self._exceed(problem)

    def _expire(self) -> None:
        self._alarm = None
        seconds = f"{self._settings.timeout:g} seconds"
        self._exceed(f"it was not done after {seconds} (agents.defaults.subagents.timeout in the config)")

    def _exceed(self, what: str) -> None:
        self.exceeded = self.exceeded or what
        self._cancel.request()

    def pausing(self, approve: Approver) -> Approver:
        """`approve`, while which the time stands still."""

        async def ask(question: ApprovalQuestion) -> ApprovalAnswer:
            self.stop()
            self._asked += 1
            try:
                return await approve(question)
            finally:
                self._asked -= 1
                if not self._asked:
                    self.start()

        return ask
