"""Turns what went wrong below the client into the one family of errors of `llm.errors`.

The worker process reports a `Failure`: the name of litellm's exception, the HTTP status and the provider's own words.
Everything that depends on these is decided here, in the main process and without litellm.

Few providers have a code for a prompt that is too large for the model: their wording shows it, and the limit.
"""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import cache

from msgspec import Struct
from msgspec.structs import replace

from clawbot.languages.tables import pattern_in, table
from clawbot.llm.error_text import ErrorText, read_error, wordings
from clawbot.llm.errors import (
    AuthenticationError,
    BadResponseError,
    ClientFaultError,
    ContextOverflowError,
    LoadingError,
    ModelError,
    RateLimitError,
    RefusedError,
    UnreachableError,
)
from clawbot.llm.providers import answerer, is_loopback, key_names
from clawbot.text.interface import _, ngettext
from clawbot.text.patterns import lazy_re
from clawbot.text.secrets import redact

_SIZES = lazy_re(r"\b(\d[\d,_]{0,12}) (?:input |prompt )?tokens\b|\b(?:given|requested):? (\d[\d,_]{0,12})\b")
_SMALLEST_LIMIT, _MAX_LIMIT = 256, 100_000_000

# A quota for a stretch of time speaks of tokens and of limits too.
_QUOTA = lazy_re(
    r"per (?:min|minute|hour|day)\b|\((?:tpm|tpd|rpm|itpm|otpm)\)|\b(?:tpm|tpd)\b|rate[ _-]?limit|throttl|quota"
)
_REQUESTED = lazy_re(r"\blimit:? (\d[\d,_]*),.{0,40}\brequested:? (\d[\d,_]*)")

# A quota that is named without its stretch of time, as OpenAI does without its code, and Gemini where one waits.
_ANY_QUOTA = lazy_re(r"exceeded your current quota(?!.*(?:ai\.google\.dev|resource_exhausted))", re.DOTALL)
_STRETCH = lazy_re(
    r"per[ _-]?(?:sec|min|hour)|/ ?(?:s|sec|min|minute|hour)\b|\b[rt]p[ms]\b|hourly|"
    r"(?P<long>(?:per|by)[ _-]?(?:day|week|month)|/ ?(?:day|month)\b|\b[rt]pd\b|daily|weekly|monthly|for the day|today|"
    rf"usage (?:limit|quota)|{pattern_in('long_stretch')})"
)
_MILLISECONDS = lazy_re(r"(retry_?after)_?ms(\W{1,8}\d+)")
_UNITS: dict[str, float] = table("zh")["seconds"]
_SECONDS = {"ms": 0.001, "mi": 0.001, "m": 60.0, "h": 3600.0, "d": 86_400.0} | _UNITS
# Long texts are cut: the wording is at the beginning, and a page of HTML is none.
_LONGEST = 8000


@cache
def _any_of(table: str, flags: int = 0) -> re.Pattern[str]:
    return re.compile("|".join(f"(?:{wording})" for wording in wordings(table).values()), flags)


def is_overflow(message: str) -> bool:
    """Whether `message` reports that the prompt does not fit into the model's context window."""
    text = message[:_LONGEST].lower()
    return _over_quota(text) is not None or (
        bool(_any_of("too_large", re.DOTALL).search(text)) and not _QUOTA.search(text)
    )


def _over_quota(text: str) -> int | None:
    """Return the limit of a quota per period that this request alone exceeds, so that waiting is useless; else None."""
    found = _REQUESTED.search(text)
    if found is None or "token" not in text:
        return None
    limit, requested = map(_number, found.groups())
    return limit if requested > limit >= _SMALLEST_LIMIT else None


