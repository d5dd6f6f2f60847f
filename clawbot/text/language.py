"""Scripts of characters, language detection, text folding, and the stop words of eight languages.

The stop words of questions come first: searches ignore them. Titles of conversations also ignore those at the end.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Literal

from clawbot.text.patterns import lazy_re

Language = Literal["en", "zh"]

# Characters of scripts, for use inside a character class of a regular expression.
COMMON_HAN = r"\u3400-\u4dbf\u4e00-\u9fff"
"""Chinese characters of the Basic Multilingual Plane: patterns with many classes compile faster with these alone."""

IDEOGRAPHS = rf"{COMMON_HAN}\U00020000-\U0003ffff"
"""Chinese characters without compatibility duplicates."""

HAN = rf"{IDEOGRAPHS}\uf900-\ufaff"
"""Chinese characters."""

HIRAGANA, KATAKANA = r"\u3040-\u309f", r"\u30a0-\u30ff"
"""The blocks, with their marks."""

ITERATION_MARK = r"\u3005"
"""々, which repeats the preceding character."""

CJK = rf"\u3005-\u3007\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff{IDEOGRAPHS}\uac00-\ud7a3"
"""The letters of Chinese, Japanese and Korean, which are written without spaces: no marks, no duplicates."""

_SAMPLE = 4_000
"""Characters of a text used to detect its language."""

_NOT_PROSE = lazy_re(r"```.*?```|`[^`\n]*`|https?://\S+|[\w~./\\-]*[./\\][\w./\\-]+", re.DOTALL)
_HAN_CHAR = lazy_re(f"[{HAN}]")
_KANA = lazy_re(f"[{HIRAGANA}{KATAKANA}]")
_WORD = lazy_re(f"[^\\W\\d_{HAN}{HIRAGANA}{KATAKANA}]+")

_PLAIN = {code: code - 0xFEE0 for code in range(0xFF01, 0xFF5F)} | {
    ord(fancy): plain
    for fancy, plain in zip("\u3000\u00a0\t。、“”„«»‘’「」『』《》【】", '   .,"""""\'\'""""""[]', strict=True)
}


def detect(text: str) -> Language | None:
    """The language of most of `text`; None if it has no words. Code, paths and URLs don't count."""
    prose = _NOT_PROSE.sub(" ", text[:_SAMPLE])
    han = len(_HAN_CHAR.findall(prose))
    words = len(_WORD.findall(prose))
    kana = len(_KANA.findall(prose))
    if han and han >= words and han >= kana:
        return "zh"
    return "en" if words or kana else None


def detect_last(texts: Iterable[str]) -> Language:
    """The language of the first of `texts` (newest first) that has one; English if none has."""
    return next((language for language in map(detect, texts) if language), "en")


def fold(text: str) -> str:
    """`text` with full-width and typographic characters replaced by plain ones, of the same length, so that positions
    hold."""
    return text if text.isascii() and "\t" not in text else text.translate(_PLAIN)


def _words(table: str) -> frozenset[str]:
    return frozenset(table.split())


STOP_WORDS = _words(
    """
    a about above after again all also although am among an and any anybody anyone anything are as at be because
    been before being below between both but by can cannot could did do does doing done during each either else
    ever every everyone everything few for from get gets getting give given go got had has have having he her
    here hers herself him himself his how however i if in into is it its itself just let lets made make makes
    many may maybe me might more most much must my myself neither no nor not now of off often on once one only
    onto or other our ours ourselves out over own per please quite rather really s same shall she should since
    so some somebody someone something sometimes still such t than that the their theirs them themselves then
    there these they thing things this those though through to too under until up upon us use used uses using
    very via was we were what whatever when where whether which while who whoever whom whose why will with
    within without would yes yet you your yours yourself yourselves aint arent cant couldnt didnt doesnt dont
    hadnt hasnt havent hes hows im isnt itd itll ive shes shouldnt thats theres theyll theyre theyve wasnt
    werent weve whats whens wheres whos whys wont wouldnt youd youll youre youve find know recall remember say
    said tell told mention mentioned
    """
)
"""English words in lower case and without apostrophes."""

