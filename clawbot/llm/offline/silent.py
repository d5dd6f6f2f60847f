"""The silent jobs, done by extracts: the flush into memory, the summary of a conversation, its name and its title."""

from __future__ import annotations

import itertools
import re
from collections.abc import Container, Iterator, Sequence

from msgspec import Struct

from clawbot.languages.tables import pattern_in, text_in
from clawbot.llm.offline.turn import WRITERS, Plan, PlannedCall, Turn, classify, one_line, phrase
from clawbot.llm.offline.workspace import as_item, daily_file, find_before, key, tidy
from clawbot.llm.protocol import ChatRequest
from clawbot.llm.tokens import cut_to, weigh_tokens
from clawbot.messages import (
    OFFLINE,
    AssistantMessage,
    Message,
    ToolResultMessage,
    UserMessage,
    quotes_notes,
    read_compacted,
)
from clawbot.text.identifiers import identifiers, is_exact, ports, quoted, titles
from clawbot.text.language import CHAT_WORDS, CHINESE_CHAT_WORDS, CHINESE_STOP_PHRASES, STOP_WORDS, detect, fold
from clawbot.text.patterns import lazy_re
from clawbot.text.sanitize import clean
from clawbot.text.secrets import holds_secret, redact
from clawbot.text.statements import asks, is_durable, marks, sentences
from clawbot.text.topics import topics, words

NO_REPLY = "NO_REPLY"
MAX_FACTS = 40  # more than this is a transcript, not what is worth keeping; the newest are kept
MAX_MESSAGE = 200_000  # characters of one message: what is beyond is a paste, and its end is kept
PASTE_CHARS = 8_000  # a longer message is a paste: its text is not what the user states

MAX_TOKENS = 2_000  # of a summary, when the request sets none
MIN_TOKENS = 120  # below this not even the headings and one line each would fit
MIN_LINE = 8  # a line that would be cut to less, in tokens, has no content
ASK_CHARS, LINE_CHARS, MAX_SENTENCES, MAX_NAMES = 800, 400, 400, 400
ASKS, NAMES, PROGRESS, TURN = "Pending user asks", "Exact identifiers", "Progress", "Turn in progress"
# Section -> what the sentences in it are about; the first that fits counts.
MARKED = {"Open TODOs": {"todo"}, "Decisions": {"decision"}, "Constraints": {"rule", "preference", "personal"}}
# Section -> its part of the length; what one leaves over goes to those after it.
SHARES = {"Decisions": 0.2, "Open TODOs": 0.15, "Constraints": 0.15, ASKS: 0.1, NAMES: 0.15, PROGRESS: 0.25}
NOTHING = "(none)"

TITLE_WORDS, TITLE_CHARS, TITLE_HAN = 7, 48, 16
_CLAUSES = lazy_re(r"[,;:]\s|[，；：、]")
_EDGES = ' \t.,:;!?()[]{}<>"*_`#。，！？：；“”「」《》'
_STOP_WORDS = STOP_WORDS | CHAT_WORDS
_LEADING = lazy_re(
    f"^(?:{'|'.join((*CHINESE_STOP_PHRASES, *sorted(CHINESE_CHAT_WORDS, key=len, reverse=True)))}"
    f"|{pattern_in('address')})"
)
_ADDRESS = lazy_re(r"https?://\S+")
_TRAILING = lazy_re(rf"[\s{text_in('ends_request')}？?。！!，,]+$")
_TARGET = lazy_re(r"\bmemory/\d{4}-\d{2}-\d{2}[\w-]{0,80}\.md\b")
_FLUSH_PROMPT = lazy_re(r"pre-compaction memory flush", re.IGNORECASE)
_TAGGED = lazy_re(r"<(conversation|messages|transcript)>\n?(.*?)</\1>", re.DOTALL | re.IGNORECASE)
_PREVIOUS = lazy_re(r"<previous[-_]summary>\n?(.*?)</previous[-_]summary>", re.DOTALL | re.IGNORECASE)
_LABEL = lazy_re(
    r"^[ \t]{0,4}\[?(?P<role>user(?: command)?|assistant(?: thinking| tool calls?)?|tool(?: result| error)?|system)"
    r"(?: \([^)\n]{1,80}\))?\]?[ \t]?:[ \t]?",
    re.IGNORECASE | re.MULTILINE,
)
_LENGTH = lazy_re(r"\bat most (\d{1,6}) tokens\b")
_TURN_BEGINS = lazy_re(r"\s*the unfinished turn begins here", re.IGNORECASE)
_HEADING = lazy_re(r"^#{1,4}\s+(.+?)\s*:?\s*$")
_ITEM = lazy_re(r"^\s*(?:[-*+]|\d+\.)\s+(?:\[[ xX]\]\s+)?")