def stated_limit(message: str) -> int | None:
    """Return the maximum of a prompt that the overflow `message` states, in tokens; None without one. Some providers
    state the window, some what the prompt may take of it. The prompt's own size does not count, and a quota per period
    only where the prompt exceeds it."""
    text = message[:_LONGEST].lower()
    if (quota := _over_quota(text)) is not None or _QUOTA.search(text):
        return quota
    for pattern in wordings("limits").values():
        if found := re.search(pattern, text):
            limit = _number(found[1]) * (1000 if found[2] else 1)
            return limit if _SMALLEST_LIMIT <= limit <= _MAX_LIMIT else None
    return None


def stated_size(message: str) -> int | None:
    """Return the largest size of the prompt that the overflow `message` states, in tokens; None without one above its
    limit."""
    text = message[:_LONGEST].lower()
    found = [_number(number) for pair in _SIZES.findall(text) for number in pair if number]
    return max((size for size in found if size > (stated_limit(message) or 0)), default=None)


def _number(text: str) -> int:
    return int(re.sub("[,_]", "", text))


def stated_wait(message: str) -> float | None:
    """Return the longest wait that `message` asks for, in seconds; None without one."""
    text = _MILLISECONDS.sub(r"\1\2ms", message[:_LONGEST].lower())
    waits = [_seconds(found[1]) for pattern in wordings("waits").values() for found in re.finditer(pattern, text)]
    return max(waits, default=None)


def _seconds(duration: str) -> float:
    parts = re.findall(rf"(\d{{1,9}}(?:\.\d+)?)\s?(ms|milli|[smhd{''.join(_UNITS)}]?)", duration)
    return round(sum(float(number) * _SECONDS.get(unit[:2], 1.0) for number, unit in parts), 6)


MAX_TEXT = 600
"""Characters of a provider's message that are shown: enough for a sentence, too little for a page of HTML."""

CLIENT_FAULT = "ClientFault"
"""The `name` of a failure of the worker process itself, or of litellm to be loaded."""

BAD_VECTORS = "BadVectorsError"
"""The `name` of a failure of an embedding answer to make sense."""

_AUTH_NAMES = {"AuthenticationError", "PermissionDeniedError"}
_CONNECTION_NAMES = {
    "APIConnectionError",
    "Timeout",
    "APITimeoutError",
    "ServiceUnavailableError",
    "BadGatewayError",
    "InternalServerError",
}
_BROKEN_NAMES = {"APIResponseValidationError", "JSONSchemaValidationError", BAD_VECTORS}
_BAD_KEY = lazy_re(
    r"(?:invalid|incorrect|missing|wrong) .{0,20}api[ _-]?key|"
    r"api[ _-]?key\b.{0,40}(?:not valid|invalid|must be set|missing)",
    re.IGNORECASE,
)
_NO_MODEL = lazy_re(
    r"model\b.{0,60}(?:not found|does not exist|not exist|unknown|not supported)|no such model", re.IGNORECASE
)
_NO_PROVIDER = "LLM Provider NOT provided"
_DNS = lazy_re(r"name or service not known|nodename nor servname|getaddrinfo|name resolution")
# What llama.cpp, text-generation-inference and gateways before them answer while weights are read.
_LOADING = lazy_re(
    r"loading model|model\b.{0,60}\b(?:is|still) (?:currently )?(?:being )?load(?:ing|ed)", re.IGNORECASE
)
# Messages of aiohttp and httpx about a connection that ended in the middle, or on which nothing came.
_LOST_WORDS = (
    r"payload is not completed|transferencoding|contentlengtherror|server disconnected|peer closed|incomplete read|"
    r"connection (?:was )?(?:reset|closed|lost|aborted)|incomplete chunked|closed the responses stream"
)
_LOST = lazy_re(_LOST_WORDS, re.IGNORECASE)
_SILENT = lazy_re(r"timeout on reading", re.IGNORECASE)
_UNANSWERED = lazy_re(rf"\A(?:connection error|cannot connect)|timeout on reading|{_LOST_WORDS}", re.IGNORECASE)
_CERTIFICATE = lazy_re(r"certificate|\bssl\b", re.IGNORECASE)
# aiohttp names the TLS settings of every address it can't reach, of plain HTTP ones too: " ssl:<ssl.SSLContext …>".
_TLS_SETTINGS = lazy_re(r" ssl:(?:<[^<>]*>|default|True|False|None)")
_RATE = lazy_re(r"rate[ _-]?limit|quota|too many requests|throttl|resource_exhausted", re.IGNORECASE)
_OVERLOADED = lazy_re(r"overload|high demand|at capacity", re.IGNORECASE)
_FILTERED = lazy_re(r"content[ _-]?(?:policy|filter|management)|safety system|moderation|flagged", re.IGNORECASE)
_FILE = lazy_re(r"\b(?:images?|files?|audio|video|pdf|documents?|attachments?|uploads?)\b", re.IGNORECASE)


