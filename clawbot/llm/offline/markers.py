"""What a sentence is about, told by its words: a decision, a todo, a rule, a preference, something about the user."""

from __future__ import annotations

import re
from collections.abc import Iterator

from clawbot.llm.offline.language import fold

LEAST_CHARS, MOST_CHARS = 4, 500
"""Outside of these a sentence is chit-chat or a paste."""

_MARKS: dict[str, str] = {
    "decision": r"\b(?:decided?|decision|agreed|let'?s (?:go with|use|take|keep)|we(?:'ll| will| are going to| use|"
    r" chose| picked)|"
    r"i(?:'ll| will) (?:use|take|go)|(?:going|go|went) with|settled on|instead of|switch(?:ed)? to|moved? to|"
    r"renamed? to|"
    r"from now on|is now|are now)\b|决定|选定|选了|约定|商定|改用|换成|改成|搬到|定为|定在|以后(?:都|就)?用|就用|"
    r"采用|从现在起",
    "todo": r"\b(?:to-?do|need(?:s)? to|have to|has to|must|should|remind me|remember to|don'?t forget to|"
    r"by (?:monday|tuesday|"
    r"wednesday|thursday|friday|saturday|sunday|tomorrow|next|the end)|deadline|due|still open|next step|follow up)\b|"
    r"待办|需要|还要|得去|提醒|截止|之前完成|下一步|记得|别忘|还没",
    "rule": r"\b(?:always|never|must(?: not)?|don'?t (?:ever|use|touch|push|commit|change|delete)|do not|only|"
    r"make sure|"
    r"not allowed|require[sd]?|at most|at least|no more than)\b|必须|不要|不能|不许|禁止|务必|总是|从不|只能|只用|"
    r"一律|至少|最多|"
    r"不得|统一",
    "preference": r"\b(?:i|we)(?:'d| would| really| usually| always| also| now| still)? (?:prefer|like|love|hate|"
    r"dislike|enjoy|use|"
    r"want all|can'?t stand|don'?t like)\b|\bmy (?:favou?rite|preferred)\b|喜欢|偏好|习惯|讨厌|爱用|爱吃|爱喝|倾向",
    "personal": r"\b(?:my|our)(?: [\w'-]{1,30}){1,4} (?:is|are|was|lives?|works?|uses?)\b|\bi(?:'m| am) (?:called|"
    r"from|a|an|allergic|"
    r"vegetarian|married|based|born|living|working)\b|\bi (?:live|work|moved|was born|have)\b|\bcall me\b|"
    r"我(?:叫|是|住|姓|来自|在.{1,12}(?:工作|上班|住)|有|对.{1,10}过敏)|我的.{1,15}(?:是|叫|在)|我(?:太太|老婆|妻子|"
    r"丈夫|老公|"
    r"儿子|女儿|妈妈|爸爸|家)|我们的?.{1,15}(?:是|叫|在|用)",
    "date": r"\b\d{4}-\d{2}-\d{2}\b|\b(?:on|at|until|since|by) (?:\d{1,2}(?:st|nd|rd|th)?[ .](?:of )?)?(?:january|"
    r"february|march|april|"
    r"may|june|july|august|september|october|november|december|jan|feb|mar|apr|jun|jul|aug|sep|oct|nov|dec)\b|"
    r"\d{1,2}月\d{1,2}[日号]|下?周[一二三四五六日]|星期[一二三四五六日]",
    "identifier": r"https?://\S|[\w.+-]{1,64}@[\w-]{1,63}\.\w|\bport(?: is|:)? \d{2,5}\b|\b\d{2,5} (?:端口|port)\b|"
    r"端口(?:是|为|:)?\s?\d{2,5}|"
    r":\d{4,5}\b|\bversion \d|版本\s?\d|(?:^|\s)(?:~|\.{1,2})?/[\w.-]+/[\w./-]+",
}
_PATTERNS = {mark: re.compile(pattern, re.IGNORECASE) for mark, pattern in _MARKS.items()}

