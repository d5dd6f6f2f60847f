"""Notes with lists of like things: equal sentences that differ in names and numbers, in English and Chinese; and
questions about single ones. The same for the same size."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, timedelta

KINDS = ("exact", "keywords", "other words", "chinese")
"""How a question asks: with the words of the line, with some of them, with others, in Chinese."""

A_NOTE = 3
"""Lines of a note."""


def words(text: str) -> list[str]:
    """The words of `text`."""
    return text.split()


@dataclass(frozen=True)
class Names:
    """What the `{a}`, `{b}` and `{c}` of a list are; each line has another combination."""

    a: list[str]
    b: list[str]
    c: list[str]

    def of(self, number: int) -> dict[str, str]:
        """The names of a line."""
        rest, one = divmod(number * 1597 % (len(self.a) * len(self.b) * len(self.c)), len(self.a))
        return {"a": self.a[one], "b": self.b[rest % len(self.b)], "c": self.c[rest // len(self.b)]}


PLACES = words("Ghent Kyoto Lisbon Oslo Turin Quito Riga Porto Basel Lagos Perth Cork Graz Izmir")
THINGS = Names(
    words("copper silver amber crimson walnut marble velvet bamboo cobalt ivory granite linen quartz maple"),
    words("canyon lantern harbour meadow falcon glacier orchard compass beacon thistle otter bridge cedar comet"),
    PLACES,
)
PEOPLE = Names(
    words("Anna Boris Clara David Elena Felix Greta Hugo Irene Jonas Karin Lukas Marta Nils"),
    words("Keller Moreau Silva Novak Lindgren Rossi Becker Dubois Costa Jansen Weber Larsen Ferrari Horvat"),
    PLACES,
)
CITIES = words("杭州 成都 大连 苏州 青岛 厦门 西安 昆明 桂林 天津 武汉 重庆 郑州 长沙")
CHINESE_THINGS = Names(
    words("晨光 云海 蓝鲸 金叶 雪松 青竹 红枫 白鹭 银杏 紫藤 黑曜 碧波 赤焰 翠湖"),
    words("峡谷 灯笼 港湾 草原 猎鹰 冰川 果园 罗盘 灯塔 蓟花 水獭 木桥 香柏 彗星"),
    CITIES,
)
CHINESE_PEOPLE = Names(
    list("张李王赵陈杨黄周吴徐孙胡朱林"),
    words("小梅 建国 雪琴 志强 丽华 海涛 秀兰 文博 春燕 家豪 玉珍 晓峰 雅婷 德明"),
    CITIES,
)

LISTS: list[tuple[Names, str, dict[str, str]]] = [
    (
        THINGS,
        "passcode hint for the {a} {b} ledger cabinet in {c} is page {x} of the blue atlas",
        {
            "exact": "passcode hint for the {a} {b} ledger cabinet in {c}",
            "keywords": "{a} {b} ledger cabinet {c} blue atlas",
            "other words": "where do I look up how to open the {a} {b} cupboard of {c}",
            "chinese": "{c} 的 {a} {b} 柜子的密码提示在哪一页",
        },
    ),
    (
        THINGS,
        "customer {a} {b} traders in {c} pays {x} euros a month for the service contract, within {y} days",
        {
            "exact": "customer {a} {b} traders in {c} service contract",
            "keywords": "{a} {b} {c} contract euros",
            "other words": "what does the firm {a} {b} of {c} owe us every four weeks",
            "chinese": "{c} 的客户 {a} {b} 每月付多少欧元",
        },
    ),
    (
        THINGS,
        "server {a}-{b}-{y} in the {c} data centre has {x} GB of memory and runs the nightly reports",
        {
            "exact": "server {a}-{b}-{y} in the {c} data centre",
            "keywords": "{a} {b} {c} memory",
            "other words": "how much RAM is in the {a} {b} machine at {c}",
            "chinese": "{c} 机房的服务器 {a}-{b} 有多少内存",
        },
    ),
    (
        PEOPLE,
        "order {x} by {a} {b} in {c}: {y} boxes of candles, parcel service, paid by bank transfer",
        {
            "exact": "order {x} by {a} {b} in {c}",
            "keywords": "{a} {b} {c} candles",
            "other words": "how many cartons go to {a} {b} at {c}",
            "chinese": "{c} 的 {a} {b} 的订单有几箱 candles",
        },
    ),
    (
        PEOPLE,
        "{a} {b} of the {c} office has phone extension {x} and desk {y}, and holds a key to the archive",
        {
            "exact": "{a} {b} of the {c} office phone extension",
            "keywords": "{a} {b} {c} desk",
            "other words": "how can I call {a} {b} at {c}",
            "chinese": "{c} 的 {a} {b} 的电话分机号是多少",
        },
    ),
    (
        THINGS,
        "recipe {a} {b} stew from {c}: simmer {y} minutes on low heat with {x} grams of onions and a bay leaf",
        {
            "exact": "recipe {a} {b} stew from {c}",
            "keywords": "{a} {b} {c} onions grams",
            "other words": "how long do I cook the {a} {b} stew of {c}",
            "chinese": "{c} 的菜谱 {a} {b} 要煮多少分钟",
        },
    ),
    (
        THINGS,
        "backup of volume {a} {b} in {c} finished after {y} minutes, {x} files copied, no errors",
        {
            "exact": "backup of volume {a} {b} in {c} finished",
            "keywords": "{a} {b} {c} backup minutes",
            "other words": "how many documents were saved from {a} {b} at {c}",
            "chinese": "{c} 的 {a} {b} 备份了多少文件",
        },
    ),
    (
        CHINESE_THINGS,
        "{c}的客户{a}{b}每月支付服务合同费{x}元,账期{y}天",
        {
            "exact": "{c}的客户{a}{b}每月支付服务合同费",
            "keywords": "{a}{b} {c} 合同",
            "other words": "{c}那家{a}{b}公司一个月要交多少钱",
            "chinese": "{c}的{a}{b}每月付多少元",
        },
    ),
    (
        CHINESE_THINGS,
        "服务器{a}{b}在{c}机房,内存{x}GB,机架{y}号,负责夜间报表",
        {
            "exact": "服务器{a}{b}在{c}机房",
            "keywords": "{a}{b} {c} 内存",
            "other words": "{c}那台{a}{b}主机配了多大的RAM",
            "chinese": "{c}的{a}{b}有多少内存",
        },
    ),
    (
        CHINESE_PEOPLE,
        "订单{x}:{c}的{a}{b}订了{y}箱蜡烛,快递发货,已付款",
        {
            "exact": "订单{x}:{c}的{a}{b}",
            "keywords": "{a}{b} {c} 蜡烛",
            "other words": "{c}的{a}{b}买了几箱东西",
            "chinese": "{c}的{a}{b}订了多少箱蜡烛",
        },
    ),
    (
        CHINESE_PEOPLE,
        "{c}办公室的{a}{b}分机号是{x},工位{y},保管档案室钥匙",
        {
            "exact": "{c}办公室的{a}{b}分机号",
            "keywords": "{a}{b} {c} 工位",
            "other words": "怎么打电话给{c}的{a}{b}",
            "chinese": "{c}的{a}{b}分机号是多少",
        },
    ),
    (
        CHINESE_THINGS,
        "{c}的{a}{b}汤:小火炖{y}分钟,放{x}克洋葱和一片月桂叶",
        {
            "exact": "{c}的{a}{b}汤小火炖多久",
            "keywords": "{a}{b}汤 {c} 洋葱",
            "other words": "{c}风味的{a}{b}汤要煮多长时间",
            "chinese": "{c}的{a}{b}汤放多少克洋葱",
        },
    ),
    (
        CHINESE_THINGS,
        "{c}的{a}{b}卷备份完成,用时{y}分钟,复制{x}个文件,没有错误",
        {
            "exact": "{c}的{a}{b}卷备份完成",
            "keywords": "{a}{b} {c} 备份",
            "other words": "{c}的{a}{b}保存了几份资料",
            "chinese": "{c}的{a}{b}备份用时多少分钟",
        },
    ),
]


@dataclass(frozen=True)
class Asked:
    """A question of a kind, and the place of the line that answers it."""

    kind: str
    text: str
    path: str
    line: int


@dataclass(frozen=True)
class _Line:
    list: int
    names: dict[str, str]
    path: str
    line: int


def notes_of(count: int) -> dict[str, str]:
    """`count` notes of different days, by their paths: each with a few lines of one list."""
    notes: dict[str, list[str]] = {}
    for each in _lines(count):
        notes.setdefault(each.path, ["# List", ""]).append(f"- {LISTS[each.list][1].format_map(each.names)}")
    return {path: "\n".join(lines) + "\n" for path, lines in notes.items()}


def questions_of(count: int, each_kind: int) -> Iterator[Asked]:
    """`each_kind` questions of every kind about the lines of `notes_of(count)`, of all lists and days."""
    lines = list(_lines(count))
    for at in range(each_kind):
        line = lines[(at * len(lines) // each_kind + at) % len(lines)]
        for kind in KINDS:
            yield Asked(kind, LISTS[line.list][2][kind].format_map(line.names), line.path, line.line)


def _lines(count: int) -> Iterator[_Line]:
    for number in range(count):
        which, place = number % len(LISTS), number // len(LISTS)
        day = date(2024, 1, 1) + timedelta(days=number * 577 % 719)
        for line in range(A_NOTE):
            at = place * A_NOTE + line
            numbers = {"x": str(1000 + at * 7919 % 8999), "y": str(11 + at * 37 % 83)}
            path = f"memory/{day}-{number:05}.md"
            yield _Line(which, LISTS[which][0].of(at + which * 211) | numbers, path, line + 3)