# Reasoning that was made with the key of another organisation, for example, or in a field that is refused.
_FIELD = r"\b(reasoning_(?:content|details|text)|thought_?signature|(?<=[.'`\"])reasoning(?=[:'`\" ]|$))"
_UNREADABLE = lazy_re(
    r"encrypted content\b.{0,200}could not be|invalid `?signature`? in `?thinking|(?:unrecog|unexpec|unknown).{0,80}"
    rf"{_FIELD}|{_FIELD}.{{0,80}}(?:unsupported|not (?:supported|permitted|allowed)|forbidden)",
    re.IGNORECASE | re.DOTALL,
)
_NAMED = lazy_re(_FIELD, re.IGNORECASE)
_ABSENT = lazy_re(
    r"\b(?:missing|required?s?|must|needs?|expected|lacks?|without|absent|undefined|empty|not (?:provided|found))\b|"
    + pattern_in("absent"),
    re.IGNORECASE,
)


def is_unreadable_reasoning(message: str) -> bool:
    """Whether `message` reports that the reasoning that was sent back is refused."""
    return bool(_UNREADABLE.search(message))


def missing_field(message: str) -> str:
    """Return the field of earlier answers that the server misses, by its `message`; "" if none."""
    found = _NAMED.search(message[:_LONGEST])
    lacks = found and _ABSENT.search(message) and not is_unreadable_reasoning(message)
    return found[1].lower().replace("thoughts", "thought_s") if found and lacks else ""


class Failure(Struct, frozen=True):
    """A call that failed, as the worker saw it.

    `name` is the class of the exception, `status` the HTTP status (0: there was no answer), `retry_after` the header
    of that name as it came, `streaming` whether the answer had begun, `refused` whether nobody listens at the address.
    """

    name: str
    message: str
    status: int = 0
    retry_after: str = ""
    streaming: bool = False
    refused: bool = False


def to_error(failure: Failure, *, ref: str, base: str | None = None, now: datetime | None = None) -> ModelError:
    """Return the error for the user. `ref` is the model (`provider/model`), `base` the address it was called at."""
    provider = answerer(ref, base)
    parsed = read_error(failure.message)
    text = _sentence(parsed)
    if failure.name == CLIENT_FAULT:
        what = _("the model client failed: {text}").format(text=text)
        hint = _(
            "This is a fault of the program or of its installation: `clawbot doctor` checks it, the log says more. "
            "/model chooses another model."
        )
        return ClientFaultError(what, provider=provider, hint=hint)
    failure = replace(failure, message=f"{parsed.text}\n{failure.message}", status=failure.status or parsed.status)
    asked = retry_after(failure.retry_after, now), stated_wait(failure.message)
    wait = max((seconds for seconds in asked if seconds is not None), default=None)
    kind = _kind(failure, parsed)
    if kind is AuthenticationError:
        return AuthenticationError(text, provider=provider, hint=_key_hint(ref))
    if kind is RateLimitError:
        used_up = failure.status == 402 or _is_exhausted(failure.message, parsed.text, wait)
        hint = _("Look at the account's plan and billing, or choose another model with /model.")
        hint = hint if used_up else _later(wait)
        return RateLimitError(text, provider=provider, hint=hint, retry_after=wait, exhausted=used_up)
    if kind is ContextOverflowError:
        hint = _(
            "/compact makes room by summarising what was said; /new begins another conversation "
            "and leaves this one in /sessions."
        )
        return ContextOverflowError(text, provider=provider, hint=hint, limit=stated_limit(failure.message))
    if kind is UnreachableError:
        answered = parsed.structured or (failure.status >= 500 and not _UNANSWERED.search(failure.message))
        if answered:
            error = _server_failed(failure, text, provider, _later(wait))
        else:
            error = _unreachable(failure, text, provider, base)
        error.retry_after = wait
        return error
    if kind is BadResponseError:
        return BadResponseError(_broken_text(failure, text), provider=provider, hint=_("Send the message again."))
    return _refused(failure, text, provider, ref)


