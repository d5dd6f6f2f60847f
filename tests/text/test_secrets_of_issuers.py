"""The kinds of keys that detect-secrets knows, whose list is kept up, are known here: a new release of it may add one,
and then this fails."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator

import pytest
from detect_secrets import plugins
from detect_secrets.plugins.base import RegexBasedDetector

from clawbot.text.secrets import redact
from tests.said_secrets import JWT

HEX, WORD = "0123456789abcdef" * 4, "aB3dE6gH9jK2mN5pQ8sT1vW4yZ7bC0eF3hI6kL9nO2qR5tU8wX1zA4cD7fG0"
SAMPLES = {
    "ArtifactoryDetector": f"AKCp{WORD[:20]}",
    "AWSKeyDetector": "AKIAIOSFODNN7EXAMPLE",
    "AzureStorageKeyDetector": f"AccountKey={(WORD * 2)[:86]}==",
    "BasicAuthDetector": "https://bob:pa55word9@host.example",
    "DiscordBotTokenDetector": f"M{WORD[:23]}.{WORD[:6]}.{WORD[:27]}",
    "GitHubTokenDetector": f"ghp_{WORD[:36]}",
    "GitLabTokenDetector": f"glpat-{WORD[:20]}",
    "JwtTokenDetector": JWT,
    "MailchimpDetector": f"{HEX[:32]}-us12",
    "NpmDetector": f"//registry.example/:_authToken=npm_{WORD[:36]}",
    "OpenAIDetector": f"sk-proj-{WORD[:20]}T3BlbkFJ{WORD[:20]}",
    "PrivateKeyDetector": "-----BEGIN OPENSSH PRIVATE KEY-----",
    "PypiTokenDetector": f"pypi-AgEIcHlwaS5vcmc{(WORD * 2)[:76]}",
    "SendGridDetector": f"SG.{WORD[:22]}.{WORD[:43]}",
    "SlackDetector": f"xoxb-123456789012-{WORD[:24]}",
    "SquareOAuthDetector": f"sq0csp-{WORD[:43]}",
    "StripeDetector": "sk_" + f"live_{WORD[:24]}",
    "TelegramBotTokenDetector": f"987654321:{WORD[:35]}",
    "TwilioKeyDetector": f"SK{HEX[:32]}",
}
OTHER = {
    "IPPublicDetector": "an address is no secret",
    "CloudantDetector": "its names stand for secrets only in the configuration of one service",
    "IbmCosHmacDetector": "its names stand for secrets only in the configuration of one service",
    "IbmCloudIamDetector": "its names stand for secrets only in the configuration of one service",
    "SoftlayerDetector": "its names stand for secrets only in the configuration of one service",
}


def detectors() -> Iterator[RegexBasedDetector]:
    for module in pkgutil.iter_modules(plugins.__path__):
        for found in vars(importlib.import_module(f"{plugins.__name__}.{module.name}")).values():
            is_one = isinstance(found, type) and issubclass(found, RegexBasedDetector)
            if is_one and found is not RegexBasedDetector and found.__module__.endswith(f".{module.name}"):
                yield found()


DETECTORS = {type(each).__name__: each for each in detectors()}


def test_no_kind_of_key_is_passed_over() -> None:
    assert set(DETECTORS) == set(SAMPLES) | set(OTHER)


@pytest.mark.parametrize("name", SAMPLES)
def test_what_it_finds_is_left_out(name: str) -> None:
    text = f"we use {SAMPLES[name]} for that"
    assert list(DETECTORS[name].analyze_string(text))
    assert list(DETECTORS[name].analyze_string(redact(text))) == []
