"""The tool `skills_search`: what the skills are for whose descriptions find no room in the prompt; which are near a
message, by the words that their names and descriptions share with it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Annotated, ClassVar

from msgspec import Meta

from clawbot.skills.discovery import FoundSkill
from clawbot.text.sanitize import clean_line
from clawbot.text.tokens import tokens_of
from clawbot.tools.arguments import Arguments, TypedTool
from clawbot.tools.protocol import Need, ToolOutcome

SKILLS_SEARCH = "skills_search"
FEW_SKILLS = 8  # find room in any prompt
_MAX_FOUND = 8
_OF_NAME = 3  # a word of the name counts as much as three of the description


class SkillsSearchArguments(Arguments, frozen=True):
    """Arguments of `skills_search`."""

    query: Annotated[str, Meta(description="The task in a few words, or the name of a skill.")]


class SkillsSearchTool(TypedTool[SkillsSearchArguments]):
    """`skills_search`: the skills nearest to a task. `find` finds all; `shown` is the path of one for `read`."""

    name = SKILLS_SEARCH
    needs: ClassVar[frozenset[Need]] = frozenset()
    read_only = True
    description = "Find skills for a task among those that the prompt names without a description."
    subject = "query"
    arguments = SkillsSearchArguments

    def __init__(self, find: Callable[[], Sequence[FoundSkill]], shown: Callable[[FoundSkill], str]) -> None:
        self._find = find
        self._shown = shown

    def act(self, arguments: SkillsSearchArguments) -> ToolOutcome:
        found = nearest_skills([skill for skill in self._find() if skill.listed], arguments.query)[:_MAX_FOUND]
        lines = [f"- {skill.name}: {clean_line(skill.manifest.description)} ({self._shown(skill)})" for skill in found]
        return ToolOutcome("\n".join(lines) or "No skill has these words.", summary=", ".join(s.name for s in found))


def _words(text: str) -> frozenset[str]:
    """The words of `text` without single characters: of Chinese, pairs."""
    return frozenset(token.text for token in tokens_of(text) if len(token.text) > 1)


_words_of_skill = lru_cache(maxsize=4096)(_words)


def nearest_skills(skills: Sequence[FoundSkill], text: str) -> list[FoundSkill]:
    """Those of `skills` that share words with `text`, the nearest first; rare words count more. Blocks: tokenises."""
    wanted = _words(text)
    named = [_words_of_skill(skill.name) for skill in skills]
    about = [name | _words_of_skill(skill.manifest.description) for name, skill in zip(named, skills, strict=True)]
    rows = Counter(word for words in about for word in words & wanted)
    scores = [
        sum(math.log(1 + len(skills) / rows[word]) * (_OF_NAME if word in name else 1) for word in words & wanted)
        for name, words in zip(named, about, strict=True)
    ]
    ranked = sorted(zip(scores, range(len(skills)), strict=True), key=lambda pair: (-pair[0], pair[1]))
    return [skills[at] for score, at in ranked if score > 0]
