"""How a conversation is compacted: the strategy that the settings name, and the builtin one's summary, written by calls
of the model in stages that each fit, checked, retried and mended.

What a summary is made from and what it must hold is decided in `context/compaction`. Nothing is stored here: whoever
asked has the complete history as it was when this fails.
"""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import EntryPoint
from typing import Any, Protocol, TypeVar

from msgspec import Struct, structs

from clawbot.config.schema_agent import BUILTIN_COMPACTION, COMPACTION_GROUP
from clawbot.context.compaction import (
    SYSTEM,
    Cut,
    Material,
    PreviousCompaction,
    Situation,
    Task,
    choose_cut,
    fit,
    gather,
    is_no_summary,
    junk,
    mend,
    parts_of,
    plan_stages,
    problems,
    prompt_for,
    stage_budget,
    valid_cuts,
)
from clawbot.context.window import WindowBudget
from clawbot.deadline import Cancellation, InterruptedTurnError, deadline
from clawbot.entry_points import BrokenExtension, installed
from clawbot.errors import ClawbotError
from clawbot.llm.errors import ContextOverflowError, ModelError
from clawbot.llm.protocol import ChatModel, ChatRequest, ask
from clawbot.llm.tokens import Count
from clawbot.messages import AssistantMessage, UserMessage
from clawbot.sessions.conversation import ContextItem
from clawbot.text.secrets import redact, without_secrets

MAX_SHRINKS = 3
"""How often the stages are halved after the model reported that its window is too small."""

ANSWER_SHARE = 0.8
"""Of the reserve, for the answer: models that reason need more than what they write."""

ANSWER_MARGIN = 256
MIN_ANSWER = 512
RETRY_MARGIN = 300
"""Tokens that the reasons for a retry may take, and what frames a message."""

_logger = logging.getLogger(__name__)
T = TypeVar("T")
Progress = Callable[[int, int], None]
"""Called with the stage that begins, from 1, and how many there are."""


class SummaryError(ClawbotError):
    """No summary could be written. The message states why, without secrets."""

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message, hint=hint or "Another model can be set for this (compaction.model in the config).")


class JunkSummaryError(SummaryError):
    """What the model wrote is no summary, and would be none if it were asked again; another model may do better."""


class NoSummaryError(JunkSummaryError):
    """The model went on with the conversation, called a tool, or answered nothing."""


class SummaryJob(Struct, frozen=True, kw_only=True):
    """What is to be summarised.

    `items` leave the context, and so do those of `split`, the beginning of a turn whose rest remains; neither holds the
    summary of an earlier compaction, which is `previous` ("" without one), with the `details` of its entry. `focus` is
    what the user asked to keep above all. `window` (an upper bound; the model may know that its own is smaller) and
    `budget` are in tokens; `timeout` is for all of the job, in seconds. The user's last `preserve` messages are
    carried word for word. `count` counts tokens and may block. `now_ms` is the time, in milliseconds since the epoch.
    `request` is what the session sent of it, in so many `sent` tokens: a provider has read that already, so the summary
    is asked for behind it where that fits (None: never).
    """

    items: Sequence[ContextItem]
    window: int
    budget: WindowBudget
    timeout: float
    preserve: int
    count: Count
    previous: str = ""
    details: Any = None
    split: Sequence[ContextItem] = ()
    focus: str = ""
    now_ms: int = 0
    request: ChatRequest | None = None
    sent: int = 0


class Compaction(Protocol):
    """A strategy: what of a conversation goes, and what replaces it. One object serves all conversations of an agent.

    A package offers a factory of one, without arguments, through the entry point group `clawbot.compactions`. Memory is
    offered what goes before a summary is asked for, whatever the strategy.
    """

    def plan(self, situation: Situation) -> Cut | None:
        """Where to cut; None when there is nothing to compact, or nothing worth it. Called on the event loop."""
        ...

    async def summarise(self, job: SummaryJob, model: ChatModel, cancel: Cancellation, progress: Progress) -> str:
        """Return the Markdown that replaces what goes. Raises SummaryError, and InterruptedTurnError when `cancel` was
        requested."""
        ...


class BuiltinCompaction:
    """Cuts at the recent turns that fit, and summarises what was before in stages."""

    def plan(self, situation: Situation) -> Cut | None:
        """See `choose_cut`."""
        return choose_cut(situation)

    async def summarise(self, job: SummaryJob, model: ChatModel, cancel: Cancellation, progress: Progress) -> str:
        """The summary of `job` in at most `budget.summary` tokens, as Markdown: all headings, then what is carried word
        for word, and without secrets. `progress` receives the stage that begins and how many there are (more, when the
        model's window turns out to be smaller).

        Raises SummaryError when the model failed, declined, answered nothing twice, took too long, or did not even take
        stages an eighth of the size; InterruptedTurnError when `cancel` was requested.
        """
        try:
            async with deadline(job.timeout) as scope:
                return await _Writer(job, model, cancel, progress).write()
        except TimeoutError as error:
            if scope.expired():
                text = f"The summary took longer than {job.timeout:g} seconds (compaction.timeout)."
                raise SummaryError(text) from error
            raise SummaryError("The model did not answer in time.") from error
        except ModelError as error:
            named = f"{error.provider}: {error.message}" if error.provider else error.message
            raise SummaryError(f"The model that summarises failed. {named}", hint=error.hint) from error


