"""Where secrets lie by custom is one list: hidden in the sandbox, and not read by a command that runs unasked."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from clawbot.tools.paths import Fence, is_secret_path, mentions_secret
from clawbot.tools.sandbox.mounts import Mount, access_at
from clawbot.tools.sandbox.policy import Reach, sandbox_view
from clawbot.tools.shell_reading import is_inside, reading
from tests.tools.conftest import TABLES

IN_HOME = """
    .ssh/id_ed25519 .gnupg/private-keys-v1.d .netrc .pgpass .my.cnf .aws/credentials .azure/msal.json .kube/config
    .docker/config.json .config/gcloud/credentials.db .config/gh/hosts.yml .git-credentials .npmrc .pypirc
    .m2/settings.xml

    .cargo/credentials.toml .huggingface/token .vault-token .password-store/a.gpg .config/rclone/rclone.conf
    .terraform.d/c
    .config/openai/key .config/llm/keys.json .config/mcp/auth .config/crush/crush.json .config/Windsurf/User
    .config/configstore/firebase-tools.json .config/firebase/x .config/supabase/x .config/turso/settings.json
    .qwen/oauth_creds.json .kimi/config.json .amp/x .factory/auth.json .windsurf/x .roo/x .cline/x
    .supabase/access-token
    .railway/config.json .config/fish/fish_variables .bash_profile .bashrc .zshrc .profile .claude/.credentials.json
    .codex/auth.json .gemini/oauth_creds.json .bash_history .mozilla/firefox .config/Signal/config.json .sentryclirc
    .config/aichat/config.yaml .mcp-auth/x .kiro/x .config/stripe/config.toml .config/hcloud/cli.toml .fly/config.yml
"""
IN_PROJECT = """
    .env .env.local .envrc env.local production.env .env-prod .env_local .ENV .env~ credentials.json
    service-account.json gcp-service-account-prod.json terraform.tfvars prod.auto.tfvars terraform.tfstate
    server.pem tls.key id_rsa id_ed25519 deploy_rsa .npmrc .netrc .pypirc .htpasswd config/master.key
    config/credentials/production.key secrets.yaml secrets.toml client_secret_123.json app-adminsdk-x1.json
    auth.json token.json kubeconfig prod.kubeconfig release.keystore cert.p12 vault.kdbx .dev.vars
    sub/dir/.env sub/id_rsa sub/.aws/credentials .docker/config.json .ssh/config android/key.properties
    prod.env.bak local.settings.json .dockerconfigjson htpasswd rclone.conf firebase-adminsdk.json
    passwords.txt .secrets
"""
HARMLESS = """
    README.md .env.example .env.sample .env.template env.py environment.yml id_rsa.pub credentials.py credentials.md
    secrets.py cacert.pem fullchain.pem keyboard.json package.json tokens.css token.py key.txt keys.md auth.py
    .gitignore
    .editorconfig .prettierrc src/env/index.ts docs/secrets.md monkey.jpg main.tf variables.tf kubectl.md public.pem
"""


PROJECT = (*IN_PROJECT.split(), ".env copy")
FILES = (*PROJECT, *HARMLESS.split())


@pytest.fixture
def home() -> Iterator[Path]:
    """A home with a workspace. Not in /tmp, which a command in the sandbox does not see at all."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        (Path(folder) / "work").mkdir()
        yield Path(folder)


def seen(home: Path) -> tuple[Mount, ...]:
    """What a command in the workspace sees."""
    return sandbox_view(Reach(workspace=home / "work", home=home, state=home / ".clawbot", fence=Fence())).mounts


def put(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("x", encoding="utf-8")


@pytest.mark.few(12)
@pytest.mark.parametrize("path", IN_HOME.split())
def test_what_lies_in_the_home_is_hidden_and_not_read(path: str, home: Path) -> None:
    put(home / path)
    places = seen(home)
    assert access_at(places, str(home / path)) == "hidden"
    assert not is_inside(path)
    assert is_secret_path(f"x/{path}")
    assert mentions_secret(f"~/{path}")


def test_what_lies_in_a_project_is_hidden_and_not_read(home: Path) -> None:
    for path in FILES:
        put(home / "work" / path)
    places = seen(home)
    hidden = {path for path in FILES if access_at(places, str(home / "work" / path)) == "hidden"}
    assert hidden == set(PROJECT)
    assert {path for path in FILES if not is_inside(path)} == set(PROJECT)


@pytest.mark.parametrize(
    "command", ["cat server.pem", "head -n 1 .npmrc", "cat 'config/master.key'", "cat production.env"]
)
def test_no_command_reads_it_unasked(command: str) -> None:
    assert reading(command) is None


def test_in_packages_only_variables_are_hidden(home: Path) -> None:
    paths = ["node_modules/a/test/server.pem", "node_modules/a/.env", ".venv/lib/site-packages/grpc/own.pem"]
    for path in paths:
        put(home / "work" / path)
    places = seen(home)
    assert [access_at(places, str(home / "work" / path)) for path in paths] == ["write", "hidden", "write"]


@pytest.mark.parametrize(("text", "found"), TABLES["mentions"])
def test_a_word_of_a_command_that_names_one(text: str, found: bool) -> None:
    assert mentions_secret(text) is found
