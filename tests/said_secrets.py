"""What must not be kept, as people and programs say it, and what only looks like it: one table for all tests."""

from __future__ import annotations

from typing import NamedTuple

from tests.tables import load_table


class SaidSecret(NamedTuple):
    """A sentence, the part of it that nothing may keep, and of which sort it is."""

    sort: str
    text: str
    secret: str


JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U"
PEM = """-----BEGIN RSA PRIVATE KEY-----
MIIBOgIBAAJBAKj34GkxFhD90vcNLYLInFEX6Ppy1tPf9Cnzj4p4WGeKLs1Pt8Qu
KUpRKfFLfRYC9AIKjbJTWit+CqvjWYzvQwECAwEAAQJAIJLixBy2qpFoS4DSmoEm
-----END RSA PRIVATE KEY-----"""
STRIPE = "sk_" + "live_4eC39HqLyjWDarjtT1zdp7dc"

SECRETS = (
    # passwords in words
    SaidSecret("password", "the wifi password at the office is sunflower42", "sunflower42"),
    SaidSecret("password", "wifi密码是sunflower43", "sunflower43"),
    SaidSecret("password", "密码:moonflower44", "moonflower44"),
    SaidSecret("password", "我的邮箱密码改成了 abcde12345", "abcde12345"),
    SaidSecret("password", "My password is swordfish, don't tell anyone", "swordfish"),
    SaidSecret("password", "hunter22 is my password for the router", "hunter22"),
    SaidSecret("password", "I set the password for the NAS to Winter-2026!", "Winter-2026"),
    SaidSecret("password", "保险柜的密码是芝麻开门", "芝麻开门"),
    SaidSecret("password", 'the password of the old laptop is "open sesame"', "open sesame"),
    SaidSecret("password", "登录口令为 Dragonfly#7，请不要外传", "Dragonfly#7"),
    # codes of figures
    SaidSecret("code", "my PIN is 4711", "4711"),
    SaidSecret("code", "the alarm code at home is 90210", "90210"),
    SaidSecret("code", "验证码是 384921", "384921"),
    SaidSecret("code", "我们楼下的门禁码是8826", "8826"),
    # keys of models
    SaidSecret("model key", "use sk-ant-api03-Qm9vYmFyQmF6UXV4MTIz for the tests", "Qm9vYmFyQmF6UXV4MTIz"),
    SaidSecret("model key", "我的 key 是 sk-proj-abcd1234efgh5678ijkl", "abcd1234efgh5678ijkl"),
    SaidSecret("model key", "AIzaSyA1234567890abcdefghijklmnopqrstu is for maps", "SyA1234567890abcdefghijklmnop"),
    # keys of clouds
    SaidSecret("cloud key", "the key id is AKIAIOSFODNN7EXAMPLE", "AKIAIOSFODNN7EXAMPLE"),
    SaidSecret(
        "cloud key", "AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "wJalrXUtnFEMI/K7MDENG/bPxRfiC"
    ),
    SaidSecret("cloud key", "阿里云的是 LTAI5tQmJ8nR3vK7wX2yZ4aB", "LTAI5tQmJ8nR3vK7wX2yZ4aB"),
    # tokens of code hosts
    SaidSecret("repository token", "git clone with ghp_1234567890abcdefghijABCDEFGHIJ123456", "1234567890abcdefghij"),
    SaidSecret("repository token", "用这个 glpat-xYz123AbC456dEf789gH 推送", "xYz123AbC456dEf789gH"),
    # tokens of packages
    SaidSecret("package token", "npm_aB3dE6gH9jK2mN5pQ8sT1vW4yZ7bC0eF3hI6", "aB3dE6gH9jK2mN5pQ8sT1vW4yZ7bC0eF3hI6"),
    SaidSecret("package token", "//registry.example/:_authToken=3f9b2c7d-token-5e1a", "3f9b2c7d-token-5e1a"),
    # tokens of messengers
    SaidSecret("bot token", "xoxb-123456789012-abcdefGHIJKLmnop", "123456789012-abcdefGHIJKLmnop"),
    SaidSecret("bot token", "机器人是 987654321:AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw1", "AAHdqTcvCH1vGWJxfSeofSAs"),
    # keys of payments
    SaidSecret("payment key", f"charge with {STRIPE}", "4eC39HqLyjWDarjtT1zdp7dc"),
    # private keys
    SaidSecret("private key", PEM, "MIIBOgIBAAJBAKj34GkxFhD90vcNLYLInFEX6Ppy1tPf9Cnzj4p4WGeKLs1Pt8Qu"),
    SaidSecret(
        "private key",
        "AGE-SECRET-KEY-1QYQSZQGPQYQSZQGPQYQSZQGPQYQSZQGPQYQSZQGPQYQSZQGPQYQS3290",
        "QYQSZQGPQYQSZQGPQYQSZ",
    ),
    # tokens of logins
    SaidSecret("web token", f"the header was {JWT}", "eyJzdWIiOiIxMjM0NTY3ODkwIn0"),
    SaidSecret("web token", "curl -H 'Authorization: Bearer 9f8e7d6c5b4a3210' https://api.example", "9f8e7d6c5b4a3210"),
    # passwords in addresses
    SaidSecret("address", "DATABASE is postgres://app:S3cretive!@db.internal:5432/app", "S3cretive!"),
    SaidSecret("address", "代理是 http://bob:pa55word9@proxy.internal:3128", "pa55word9"),
    SaidSecret("address", "Server=db;User Id=sa;Password=Tr1cky;Encrypt=yes", "Tr1cky"),
    # passwords in commands
    SaidSecret("command", "curl -u bob:correcthorse9 https://api.example/v1", "correcthorse9"),
    SaidSecret("command", "sshpass -p batterystaple9 ssh deploy@host", "batterystaple9"),
    # assignments
    SaidSecret("assignment", "export DB_PASSWORD=tulipfield", "tulipfield"),
    SaidSecret("assignment", '{"api_key": "0a1b2c3d4e5f"}', "0a1b2c3d4e5f"),
    # phrases
    SaidSecret(
        "phrase",
        "my seed phrase is witch collapse practice feed shame open despair creek road again ice least",
        "collapse practice feed shame",
    ),
    # hashes of passwords
    SaidSecret("hash", "root:$6$rounds5000$abcdefghijklmnopqrstuvwxyz0123456789:19000", "abcdefghijklmnopqrstuvwxyz01"),
    # numbers of cards
    SaidSecret("card", "pay with 4111 1111 1111 1111 until 12/28", "4111 1111 1111 1111"),
    SaidSecret("card", "卡号6222021234567890128", "6222021234567890128"),
)

LOOK_ALIKES = load_table(__file__, "LOOK_ALIKES")