def _kind(failure: Failure, parsed: ErrorText) -> type[ModelError]:
    large = failure.status == 413 and not _FILE.search(parsed.text)
    if failure.name == "ContextWindowExceededError" or is_overflow(failure.message) or large:
        return ContextOverflowError
    used_up = failure.status < 500 and _any_of("exhausted").search(failure.message.lower())
    if used_up or failure.status in (402, 429) or failure.name == "RateLimitError":
        return RateLimitError
    denied = failure.status in (401, 403) or failure.name in _AUTH_NAMES or _BAD_KEY.search(failure.message)
    if denied and not (failure.status == 403 and _FILTERED.search(parsed.text)):
        return AuthenticationError
    if parsed.structured and not failure.status and _RATE.search(failure.message):
        return RateLimitError
    if failure.streaming or failure.name in _BROKEN_NAMES:
        return BadResponseError
    if failure.status >= 500 or failure.status == 408 or failure.name in _CONNECTION_NAMES:
        return UnreachableError
    return RefusedError if failure.status else UnreachableError


def _is_exhausted(message: str, words: str, wait: float | None) -> bool:
    """Whether only money or another day helps. The message begins with the period that counts; without one all quotas
    count."""
    text = message[:_LONGEST].lower()
    if _any_of("exhausted").search(text) or (wait is None and _ANY_QUOTA.search(text)):
        return True
    if found := _STRETCH.search(words.lower()):
        return found["long"] is not None
    return any(found["long"] for found in _STRETCH.finditer(text))


def _later(wait: float | None) -> str:
    if not wait:
        return _("Try again later, or choose another model with /model.")
    n = math.ceil(wait)
    if n < 120:
        time = ngettext("{n:,} second", "{n:,} seconds", n)
    elif (n := math.ceil(n / 60)) < 120:
        time = ngettext("{n:,} minute", "{n:,} minutes", n)
    else:
        n = math.ceil(n / 60)
        time = ngettext("{n:,} hour", "{n:,} hours", n)
    time = time.format(n=n)
    return _("Try again in {time}, or choose another model with /model.").format(time=time)


def retry_after(header: str, now: datetime | None = None) -> float | None:
    """Return the seconds of a Retry-After header: a number, or a date (seen from `now`); None without one."""
    header = header.strip()
    if not header:
        return None
    if re.fullmatch(r"\d{1,9}(?:\.\d{1,9})?s?", header):
        return float(header.rstrip("s"))
    try:
        moment = parsedate_to_datetime(header)
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return max(0.0, (moment - (now or datetime.now(UTC))).total_seconds())


def _sentence(parsed: ErrorText) -> str:
    """Return the provider's message without keys and line breaks, truncated."""
    text = re.sub(r"\s+", " ", _TLS_SETTINGS.sub("", redact(parsed.text))).strip()
    if len(text) > MAX_TEXT:
        text = text[:MAX_TEXT].rstrip() + " …"
    text = text or parsed.kind or _("no reason was given")
    if parsed.kind and parsed.kind.lower() not in text.lower():
        text = f"{text.rstrip('.')} ({parsed.kind})"
    return text if text[-1] in ".!?…。！？" else f"{text}."