_REQUEST = re.compile(
    r"(?:please|can you|could you|would you|will you|show|read|list|open|search|find|run|execute|create|write|"
    r"explain|help|tell me|"
    r"give me|fix|make|let me (?:see|know)|/|\$ )\b|请(?!记)|帮我(?!记)|帮忙|你(?:能|会|可以|来)|看看|读一?下|列出|"
    r"打开|搜索|运行|执行|创建|"
    r"解释|告诉我",
    re.IGNORECASE,
)
_QUESTION = re.compile(
    r"(?:what|which|who|whose|where|when|why|how|do|does|did|is|are|was|were|can|could|should|shall|would|will|has|"
    r"have)\b|"
    r".{0,200}(?:什么|哪[里个些儿]|谁|多少|怎么|怎样|如何|为什么|是不是|有没有|[吗呢]$)",
    re.IGNORECASE,
)
_UNCERTAIN = re.compile(
    r"\b(?:i think|maybe|perhaps|i guess|not sure|might)\b|可能|也许|大概|不确定|好像", re.IGNORECASE
)
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|(?<=[。!?;])|\n+")
_SECRET = re.compile(
    r"\b(?:sk|pk|rk)[-_][\w-]{16,}|\bgh[pousr]_\w{20,}|\bgithub_pat_\w{20,}|\bAKIA[0-9A-Z]{16}\b|"
    r"\bxox[abprs]-[\w-]{10,}|\bAIza[\w-]{30,}|"
    r"-----BEGIN [A-Z ]*PRIVATE KEY|\beyJ[\w-]{10,}\.[\w-]{10,}|"
    r"\b(?:password|passwd|passcode|passphrase|pin(?: code)?|secret|api[ _-]?key|access[ _-]?token|"
    r"token)s?\b.{0,30}?(?:\bis\b|=|:)\s*\S|"
    r"(?:密码|口令|密钥|令牌)\s?(?:是|为|:|=)\s?\S",
    re.IGNORECASE,
)
_LONG_TOKEN = re.compile(r"[A-Za-z0-9_\-+/]{32,}")


def sentences(text: str) -> Iterator[str]:
    """The sentences of `text` as they stand, without blanks around them."""
    for piece in _SENTENCE_END.split(text):
        if sentence := piece.strip():
            yield sentence


def marks(sentence: str) -> frozenset[str]:
    """What `sentence` is about: `decision`, `todo`, `rule`, `preference`, `personal`, `date`, `identifier`."""
    folded = fold(sentence[:MOST_CHARS])
    return frozenset(mark for mark, pattern in _PATTERNS.items() if pattern.search(folded))


def asks(sentence: str) -> bool:
    """Whether the sentence is a question or a request, which states nothing."""
    folded = fold(sentence[:MOST_CHARS]).strip()
    return folded.endswith("?") or _QUESTION.match(folded) is not None or _REQUEST.match(folded) is not None


def is_durable(sentence: str) -> bool:
    """Whether the sentence states something that is worth keeping beyond the conversation, and that may be kept."""
    if not LEAST_CHARS <= len(sentence) <= MOST_CHARS or asks(sentence) or holds_secret(sentence):
        return False
    return bool(marks(sentence)) and not _UNCERTAIN.search(fold(sentence))


def holds_secret(text: str) -> bool:
    """Whether `text` looks like it holds a password, a key or a token."""
    folded = fold(text)
    return _SECRET.search(folded) is not None or any(_random(run) for run in _LONG_TOKEN.findall(folded))


def _random(run: str) -> bool:
    """A long run that mixes cases and digits is a key; a path, a word or a hexadecimal hash is not."""
    kinds = (str.isdigit, str.islower, str.isupper)
    return "/" not in run and sum(any(map(kind, run)) for kind in kinds) == len(kinds)