class PackagedCompaction:
    """The strategy `inner` of a package: whatever it raises becomes a SummaryError that names it, and a cut that would
    part a tool call from its result is refused."""

    def __init__(self, name: str, inner: Compaction) -> None:
        self._name = name
        self._inner = inner

    def plan(self, situation: Situation) -> Cut | None:
        """Raises SummaryError."""
        with self._guard():
            cut = self._inner.plan(situation)
            if cut is not None and cut.index not in valid_cuts(situation.items, situation.first):
                raise ValueError(f"no cut can be at {cut.index}")
        return cut

    async def summarise(self, job: SummaryJob, model: ChatModel, cancel: Cancellation, progress: Progress) -> str:
        """Raises SummaryError, InterruptedTurnError."""
        with self._guard():
            return redact(await self._inner.summarise(job, model, cancel, progress))

    @contextmanager
    def _guard(self) -> Iterator[None]:
        try:
            yield
        except (ClawbotError, InterruptedTurnError):
            raise
        except Exception as error:
            _logger.exception("the compaction %s failed", self._name)
            hint = "Update or repair its package, or set compaction.strategy to builtin."
            # The text of such an error may hold anything, a key as well.
            raise SummaryError(f"The compaction {self._name} failed: {type(error).__name__}.", hint=hint) from error


def open_compaction(name: str) -> tuple[Compaction, str]:
    """The strategy `name` of the settings, and why it is the builtin one instead ("" when it is not). Imports the
    package that offers it: blocks."""
    offered = () if name == BUILTIN_COMPACTION else installed(COMPACTION_GROUP)
    extension = next((each for each in offered if each.name == name), None)
    if extension is None:
        return BuiltinCompaction(), ""
    made = extension.use(_made)
    if isinstance(made, BrokenExtension):
        return BuiltinCompaction(), f"The builtin compaction is used: {made.problem}."
    return PackagedCompaction(name, made), ""


def _made(point: EntryPoint) -> Compaction:
    """Raises TypeError for what is no strategy, and whatever the package raises."""
    strategy: Compaction = point.load()()
    if not callable(getattr(strategy, "plan", None)) or not callable(getattr(strategy, "summarise", None)):
        raise TypeError("it made something without `plan` and `summarise`")
    return strategy


class _Stage(Struct, frozen=True):
    """A part of the conversation: its text, and the index behind its last message."""

    conversation: str
    stop: int