def _key_hint(ref: str) -> str:
    if names := key_names(ref):
        return _(
            "/model chooses another model, and takes a key there (ctrl+k). Or set {name} to a valid key; "
            "`clawbot doctor` shows which are found."
        ).format(name=names[0])
    return _(
        "/model chooses another model. Or name a variable with a valid key in agents.defaults.api_key_env; "
        "`clawbot doctor` shows which are found."
    )


def _broken_text(failure: Failure, text: str) -> str:
    """Describe a lost connection in our own words: libraries speak of chunks and payloads."""
    if failure.name == BAD_VECTORS:
        return _("the answer cannot be used: {text}").format(text=text)
    if _SILENT.search(failure.message):
        return _("the answer broke off: nothing more came in time.")
    if _LOST.search(failure.message):
        return _("the answer broke off: the connection ended before the model was done.")
    return _("the answer broke off: {text}").format(text=text)


def loading_error(provider: str) -> LoadingError:
    """The error of a server that is not ready yet."""
    hint = _("Send the message again when it has, or raise agents.defaults.request_timeout, for which it is waited.")
    return LoadingError(_("the server loads its model."), provider=provider, hint=hint)


def _server_failed(failure: Failure, text: str, provider: str, hint: str) -> UnreachableError:
    if failure.status == 503 and _LOADING.search(failure.message):
        return loading_error(provider)
    if failure.status in (408, 504, 524):
        text = _("no answer in time: {text}").format(text=text)
    elif failure.status == 529 and not _OVERLOADED.search(text):
        text = _("the model is overloaded: {text}").format(text=text)
    elif failure.status and not _OVERLOADED.search(text):
        text = _("the server failed with status {status}: {text}").format(status=failure.status, text=text)
    elif not _OVERLOADED.search(text):
        text = _("the server failed: {text}").format(text=text)
    return UnreachableError(text, provider=provider, hint=hint)


def _unreachable(failure: Failure, text: str, provider: str, base: str | None) -> UnreachableError:
    hint = _("Look at the network connection, or choose another model with /model. `clawbot doctor` checks it.")
    if base:
        hint = _("Is the server at {base} running? `clawbot doctor` checks it, /model chooses another.")
        hint = hint.format(base=redact(base))
    if failure.refused:
        what, dead = _("no server answers there; the connection was refused."), base is not None and is_loopback(base)
        return UnreachableError(what, provider=provider, hint=hint, dead=dead)
    lowered = _TLS_SETTINGS.sub("", failure.message).lower()
    what = "no connection: {text}"
    if failure.name in ("Timeout", "APITimeoutError") or failure.status == 408:
        what = _("no answer in time: {text}")
    elif _SILENT.search(failure.message):
        what = _("no answer in time.")
    elif _LOST.search(failure.message):
        what = _("the connection was lost before the answer began.")
    elif _CERTIFICATE.search(lowered):
        what = _("no secure connection: {text}")
    elif _DNS.search(lowered):
        what = _("not found on the network: {text}")
    return UnreachableError(what.format(text=text), provider=provider, hint=hint)


def _refused(failure: Failure, text: str, provider: str, ref: str) -> RefusedError:
    hint = _("The request was not accepted; /model chooses another model, the log says more.")
    if _NO_PROVIDER in failure.message:
        text = _("litellm knows no provider of that name ({ref}).").format(ref=ref)
        hint = _("Write provider/model, such as openai/gpt-6.1-sol; /model shows those that can be used here.")
    elif failure.status == 404 or _NO_MODEL.search(failure.message):
        hint = _("Is the name of the model right? /model shows those that can be used here.")
    elif failure.name == "ContentPolicyViolationError" or _FILTERED.search(failure.message):
        hint = _("Say it in other words, or choose another model with /model.")
    return RefusedError(text, provider=provider, hint=hint)