class Utterance(Struct, frozen=True):
    """One message, by `user`, `assistant` or another; `stored` is what its tool calls wrote into files."""

    role: str
    text: str
    stored: tuple[str, ...] = ()


class PromptMaterial(Struct, frozen=True):
    """The conversation, the summary of its earlier part, and the instruction."""

    utterances: list[Utterance]
    previous: str = ""
    instruction: str = ""


def material(request: ChatRequest) -> PromptMaterial:
    """Split the last message of `request` into its parts."""
    text = request.messages[-1].text if request.messages else ""
    previous = "\n".join(found.strip() for found in _PREVIOUS.findall(text))
    rest = _PREVIOUS.sub("", text)
    tagged = [found[1] for found in _TAGGED.findall(text)]
    return PromptMaterial(labelled("\n".join(tagged) if tagged else rest), previous, _TAGGED.sub("", rest))


def is_flush_prompt(text: str) -> bool:
    """Whether `text` asks for a flush, whatever the request's purpose is."""
    return _FLUSH_PROMPT.search(text[:2_000]) is not None


def utterances_in(messages: Sequence[Message]) -> list[Utterance]:
    """Return the messages without silent turns, summaries and quoted notes."""
    results = [message for message in messages if isinstance(message, ToolResultMessage)]
    done = {message.tool_call_id for message in results if not message.is_error}
    spoken = (message for message in messages if not (quotes_notes(message) or _is_silent(message.text)))
    return [
        utterances for message in spoken if (utterances := _utterance(message, done)).stored or utterances.text.strip()
    ]


def _is_silent(text: str) -> bool:
    return text.strip() == NO_REPLY or is_flush_prompt(text) or read_compacted(text) is not None


def _utterance(message: Message, done: Container[str]) -> Utterance:
    if isinstance(message, UserMessage):
        return Utterance("user", message.text[-MAX_MESSAGE:])
    if not isinstance(message, AssistantMessage):
        return Utterance("tool", message.text[-MAX_MESSAGE:])
    calls = [call for call in message.tool_calls if call.id in done and call.name in WRITERS]
    stored = tuple(str(call.arguments.get(WRITERS[call.name], ""))[-MAX_MESSAGE:] for call in calls)
    # What this model wrote itself is phrases and quotes of notes: nothing that is worth keeping again.
    return Utterance("assistant", "" if message.provider == OFFLINE else message.text[-MAX_MESSAGE:], stored)


def labelled(text: str) -> list[Utterance]:
    """Split text at `User:` and `Assistant:` at the start of lines; without any, all is the user's."""
    labels = list(_LABEL.finditer(text))
    if not labels:
        return [Utterance("user", text.strip()[-MAX_MESSAGE:])] if text.strip() else []
    ends = [label.start() for label in labels[1:]] + [len(text)]
    return [
        Utterance(label["role"].lower(), utterances[-MAX_MESSAGE:])
        for label, end in zip(labels, ends, strict=True)
        if (utterances := text[label.end() : end].strip())
    ]


def flush(turn: Turn) -> Plan:
    """Store the durable facts of the conversation in the file that the prompt names; the reply is NO_REPLY."""
    facts = durable_facts(utterances_in(turn.earlier))
    if not facts or "append" not in turn.tools:
        return NO_REPLY
    named = _TARGET.search(turn.text)
    path = named[0] if named else daily_file(turn)
    positions, heading = yield from find_before(turn, facts, path)
    new = [fact for fact in facts if key(fact) not in positions]
    if not new:
        return NO_REPLY
    [outcome] = yield [PlannedCall("append", {"path": path, "content": heading + "".join(map(as_item, new))})]
    if outcome.is_error:
        return turn.reply("tool_failed", tool="append", reason=one_line(outcome.text))
    return NO_REPLY


