"""From what the user wants to what is done about it: one table."""

from __future__ import annotations

from collections.abc import Callable

from clawbot.llm.offline import about, recall, remember, resumed, workspace
from clawbot.llm.offline.answers import say
from clawbot.llm.offline.intents import Intent, classify
from clawbot.llm.offline.turn import MAX_ROUNDS, Plan, Step, TakenOverError, Turn, advance

PLANS: dict[str, Callable[[Turn, Intent], Plan]] = {
    "remember": remember.remember,
    "todo": remember.remember_todo,
    "forget": remember.forget,
    "recall": recall.recall,
    "recall_all": recall.recall_all,
    "last_talk": recall.last_talk,
    "todos": recall.todos,
    "other": recall.other,
    "list": workspace.list_files,
    "read": workspace.read_file,
    "search": workspace.search_files,
    "search_in": workspace.search_files,
    "append": workspace.append_text,
    "write": workspace.write_file,
    "overwrite": workspace.overwrite_file,
    "replace": workspace.replace_text,
    "run": workspace.run_command,
}
"""What takes tools."""

TEXTS: dict[str, Callable[[Turn, Intent], str]] = {
    "who": about.who,
    "can": about.can,
    "commands": about.commands,
    "command": about.command,
    "time": about.time,
}
"""What is answered at once, from more than a phrase."""

PHRASES = {
    "connect": "connect",
    "hello": "hello",
    "thanks": "thanks",
    "agreed": "agreed",
    "nothing": "agreed",
    "bye": "bye",
    "empty": "empty",
    "statement": "statement",
    "secret": "secret_heard",
    "delete": "delete_file",
    "run_hint": "shell_hint",
    "long": "long_message",
}
"""What is answered by one phrase of `answers`."""


def reply(turn: Turn) -> Step:
    """The next tool calls for the user's last message, or the answer to it."""
    intent = classify(turn.text, turn.language)
    if intent.kind in PLANS:
        return follow(PLANS[intent.kind](turn, intent), turn)
    if turn.resumed and turn.rounds:
        return resumed.reply(turn)
    if intent.kind in PHRASES:
        return say(turn.language, PHRASES[intent.kind], text=intent.text, size=len(intent.text))
    return TEXTS[intent.kind](turn, intent)


def follow(plan: Plan, turn: Turn) -> Step:
    """The next step of `plan`, within the rounds that a turn may take."""
    try:
        step = advance(plan, turn.rounds, exactly=turn.resumed)
    except TakenOverError:
        if turn.resumed:
            return resumed.reply(turn)
        used = ", ".join(f"`{outcome.call.name}`" for outcomes in turn.rounds for outcome in outcomes)
        return say(turn.language, "taken_over", tools=used)
    if isinstance(step, str):
        return step
    if len(turn.rounds) >= MAX_ROUNDS:
        return say(turn.language, "too_many_rounds", count=len(turn.rounds))
    if resumed.may_repeat(turn, step):
        return say(turn.language, "resumed_nothing", tool=step[0].name)
    return step