FOREIGN_STOP_WORDS = _words(
    """
    aber afin ai ainsi algo alguna algunas alguno algunos algún alle allem allen aller alles alors als ante après
    aquel aquella au auch aucun aucune auf auquel aura aus aussi autre autres aux avait avant avec avez avoir avons
    bei beim bis bist cada ce ceci cela celle celles celui ces cet cette ceux chaque chez combien como cual cuales
    cuando cuanta cuantas cuanto cuantos cuál cuáles cuándo cuánta cuántas cuánto cuántos cómo da dabei damit dann
    dans daran darauf daraus dass daß dein deine deinem deinen deiner del dem denn depuis der deren desde dessen
    deux dich dir doch dois doit donc donde du durch dónde ein eine einem einen einer eines einige el ella ellas
    elle elles ellos encore entre er era eran eres esa esas ese eso esos esta estas este esto estos estoy está
    están et euch euer eure eux faire faut fue fueron für gegen gehabt gewesen gibt habe haben había han hasta
    hatte hatten hattest hay hätte ich ihm ihn ihnen ihr ihre ihrem ihren ihrer il ils ins ist je jede jedem jeden
    jeder jedes jetzt jusque kann kannst können könnte laquelle las lequel les lesquelles lesquels leur leurs lo
    lors lorsque los lui machen macht mais mein meine meinem meinen meiner mes mich mir mis mit moi moins muss
    musste muy más müssen nach nada ne nicht nichts noch nos nosotros notre nous nun nur ob oder ohne otra otras
    otro otros ou où par para parce pero peu peut poco por porque pour pourquoi qu quand que quel quelle quelles
    quels qui quien quienes quién quiénes quoi qué sa según sehr sein seine seinem seinen seiner seit ser sera sich
    sido sie sind sinon sobre soll sollen sollte sont sous soy su suis sus sí ta también tan tengo tes tiene tienen
    toda todas todo todos toi toujours tous toute toutes tus tú um un una unas und une uno unos uns unser unsere
    unserem unseren unter usted va vamos vers viel viele vielen voici vom von vor vos votre vous wann waren warum
    weil welche welchem welchen welcher welches wenn wer werde werden weshalb wie wieder wieso wieviel wir wird wo
    wofür woher wohin wollen womit worden wurde wurden würde zu zum zur zwischen à él étaient était été être über
    """
)
"""German, Spanish and French words that say little; those that are English words or names as well are in
SHARED_STOP_WORDS."""

SHARED_STOP_WORDS = _words(
    "ab al comment das de des die el en es fait ha hab hace hat la le ma man pas plus se si son sur te va war"
)
"""Such words that are also English words or names: they say little only in a question that is not English."""

NAMES_LIKE_STOP_WORDS = frozenset({"Will", "May", "IT", "US", "WHO"})
"""Stop words that are names in this spelling, except at the start of a sentence."""

CHINESE_STOP_PHRASES: tuple[str, ...] = tuple(
    sorted(
        _words(
            """
    什么 什麼 什么时候 什麼時候 什么样 什麼樣 为什么 為什麼 干什么 做什么 是什么 叫什么 怎么 怎麼 怎么办 怎么样
    怎麼樣 怎样 怎樣 如何 为何 為何 何时 何時 何处 何處 几时 多久 多少 几个 幾個 哪个 哪個 哪些 哪里 哪裡 哪裏
    哪儿 哪一个 哪一個 哪种 哪種 哪位 哪天 哪年 是谁 是誰 谁的 誰的 是不是 有没有 有沒有 能不能 可不可以 会不会
    會不會 要不要 好不好 对不对 应不应该 是否 可否 能否 请问 請問 告诉 告訴 告诉我 告訴我 帮我 幫我 记得 記得
    还记得 還記得 记不记得 说过 說過 提过 提過 提到 提到过 聊过 聊到 讲过 关于 關於 有关 有關 之前 以前 曾经
    曾經 一下 一些 一个 一個 一种 一種 这个 這個 那个 那個 这些 這些 那些 这种 這種 那种 那種 这样 這樣 那样
    那樣 这里 這裡 那里 那裡 我们 我們 咱们 你们 你們 他们 他們 她们 她們 它们 它們 自己 大家 别人 还是 還是
    或者 以及 因为 因為 所以 但是 可是 然后 然後 如果 的话 的話 的时候 的時候 时候 時候 已经 已經 现在 現在 到底
    究竟 应该 應該 应当 可以 需要 知道 觉得 覺得 认为 認為 东西 東西 事情 没有 沒有 不是 就是 而是 只是 也是
    都是 还有 還有 对于 對於 由于 由於 为了 為了 其中 其他 其它 之类 之後 之后 以后 以後 何事 请帮 有什么 有什麼
    有哪些 用什么 用的 是什麼 做的 过的 來的 来的 说的 了吗 了嗎 的吗 的嗎 ですか でしょうか ました ません
    ください です どこ なぜ について 무엇 어디 언제 누구 어떻게 왜
    """
        ),
        key=lambda phrase: (-len(phrase), phrase),
    )
)
"""Phrases removed from a run wherever they occur, longest first: none of them occurs inside a longer word."""