class _Writer:
    """One job on its way."""

    def __init__(self, job: SummaryJob, model: ChatModel, cancel: Cancellation, progress: Progress) -> None:
        self._job = job
        self._model = model
        self._cancel = cancel
        self._progress = progress
        self._shrinks = 0
        self._window = min(job.window, model.info.window or job.window)
        answer = max(job.budget.summary + ANSWER_MARGIN, int(job.budget.reserve * ANSWER_SHARE))
        # A model with a smaller window than the conversation's must have room left for what it is to summarise.
        most = max(MIN_ANSWER, self._window // 4)
        self._answer_tokens = min(answer, most, model.info.max_output or answer)

    async def write(self) -> str:
        job = self._job
        material = await self._in_thread(
            functools.partial(
                gather,
                [item.message for item in job.items],
                [item.message for item in job.split],
                earlier=PreviousCompaction(job.previous, job.details),
                focus=job.focus,
                preserve=job.preserve,
                tokens=job.budget.summary,
                count=job.count,
            )
        )
        summary = await self._behind_the_session(material) if material.texts else ""
        if not summary:
            summary = await self._in_stages(material)
        text = "\n\n".join(filter(None, (summary, material.appendix)))
        return (await self._in_thread(functools.partial(without_secrets, text, material.secrets)))[0]

    async def _behind_the_session(self, material: Material) -> str:
        """The summary that is asked for behind the session's own request; "" where it does not fit behind that, or
        the model answered with none: as text, nothing of the conversation resembles the model's own."""
        if self._job.request is None:
            return ""
        everything = _Stage(material.conversation(material.texts, 0), len(material.texts))
        task = structs.replace(self._task(material, everything, material.previous, 1, 1), behind=True)
        asked = await self._in_thread(functools.partial(self._job.count, prompt_for(task)))
        if self._job.sent + asked + min(RETRY_MARGIN, self._window // 20) + self._answer_tokens > self._window:
            return ""
        self._progress(1, 1)
        try:
            return await self._stage(task, material, everything.stop)
        except ContextOverflowError as error:
            self._window = min(error.limit or self._window, self._window)
        except NoSummaryError as error:
            _logger.info("asked behind the conversation: %s", error)
        return ""

    async def _in_stages(self, material: Material) -> str:
        """The summary of the conversation as text, in as many calls as it takes."""
        summary, done, passed = material.previous, 0, 0
        size = self._size(self._window, material)
        while done < len(material.texts):
            stages = await self._in_thread(functools.partial(self._plan, material, done, size))
            for part, stage in enumerate(stages, passed + 1):
                self._progress(part, passed + len(stages))
                task = self._task(material, stage, summary, part, passed + len(stages))
                try:
                    summary = await self._stage(task, material, stage.stop)
                except ContextOverflowError as error:
                    size = self._smaller(size, error, material)
                    passed = part - 1
                    break
                done = stage.stop
        if not material.texts:
            summary = await self._in_thread(functools.partial(self._fitted, summary, material, 0))
        return summary

    def _plan(self, material: Material, done: int, size: int) -> list[_Stage]:
        """The stages of the messages from `done` on. Blocks."""
        parts = parts_of(material.texts[done:], size, self._job.count)
        return [
            _Stage(material.conversation([parts[at].text for at in run], done + run.start), done + run.stop)
            for run in plan_stages([part.tokens for part in parts], size)
        ]

    def _task(self, material: Material, stage: _Stage, summary: str, part: int, parts: int) -> Task:
        return Task(
            conversation=stage.conversation,
            previous=summary,
            part=part,
            parts=parts,
            split=material.is_split(stage.stop),
            focus=self._job.focus,
            chinese=material.chinese,
            tokens=material.room,
        )

    def _size(self, window: int, material: Material) -> int:
        return stage_budget(window, self._answer_tokens, material.overhead + min(RETRY_MARGIN, window // 20))

    def _smaller(self, size: int, error: ContextOverflowError, material: Material) -> int:
        """At most half of `size`, and what fits into the window that `error` states. The answer gets less room, too,
        as some providers count it in. Raises `error` when that was tried often enough."""
        self._shrinks += 1
        if self._shrinks > MAX_SHRINKS:
            raise error
        self._window = min(error.limit or self._window, self._window)
        self._answer_tokens = max(min(self._answer_tokens // 2, self._window // 4), MIN_ANSWER)
        smaller = min(size // 2, self._size(self._window, material))
        _logger.info("the summariser takes less than thought: stages go from %d to %d tokens", size, smaller)
        return smaller

    async def _stage(self, task: Task, material: Material, stop: int) -> str:
        """One stage's summary, checked and fitted. A bad one is asked for again with the reasons: always when it is no
        summary, else at the last stage alone, since each later one works it over anyway. Behind the conversation, none
        raises NoSummaryError at once."""
        wanted = material.names(stop)
        best: tuple[int, str, bool] | None = None
        failure = ""
        for _ in range(2):
            try:
                answer = await self._ask(task)
            except ModelError:
                if best is None:
                    raise
                break
            cut_off, text = answer.stop_reason == "length", answer.text
            judge = functools.partial(problems, text, wanted, split=task.split, cut_off=cut_off)
            found = await self._in_thread(judge)
            failure = is_no_summary(text, headed=task.behind)
            if not failure and (best is None or len(found) <= best[0]):
                best = (len(found), text, cut_off)
            if failure and task.behind and best is None:
                worse = await self._in_thread(functools.partial(junk, text, task.conversation))
                raise (JunkSummaryError if worse else NoSummaryError)(f"No summary was written: {worse or failure}.")
            if not found or (best is not None and task.part < task.parts):
                break
            task = structs.replace(task, reasons=tuple(found))
        if best is not None and best[0]:
            # One that has all it must have is no junk, however it is worded.
            source = f"{task.previous}\n{task.conversation}"
            failure = await self._in_thread(functools.partial(junk, best[1], source, cut_off=best[2]))
        if best is None or (best[0] and failure):
            raise JunkSummaryError(f"No summary was written: {failure}.")
        return await self._in_thread(functools.partial(self._fitted, best[1], material, stop))

    def _fitted(self, answer: str, material: Material, stop: int) -> str:
        """`answer` mended and in the room that it has. Blocks."""
        mended = mend(answer, material.names(stop), split=material.is_split(stop))
        return fit(mended, material.room, self._job.count)

    async def _ask(self, task: Task) -> AssistantMessage:
        given, most = self._job.request, self._answer_tokens
        if given is not None and task.behind:
            messages = (*given.messages, UserMessage(prompt_for(task)))
            request = structs.replace(given, messages=messages, purpose="summary", max_tokens=most)
        else:
            messages = (UserMessage(prompt_for(task), self._job.now_ms),)
            request = ChatRequest(SYSTEM, messages, stable_prefix=len(SYSTEM), purpose="summary", max_tokens=most)
        return await ask(self._model, request, self._cancel)

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await self._cancel.run(functools.partial(asyncio.to_thread, work))
