"""What the offline model says, in both languages, as data."""

from __future__ import annotations

from typing import Any

from clawbot.llm.offline.language import Language

ANSWERS: dict[str, dict[Language, str]] = {
    # remembering
    "remembered": {
        "en": "Noted in `{path}`:\n\n> {fact}",
        "zh": "已记到 `{path}`:\n\n> {fact}",
    },
    "remembered_todo": {
        "en": "Noted as a todo in `{path}`:\n\n> {fact}\n\nI can't ring at a time by myself: ask me for your todos.",
        "zh": "已作为待办记到 `{path}`:\n\n> {fact}\n\n我不会到点提醒,需要时可以问我有哪些待办。",
    },
    "already_noted": {
        "en": "That is already noted, so I did not write it twice:\n\n> {fact}\n>\n> — `{source}`",
        "zh": "这一条已经记过了,没有再写一遍:\n\n> {fact}\n>\n> — `{source}`",
    },
    "remember_what": {
        "en": "What should I remember? For example: `remember that I prefer tabs`.",
        "zh": "要我记住什么?例如:`记住我喜欢用制表符`。",
    },
    "fact_too_long": {
        "en": "That is {size:,} characters; a note holds {limit:,} at most, so I stored nothing. "
        "Put it into a file of the workspace and let me remember where it is.",
        "zh": "这段话有 {size:,} 个字符,一条笔记最多 {limit:,} 个,所以没有保存。可以放进工作区的一个文件,"
        "再让我记住它在哪里。",
    },
    "secret_warning": {
        "en": "\n\nThis looks like a password or a key. It now stands there as plain text and goes to whatever model "
        "reads your notes. A password manager, or an environment variable for an API key, is the better place; "
        "`/edit {path}` takes the line out again.",
        "zh": "\n\n这看起来像密码或密钥。它现在以明文保存,任何读取笔记的模型都能看到。密码管理器(API "
        "密钥则用环境变量)更合适;"
        "可以用 `/edit {path}` 删掉这一行。",
    },
    "forget_found": {
        "en": "I don't delete notes. It stands here, and `/edit {path}` opens the file:\n\n{quotes}",
        "zh": "我不会删除笔记。它在下面的位置,可以用 `/edit {path}` 打开文件修改:\n\n{quotes}",
    },
    "forget_none": {
        "en": "I don't delete notes, and found none on that anyway. I looked in {where} for: {words}.",
        "zh": "我不会删除笔记;而且也没有找到相关的内容。我在{where}里找过:{words}。",
    },
    "delete_file": {
        "en": "I have no tool that deletes files. The shell does it, after you agree: say run `rm FILE`.",
        "zh": "我没有删除文件的工具。可以说 运行 `rm 文件名`,经你同意后由 shell 执行。",
    },
    # recall
    "recalled": {"en": "Your notes say:\n\n{quotes}", "zh": "你的笔记里写着:\n\n{quotes}"},
    "recalled_near": {
        "en": "I found nothing that answers this fully. The nearest in your notes:\n\n{quotes}",
        "zh": "没有找到完全对应的内容。笔记里最接近的是:\n\n{quotes}",
    },
    "recalled_day": {"en": "Your notes of {day}:\n\n{quotes}", "zh": "{day} 的笔记:\n\n{quotes}"},
    "recalled_all": {"en": "The newest of your notes:\n\n{quotes}", "zh": "最近的笔记:\n\n{quotes}"},
    "last_talk": {
        "en": "The note of our last conversation, `{path}`, ends with:\n\n{quotes}",
        "zh": "上次对话的笔记 `{path}` 最后写着:\n\n{quotes}",
    },
    "said_here": {
        "en": "Your notes hold nothing on that, but you said in this conversation{when}:\n\n{quotes}",
        "zh": "笔记里没有,但你在这次对话里{when}说过:\n\n{quotes}",
    },
    "recalled_other": {
        "en": "I run offline, without a language model, so I can't answer that myself. Your notes hold on it:"
        "\n\n{quotes}",
        "zh": "我是离线模型,不是语言模型,无法自己回答。你的笔记里相关的有:\n\n{quotes}",
    },
    "near_other": {
        "en": "I run offline, without a language model, so I can't answer that myself, and your notes hold nothing "
        "that "
        "fits fully. The nearest:\n\n{quotes}",
        "zh": "我是离线模型,不是语言模型,无法自己回答,笔记里也没有完全对应的内容。最接近的是:\n\n{quotes}",
    },
    "said_before": {
        "en": "Your notes hold nothing on that, but the summary of what was said earlier in this conversation does:"
        "\n\n{quotes}",
        "zh": "笔记里没有,但这次对话之前内容的摘要里有:\n\n{quotes}",
    },
    "not_found": {
        "en": "I found nothing on that. I looked in {where} for: {words}.",
        "zh": "没有找到相关内容。我在{where}里找过:{words}。",
    },
    "not_found_day": {"en": "There are no notes of {day}.", "zh": "{day} 没有笔记。"},
    "not_found_all": {
        "en": "Your notes are empty so far. Try: `remember that I prefer tabs over spaces`.",
        "zh": "还没有任何笔记。可以试试:`记住我喜欢用制表符`。",
    },
    "not_found_other": {
        "en": "I run offline, without a language model, so I can't answer that, and your notes hold nothing on it "
        "(I looked in {where} for: {words}). `/model` connects a language model.",
        "zh": "我是离线模型,不是语言模型,回答不了这个问题,笔记里也没有相关内容(我在{where}里找过:{words})。"
        "用 `/model` 可以连接语言模型。",
    },
    "cannot_answer": {
        "en": "I run offline, without a language model, so I can't work with that. I keep, find and quote notes and "
        "handle files; `/model` connects a language model.",
        "zh": "我是离线模型,不是语言模型,处理不了这个。我能记录、查找和引用笔记,也能读写文件;用 `/model` "
        "可以连接语言模型。",
    },
    "long_message": {
        "en": "That is {size:,} characters. I run offline, without a language model, so I can't work through it. It is "
        "kept in this conversation.",
        "zh": "这段话有 {size:,} 个字符。我是离线模型,不是语言模型,无法处理。它已保存在这次对话里。",
    },
    "statement": {
        "en": "I keep that in this conversation only. Say `remember that …`, and it goes into your notes.",
        "zh": "这句话只留在这次对话里。说 `记住:……`,我就写进笔记。",
    },
    "secret_heard": {
        "en": "That looks like a password or a key: I did not write it down. It is in this conversation, though, and "
        "its "
        "transcript is a plain file. An API key belongs into an environment variable or behind `/model`.",
        "zh": "这看起来像密码或密钥,我没有记下来。不过它已经在这次对话里,而对话记录是明文文件。API "
        "密钥应放在环境变量里,或通过 `/model` 设置。",
    },
    "memory_places": {"en": "MEMORY.md, USER.md and memory/", "zh": " MEMORY.md、USER.md 和 memory/ "},
    # tools
    "no_tool": {
        "en": "For that I need the tool `{tool}`, and this conversation does not have it (`/tools` shows which it "
        "has).",
        "zh": "这需要 `{tool}` 工具,但当前对话里没有(`/tools` 可查看有哪些)。",
    },
    "tool_failed": {
        "en": "That did not work: `{tool}` answered\n\n{reason}\n\nNothing else was done.",
        "zh": "没有成功,`{tool}` 的回答是:\n\n{reason}\n\n其余什么也没有做。",
    },
    "stored_nothing": {
        "en": "I could not store it: `{tool}` answered\n\n{reason}\n\nThe fact is only in this conversation. Say it "
        "again "
        "once that is mended.",
        "zh": "没能保存,`{tool}` 的回答是:\n\n{reason}\n\n这件事目前只在这次对话里。解决之后请再说一遍。",
    },
    "search_failed": {
        "en": "I could not look into your notes: `{tool}` answered\n\n{reason}",
        "zh": "没能查看笔记,`{tool}` 的回答是:\n\n{reason}",
    },
    "too_many_rounds": {
        "en": "I stopped after {count} rounds of tool calls without an answer. Ask again in other words.",
        "zh": "调用了 {count} 轮工具仍没有结果,已停止。请换个说法再问一次。",
    },
    "taken_over": {
        "en": "Another model began this answer and dropped out; I took over, but I run offline, without a language "
        "model, "
        "and can't finish its work. So far it used: {tools}. Send your message again when the model is back.",
        "zh": "另一个模型开始了这次回答但中断了。我接了过来,但我是离线模型,无法替它完成。它已经用过:{tools}。"
        "等模型恢复后请重新发送。",
    },
    # a turn that was compacted in its middle
    "resumed": {
        "en": "The first part of this turn was compacted while I worked, so I can't go on from there. {last}\n\n"
        "Send your message again if that is not what you wanted.",
        "zh": "处理过程中,这一轮的前半部分被压缩了,我无法从那里继续。{last}\n\n如果这不是你要的,请重新发送消息。",
    },
    "resumed_answer": {
        "en": "The last step was `{tool}`, and it answered:\n\n{quote}",
        "zh": "最后一步是 `{tool}`,它的回答是:\n\n{quote}",
    },
    "resumed_failed": {
        "en": "The last step failed: `{tool}` answered\n\n{reason}",
        "zh": "最后一步没有成功,`{tool}` 的回答是:\n\n{reason}",
    },
    "resumed_written": {
        "en": "The first part of this turn was compacted while I worked. This was done, and I did not do it twice:"
        "\n\n{done}",
        "zh": "处理过程中,这一轮的前半部分被压缩了。已经完成的是(没有重复执行):\n\n{done}",
    },
    "resumed_place": {
        "en": "`{tool}` wrote to `{path}`:\n\n{quote}",
        "zh": "`{tool}` 写进了 `{path}`:\n\n{quote}",
    },
    "resumed_nothing": {
        "en": "This turn was compacted while I worked, and I can't see any more whether `{tool}` was done already. I "
        "did not do it again: look first, and send your message again if it is missing.",
        "zh": "这一轮在处理过程中被压缩了,我已看不到 `{tool}` 是否执行过,所以没有再执行一次。请先看一下,如果没有完成,"
        "请重新发送消息。",
    },
    # files
    "listing": {"en": "`{path}` holds:\n\n{block}", "zh": "`{path}` 里有:\n\n{block}"},
    "content": {"en": "`{path}`:\n\n{block}", "zh": "`{path}`:\n\n{block}"},
    "matches": {"en": "Found for “{text}”:\n\n{block}", "zh": "“{text}” 的搜索结果:\n\n{block}"},
    "no_matches": {"en": "No file of the workspace holds “{text}”.", "zh": "工作区的文件里没有“{text}”。"},
    "no_matches_in": {"en": "`{path}` does not hold “{text}”.", "zh": "`{path}` 里没有“{text}”。"},
    "shortened": {
        "en": "\n\nShortened: {shown} of {total} lines are shown. `/edit {path}` shows a file whole.",
        "zh": "\n\n已截短:共 {total} 行,显示了 {shown} 行。用 `/edit {path}` 可以看完整文件。",
    },
    "shortened_lines": {
        "en": "\n\nShortened: {shown} of {total} lines are shown.",
        "zh": "\n\n已截短:共 {total} 行,显示了 {shown} 行。",
    },
    "file_exists": {
        "en": "`{path}` exists already, and I don't replace it unasked. Say `overwrite {path} with …` to replace it, "
        "or "
        '`append "…" to {path}` to add to it.',
        "zh": "`{path}` 已经存在,我不会擅自覆盖。要替换请说 `覆盖 {path},内容是……`;要添加请说 `在 {path} 里追加:……`。",
    },
    "written": {"en": "Done: {detail}", "zh": "已完成:{detail}"},
    "write_what": {
        "en": "What should stand in it? For example: `create {path} with some text`.",
        "zh": "要写入什么内容?例如:`创建 {path},内容是……`。",
    },
    "ran": {"en": "`{text}` answered:\n\n{block}", "zh": "`{text}` 的输出:\n\n{block}"},
    "shell_hint": {
        "en": "To run a command, put it into backticks: run `{text}`. You are asked before it runs.",
        "zh": "要运行命令,请放在反引号里:运行 `{text}`。执行前会先征求你的同意。",
    },
    # about
    "who": {
        "en": "I am clawbot's offline model: not a language model, just rules that run in this program, without a key "
        "and without a network. I can't reason or write for you.\n\n{can}\n\n{connect}",
        "zh": "我是 clawbot 的离线模型:不是语言模型,只是在本程序里运行的一套规则,不需要密钥和网络。我不会推理,"
        "也不会替你写作。"
        "\n\n{can}\n\n{connect}",
    },
    "can": {
        "en": "What I can do:\n"
        "- remember: `remember that I prefer tabs` goes into today's file under `memory/`\n"
        "- recall: `what do I prefer?` is answered from your notes, with file and line\n"
        '- files: `list files`, `show AGENTS.md`, `search for "proxy" in my files`, `append "text" to notes.md`, '
        '`create notes.md with text`, `replace "a" with "b" in notes.md`\n'
        "- commands: run `ls -la`, after you agree\n"
        "- time and date, and what the slash commands do (`/help`)",
        "zh": "我能做这些事:\n"
        "- 记:`记住我喜欢用制表符`,会写进 `memory/` 下当天的文件\n"
        "- 查:`我喜欢什么?`,会从笔记里找,并给出文件和行号\n"
        "- 文件:`看看有什么文件`、`读一下 AGENTS.md`、`搜索 代理`、`在 notes.md 里追加:……`、`创建 notes.md,内容是……`、"
        "`把 notes.md 里的 甲 改成 乙`\n"
        "- 命令:运行 `ls -la`,先征求你的同意\n"
        "- 日期和时间,以及斜杠命令的用法(`/help`)",
    },
    "connect": {
        "en": "To connect a language model: `/model` shows what was found and switches; a key in the environment "
        "(`ANTHROPIC_API_KEY`, `OPENAI_API_KEY`, `GEMINI_API_KEY`, …) or a local server such as Ollama is found at the "
        "next start. `clawbot doctor` says what is missing.",
        "zh": "连接语言模型:`/model` 可以查看并切换;在环境变量里设置密钥(`ANTHROPIC_API_KEY`、`OPENAI_API_KEY`、"
        "`GEMINI_API_KEY` 等),或启动 Ollama 之类的本地服务,下次启动时会自动找到。`clawbot doctor` 会说明缺什么。",
    },
    "commands": {"en": "The commands:\n\n{lines}", "zh": "命令有:\n\n{lines}"},
    "unknown_command": {
        "en": "I know no command `/{text}`. The commands:\n\n{lines}",
        "zh": "没有 `/{text}` 这个命令。命令有:\n\n{lines}",
    },
    "time": {
        "en": "It is {time} on {weekday}, {date} ({zone}).",
        "zh": "现在是 {date} {weekday} {time}({zone})。",
    },
    "hello": {
        "en": "Hello. I run offline, without a language model: I keep, find and quote your notes and handle files. "
        "Ask `what can you do?` for more.",
        "zh": "你好。我现在离线运行,没有语言模型:我能记录、查找和引用笔记,也能处理文件。问 `你能做什么?` "
        "可以了解更多。",
    },
    "thanks": {"en": "You're welcome.", "zh": "不客气。"},
    "agreed": {"en": "All right.", "zh": "好的。"},
    "bye": {"en": "Goodbye. `/quit` closes the program.", "zh": "再见。`/quit` 可以退出程序。"},
    "empty": {
        "en": "I read no text in that. I run offline and work with words only: `what can you do?` tells more.",
        "zh": "没有看到文字。我是离线模型,只能处理文字:问 `你能做什么?` 可以了解更多。",
    },
    # flush
    "flush_failed": {
        "en": "The notes could not be stored: {reason}",
        "zh": "没能保存笔记:{reason}",
    },
}
"""Key -> language -> text with named places (`str.format`)."""


def say(language: Language, key: str, **values: Any) -> str:
    """The text `key` with its places filled."""
    return ANSWERS[key][language].format(**values)
