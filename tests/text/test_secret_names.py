"""Names of variables and keys that contain a secret, and the environment of commands, by one table."""

from __future__ import annotations

from pathlib import Path

import pytest

from clawbot.text.secret_names import is_secret_name, is_secret_variable
from clawbot.tools.process import command_environment
from tests.tables import load_table

SECRET = """
    OPENAI_API_KEY ANTHROPIC_API_KEY API_KEY APIKEY OPENAI_KEY AZURE_OPENAI_KEY STRIPE_KEY STRIPE_SECRET_KEY TOKEN
    ENCRYPTION_KEY SIGNING_KEY MASTER_KEY AUTHORIZATION DEEPSEEK_KEY DASHSCOPE_KEY ZHIPU_KEY GEMINI_KEY GH_PAT
    GITHUB_PAT GITHUB_TOKEN GITLAB_TOKEN NPM_TOKEN NODE_AUTH_TOKEN HF_TOKEN SLACK_BOT_TOKEN TELEGRAM_BOT_TOKEN
    VAULT_TOKEN HONEYCOMB_WRITEKEY QIANFAN_SK WIFI_PSK PSK MNEMONIC SEED_PHRASE PRIVKEY PRIVATEKEY ACCESSKEY
    TF_TOKEN_app_terraform_io
    AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY AWS_SESSION_TOKEN GOOGLE_APPLICATION_CREDENTIALS AZURE_CLIENT_SECRET
    CLOUDFLARE_API_TOKEN DIGITALOCEAN_TOKEN HEROKU_API_KEY DB_PASS SMTP_PASS MYSQL_PWD PGPASSWORD MYSQL_PASSWORD
    POSTGRES_PASSWORD REDIS_PASSWORD SSHPASS REDISCLI_AUTH GPG_PASSPHRASE SSH_KEY_PASSPHRASE KEY_PASSPHRASE DATABASE_URL
    REDIS_URL MONGO_URL MONGODB_URI CELERY_BROKER_URL AMQP_URL SENTRY_DSN AZURE_STORAGE_CONNECTION_STRING
    APP_CONNECTION_STRING DOCKER_AUTH_CONFIG COOKIE SESSION_COOKIE JWT JWT_SECRET BW_SESSION OP_SESSION_x
    OP_SESSION_team SLACK_WEBHOOK_URL DISCORD_WEBHOOK KEY PW ROOT_PW PIN SECRET SECRET_KEY
    SECRET_KEY_BASE APP_SECRET CLIENT_SECRET
    CLIENT_SECRET_2 API_KEY_1 DJANGO_SECRET_KEY FLASK_SECRET_KEY TWILIO_AUTH_TOKEN SENDGRID_API_KEY MAILGUN_API_KEY
    PRIVATE_KEY SSH_PRIVATE_KEY DEPLOY_KEY ADMIN_PASSWORD ROOT_PASSWORD PASSWORD PASSWD DB_PASSWD KEYSTORE_PASSWORD
    SIGNING_KEY_PASSWORD ANSIBLE_VAULT_PASSWORD RESTIC_PASSWORD BORG_PASSPHRASE TF_VAR_db_password TWINE_PASSWORD
    CARGO_REGISTRY_TOKEN RUBYGEMS_API_KEY PYPI_TOKEN SONAR_TOKEN CODECOV_TOKEN DATADOG_API_KEY DD_APP_KEY NEW_RELIC_KEY
    KAGGLE_KEY WANDB_API_KEY COHERE_API_KEY MISTRAL_API_KEY MOONSHOT_API_KEY ARK_API_KEY QIANFAN_AK_SECRET HASURA_SECRET
    RECOVERY_CODE BACKUP_CODES TS_AUTHKEY GITHUB_OAUTH SUPABASE_SERVICE_ROLE KUBECONFIG_DATA
    WALLET_SEED CRYPTO_SEED HOT_WALLET_MAIN_SEED BTC_TESTNET_SEED SOLANA_PAYER_SEED XRP_SEED TOTP_SEED BIP39_SEED
    WALLET_SEED_HEX VALIDATOR_NODE_SEED NOSTR_NSEC GITHUB_RECOVERY_CODES DATABASE_PRIVATE_URL DATABASE_PUBLIC_URL
    DATABASE_URL_UNPOOLED DB_REPLICA_URL REDIS_PRIVATE_URL MYSQL_PRIVATE_URL MARIADB_URL CLICKHOUSE_HTTP_URL NEO4J_URI
    CELERY_RESULT_BACKEND DIRECT_URL JDBC_URL SQLALCHEMY_DATABASE_URI CONNECTION_URI DB_CONNECTION
    ConnectionStrings__Default SQLCONNSTR_main CONNECTIONSTRINGS__MAIN walletSeed seedPhrase wallet_mnemonic
    apiKey authToken x-api-key accessToken clientSecret client_secret refresh_token password db_password
"""
HARMLESS = """
    PATH HOME PWD OLDPWD INIT_CWD USER SHELL LANG CC LC_ALL TERM TMPDIR EDITOR DISPLAY XAUTHORITY SSH_AUTH_SOCK SSH_TTY
    SSH_CONNECTION XDG_RUNTIME_DIR XDG_SESSION_ID XDG_SESSION_TYPE DESKTOP_SESSION DBUS_SESSION_BUS_ADDRESS GPG_TTY
    HTTP_PROXY HTTPS_PROXY NO_PROXY VIRTUAL_ENV PYTHONPATH NODE_ENV JAVA_HOME GOPATH CARGO_HOME NVM_DIR CI MAKEFLAGS
    COLORTERM KEYBOARD MONKEY GIT_AUTHOR_NAME GIT_CONFIG_KEY_0 GIT_CONFIG_COUNT MAX_TOKENS TOKENIZERS_PARALLELISM
    OPENAI_BASE_URL SSH_PUBLIC_KEY LESSKEYIN COMPASS_DIR PINENTRY KEYMAP PATHEXT HISTFILE PROMPT
    RANDOM_SEED TEST_SEED PYTHONHASHSEED NUMPY_SEED HYPOTHESIS_SEED DB_SEED_FILE SEED DATABASE_NAME DB_HOST REDIS_PORT
    BASE_URL PUBLIC_URL API_URL DATABASE_POOL_SIZE seed random_seed connection
    max_tokens api_key_env monkey keyboard sessionKey session_key primary_key cacheKey key pin cookie auth tokens path
    database_url total_tokens publicKey foreign_key
"""


