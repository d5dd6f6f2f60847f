"""The system prompt with the workspace read fresh, and a skill's text in a message that calls it."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from msgspec import Struct

from clawbot.agent.deps import AgentDeps
from clawbot.agent.events import Emit, warning
from clawbot.config.schema_agent import BootstrapSettings
from clawbot.context.bootstrap import (
    Bootstrap,
    BootstrapFile,
    NamedText,
    apply_hooked,
    cap_bootstrap,
    fence_for,
    fenced,
    read_bootstrap,
    tamed,
)
from clawbot.context.privacy import Privacy, privacy_of
from clawbot.context.prompt import (
    COMPACT_BELOW,
    PromptInputs,
    SystemPrompt,
    build_system_prompt,
    compact_files,
    compact_tools,
    offered_tools,
    prompt_literal,
)
from clawbot.context.skill_list import OTHERS, WINDOW_SHARE, form_notices, skill_notices, skills_section
from clawbot.errors import ClawbotError
from clawbot.extensions.manifest import ManifestError
from clawbot.files import unreported
from clawbot.messages import TextBlock
from clawbot.skills.discovery import SKILL_FILE, FoundSkill, SkillCatalog, SkillText
from clawbot.text.interface import _
from clawbot.text.sanitize import clean_line
from clawbot.tools.changing import AskedFiles
from clawbot.tools.skills import SKILLS_SEARCH, nearest_skills

ATTACHED_SHARE = 2  # characters of what is attached for a token of the window: half of it, in English


# The beginning of the section that names skills without a description.
_SEARCHED = OTHERS.partition(":")[0]
_NEAR, _MAX_NEAR = 5, 20  # skills near a message, and remembered as such


# Characters of workspace files for each token of the window: a fifth of it in English, three quarters in Chinese.
_FILES_PER_TOKEN = 0.75


_FIGURES = re.compile(r"\d[\d,]*")


OnBootstrap = Callable[[Sequence[BootstrapFile]], Awaitable[Sequence[NamedText]]]
"""Gives hooks the workspace files of a prompt; returns them as the hooks left them."""


class Built(Struct, frozen=True):
    """A system prompt and what it was made of."""

    prompt: SystemPrompt
    inputs: PromptInputs


class PromptBuilder:
    """The system prompt. It is built once for each turn, so that an edit of a workspace file is seen by the next
    message and the prompt is the same within a tool loop. `on_bootstrap` may change the files in it, and `asked`
    receives their names."""

    def __init__(
        self,
        deps: AgentDeps,
        on_bootstrap: OnBootstrap | None = None,
        asked: AskedFiles | None = None,
    ) -> None:
        self._deps = deps
        self._on_bootstrap = on_bootstrap
        self._asked = asked
        self._reported: set[str] = set()
        self._near: list[str] = []

    async def build(self, session_key: str, report: Emit | None, window: int, query: str = "") -> Built:
        """Build the prompt from the current workspace, for a model with a window of so many tokens. `report` is given
        what the user should know of its files; None when nobody listens. Skills near `query` are described."""
        deps, privacy, model = self._deps, privacy_of(session_key), self._deps.model.chat.info
        compact = window < COMPACT_BELOW
        read, skills, listed = await asyncio.to_thread(self._read, privacy, window, query)
        if self._on_bootstrap is not None and (hooked := await self._on_bootstrap(read.files)) is not read.files:
            read = await asyncio.to_thread(apply_hooked, read, hooked, deps.workspace, privacy)
        if self._asked is not None:
            self._asked.add_prompted([file.name for file in read.files])
        known = deps.tools.for_session(privacy).specs if model.supports_tools else ()
        tools = offered_tools(known, deps.settings.subagents.enabled, model.ref, window)
        if _SEARCHED not in listed:
            tools = tuple([tool for tool in tools if tool.name != SKILLS_SEARCH])
        shown = compact_tools(tools) if compact else tools
        names = {tool.name for tool in shown}
        inputs = PromptInputs(
            workspace=deps.workspace,
            tools=shown,
            left_out=tuple(sorted({tool.name for tool in tools} - names)),
            bootstrap=cap_bootstrap(compact_files(read) if compact else read, self._limits(window)),
            now=deps.clock.now(),
            model=model.ref,
            agent_id=deps.profile.agent_id,
            notes=privacy.notes,
            citations=deps.memory.settings.citations in (("on", "auto") if privacy.citations else ("on",)),
            compact=compact,
            skills=listed if "read" in names else "",
            client=deps.front.client(),
            subagent=privacy.kind == "sub",
        )
        if report is not None:
            notices = [*inputs.bootstrap.notices]
            if deps.skills is not None and skills:
                notices += skill_notices(skills)
                if forms := form_notices(skills):
                    notices += await asyncio.to_thread(unreported, deps.skills.notified_file, forms, inputs.now)
            self._report_new(notices, report)
        return Built(build_system_prompt(inputs), inputs)

    def _read(self, privacy: Privacy, window: int, query: str) -> tuple[Bootstrap, Sequence[FoundSkill], str]:
        """Return the workspace files, the skills and the section about these, shorter in a small window. Where not all
        find room, it changes only with a skill and when the one nearest to `query` has no description yet: the
        provider's cache ends there. Blocks."""
        workspace, catalog = self._deps.workspace, self._deps.skills
        read = read_bootstrap(workspace, privacy)
        skills = catalog.scan() if catalog is not None else ()
        if catalog is None or not skills:
            return read, (), ""
        budget = min(catalog.settings.prompt_tokens, window // WINDOW_SHARE)
        text = skills_section(skills, workspace, Path.home(), budget, self._near)
        near = nearest_skills([skill for skill in skills if skill.listed], query) if query and _SEARCHED in text else []
        if near and f"\n- {near[0].name}: " not in text:
            self._near = list(dict.fromkeys([*(skill.name for skill in near[:_NEAR]), *self._near]))[:_MAX_NEAR]
            text = skills_section(skills, workspace, Path.home(), budget, self._near)
        return read, skills, text

    def _limits(self, window: int) -> BootstrapSettings:
        """Those of the settings, less where the files would leave no room in the window for a conversation."""
        wanted = self._deps.settings.bootstrap
        total = min(wanted.total_max_chars, int(window * _FILES_PER_TOKEN))
        return wanted.model_copy(update={"max_chars": min(wanted.max_chars, total), "total_max_chars": total})

    def _report_new(self, notices: Sequence[str], report: Emit) -> None:
        """Report what is not in the prompt as it is on disk: once, and again only after it was mended. Its figures
        don't count: a file that is cut and grows would be reported with every message."""
        now = {_FIGURES.sub("", text): text for text in notices}
        for gist, text in now.items():
            if gist not in self._reported:
                report(warning(text))
        self._reported = set(now)


def called(catalog: SkillCatalog, name: str, words: str, room: int) -> TextBlock:
    """The text of the skill `name` for a message that calls it with `words`, in `room` characters at most. Raises
    ClawbotError where it can't be used. Blocks."""
    skill = FoundSkill.named(catalog.scan(), name)
    try:
        if reason := skill.reason(_):
            raise ManifestError(reason)
        text = catalog.text(skill)
    except ManifestError as error:
        problem = _("The skill {name} can't be used: {reason}.").format(name=name, reason=clean_line(str(error)))
        raise ClawbotError(problem, hint=_("`clawbot skills check` says what to do.")) from None
    return quoted(text, skill.folder, words, min(room, catalog.settings.max_chars))


def quoted(text: SkillText, folder: Path, words: str, room: int) -> TextBlock:
    """The instructions `text` of the skill in `folder` for the model: as many complete lines as have `room`."""
    body = text.body.replace("{baseDir}", str(folder)).replace("$ARGUMENTS", words)
    lines = body.split("\n")
    kept: list[str] = []
    for line in lines:
        room -= len(line) + 1
        if room < 0:
            break
        kept.append(line)
    more = len(lines) > len(kept)
    rest = f" It goes on in {SKILL_FILE} with line {text.first_line + len(kept)}: read that too." if more else ""
    name, folder_text = text.manifest.name, prompt_literal(str(folder))
    shown = tamed("\n".join(kept).strip("\n"))
    intro = f"The user calls the skill {name}: follow these instructions. Paths in them start at {folder_text}.{rest}"
    count = f"{len(kept)} {'line' if len(kept) == 1 else 'lines'}{', cut at the limit' if more else ''}"
    return TextBlock(f"{intro}\n{fenced(shown, fence_for([shown]))}", attached=f"{name}/{SKILL_FILE} · {count}")
