"""Detects secrets by words: what follows `password is`, `api_key=`, `密码是`, and what precedes `is my password`.

First the name of a secret is found, then a bounded part of the text after or before it is examined: after `=` nearly
everything is a secret, after `is` a word that does not describe the password, and after the name alone only what is not
a word of a language.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal, NamedTuple

from clawbot.text.language import COMMON_HAN as HAN
from clawbot.text.patterns import lazy_re
from clawbot.text.secret_shapes import Span, is_placeholder

How = Literal["equals", "colon", "row", "is", "set", "bare", "option"]
"""How a value is given: `=`, `:`, in the next table cell, `is`, `was changed to`, the name alone, `--name`."""

Group = Literal["firm", "digits", "phrase", "loose"]
"""The meaning of the name: always a secret, one of digits, one of words, or possibly something else."""


class Told(NamedTuple):
    """A mention of a secret: its name (`password`, `PIN`), its group, and how its value is given."""

    name: str
    group: Group
    how: How


LEAST = 4
"""Minimum length of a value in words, in characters."""

ENDING = ".?:*_"
"""Punctuation after a value."""

_LEAST_BARE, _LEAST_LOOSE = 6, 8
_WORDS = """
    a about above accepted actually added again all also always an and another any anything as ask at available
    bad based because been before being below better blank bool boolean both broken but by bytes case changing
    check chosen coming complex correct default different difficult due easy either empty enough enter entered
    everything example expiring failing false fine first for forgotten from function generated getting going
    gone good hard here hidden his how i if in incorrect input insecure inside int integer invalid is it its
    just kept known last later leaked less like long lost mandatory many masked missing more my necessary needed
    never new next no none not nothing null number object ok okay old on one only optional or our part pending
    please possible private public random ready really required reset right safe same secret secure see
    sensitive sent set short shown simple simply so some something somewhere stolen str string strong sure taken
    tbd temporary text than that the their there these this those to todo token too true unavailable undefined
    unique unknown unsafe unset up use using valid value varchar very visible visit waiting weak what when where
    which who whose why with without word working written wrong yes yet you your
