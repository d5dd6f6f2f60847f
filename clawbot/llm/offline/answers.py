"""What the offline model says, in both languages, and how it shows text that is not its own: quoted or fenced."""

from __future__ import annotations

from typing import Any

from clawbot.text.language import Language
from clawbot.text.patterns import lazy_re
from clawbot.text.sanitize import clean, clean_line

QUOTE_CHARS, SHOWN_LINES, SHOWN_CHARS = 300, 60, 4_000

ANSWERS: dict[str, tuple[str, str]] = {
    # remembering
    "remembered": ("Noted in `{path}`:\n\n> {fact}", "已记到 `{path}`：\n\n> {fact}"),
    "already_noted": ("That is noted already:\n\n{quote}", "这一条已经记过了：\n\n{quote}"),
    "remember_what": ("What should I remember? Say `remember that …`.", "要我记住什么？请说 `记住：……`。"),
    "fact_too_long": (
        "That is {size:,} characters; a note holds {limit:,} at most, so I stored nothing.",
        "这段话有 {size:,} 个字符，一条笔记最多 {limit:,} 个，所以没有保存。",
    ),
    "secret": (
        "Left out: that looks like {kind}. No note, summary or search will hold it. "
        "`remember --keep …` writes it into your notes all the same, as plain text.",
        "没有记下：这看起来像{kind}，它不会进入笔记、摘要或搜索。仍要以明文写进笔记，请说 `记住 --keep ……`。",
    ),
    "like password": ("a password", "密码"),
    "like code": ("a lock code or a PIN", "门锁码或 PIN 码"),
    "like phrase": ("a recovery phrase", "助记词"),
    "like key": ("a key", "密钥"),
    "like token": ("a token", "令牌"),
    "like private key": ("a private key", "私钥"),
    "like card": ("the number of a card", "卡号"),
    "like number": ("the number of an identity card", "身份证号"),
    "secret_warning": (
        "\n\nIt looks like a password or a key, and is plain text there; `/edit {path}` takes it out again.",
        "\n\n这看起来像密码或密钥，现在以明文保存在那里；可以用 `/edit {path}` 删掉。",
    ),
    "forget": (
        "I don't delete notes. `/forget WORDS` shows what would go, `/forget yes WORDS` deletes it everywhere.",
        "我不会删除笔记。`/forget 关键词` 显示会删掉什么，`/forget yes 关键词` 会彻底删掉。",
    ),
    "forget_here": (
        "It is in `{place}`. `/forget WORDS` shows what would go; `/edit {path}` opens the file.",
        "它在 `{place}`。`/forget 关键词` 显示会删掉什么；`/edit {path}` 打开文件。",
    ),
    "statement": ("Shall I note that? `remember that …`", "要记下来吗？`记住：……`"),
    "no_alarm": (
        "I can't ring at a set time. What repeats can be a job: `schedule:` in the settings; `clawbot schedule list` "
        "shows the jobs.",
        "我不能到点提醒你。重复的事可以设成定时任务：写在设置的 `schedule:` 里，`clawbot schedule list` 查看。",
    ),
    # recall
    "recalled": ("Your notes say:\n\n{quotes}", "你的笔记里写着：\n\n{quotes}"),
    "newest_first": ("Your notes say, the newest first:\n\n{quotes}", "你的笔记里写着（新的在前）：\n\n{quotes}"),
    "nearest": ("The nearest in your notes:\n\n{quotes}", "笔记里最接近的是：\n\n{quotes}"),
    "said_here": ("You said in this conversation:\n\n{quotes}", "你在这次会话里说过：\n\n{quotes}"),
    "said_last": ("Last time, on {when}, you said:\n\n{quotes}", "上次（{when}），你说过：\n\n{quotes}"),
    "summed_up": ("The summary of this conversation says:\n\n{quotes}", "这次会话之前内容的摘要里有：\n\n{quotes}"),
    "told_nothing": ("There is nothing before that in this conversation.", "没有找到：这次会话才刚开始。"),
    "no_last": (
        "I found nothing of yours in the conversation before this one.",
        "没有找到：之前的会话里没有你说过的话。",
    ),
    "no_notes": ("There are no notes of yours yet: say `remember that …`.", "还没有任何笔记：请说 `记住：……`。"),
    "by_user": ("You said: ", "你说："),
    "by_agent": ("I said: ", "我说："),
    "by_other": ("{by} said: ", "{by} 说："),
    "not_found": (
        "I found nothing on that in your notes. A language model may know more: `/model`",
        "没有找到相关的笔记。语言模型也许知道：`/model`",
    ),
    "refused": ("That needs a language model: `/model`", "这需要语言模型，用 `/model` 连接。"),
    "unclear": (
        "I did not understand that. `help` shows what I can do; a language model understands more: `/model`",
        "我没有听懂。说 `帮助` 看看我能做什么；语言模型懂得更多，用 `/model` 连接。",
    ),
    "search_failed": ("I could not look into your notes: {reason}", "没能查看笔记：{reason}"),
    # tools
    "no_tool": ("For that I need the tool `{tool}`, which is not here.", "这需要 `{tool}` 工具，但这里没有。"),
    "declined": ("All right, not done.", "好的，没有执行。"),
    "tool_failed": ("That did not work: `{tool}` answered\n\n{reason}", "没有成功，`{tool}` 的回答是：\n\n{reason}"),
    # a turn that was compacted in its middle
    "resumed_written": (
        "The first part of this turn was compacted while I worked. This was done, and I did not do it twice: {done}.",
        "处理过程中，这一轮的前半部分被压缩了。已经完成的是（没有重复执行）：{done}。",
    ),
    "cut_off": (
        "I can't go on with this turn: its beginning is gone, or was another model's. The last step was `{tool}`:"
        "\n\n{reason}",
        "这一轮的开头已不在，或者来自另一个模型，我无法继续。最后一步是 `{tool}`：\n\n{reason}",
    ),
    "resumed_unknown": (
        "This turn was compacted while I worked, and I can't see whether `{tool}` was done already. I did not do it "
        "again: look first, and send your message again if it is missing.",
        "这一轮在处理过程中被压缩了，我已看不到 `{tool}` 是否执行过，所以没有再执行一次。请先看一下，如果没有完成，"
        "请重新发送消息。",
    ),
    # files
    "shown": ("`{what}`:\n\n{block}", "`{what}`：\n\n{block}"),
    "shortened": ("\n\nShortened: {shown} of {total} lines.", "\n\n已截短：共 {total} 行，显示了 {shown} 行。"),
    "missing": ("There is no `{path}` in the workspace.", "工作区里没有 `{path}`。"),
    "file_exists": ("`{path}` exists already, and is left as it is.", "`{path}` 已经存在，没有改动。"),
    # small talk
    "help": (
        "I run offline, without a language model. Try:\n\n- `remember that I prefer tabs`\n- `what do I prefer?`\n"
        "- `list files`, `show AGENTS.md`\n- `create notes.md with text`, `append text to notes.md`\n"
        "- `run ls -la`, which asks you first\n- `how do I exit?`, `where is my data?`\n\n"
        "`/help` lists the commands, `/model` connects a language model.",
        "我是离线模型，不是语言模型。可以试试：\n\n- `记住我喜欢用制表符`\n- `我喜欢什么？`\n"
        "- `列出文件`、`读一下 AGENTS.md`\n- `创建 notes.md，内容是……`、`在 notes.md 里追加：……`\n"
        "- `运行 ls -la`（先征求你的同意）\n- `怎么退出？`、`我的数据存在哪里？`\n\n"
        "`/help` 列出所有命令，用 `/model` 连接语言模型。",
    ),
    "hello": (
        "Hello. I run offline: I remember, find and quote your notes, and handle files. `help` tells how.",
        "你好。我现在离线运行：能记录、查找和引用笔记，也能处理文件。说 `帮助` 可以了解更多。",
    ),
    "blamed": (
        "Sorry. I know set phrases only; a language model understands more: `/model`",
        "抱歉。我只懂固定的说法；语言模型懂得更多，用 `/model` 连接。",
    ),
    "chat": (
        "I'm poor company without a language model: `/model` connects one.",
        "没有语言模型，我不太会聊天：用 `/model` 连接一个。",
    ),
    "thanks": ("You're welcome.", "不客气。"),
    "praise": ("I'm glad to hear that.", "很高兴听到这句话。"),
    "agreed": ("All right.", "好的。"),
    "bye": ("Goodbye. `/quit` closes the program.", "再见。`/quit` 可以退出程序。"),
    "empty": ("I read no text in that.", "这里面没有文字。"),
}
"""Key -> what is said in English and in Chinese, with named places (`str.format`)."""