def durable_facts(utterances: Sequence[Utterance]) -> list[str]:
    """Return what the user stated that no tool call of this conversation wrote into a file: each once, in order, the
    newest `MAX_FACTS` at most."""
    stored = "".join(words("\n".join(text for entry in utterances for text in entry.stored)))
    facts: dict[str, str] = {}
    for entry in utterances:
        for fact in _facts(entry.text) if entry.role == "user" else ():
            fact_words = "".join(words(fact))
            # What the log would hide is refused by the tool, and with it everything else that is to be stored.
            if fact_words and fact_words not in stored and redact(fact) == fact:
                facts[fact_words] = fact
    return list(facts.values())[-MAX_FACTS:]


def _facts(text: str) -> Iterator[str]:
    """Yield the facts of one message: what is to be remembered, else its durable sentences."""
    if len(text) > PASTE_CHARS or text.lstrip().startswith("/"):
        return
    intent = classify(text, "en")
    if intent.kind == "remember" and (fact := tidy(intent.text)):
        yield fact
    elif intent.kind in ("statement", "recall", "ask"):
        yield from (tidy(sentence) for sentence in sentences(clean(text)) if is_durable(sentence))


def slug(utterances: Sequence[Utterance]) -> str:
    """Return the name of a conversation by the user's words: lower case, Chinese words kept."""
    texts = [
        clean(entry.text) for entry in utterances if entry.role == "user" and not entry.text.lstrip().startswith("/")
    ]
    return "-".join(topics(texts)) or phrase(detect(" ".join(texts)) or "en", "short_chat")


def title(utterances: Sequence[Utterance]) -> str:
    """Return the title of a conversation by the user's words: the words of the first clause with a topic, from its
    first significant word. NO_REPLY without one."""
    for entry in utterances:
        if entry.role == "user" and not entry.text.lstrip().startswith("/"):
            for sentence in sentences(_ADDRESS.sub("", clean(entry.text[:PASTE_CHARS]))):
                clauses = (clause for clause in _CLAUSES.split(sentence) if topics([clause]))
                if not holds_secret(sentence) and (clause := next(clauses, "")):
                    return _chinese_title(clause) if detect(clause) == "zh" else _title_of_words(clause.split())
    return NO_REPLY


def _title_of_words(spoken: list[str]) -> str:
    while len(spoken) > 1 and fold(spoken[0]).strip(_EDGES).replace("'", "").lower() in _STOP_WORDS:
        spoken = spoken[1:]
    shown = spoken[:TITLE_WORDS]
    while len(shown) > 1 and fold(shown[-1]).strip(_EDGES) in STOP_WORDS:
        shown = shown[:-1]
    text = " ".join(shown)[:TITLE_CHARS].strip(_EDGES)
    return text[:1].upper() + text[1:] if shown[0].islower() else text


def _chinese_title(clause: str) -> str:
    text = clause.strip(_EDGES)
    while (rest := _LEADING.sub("", text, count=1)) != text and len(rest) > 1:
        text = rest
    return _TRAILING.sub("", text.strip()[:TITLE_HAN]) or text[:TITLE_HAN]


