"""What of a reply is for the user: silent replies, tokens beside an answer, and talk about tokens (sheet 9)."""

from __future__ import annotations

import pytest

from clawbot.messages import AssistantMessage, StopReason, TextBlock, ThinkingBlock, ToolCallBlock
from clawbot.sessions.silence import asks_for_silence, is_silent, names_token, spoken, spoken_message

# Each with the line of the sheet that it stands for.
SILENT = {
    "9.1 exact": "NO_REPLY",
    "9.1 blanks": " \n\tNO_REPLY \r\n",
    "9.1 BUG full stop": "NO_REPLY.",
    "9.1 BUG Chinese full stop": "NO_REPLY。",
    "9.1 BUG lower case": "no_reply",
    "9.3 mixed case": "No_Reply!",
    "9.1 BUG code span": "`NO_REPLY`",
    "9.1 BUG code fence": "```\nNO_REPLY\n```",
    "9.1 BUG code fence with a language": "```text\nNO_REPLY\n```\n",
    "9.1 BUG quoted": '"NO_REPLY"',
    "9.1 BUG curly quotes": "“NO_REPLY”",
    "9.1 BUG corner brackets": "「NO_REPLY」",
    "9.1 BUG block quote": "> NO_REPLY",
    "bold": "**NO_REPLY**",
    "bold by lines": "__NO_REPLY__",
    "escaped underscore": r"NO\_REPLY",
    "brackets": "(NO_REPLY)",
    "9.3 repeated": "NO_REPLY NO_REPLY",
    "9.3 repeated and glued": "NO_REPLYNO_REPLY",
    "9.3 repeated on lines": "NO_REPLY\n\nno_reply。\n" * 3,
    "9.3 edge punctuation": "… — NO_REPLY —！",
    "9.3 emoji": "🤫 NO_REPLY",
    "9.3 JSON string": '"no_reply"',
    "9.3 JSON object": '{"action": "NO_REPLY"}',
    "9.3 JSON object in a fence": '```json\n{\n  "action": "NO_REPLY"\n}\n```',
    "9.3 reasoning on a line": "Thinking: nothing to store here\nNO_REPLY",
    "9.3 reasoning in Chinese": "思考：没有新的内容\n\nNO_REPLY",
    "9.3 stay silent": "I will stay silent. NO_REPLY",
    "9.3 remain quiet": "I'll remain quiet for now…\n\n`NO_REPLY`",
    "9.3 curly apostrophe": "I’m going to say nothing: NO_REPLY",
    "9.3 staying silent": "Staying silent. NO_REPLY",
    "9.3 silent in Chinese": "我会保持沉默。NO_REPLY",
    "9.4 heartbeat": "HEARTBEAT_OK",
    "9.4 heartbeat and punctuation": "HEARTBEAT_OK!!!",
    "9.4 Markdown": "**HEARTBEAT_OK**.",
    "9.4 HTML": "<b>HEARTBEAT_OK</b>",
    "both": "NO_REPLY\nHEARTBEAT_OK",
}

MIXED = {
    # 9.1 BUG: a leading token followed by prose was shown; 9.3: glued to text, or on its own first line.
    "NO_REPLY\nThe build is green.": "The build is green.",
    "**NO_REPLY**\n\nthe build is green.": "the build is green.",
    "no_reply\n构建完成。": "构建完成。",
    "NO_REPLYThe build is green.": "The build is green.",
    "NO_REPLYthe build is green.": "the build is green.",
    "NO_REPLY构建完成。": "构建完成。",
    "NO_REPLY NO_REPLYHello": "Hello",
    "NO_REPLY The build is green.": "The build is green.",
    "NO_REPLY I saved it.": "I saved it.",
    "NO_REPLY 构建完成。": "构建完成。",
    "NO_REPLY: The build is green.": "The build is green.",
    "NO_REPLY. nothing new": "nothing new",
    "NO_REPLY。没有新内容": "没有新内容",
    "NO_REPLY - nothing new": "nothing new",
    "NO_REPLY — 已保存": "已保存",
    "NO_REPLY\nI will stay calm.": "I will stay calm.",
    # 9.1: a token behind an answer.
    "Saved it. NO_REPLY": "Saved it.",
    "Saved it. NO_REPLY.": "Saved it.",
    "Saved it.\n\nNO_REPLY": "Saved it.",
    "Saved it\n`no_reply`\n": "Saved it",
    "Saved it. **NO_REPLY**": "Saved it.",
    "Saved it. NO_REPLY NO_REPLY": "Saved it.",
    "Saved it NO_REPLY": "Saved it",
    "Saved ✅ NO_REPLY": "Saved ✅",
    "Saved it.\nHEARTBEAT_OK": "Saved it.",
    "已经保存。NO_REPLY": "已经保存。",
    "已经保存 NO_REPLY": "已经保存",
    "已经保存\n\nNO_REPLY。": "已经保存",
    "```py\nx = 1\n```\n\nNO_REPLY": "```py\nx = 1\n```",
    "NO_REPLY\nSaved it.\nNO_REPLY": "Saved it.",
}