_MARKER = lazy_re(r"\s{0,8}(?:[-*+]\s{1,4}(?:\[[ xX]\]\s{1,4})?|\d{1,3}[.)]\s{1,4}|#{1,6}\s{1,4}|>\s?)")
_DONE = lazy_re(
    r"(?P<verb>Created|Replaced|Edited|Appended to) (?P<path>.+?)(?: in (?P<places>\d+) places)? "
    r"\((?P<lines>[-+\d, ]+) lines(?:, [\d,]+ bytes)?\)\."
)
_VERBS = {"Created": "新建", "Edited": "修改", "Replaced": "替换", "Appended to": "追加到"}
_BACKTICKS = lazy_re(r"`{3,}")


def say(language: Language, key: str, **values: Any) -> str:
    """The sentence `key` with its places filled."""
    english, chinese = ANSWERS[key]
    return (chinese if language == "zh" else english).format(**values)


def done_words(language: Language, told: str) -> str:
    """What a tool said that it did to a file (`Created a.md (+1 -0 lines, 9 bytes).`), shorter and in the user's
    language; another sentence stays as it is."""
    found = _DONE.fullmatch(told)
    if found is None:
        return told
    lines = found["lines"].removesuffix(" -0").lstrip("+") if found["lines"].endswith(" -0") else found["lines"]
    if language == "en":
        places = f" in {found['places']} places" if found["places"] else ""
        return f"{found['verb']} {found['path']}{places} ({lines} line{'' if lines == '1' else 's'})."
    places = f"（共 {found['places']} 处）" if found["places"] else ""
    return f"已{_VERBS[found['verb']]} {found['path']}{places}（{lines} 行）。"


