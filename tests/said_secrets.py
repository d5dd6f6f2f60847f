"""What must not be kept, as people and programs say it, and what only looks like it: one table for all tests."""

from __future__ import annotations

from typing import NamedTuple


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

LOOK_ALIKES = (
    # identifiers and hashes
    "commit 0123456789abcdef0123456789abcdef01234567",
    "git show 9f2c1ab",
    "the request id was 550e8400-e29b-41d4-a716-446655440000",
    "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "md5 d41d8cd98f00b204e9800998ecf8427e",
    "order number 4000123456789017",
    "订单号 4000123456789017 已发货",
    "tracking number 1Z999AA10123456784",
    "invoice 2026-005822 is paid",
    "ISBN 978-3-16-148410-0",
    "IBAN DE89 3704 0044 0532 0130 00",
    "call +49 170 1234567 after six",
    "电话 139 1234 5678",
    "timestamp 1700000000000",
    "issue #5822 is about the gate",
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGJ3h0dKqC1bXl8m2bN0pWcJx5yQkLr7vT9uZ4sD6fHg me@host",
    "https://www.youtube.com/watch?v=dQw4w9WgXcQ&list=PLrAXtmErZgOeiKm4sgNOknGvNjby9efdf",
    "https://docs.example.com/spreadsheets/d/1BxiMVs0XRA5nFMdKvBdBZjgmUUqptlbs74OgvE2upms/edit",
    "/usr/local/share/some/Very/Long/Path/with1Digit/and/more",
    "Meta-Llama-3-8B-Instruct-GGUF-v2-imatrix-Q4",
    "getUserNameFromDatabaseByIdV2OrNullIfMissing",
    "git@github.com:org/repo.git",
    "see https://host:8080/path and user@host",
    # talk about secrets
    "the password manager is 1Password",
    "密码管理器用的是 1Password",
    "I forgot my password",
    "我忘了密码",
    "the password is required",
    "the password is stored in the keychain",
    "my password is too weak",
    "my password is stronger now",
    "use GitHub to log in",
    "the password page, it's HTML5",
    '<add key="PageSize" value="2000"/>',
    "docker run -p 8080:80 nginx",
    "openssl enc -aes-256-cbc -in a -out b",
    "the garage code is broken",
    "the password is company policy",
    "the password is at least 12 characters",
    "the password is SHA-256 hashed",
    "password policy: at least 12 characters",
    "the password was changed yesterday",
    "密码是什么?",
    "密码是必填项",
    "密码是2026年改的",
    "密码在1Password里",
    "请设置密码:至少8位",
    "我把密码写在纸上了",
    "身份验证码的有效期是5分钟",
    "the verification code expires in 10 minutes",
    "the PIN is 4 digits",
    "pin 18 is GPIO",
    "the secret is to listen",
    "Secret Santa is on 2026-12-12",
    "the key is under the mat",
    "the API key is in the environment variable OPENAI_API_KEY",
    "Bearer authentication is used",
    "basic understanding of bearer tokens",
    # limits, code and placeholders
    "the token limit is 4096",
    "令牌上限是 4096",
    "max_tokens=4096, total tokens: 12",
    "token bucket: 100 requests",
    "the access token expires after 3600 seconds",
    "key: value",
    "monkey=banana",
    "primary_key=customer_id",
    "the api_key_env OPENAI_API_KEY is not set",
    "password: str",
    "password = None",
    'password=os.environ["DB_PASSWORD"]',
    "api_key = settings.api_key",
    'password = input("Password: ")',
    "password: ${DB_PASSWORD}",
    "api_key: <your key>",
    "postgres://user:password@localhost/db",
    "sk-learn-contrib",
    "the task-list is a disk-based desk-",
    '{"password": "Enter your password"}',
)
