"""Classifies sentences: question, request, refusal or statement; their subject, and whether they are worth keeping. A
refusal must be neither stored in notes nor found by searches."""

from __future__ import annotations

import re
from collections.abc import Iterator

from clawbot.text.language import fold
from clawbot.text.patterns import lazy_re
from clawbot.text.secrets import holds_secret

LEAST_CHARS, MOST_CHARS = 4, 500
"""Outside of these a sentence is chit-chat or a paste."""

# Patterns match folded text (`language.fold`) and ignore case.
_FLAGS = re.IGNORECASE | re.DOTALL
_QUESTION = lazy_re(
    r"(?:what|which|who|whom|whose|where|when|why|how|do|does|did|is|are|was|were|can|could|should|shall|would|"
    r"will|has|have|had)(?:'s|n'?t)?\b|.{0,400}(?:什么|哪[里个些儿年月天]?|谁|多少|几[个点号岁月]|怎么|怎样|如何|"
    r"为什么|何时|是否|是不是|有没有|等于|[吗呢么几啥]\s*$)|[\d\s.+*/^()x×÷=-]{3,}$",
    _FLAGS,
)
_REQUEST = lazy_re(
    r"(?:please|can you|could you|would you|will you|show|read|list|open|search|find|run|execute|create|write|"
    r"explain|help|tell me|give me|fix|make|overwrite|replace|change|delete|remove|rename|move|copy|edit|add|"
    r"append|grep|draw|translate|summari[sz]e|calculate|compute|compare|convert|suggest|recommend|plan|think|play|"
    r"let me (?:see|know)|/|\$ )\b|请(?!记)|[帮给]我(?!记)|帮忙|你(?:能|会|可以|来)|看看|读一?下|列出|打开|搜索|运行|"
    r"执行|创建|解释|告诉我|写|画|算|翻译|总结|推荐|讲|把|在.{1,40}(?:搜索|查找)",
    _FLAGS,
)
_UNCERTAIN = lazy_re(r"\b(?:i think|maybe|perhaps|i guess|not sure|might)\b|可能|也许|大概|不确定|好像", _FLAGS)
_MARKS = {
    "decision": (
        r"\b(?:decided?|decision|agreed|let'?s (?:go with|use|take|keep)|we(?:'ll| will| are going to| use| chose|"
        r" picked)|i(?:'ll| will) (?:use|take|go)|(?:going|go|went) with|settled on|instead of|switch(?:ed)? to|"
        r"moved? to|renamed? to|from now on|is now|are now)\b|决定|选定|选了|约定|商定|改用|换成|改成|搬到|定为|定在|"
        r"以后(?:都|就)?用|就用|采用|从现在起"
    ),
    "todo": (
        r"\b(?:to-?do|need(?:s)? to|have to|has to|must|should|remind me|remember to|don'?t forget to|by (?:monday|"
        r"tuesday|wednesday|thursday|friday|saturday|sunday|tomorrow|next|the end)|deadline|due|still open|next step|"
        r"follow up)\b|待办|需要|还要|得去|提醒|截止|之前完成|下一步|记得|别忘|还没"
    ),
    "rule": (
        r"\b(?:always|never|must(?: not)?|don'?t (?:ever|use|touch|push|commit|change|delete)|do not|only|make sure|"
        r"not allowed|require[sd]?|at most|at least|no more than)\b|必须|不要|不能|不许|禁止|务必|总是|从不|只能|只用|"
        r"一律|至少|最多|不得|统一"
    ),
    "preference": (
        r"\b(?:i|we)(?:'d| would| really| usually| always| also| now| still)? (?:prefer|like|love|hate|dislike|enjoy|"
        r"use|want all|can'?t stand|don'?t like)\b|\bmy (?:favou?rite|preferred)\b|喜欢|偏好|习惯|讨厌|爱用|爱吃|爱喝|"
        r"倾向"
    ),
    "personal": (
        r"\b(?:is|are) (?:called|named)\b|"
        r"\b(?:my|our)(?: [\w'-]{1,30}){1,4} (?:is|are|was|lives?|works?|uses?)\b|\bi(?:'m| am) (?:called|from|a|an|"
        r"allergic|vegetarian|married|based|born|living|working)\b|\bi (?:live|work|moved|was born|have)\b|"
        r"\bcall me\b|我(?:叫|是|住|姓|来自|在.{1,12}(?:工作|上班|住)|有|对.{1,10}过敏)|我的.{1,15}(?:是|叫|在)|"
        r"我(?:太太|老婆|妻子|丈夫|老公|儿子|女儿|妈妈|爸爸|家)|我们的?.{1,15}(?:是|叫|在|用)"
    ),
    "date": (
        r"\b\d{4}-\d{2}-\d{2}\b|\b(?:on|every|each|until) (?:mon|tues|wednes|thurs|fri|satur|sun)days?\b|"
        r"\b\d{1,2}(?::\d{2})? ?[ap]m\b|\b(?:on|at|until|since|by) (?:\d{1,2}(?:st|nd|rd|th)?[ .](?:of )?)?(?:january|"
        r"february|march|april|may|june|july|august|september|october|november|december|jan|feb|mar|apr|jun|jul|aug|"
        r"sep|oct|nov|dec)\b|\d{1,2}月\d{1,2}[日号]|下?周[一二三四五六日]|星期[一二三四五六日]"
    ),
    "identifier": (
        r"https?://\S|[\w.+-]{1,64}@[\w-]{1,63}\.\w|\bport(?: is|:)? \d{2,5}\b|\b\d{2,5} (?:端口|port)\b|端口(?:是|为|"
        r":)?\s?\d{2,5}|:\d{4,5}\b|\bversion \d|版本\s?\d|(?:^|\s)(?:~|\.{1,2})?/[\w.-]+/[\w./-]+"
    ),
}
_MARKED = {mark: lazy_re(pattern, _FLAGS) for mark, pattern in _MARKS.items()}
_LONGEST_REFUSAL = 240
# The offline model's own phrases, whatever follows them: current ones, and those in older notes.
_OFFLINE = lazy_re(
    r"I run offline, |I read no text in that|I found nothing |I don't delete notes|I have no tool "
    r"|I (?:keep|have) that in this "
    r"|Your notes (?:hold nothing|are empty)|There are no notes of |That looks like a password|That did not work: "
    r"|I could not (?:store it|look into)|For that I need the tool |What should I remember\?|That is [\d,]+ characters"
    r"|我是离线模型|没有找到|我不会删除笔记|我没有删除文件|这句话(?:只留|已)在|笔记里没有|还没有任何笔记|没有成功|没能|要我记住什么"
    r"|这看起来像密码|这需要 `|这段话有 |这里面没有|.{1,20} 没有笔记。"
    r"|Hello\. I run offline|你好。我现在离线|离线做不了。|That needs a language model|这需要语言模型"
    r"|Shall I note that\?|要记下来吗|I can't (?:do that offline|ring at )|I did not understand that|我没有听懂"
    r"|There is no `|It is in `|工作区里没有|它在 `|Sorry\. I know set |抱歉。我只懂|I'm poor company "
    r"|没有语言模型，我不太|我不能到点"
    r"|(?:You're welcome\.|I'm glad to hear that\.|All right\.|Goodbye\. .*|不客气。|很高兴听到这句话。|好的。"
    r"|再见。.*)\Z"
)
# What models say if they found nothing. Must be the whole text: it may be the start of an answer.
_REFUSED = lazy_re(
    r"(?:(?:I'm |I am )?sorry[,.]? (?:but )?)?"
    r"(?:I (?:can't|cannot|can not|couldn't|could not|wasn't able to|am unable to|'m unable to) "
    r"(?:answer|access|determine|do that|find|help|locate|recall|remember|see|tell|verify)"
    r"|I (?:don't|do not|didn't) (?:have (?:any|a |access|information|notes|record|that)|find|know|recall|remember|see)"
    r"|I (?:have|found) no(?:thing)? |there (?:is|are) no(?:thing| (?:notes?|record|memor|mention|information)))"
    r"|(?:(?:抱歉|对不起|很遗憾)[,，。]?)?我?(?:(?:无法|不能)(?:回答|访问|查看|确定|帮)|(?:没有|未能|没)(?:找到|查到|相关|关于|任何|记录)"
    r"|不知道|不清楚|找不到)",
    re.IGNORECASE,
)
_SENTENCE_END = lazy_re(r"(?<=[.!?])(?<!\b[DMS][rst]\.)(?<!\bMrs\.)\s+|(?<=[。！？!?;])|\n+")