SHOWN = [
    "NO_REPLY is what I say when there is nothing to say.",
    "NO_REPLY means silence.",
    "NO_REPLY, unlike HEARTBEAT_OK, is for turns.",
    "NO_REPLY and HEARTBEAT_OK are tokens.",
    "NO_REPLY OR HEARTBEAT_OK",
    "`NO_REPLY` is the token.",
    "`NO_REPLY` The token.",
    "**NO_REPLY** tells the program that nothing is to be shown.",
    "NO_REPLY:\n\nThe token for silence.",
    "# NO_REPLY\n\nThe token for silence.",
    "When I have nothing to say I answer NO_REPLY.",
    "When I have nothing to say, I answer NO_REPLY",
    "The token is:\n\nNO_REPLY",
    "The token is:\n\n`NO_REPLY`\n",
    'I say "NO_REPLY"',
    "Just answer with `NO_REPLY`",
    "Some programs want a word, e.g. NO_REPLY",
    "Is it NO_REPLY?",
    "Answer like this:\n```\nNO_REPLY\n```",
    "Answer like this.\n```\nNO_REPLY\n```",
    "- HEARTBEAT_OK\n- NO_REPLY: nothing to say",
    "NO_REPLY_TOKEN",
    "NO_REPLY_TOKEN = 'x'",
    "NO_REPLYs",
    "NO_REPLYing is rude",
    "NO_REPLY=1",
    "NO_REPLY2",
    "MY_NO_REPLY",
    "See NO_REPLY_TOKEN",
    "no_reply: false",
    "no_reply@example.com",
    "The mail came from no_reply",
    '{"action": "NO_REPLY", "text": "x"}',
    '{"action": "send", "text": "x"}',
    '{"reply": "NO_REPLY"}',
    '```json\n{"action": "wait"}\n```',
    "NO_REPLY 是什么都不说时的标记。",
    "NO_REPLY是一个标记。",
    "没事的时候我只回复 NO_REPLY",
    "标记如下：\n\nNO_REPLY",
    "请用NO_REPLY回答",
    "No reply.",
    "No, she did not reply.",
    "NO",
    "NO REPLY",
    "NOT",
    "Normal",
    "NO_",
    "I will stay silent.",
    "我会保持沉默。",
    "Thinking: out loud helps.\nHello",
    "1. NO_REPLY",
    "",
    "👍",
    "…",
]


@pytest.mark.parametrize("text", SILENT.values(), ids=SILENT.keys())
def test_silent(text: str) -> None:
    assert spoken(text) == ""
    assert is_silent(text)


@pytest.mark.parametrize(("text", "left"), MIXED.items())
def test_a_token_beside_an_answer_is_taken_off(text: str, left: str) -> None:
    assert spoken(text) == left
    assert not is_silent(text)


@pytest.mark.parametrize("text", SHOWN)
def test_talk_about_tokens_and_ordinary_words_are_shown(text: str) -> None:
    assert spoken(text) == text.strip()
    assert not is_silent(text)


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("NO_", ""),
        ("NO_RE", ""),
        ("HEARTBEAT_", ""),
        ("Saved it. NO_REP", "Saved it."),
        ("Saved it.\n\nNO_REPL", "Saved it."),
        ("NO", "NO"),
        ("I answer with NO_R", "I answer with NO_R"),
        ("The key is MY_NO_RE", "The key is MY_NO_RE"),
        ("NO_RX", "NO_RX"),
    ],
)
def test_a_token_that_was_cut_off_counts_where_the_reply_was(text: str, left: str) -> None:
    """Sheet 9.2: partial tokens."""
    assert spoken(text, cut=True) == left
    assert spoken(text) == text