def summarise(given: PromptMaterial, max_tokens: int | None) -> str:
    """Return the summary of `given` in Markdown, under the headings of `SHARES`, in at most `max_tokens` (estimated),
    or less if the instruction requires it; with the unfinished turn if asked for."""
    sections = _carried_on(given.previous)
    for utterances in given.utterances:
        if utterances.role in ("user", "assistant"):
            _sort_in(utterances, sections)
    asked = [entry.text for entry in given.utterances if entry.role == "user" and not holds_secret(entry.text)]
    sections[ASKS] = [one_line(asked[-1], ASK_CHARS)] if asked else sections[ASKS]
    sections[NAMES] = names(sections[NAMES], given.utterances)
    named = _LENGTH.search(given.instruction)
    room = max(min(max_tokens or MAX_TOKENS, int(named[1]) if named else MAX_TOKENS), MIN_TOKENS)
    if not re.search(rf"^#+ {TURN}", given.instruction, re.MULTILINE):
        return _written(sections, room)
    turn = cut_to(_turn(given.utterances), room // 4)
    return f"{_written(sections, room - weigh_tokens(turn))}\n\n{turn}"


def names(carried: Sequence[str], utterances: Sequence[Utterance]) -> list[str]:
    """Return the names in the messages, each once: numbers, then exact names (hosts, ports, paths, versions, quoted
    ones), last the lines `carried` over. Of the assistant only exact ones count; keys, and what a carried line
    explains, do not."""
    ranks = {line: 0 if identifiers(line) == [line] and not is_exact(line) else 2 for line in carried}
    for entry in (entry for entry in utterances if entry.role in ("user", "assistant")):
        text, by_user = clean(entry.text), entry.role == "user"
        certain = [*ports(text), *titles(text), *(quoted(text) if by_user else ())]
        for name in (*certain, *identifiers(text)):
            exact = name in certain or is_exact(name)
            if by_user or exact:
                ranks[name] = max(int(exact), ranks.pop(name, 0))
    found = [name for name in sorted(ranks, key=lambda name: ranks[name]) if not holds_secret(name)][-MAX_NAMES:]
    exact_ones = "\n".join(name for name in found if ranks[name])
    listed = {name for line in carried for name in (*identifiers(line), *ports(line)) if name != line}
    return [name for name in found if name not in listed and (ranks[name] or name not in exact_ones)]


def _carried_on(previous: str) -> dict[str, list[str]]:
    """Return the lines of an earlier summary under their current sections."""
    sections: dict[str, list[str]] = {name: [] for name in SHARES}
    current = PROGRESS
    for line in clean(previous).splitlines():
        if heading := _HEADING.match(line):
            current = heading[1] if heading[1] in SHARES else PROGRESS
        elif (item := _ITEM.sub("", line).strip()) and item.lower() not in ("none", NOTHING, "[...]"):
            sections[current].append(item)
    return sections


def _sort_in(utterances: Utterance, sections: dict[str, list[str]]) -> None:
    """Put the sentences of one message into their sections; of the others only the first remains."""
    rest: list[str] = []
    for sentence in itertools.islice(sentences(clean(utterances.text)), MAX_SENTENCES):
        found = frozenset() if asks(sentence) else marks(sentence)
        found &= found if utterances.role == "user" else {"decision"}
        section = next((section for section, wanted in MARKED.items() if found & wanted), None)
        if not holds_secret(sentence):
            (sections[section] if section else rest).append(one_line(sentence, LINE_CHARS))
    if rest:
        sections[PROGRESS].append(f"{utterances.role.capitalize()}: {rest[0]}")


def _turn(utterances: Sequence[Utterance]) -> str:
    """Return the section of the unfinished turn: its request, and the last messages."""
    begin = next(
        (at for at in range(len(utterances) - 1, -1, -1) if _TURN_BEGINS.match(utterances[at].text)), len(utterances)
    )
    listed = [entry for entry in utterances[begin:] if not holds_secret(entry.text)]
    last = {entry.role: f"{entry.role.capitalize()}: {one_line(entry.text, LINE_CHARS)}" for entry in listed}
    lines = [last[role] for role in ("user", "assistant") if role in last] or [NOTHING]
    return "\n".join([f"## {TURN}", "", *(f"- {line}" for line in lines)])


def _written(sections: dict[str, list[str]], max_tokens: int) -> str:
    room = float(max_tokens - sum(weigh_tokens(f"## {name}\n\n- {NOTHING}\n\n") for name in SHARES))
    share_left = sum(SHARES.values())
    parts: list[str] = []
    for name, share in SHARES.items():
        lines = _last_that_fit(sections[name], room * share / share_left, may_cut=name != NAMES)
        room -= sum(weigh_tokens(f"- {line}\n") for line in lines)
        share_left -= share
        parts.append(f"## {name}\n\n" + ("\n".join(f"- {line}" for line in lines) or f"- {NOTHING}"))
    return cut_to("\n\n".join(parts), max_tokens)


def _last_that_fit(lines: Sequence[str], room: float, *, may_cut: bool) -> list[str]:
    """Return the last lines within `room` tokens, in order, each once: a later one replaces its repeat. Too long ones
    are skipped; but the last one is cut, if it may be."""
    kept: list[str] = []
    for line in {line.casefold(): line for line in reversed(lines)}.values():
        shown = cut_to(line, int(room) - 3) if may_cut and not kept and room >= MIN_LINE else line
        if (size := weigh_tokens(f"- {shown}\n")) <= room:
            room -= size
            kept.append(shown)
    return kept[::-1]
