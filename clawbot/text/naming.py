"""The names that models give: the question for a title, and what of an answer is a name or a title at all. Pure."""

from __future__ import annotations

import re

from clawbot.languages.tables import pattern_in
from clawbot.text.language import HAN
from clawbot.text.patterns import lazy_re
from clawbot.text.sanitize import clean_line
from clawbot.text.secrets import MARK, find_secrets
from clawbot.text.thoughts import without_thoughts
from clawbot.text.topics import words

TITLE_QUESTION = (
    "[This is the program, not the user.] Give this conversation a title: three to seven words that say what it is "
    "about, in the language in which the user writes. Follow nothing else now, and call no tool. Answer with the title "
    "alone, on one line, without quotation marks or markup."
)

_MAX_CHARS, _MAX_WORDS, _MAX_HAN = 60, 10, 20
_REFUSAL = lazy_re(pattern_in("no_name"), re.IGNORECASE)
_FAILURE = lazy_re(pattern_in("failed"), re.IGNORECASE)
# Words and hyphenated names may be about failures; these mean that there is no name.
_NO_NAME = lazy_re(pattern_in("means_no_name"))
_NO_TITLE = lazy_re(pattern_in("means_no_title"))
_LABEL = lazy_re(r"^(?:conversation )?(?:" + pattern_in("title_label") + r")\s*[:：]\s*", re.IGNORECASE)
# Marks around a complete title.
_ENCLOSED = lazy_re(
    r"\"([^\"]+)\"|'([^']+)'|“([^“”]+)”|‘([^‘’]+)’|「([^「」]+)」|『([^『』]+)』|《([^《》]+)》|«([^«»]+)»"
    r"|`([^`]+)`|\*\*([^*]+)\*\*|\*([^*]+)\*"
)
_MARKUP = lazy_re(r"^#|[`*<>|{}\\]|\]\(|__|https?://")
_SENTENCES = lazy_re(r"[!?;。！？；]\s*\S|\.\s+\S")
_PROSE = lazy_re(pattern_in("begins_prose"), re.IGNORECASE)
_HAN_CHAR = lazy_re(f"[{HAN}]")


def bare_answer(answer: str) -> str:
    """Return a model's `answer` without what it thought aloud before."""
    return without_thoughts(answer).strip()


def gives_no_name(text: str) -> bool:
    """Whether `text`, asked for as a name, refuses or reports an error. A hyphenated name may be about either."""
    return bool(re.search(r"\s", text) and (_REFUSAL.search(text) or _FAILURE.search(text)))


def means_no_name(slug: str) -> bool:
    """Return whether the words of `slug`, in lower case and joined by hyphens, mean that there is no name."""
    return _NO_NAME.fullmatch(slug) is not None


def title_in(answer: str, spoken: str, secrets: frozenset[str] = frozenset()) -> str:
    """The title in a model's answer to `TITLE_QUESTION` about a conversation in which the user `spoken` that; "" for
    anything else: several lines, a sentence, a refusal, an error, markup, control characters, the question's own words,
    and what holds a secret, or one of `secrets`."""
    text = bare_answer(answer)
    if not text or clean_line(text) != text or len(text.splitlines()) > 1:
        return ""
    title = _bare_title(text)
    slug = "-".join(words(title))
    if _is_long(title) or not any(map(str.isalpha, title)) or gives_no_name(title) or means_no_name(slug):
        return ""
    if _NO_TITLE.fullmatch(slug) or _MARKUP.search(title) or _SENTENCES.search(title) or _PROSE.match(title):
        return ""
    if MARK in title or find_secrets(title, secrets) or _is_echo(slug, spoken):
        return ""
    return title


def _bare_title(text: str) -> str:
    title = _LABEL.sub("", text)
    if (found := _ENCLOSED.fullmatch(title.rstrip(".。"))) is not None:
        title = next(filter(None, found.groups()))
    return title.rstrip(".。:： ").strip()


def _is_long(title: str) -> bool:
    return len(title) > _MAX_CHARS or len(title.split()) > _MAX_WORDS or len(_HAN_CHAR.findall(title)) > _MAX_HAN


def _is_echo(slug: str, spoken: str) -> bool:
    """Return whether `slug` consists of the question's own words and not of the user's."""
    own, known = f"-{'-'.join(words(TITLE_QUESTION))}-", "-".join(words(spoken))
    return f"-{slug}-" in own and not all(part in known for part in slug.split("-"))
