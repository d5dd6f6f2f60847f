"""Which skills are near what somebody said: by the words that its name and description share with it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache

from clawbot.skills.discovery import FoundSkill
from clawbot.text.tokens import tokens_of

_OF_NAME = 3  # a word of the name counts as much as three of the description


@lru_cache(maxsize=4096)
def _words(text: str) -> frozenset[str]:
    """The words of `text` without single characters: of Chinese, pairs."""
    return frozenset(token.text for token in tokens_of(text) if len(token.text) > 1)


def nearest_skills(skills: Sequence[FoundSkill], said: str) -> list[FoundSkill]:
    """Those of `skills` that share words with `said`, the nearest first; rare words count more. Blocks: tokenises."""
    wanted = _words(said)
    named = [_words(skill.name) for skill in skills]
    about = [name | _words(skill.manifest.description) for name, skill in zip(named, skills, strict=True)]
    rows = Counter(word for words in about for word in words & wanted)
    scores = [
        sum(math.log(1 + len(skills) / rows[word]) * (_OF_NAME if word in name else 1) for word in words & wanted)
        for name, words in zip(named, about, strict=True)
    ]
    ranked = sorted(zip(scores, range(len(skills)), strict=True), key=lambda pair: (-pair[0], pair[1]))
    return [skills[at] for score, at in ranked if score > 0]
