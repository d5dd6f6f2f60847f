"""Words as data: those that carry no meaning in a search, and those that stand for the same thing."""

from __future__ import annotations


def words_of(table: str) -> list[str]:
    """The words of a text that lists them between blanks: a table that can be read and kept in order."""
    return table.split()


STOP_WORDS = frozenset(
    words_of("""
    a about above after again all also am an and any are arent as at be because been before being but by can cant
    could couldnt did didnt do does doesnt doing done dont down each either else ever every few for from further get
    got had hadnt has hasnt have havent having he her here hers herself hey hi him himself his how hows i id if ill im
    in into is isnt it its itself ive just know knew known lets made make many may maybe me mentioned might mine more
    most much must my myself neither no nor not note notes now of off ok okay on once one only or other our ours out
    over own please really recall remember remembered said same say shall she should shouldnt since so some
    something still such sure talk talked tell than thank thanks that thats the their theirs them then there theres
    these they theyre thing things this those through to told too under until up upon us use used using very was
    wasnt we well were werent what whatever whats when where wheres whether which while who whom whos whose why will
    with wont would wouldnt yes yet you youre your yours yourself ago already anything back call called earlier last
    lately memory mention previously recently saved stored think thought time today yesterday
    """)
)

# Longest first where one begins another: they are cut out of a run of Chinese before it is searched for.
HAN_STOP_PHRASES = tuple(
    sorted(
        words_of("""
        我们 咱们 你们 他们 她们 它们 自己 什么 怎么 怎样 如何 为什么 为何 哪个 哪些 哪里 哪儿 哪一个 谁的 多少 几个
        什么时候 何时 是不是 有没有 能不能 可不可以 记得 还记得 记住 记录 记忆 笔记 告诉 告诉过 说过 说的 提过 提到
        提到过 之前 以前 上次 刚才 刚刚 曾经 昨天 今天 前天 最近 关于 一下 这个 那个 这些 那些 事情 的事 东西 知道
        请问 应该 可以 需要 觉得 认为 已经 现在 当时 最后 到底 究竟 应当 还是 或者 以及 因为 所以 但是 然后 如果
        改成 改为 换成 变成
        是什么 用什么 叫什么 用的 使用 有关 相关 一个 没有 不是 就是 我的 你的 他的 她的 我 你 您 他 她 它 的 了 吗
        呢 吧 啊 呀 嘛 么 和 与 及 或 在 是 有 用 把 被 给 对 从 到 为 就 都 也 还 又 很 最 更 太 请 帮 过 着 那 这
        哪 谁 几 个 些 吧 说 要 会 能 想 让 跟 向 于 以 之 而 且 上 下 里 中 时 不
        """),
        key=len,
        reverse=True,
    )
)

CONCEPTS: tuple[tuple[str, ...], ...] = (
    ("prefer", "favourit", "favorit", "lik", "lov", "enjoy", "喜欢", "偏好", "喜爱", "爱用", "习惯用", "倾向"),
    ("hat", "dislik", "讨厌", "不喜欢", "反感"),
    ("liv", "address", "mov", "hom", "hometown", "住在", "住址", "地址", "家在", "搬到", "搬家", "住"),
    ("nam", "名字", "姓名", "叫做", "叫"),
    ("birthday", "born", "生日", "出生"),
    ("decid", "decision", "choos", "chos", "chosen", "choic", "agre", "settl", "决定", "选定", "约定", "选择", "商定"),
    ("work", "job", "company", "compan", "employ", "工作", "公司", "上班", "职业"),
    ("reason", "理由", "原因"),
    ("wif", "spous", "妻子", "太太", "老婆", "爱人"),
    ("husband", "丈夫", "老公", "先生"),
    ("child", "children", "kid", "son", "daughter", "孩子", "儿子", "女儿", "小孩"),
    ("cat", "dog", "pet", "宠物", "猫", "狗"),
    ("phon", "telephon", "mobil", "电话", "手机"),
    ("email", "mail", "邮箱", "邮件"),
    ("meeting", "meet", "appointment", "会议", "开会", "见面"),
    ("deadlin", "due", "截止", "期限", "到期"),
    ("todo", "task", "待办", "任务"),
    ("databas", "db", "数据库"),
    ("port", "端口"),
    ("deploy", "releas", "rollout", "部署", "上线", "发布"),
    ("serv", "server", "服务器", "主机", "host"),
    ("proxy", "prox", "代理"),
    ("test", "测试"),
    ("stag", "预发", "预发布"),
    ("production", "prod", "生产环境", "线上"),
    ("tab", "制表符"),
    ("spac", "indent", "空格", "缩进"),
    ("editor", "编辑器"),
    ("languag", "语言"),
    ("color", "colour", "颜色"),
    ("food", "eat", "吃", "食物", "饭", "菜", "忌口"),
    ("drink", "coffe", "tea", "喝", "饮料", "咖啡", "茶"),
    ("allerg", "allergi", "allergic", "过敏"),
    ("team", "团队", "小组"),
    ("project", "项目"),
    ("branch", "分支"),
    ("password", "passcod", "密码", "口令"),
    ("version", "版本"),
    ("bug", "error", "报错", "错误", "故障"),
    ("city", "cit", "town", "城市"),
)
"""Stems (see `words.stem`) and Chinese words that answer each other's questions."""