"""
# English words that follow `the password is` and are not the value.
_NO_VALUES = frozenset(_WORDS.split())
# Descriptions of a secret: that it is hashed, its length, its location.
_ABOUT_IT = lazy_re(
    r"(?:[a-z-]{2,30}(?<!e)ed|[a-z-]{2,30}ly"
    r"|\d+[ _-]?(?:chars?|characters?|digits?|letters?|bits?|bytes?|times?|words?|days?|hours?|minutes?|attempts?)?"
    r"|sha-?\d{1,3}|md5|bcrypt|argon2\w{0,2}|pbkdf2|scrypt|aes-?\d{0,3}|rsa-?\d{0,4}|hs256|rs256|ed25519|utf-?8|base64"
    r"|oauth2?|1password|[12]fa|v?\d+\.\d+(?:\.\d+)*"
    r"|(?-i:[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+)|(?:~|\.{1,2})?/[\w./~-]*"
    r"|[\w-]{1,60}\.(?:txt|md|py|ya?ml|json|env|toml|kdbx|html?))",
    re.IGNORECASE,
)
# A value computed by code: `input(…)`, `settings.api_key`, `user_password`.
_CODE = lazy_re(
    r"[A-Za-z_][\w.]*[(\[].*|(?:self|os|process|args|config|settings|env|request|options|opts|this|data|event)\..*"
    r"|(?:[A-Za-z]\w*_)?(?:password|passwd|pwd|pw|token|secret|key|value|input)\d?",
    re.IGNORECASE | re.DOTALL,
)
_HAN_ABOUT = lazy_re(
    rf"[不没很太必一由用在空对错否要被加明保强弱随默旧新同多少最这那什哪谁我你他她它自可能需临公安正无未放存写记请见][{HAN}]*"
    rf"|[{HAN}]*的[{HAN}]*|[{HAN}]*[吗呢么了]"
)
_INNER = lazy_re(r"[a-z][A-Z]")
_SYMBOL = lazy_re(r"[!@#$%^&*+=~?]")
_DIGITS = lazy_re(r"[#*]?\d{3,10}[#*]?")
_GOES_ON = lazy_re(
    r"\s*(?:\Z|[^\w\s]|\n|(?:for|at|on|of|in|to|and|or|but|so|now|since|because|please|if|when|too|until|from|by)\b)",
    re.IGNORECASE,
)
# A Chinese value must end its clause: `密码是123456吗`, but not `密码是2026年改的`.
_HAN_ENDS = lazy_re(rf"(?![{HAN}])|[了吗哦啊呢吧和或,]")


def is_value(value: str, after: str, told: Told) -> bool:
    """Whether the word `value`, followed by `after`, is the secret mentioned."""
    if is_placeholder(value) or value.lower() in _NO_VALUES or _CODE.fullmatch(value) or after.startswith("("):
        return False
    if told.how == "option":
        return not value.startswith("-")
    if told.group == "loose":
        return is_strong(value, _LEAST_LOOSE) and sum(map(str.isdigit, value)) > 1
    if told.how == "equals":
        return True
    if says_about(value) and not (value.isdigit() and len(value) >= LEAST):
        return False
    return _is_code(value, after, told) if told.group == "digits" else _is_password(value, after, told.how)


def is_quoted_value(value: str, told: Told) -> bool:
    """Whether the text in quotation marks is the secret mentioned, rather than prose about it."""
    words = value.split()
    is_prose = len(words) > 1 and words[0].lower() in _NO_VALUES
    if is_prose or is_placeholder(value) or value.lower() in _NO_VALUES or says_about(value):
        return False
    if told.group == "loose":
        return is_strong(value, _LEAST_LOOSE)
    return told.how != "bare" or is_strong(value)


def is_han_value(value: str, told: Told) -> bool:
    """Whether the Chinese word `value`, which ends its clause, is the password rather than a description."""
    surely = told.how in ("is", "colon", "equals") and told.group == "firm"
    return surely and _HAN_ABOUT.fullmatch(value) is None


def is_before(value: str, group: Group) -> bool:
    """Whether `value`, before `is my password`, is a password."""
    if is_placeholder(value) or says_about(value) or _CODE.fullmatch(value) or "://" in value:
        return False
    return is_strong(value) or (group == "digits" and _DIGITS.fullmatch(value) is not None)


def is_strong(value: str, least: int = LEAST) -> bool:
    """Whether `value` is not a word of a language: letters with digits, signs, or inner capitals."""
    letters = any(map(str.isalpha, value))
    mixed = any(map(str.isdigit, value)) or _SYMBOL.search(value) is not None or _INNER.search(value) is not None
    return letters and mixed and len(value) >= least


def says_about(value: str) -> bool:
    """Whether `value` is the name of a method, a length, a path or a variable: a description, not a secret."""
    return _ABOUT_IT.fullmatch(value) is not None


def _is_code(value: str, after: str, told: Told) -> bool:
    """Whether `value` is a PIN or another numeric code."""
    if told.how == "bare" and not (told.name.isupper() or told.name[0] > "\x7f"):
        return False
    least = 3 if told.name[:2].lower() == "cv" else LEAST
    is_figures = _DIGITS.fullmatch(value) is not None and len(value.strip("#*")) >= least
    return (is_figures or is_strong(value)) and _HAN_ENDS.match(after) is not None


def _is_password(value: str, after: str, how: How) -> bool:
    if value.isdigit():
        return len(value) >= (_LEAST_BARE if how == "bare" else LEAST) and _HAN_ENDS.match(after) is not None
    if how in ("bare", "set", "row"):
        return is_strong(value, _LEAST_BARE) and (how != "bare" or any(map(str.isdigit, value)))
    # A plain word must be where a name would be, and not start a description of a password.
    is_word = value.isascii() and value.replace("-", "").isalpha() and len(value) >= LEAST
    return is_strong(value) or (is_word and _GOES_ON.match(after) is not None)


# Names of secrets. Those of `firm` always mean one, those of `loose` possibly something else.
_NAME = lazy_re(
    r"(?P<firm>pass(?:word|wd|code|phrase|[ _-]phrase)s?|pwd|(?<![A-Za-z])(?:wi-?fi|wlan|wpa2?)[ _-]?key"
    r"|api[ _-]?keys?|(?:secret|access|private|encryption|signing|account|master|recovery)[ _-]?keys?"
    r"|(?:access|auth|refresh|bearer|api|bot|session|id|security)[ _-]?token|client[ _-]?secret"
    r"|secret[ _-]?access[ _-]?key|passwort|kennwort|contraseña|mot de passe|authorization"
    r"|密码|密碼|口令|密钥|秘钥|金鑰|令牌)"
    r"|(?P<digits>(?<![A-Za-z])(?:pin(?:[ -]?(?:code|number))?|cvv2?|cvc2?|otp)(?![A-Za-z])|(?:verification|security"
    r"|one-time|2fa|door|access|gate|alarm|unlock|lock|entry)[ -]?code|PIN码|验证码|安全码|门禁码|解锁码|门锁码)"
    r"|(?P<phrase>(?:seed|recovery|mnemonic|backup)[ -]?phrase|助记词)"
    r"|(?P<loose>(?<![A-Za-z])(?:token|secret|credentials?)|(?<=[a-z])(?-i:Token|Secret)|(?<=[A-Za-z]_)key|(?<=[a-z])(?-i:Key))",
    re.IGNORECASE,
)
_PARTS_OF_NAMES = """
    pass pwd key token secret credential pin cv otp code phrase kennwort contrase mot authoriz 密 口令 秘钥 金鑰 令牌 码
    助记词