def sentences(text: str) -> Iterator[str]:
    """The stripped sentences of `text`."""
    return (sentence for piece in _SENTENCE_END.split(text) if (sentence := piece.strip()))


def marks(sentence: str) -> frozenset[str]:
    """The subjects of `sentence`: `decision`, `todo`, `rule`, `preference`, `personal`, `date`, `identifier`."""
    folded = fold(sentence[:MOST_CHARS])
    return frozenset(mark for mark, pattern in _MARKED.items() if pattern.search(folded))


def is_question(text: str) -> bool:
    """Whether `text` asks something."""
    folded = fold(text[:MOST_CHARS]).strip()
    return folded.endswith("?") or _QUESTION.match(folded) is not None


def asks(sentence: str) -> bool:
    """Whether the sentence is a question or a request rather than a statement."""
    return is_question(sentence) or _REQUEST.match(fold(sentence[:MOST_CHARS]).strip()) is not None


def is_durable(sentence: str) -> bool:
    """Whether the sentence is a statement worth keeping beyond the conversation, without secrets."""
    if not LEAST_CHARS <= len(sentence) <= MOST_CHARS or asks(sentence) or holds_secret(sentence):
        return False
    return bool(marks(sentence)) and not _UNCERTAIN.search(fold(sentence))


def is_refusal(text: str) -> bool:
    """Whether `text`, a whole answer of the agent, only says that it could not answer."""
    text = text.strip()
    if _OFFLINE.match(text):
        return True
    return len(text) <= _LONGEST_REFUSAL and "\n" not in text and _REFUSED.match(text) is not None
