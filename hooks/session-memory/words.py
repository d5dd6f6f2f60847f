"""The words that say nothing about what a conversation is about, in English and Chinese."""

from __future__ import annotations


def _words(table: str) -> frozenset[str]:
    return frozenset(table.split())


STOP_WORDS = _words(
    """
    a about above after again all almost also always am an and another any anyone anything are around as ask asked at
    back be because been before being below best better between both but by call called can cannot cant come could
    couldnt did didnt do does doesnt doing done dont down each either else enough even ever every everything few find
    first for from further get gets getting give given go goes going good got great had hadnt has hasnt have havent
    having he hello help her here hers hey hi him his how hows however i id if ill im in into is isnt it its ive just
    keep know known last later least less let lets like likes little long look looking lot made make makes making many
    may maybe me mean might mine more most much must my need needs never new next no nobody none nor not note now of
    off ok okay old on once one only or other our ours out over own per please put quite rather really remember right
    said same say see seems shall she should shouldnt show since so some somebody someone something soon still such
    sure take talk tell than thank thanks that thats the their them then there theres these they theyre thing things
    think this those through till time to today together told tomorrow too try trying two under until up upon us use
    used using very via want wanted wants was wasnt way we well went were werent what whats when where which while who
    whom whose why will with within without wont work working works would wouldnt write yes yesterday yet you your
    youre yours
    """
)
"""English words in lower case, without apostrophes."""

CHINESE_STOP_PHRASES = _words(
    """
    我们 咱们 你们 他们 她们 它们 自己 大家 什么 怎么 怎么样 怎样 怎么办 如何 为什么 为何 是什么 哪个 哪些 哪里 哪儿
    多少 几个 什么时候 何时 是不是 有没有 能不能 可不可以 会不会 要不要 记得 记住 记下 告诉 告诉我 说过 提过 之前
    以前 以后 之后 上次 刚才 刚刚 昨天 今天 明天 最近 关于 一下 一个 一些 一点 这个 那个 这些 那些 这样 那样 这里 那里
    事情 东西 知道 了解 请问 请你 请帮我 帮我 帮忙 帮助 应该 可以 需要 想要 希望 觉得 认为 已经 现在 当时 到底 还是
    或者 以及 因为 所以 但是 不过 然后 如果 的话 没有 不是 就是 只是 也是 都是 还有 有什么 使用 进行 谢谢 你好 您好 好的
    麻烦 问题 喜欢 打算 我想 我要 我在 我用 我的 你的 能否 是否 怎么做 做什么 的 了 吗 呢 吧 啊 呀 嘛 么 我 你 您
    他 她 它 们 也 这 那 哪 谁 很 是
    """
)
"""Chinese phrases that part the words around them; the longest one counts."""

CHINESE_LEADING = frozenset("做给让和与把请")
"""Characters that words rarely begin with."""