CJK_PARTICLES = frozenset(
    "的了吗嗎呢吧啊呀哦哈嘛么麼着著得地是我你您他她它们們这這那哪谁誰什也就都很被把与與及或而且之其"
)
"""Characters that separate words. A pair with one of them is ignored, except the words in `CHINESE_KEPT`."""

CJK_WEAK = frozenset(
    "有在和对對从從到给給为為以于於要会會能可想让讓使用上下里裡中内內前后後时時不没沒去来來过過再又还還最更太"
    "个個些次种種跟向由因此该該请請帮说說做叫几幾多少只每第两兩"
    "은는을를이가도에로의"
)
"""Characters that often, but not always, separate words. A pair with one of them counts less."""

CHINESE_KEPT = _words(
    """
    目的 的确 的士 了解 了結 了结 受得了 吗啡 酒吧 网吧 吧台 着急 着装 着手 着陆 穿着 沿着 得分 得奖 获得 取得
    值得 心得 得到 地址 地点 地區 地区 地方 地铁 地鐵 地图 地圖 地板 地震 地球 地下 场地 产地 当地 本地 外地
    土地 基地 工地 地毯 地产 用地 内地 是非 自我 我国 他人 其他 那不勒斯 刹那 就业 就医 就餐 就诊 就职 成就
    首都 都市 成都 京都 被子 被动 棉被 把手 把握 与会 参与 參與 赠与 及格 及时 普及 涉及 或许 而已 之一 总之
    其实 其中 尤其 土耳其 有限 有效 拥有 持有 所有 有机 没有 固有 私有 国有 专有 现有 有趣 有名 富有 在线 在家
    在职 存在 现在 实在 正在 所在 和平 和解 和谐 共和 和服 饱和 温和 缓和 暖和 对象 对比 对话 对手 对方 对接
    对账 对齐 反对 针对 面对 绝对 核对 校对 派对 从业 从事 服从 到期 到达 到货 迟到 签到 收到 报到 到账 给予
    供给 发给 为难 行为 作为 成为 因为 认为 以太 以色列 可以 难以 足以 于是 关于 位于 终于 属于 由于 要求 要点
    需要 重要 主要 必要 摘要 概要 纪要 要素 要么 会议 會議 会员 會員 会话 会计 机会 社会 社會 聚会 约会 晚会
    开会 例会 周会 周會 宴会 年会 大会 协会 工会 委员会 学会 误会 都会 会诊 会签 能力 能源 功能 性能 智能 可能
    技能 节能 产能 权能 可靠 可用 可读 许可 可乐 可爱 想法 想象 理想 思想 梦想 联想 让步 转让 出让 使用 使命
    大使 天使 使者 用户 用戶 用途 用法 用品 用例 用量 应用 應用 费用 費用 信用 作用 引用 复用 通用 专用 利用
    调用 占用 启用 禁用 停用 试用 常用 实用 备用 公用 雇用 上海 上线 上班 上学 上课 上传 上升 上周 上市 上游
    上限 上衣 上午 上司 上级 早上 晚上 线上 网上 路上 马上 以上 身上 下线 下班 下载 下周 下午 下游 下限 下单
    下降 下级 下架 线下 如下 以下 楼下 乡下 公里 里程 里面 这里 那里 邻里 故里 中文 中国 中國 中心 中午 中间
    中断 中等 中秋 中学 中介 中转 中台 高中 初中 集中 内存 內存 内容 內容 内部 内网 内核 国内 室内 前端 前天
    前台 前缀 前面 前提 之前 以前 目前 提前 当前 眼前 后端 後端 后天 后台 后缀 后面 后来 后果 后悔 最后 之后
    以后 售后 背后 时间 時間 时区 时差 时长 时候 时期 时刻 时代 时钟 时尚 小时 小時 按时 实时 临时 同时 准时
    超时 定时 平时 当时 延时 不同 不足 不良 不安 不满 差不多 没收 淹没 去年 去世 过去 除去 失去 来源 来自 来年
    原来 未来 將來 将来 本来 从来 往来 外来 过程 过敏 過敏 过期 过滤 过年 过户 经过 通过 超过 难过 不过 过海关
    再见 再生 又及 还款 归还 偿还 还原 最大 最小 最近 最终 最高 最低 最新 更新 更换 变更 更衣 太太 太阳 太空
    太原 个人 個人 个性 个体 整个 个税 好些 次数 次日 每次 首次 多次 种类 品种 种子 种植 各种 跟进 跟踪 方向
    向导 定向 倾向 由来 理由 自由 原因 因素 因此 此外 彼此 该死 请假 請假 请求 請求 申请 邀请 邀請 帮助
    帮忙 说明 說明 说法 小说 小說 传说 听说 做法 叫做 叫车 几何 茶几 多样 多数 多云 少年 减少 至少 少数 年少
    只读 船只 每天 每日 每周 每月 每年 第一 第二 第三 两岸 对外 对内 不用 好用
    """
)
"""Common meaningful words with one of the characters above."""