def bare(line: str) -> str:
    """A line of a Markdown file without its list, heading or quote mark."""
    text = clean(line).replace("\n", " ")
    mark = _MARKER.match(text)
    return text[mark.end() if mark else 0 :].strip()


def one_line(text: str, limit: int = QUOTE_CHARS) -> str:
    """`text` on one line, cut to `limit` characters."""
    flat = clean_line(text[: limit * 20])
    return flat if len(flat) <= limit else flat[: limit - 1] + "…"


def quote(text: str, source: str = "") -> str:
    """A block quote of one line, with the place where it stands below it."""
    shown = f"> {one_line(text)}"
    return f"{shown}\n>\n> — `{source}`" if source else shown


def block(language: Language, what: str, text: str) -> str:
    """`text` in a fence below its name, at most `SHOWN_LINES` lines and `SHOWN_CHARS` characters of it."""
    lines = clean(text).rstrip("\n").split("\n")
    whole = "\n".join(lines[:SHOWN_LINES])
    body = whole[:SHOWN_CHARS]
    fence = "`" * (max((len(run) for run in _BACKTICKS.findall(body)), default=2) + 1)
    shown = say(language, "shown", what=what, block=f"{fence}text\n{body}\n{fence}")
    if len(lines) <= SHOWN_LINES and len(body) == len(whole):
        return shown
    return shown + say(language, "shortened", shown=body.count("\n") + 1, total=len(lines))