def reply(*blocks: TextBlock | ThinkingBlock | ToolCallBlock, stop: StopReason = "stop") -> AssistantMessage:
    return AssistantMessage(list(blocks), stop_reason=stop)


THOUGHT, CALL = ThinkingBlock("hm"), ToolCallBlock("1", "read", {})


def test_messages_without_words_for_the_user_are_not_shown() -> None:
    """Sheet 9.3: nor is the reasoning that is left of one."""
    assert spoken_message(reply(TextBlock("NO_REPLY"))) is None
    assert spoken_message(reply(THOUGHT, TextBlock("no_reply."))) is None
    assert spoken_message(reply(THOUGHT)) is None
    assert spoken_message(reply()) is None
    assert spoken_message(reply(TextBlock("NO_RE"), stop="aborted")) is None
    assert spoken_message(reply(THOUGHT, TextBlock("NO_REPLY"), stop="aborted")) is None


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("<think>Nothing new. It is night.</think>\n\nNO_REPLY", None),
        ("<THINKING>\nx\n</THINKING>**NO_REPLY**", None),
        ("<think>NO_REPLY is right here.</think>HEARTBEAT_OK", None),
        ("<think>NO_REPLY", None),
        ("<think>hm</think>NO_REPLY\nHello", "Hello"),
        ("<think>Should it be NO_REPLY?</think>Hello", "Hello"),
        ("hm\n</think>\nHello", "Hello"),
    ],
)
def test_a_thought_in_the_text_of_an_old_answer_is_not_shown(text: str, left: str | None) -> None:
    assert spoken_message(reply(TextBlock(text))) == (reply(TextBlock(left)) if left else None)


def test_what_else_a_message_holds_stays() -> None:
    assert spoken_message(reply(THOUGHT, TextBlock("NO_REPLY"), CALL, stop="toolUse")) == reply(
        THOUGHT, CALL, stop="toolUse"
    )
    assert spoken_message(reply(THOUGHT, TextBlock("Done. NO_REPLY"))) == reply(THOUGHT, TextBlock("Done."))
    halves = reply(TextBlock("One."), CALL, TextBlock("Two.\nNO_REPLY"))
    assert spoken_message(halves) == reply(TextBlock("One.\nTwo."), CALL)
    for whole in (reply(TextBlock(" Hello\n")), reply(stop="aborted"), reply(THOUGHT, stop="length")):
        assert spoken_message(whole) is whole
    failed = AssistantMessage([TextBlock("NO_REPLY")], stop_reason="error", error_message="lost")
    shown = spoken_message(failed)
    assert shown is not None
    assert (shown.text, shown.error_message) == ("", "lost")


@pytest.mark.parametrize(
    ("text", "asks"),
    [
        ("Pre-compaction memory flush. Store durable memories now.", True),
        ("Read HEARTBEAT.md if it exists. If nothing needs attention, reply HEARTBEAT_OK.", True),
        ("If there is nothing to store, reply with NO_REPLY.", True),
        ("What does NO_REPLY mean?", False),
        ("Please reply. NO_REPLY_TOKEN is set.", False),
        ("你好", False),
    ],
)
def test_prompts_that_ask_for_silence(text: str, asks: bool) -> None:
    assert asks_for_silence(text) is asks


def test_a_token_is_named() -> None:
    assert names_token("What does NO_REPLY mean?")
    assert names_token("回复NO_REPLY。") is False
    assert not names_token("NO_REPLY_TOKEN")


@pytest.mark.parametrize("marks", ["**", "`", "***"])
def test_a_row_of_dressed_tokens_is_read_in_one_way(marks: str) -> None:
    """Each mark could belong to the token before it or to the one behind it: tried out, 100 tokens never end."""
    row = f"{marks}NO_REPLY{marks}" * 100
    assert spoken(f"Done. {row}x") == f"Done. {row}x"
    assert spoken(f"Done.\n\n{row}") == "Done."