CALENDAR_WORDS = _words(
    """
    monday tuesday wednesday thursday friday saturday sunday january february march april june july august
    september october november december christmas easter
    """
)
"""Capitalised English words that are not names."""

TALKING = _words(
    """
    almost always another around ask asked back best better call called come down enough even first further
    goes going good great hello help hey hi id ill keep known last later least less like likes little long
    look looking lot making mean mine need needs never new next nobody none note ok okay old put right see
    seems show soon sure take talk thank thanks think till time today together tomorrow try trying two want
    wanted wants way well went work working works write yesterday
    """
)
"""More words of any conversation, which may be meaningful in a question but are no subject."""

ASKING = _words(
    """
    add analyse analyze append build calculate cancel change check close commit compare compile convert copy
    count create debug define delete describe draft edit execute explain export fetch fix forget format
    generate grep import improve install list load merge modify move open paste print read refactor remind
    remove rename repeat replace reply rerun reset resume rewrite run save search send show sort start stop
    summarise summarize summary test ls cd pwd mkdir sudo translate undo update verify view conversation
    session chat prompt assistant command bot clawbot
    """
)
"""Words of requests: what to do rather than what it is about."""

COMMON = _words(
    """
    able actually afternoon agree agreed answer april august bad big bit bring business buy case change
    clear color colour comes common correct couple date day days december decide decided detail details
    different difference early easy eat evening exactly example examples fact fail fails fast favorite
    favourite february feel file files fine folder friday full fun group guess hand happen happened happens
    hard hate head high hold home hope hour hours house idea ideas important include information issue
    issues january job july june kind large late life light line lines live lives love low main march means
    meeting message minute minutes monday moment money month months morning move name named names night
    november number numbers october office open option options order page part parts pay people person piece
    place plan plans point possible prefer problem problems question questions quick real reason result
    results run runs saturday second seconds send sense sentence september set short side simple single size
    small sort sound state step stuff sunday switch table text thursday times tuesday turn turns type
    understand useful user value version wait wednesday week weekend weeks white whole word words world
    wrong year years utc zone timezone three four five six seven eight nine ten dr mr mrs ms
    """
)
"""Words common in any conversation: rarer ones are more specific."""

CHINESE_TALKING = _words(
    """
    记住 记下 上次 刚才 刚刚 昨天 今天 明天 最近 一点 了解 请你 请帮我 帮忙 帮助 想要 希望 当时 不过 使用
    进行 谢谢 你好 您好 好的 麻烦 问题 喜欢 打算 我想 我要 我在 我用 我的 你的 怎么做 的 了 吗 呢 吧 啊 呀 嘛
    么 我 你 您 他 她 它 们 也 这 那 哪 谁 很 是 忘掉 忘记 忘了 删除 删掉 运行 执行 总结 概括 搜索 查找
    查一下 找一下 列出 打开 写一首 写一个 写一篇 生成 翻译 解释 介绍 显示 看看 看一下 修改 改成 改为 创建
    新建 添加 对话 会话 聊天 笔记 今晚 今早 早上 晚上 上午 下午 星期 周一 周二 周三 周四 周五 周六 周日 几点
    多大 多长 叫做 名叫 名字 一首 一篇 一直 一样 起来 出来 最好 比较 非常 特别 真的 其实 当然 真棒 不错 你能
    能帮 能不能帮 支持 有点 有些 每天 每周 每次 主要 重要 不喜欢 更喜欢 提醒我 提醒 太贵 太多 太慢 太大 一次
    附近 一月 二月 三月 四月 五月 六月 七月 八月 九月 十月 十一月 十二月 是哪 打算去
    """
)
"""Phrases that are no subject, in addition to `CHINESE_STOP_PHRASES`."""

CHINESE_LEADING = frozenset("做给让和与把请")
"""Characters with which words rarely begin."""