@pytest.mark.parametrize("name", SECRET.split())
def test_what_contains_a_secret(name: str, tmp_path: Path) -> None:
    assert is_secret_name(name)
    assert name not in command_environment({name: "abc12345"}, (), tmp_path)


@pytest.mark.parametrize("name", HARMLESS.split())
def test_what_contains_none(name: str) -> None:
    assert not is_secret_name(name)


def test_the_table_is_as_large_as_it_should_be() -> None:
    assert len(SECRET.split()) >= 120
    assert len(HARMLESS.split()) >= 70


@pytest.mark.parametrize(
    ("name", "value"),
    load_table(__file__, "a_value_is_a_secret_by_its_shape_whatever_its_name"),
)
def test_a_value_is_a_secret_by_its_shape_whatever_its_name(name: str, value: str, tmp_path: Path) -> None:
    assert is_secret_variable(name, value)
    left = command_environment({name: value, "CC": "gcc"}, (), tmp_path)
    assert name not in left
    assert left["CC"] == "gcc"


def test_git_keeps_all_of_its_numbered_settings_or_none(tmp_path: Path) -> None:
    given = {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "http.extraHeader", "GIT_CONFIG_VALUE_0": "X-Mark: a"}
    assert command_environment(given, (), tmp_path)["GIT_CONFIG_VALUE_0"] == "X-Mark: a"
    given["GIT_CONFIG_VALUE_0"] = "Authorization: Basic dXNlcjpwYXNzd29yZA=="
    left = command_environment(given, (), tmp_path)
    assert left["GIT_CONFIG_KEY_0"] == "safe.bareRepository"
    assert "dXNl" not in str(left)


def test_the_path_is_never_taken_for_a_secret(tmp_path: Path) -> None:
    assert command_environment({"PATH": "/opt/ghp_1234567890abcdefghijABCDEFGHIJ123456/bin"}, (), tmp_path)["PATH"]
