"""Secrets don't leak through what prints, formats, copies or serialises."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

import pytest

from gateway.secret import Secret, SecretUrl


@dataclass(frozen=True)
class Holder:
    """Something that holds a secret."""

    key: Secret


def test_only_reveal_gives_a_secret_away() -> None:
    secret = Secret("hush")
    holder = Holder(secret)
    assert secret.reveal() == "hush"
    for text in (str(secret), repr(secret), f"{secret}", f"{holder}", str(asdict(holder)), str([secret])):
        assert "hush" not in text
        assert "***" in text
    with pytest.raises(TypeError):
        json.dumps(secret)


def test_secrets_compare_by_value_and_kind() -> None:
    assert Secret("a") == Secret("a")
    assert Secret("a") != Secret("b")
    assert Secret("a") != SecretUrl("a")
    assert Secret("a") != "a"
    assert len({Secret("a"), Secret("a")}) == 1


def test_an_empty_secret_is_false() -> None:
    assert not Secret()
    assert Secret("x")


@pytest.mark.parametrize(
    ("url", "seen"),
    [
        ("https://api.openai.com/v1", "https://api.openai.com/v1"),
        ("sqlite:///var/sluicegate.db", "sqlite:///var/sluicegate.db"),
        ("memory:", "memory:"),
        ("http://user:pass@host:1/v1", "http://***@host:1/v1"),
        ("postgresql://user:pa/s?s#w@d@host/db", "postgresql://***@host/db"),
        ("http://host/v1?key=pass", "http://host/v1?***"),
    ],
)
def test_an_address_prints_without_credentials_and_query(url: str, seen: str) -> None:
    assert str(SecretUrl(url)) == repr(SecretUrl(url)) == seen
    assert SecretUrl(url).reveal() == url