"""
# Every name contains one of them: most texts contain none.
_STEMS = _PARTS_OF_NAMES.split()
# After the name: where or to whom the secret belongs.
_SCOPE = (
    r"(?:\s?\([^()\n]{1,60}\)|\s(?:for|at|of|to|on|in|from|into|here|there|we use|i use)\b[^.!?\n=:;,]{0,60}?"
    r"|(?:在|给|用于)[^,.;\n]{1,16}?)?"
)
_QUOTE = r"\\?[\"'`]"
_ASSIGNED = lazy_re(
    rf"{_SCOPE}(?:{_QUOTE})?[\])]?[*_]{{0,2}}\s{{0,3}}(?P<sign>=>|:=|={{1,3}}|:|\|)[*_]{{0,2}}\s{{0,3}}", re.IGNORECASE
)
_IS = lazy_re(
    rf"{_SCOPE}(?:'s|\s(?:is|was|are|will be|should be|reads|being))\s{{1,3}}"
    r"(?:(?:now|just|still|simply|currently|actually|again|always|either|called)\s)?(?::\s?)?"
    rf"|{_SCOPE}[^,.;:\n{HAN}]{{0,12}}(?:现在|已经|还|都|应该|依然|仍然|就)?(?:是|为|叫做?|设[为成]|设置[为成]|改[为成]了?|换[为成]了?|变成了?)"
    r"了?:?\s{0,2}",
    re.IGNORECASE,
)
_SET = lazy_re(
    rf"{_SCOPE}(?P<done>\s(?:(?:is|was|be|been|got|gets)\s)?(?:(?:re)?set|changed|updated|switched))?\s(?:back\s)?to\s(?:be\s)?",
    re.IGNORECASE,
)
_SETS = lazy_re(r"\b(?:chang|set|reset|updat|switch|rotat|mak)(?:e|es|ed|ing|ting)?\b[^.!?\n]{0,60}\Z", re.IGNORECASE)
_BARE = lazy_re(rf"\s{{1,2}}|(?<=[{HAN}])")
_OPTION = lazy_re(r"--[\w-]{0,30}\Z")
_SCHEME = lazy_re(r"(?:Bearer|Basic|Token)\s{1,3}", re.IGNORECASE)
_ALSO = lazy_re(r"\s{0,2}(?:,|/|\band\b|\bor\b|和|或|,)\s{0,2}(?:[\"'`])?", re.IGNORECASE)

_QUOTED = lazy_re(r"\\?([\"'`])(?P<value>[^\n]{1,200}?)\\?\1")
_WORD = lazy_re(rf"[*_]{{0,2}}(?P<value>[^\s\"',;\\)}}\]<>|`{HAN}]{{1,300}})")
_HAN_VALUE = lazy_re(rf"[{HAN}]{{2,12}}(?=\s{{0,2}}(?:[,.;!\"'`)\]}}|\\\n]|\Z))")
_SEED = lazy_re(r"(?:[a-z]{3,8}\s{1,2}){7,23}[a-z]{3,8}|(?:[a-z]{2,12}\s){2,11}[a-z]{2,12}(?=\s*(?:[.,;!\n]|\Z))")
_HAN_SEED = lazy_re(rf"(?:[{HAN}]{{1,4}} ){{3,23}}[{HAN}]{{1,4}}|(?:[a-z]{{3,8}}\s){{3,23}}[a-z]{{3,8}}")
_LINK = lazy_re(
    rf"[\"'`]?\s{{0,2}}(?:(?<=\s)(?:is|was|as|=)\s(?:(?:my|the|our|your|his|her|their|a|an)\s)?(?:[\w'-]{{1,20}}\s){{0,3}}"
    rf"|(?:是|作为?|当作?|做)[{HAN}A-Za-z ]{{0,12}})\Z",
    re.IGNORECASE,
)
_BEFORE_ENDS = lazy_re(rf"\s*(?:\Z|[.,;!)\n\"'`]|(?:for|of|at|to|on|in|and|now|here|too|but)\b|[{HAN}])", re.IGNORECASE)
_LAST_WORD = lazy_re(rf"[^\s\"'`,;()<>{HAN}]{{4,60}}\Z")
_KINDS: dict[Group, str] = {"firm": "password", "digits": "code", "phrase": "phrase", "loose": "token"}
_AFTER = 16  # characters examined after a value
_WINDOW = 90  # characters examined before a name


def values_in(text: str) -> Iterator[Span]:
    """The secrets that words in the folded `text` declare; may overlap."""
    lowered = text.lower()
    if not any(map(lowered.__contains__, _STEMS)):
        return
    for name in _NAME.finditer(text):
        group = next(group for group in _KINDS if name[group])
        for start, end in _behind(text, name, group) or _ahead(text, name, group):
            yield start, end, _KINDS[group]


def _behind(text: str, name: re.Match[str], group: Group) -> list[tuple[int, int]]:
    """The values after `name`, by the first matching form."""
    if group == "phrase":
        return _phrase(text, name.end())
    found = _told(text, name)
    if not found:
        return []
    at, how = found
    told = Told(name[0], group, how)
    values: list[tuple[int, int]] = []
    taken = _value(text, at, told)
    while taken:
        values.append(taken)
        # `the passwords are one and two`
        also = _ALSO.match(text, taken[1]) if name[0][-1] in "sS" else None
        taken = _value(text, also.end(), told._replace(how="bare")) if also else None
    return values


def _told(text: str, name: re.Match[str]) -> tuple[int, How] | None:
    """The start of a value after `name`, and how it is given."""
    at = name.end()
    if assigned := _ASSIGNED.match(text, at):
        scheme = _SCHEME.match(text, assigned.end())
        signs: dict[str, How] = {"|": "row", ":": "colon"}
        return (scheme or assigned).end(), signs.get(assigned["sign"], "equals")
    if said := _IS.match(text, at):
        return said.end(), "is"
    before = max(0, name.start() - _WINDOW)
    if (put := _SET.match(text, at)) and (put["done"] or _SETS.search(text, before, name.start())):
        return put.end(), "set"
    if bare := _BARE.match(text, at):
        return bare.end(), "option" if _OPTION.search(text, before, name.start()) else "bare"
    return None


def _value(text: str, at: int, told: Told) -> tuple[int, int] | None:
    """Start and end of the value at `at`, if it is one."""
    if quoted := _QUOTED.match(text, at):
        fits = is_quoted_value(quoted["value"], told) and not _NAME.search(quoted["value"])
        return quoted.span("value") if fits else None
    if han := _HAN_VALUE.match(text, at):
        return han.span() if is_han_value(han[0], told) else None
    word = _WORD.match(text, at)
    if not word:
        return None
    value = word["value"].rstrip(ENDING)
    if told.how == "equals":
        value = value.partition("&")[0]  # of an address
    start = word.start("value")
    end = start + len(value)
    bare = value.rstrip(f"{ENDING}!")
    return (start, end) if bare and is_value(bare, text[end : end + _AFTER], told) else None


def _phrase(text: str, at: int) -> list[tuple[int, int]]:
    """The words of a recovery phrase for a wallet or an account."""
    begin = _ASSIGNED.match(text, at) or _IS.match(text, at)
    words = _SEED.match(text, begin.end()) or _HAN_SEED.match(text, begin.end()) if begin else None
    return [words.span()] if words else []


def _ahead(text: str, name: re.Match[str], group: Group) -> list[tuple[int, int]]:
    """The value before `name`: `hunter2 is my password`."""
    if group not in ("firm", "digits") or not _BEFORE_ENDS.match(text, name.end()):
        return []
    begin = max(0, name.start() - _WINDOW)
    window = text[begin : name.start()]
    link = _LINK.search(window)
    word = _LAST_WORD.search(window, 0, link.start()) if link else None
    return [(begin + word.start(), begin + word.end())] if word and is_before(word[0], group) else []
