"""Keys become tenants, and nothing but a known key does."""

from __future__ import annotations

import hashlib
import tomllib

import pytest

from gateway.errors import Unauthorized
from gateway.secret import Secret
from gateway.settings import AuthSettings, ClientKey
from gateway.tenants import Tenants, new_key
from gateway.toml_tree import ConfigError


def auth(*keys: tuple[str, str], allow_anonymous: bool = False) -> AuthSettings:
    hashed = tuple(ClientKey(name, Secret(hashlib.sha256(key.encode()).hexdigest().upper())) for name, key in keys)
    return AuthSettings(allow_anonymous=allow_anonymous, keys=hashed)


def test_a_key_belongs_to_its_tenant() -> None:
    tenants = Tenants(auth(("a", "key-1"), ("b", "key-2"), ("a", "key-3")))
    assert [tenants.tenant_of(key) for key in ("key-1", "key-2", "key-3")] == ["a", "b", "a"]


@pytest.mark.parametrize("key", ["key-2", "KEY-1", " key-1", "x" * 100_000, "ключ", "\udc80"])
def test_an_unknown_key_is_refused_without_being_repeated(key: str) -> None:
    for allow_anonymous in (False, True):
        with pytest.raises(Unauthorized, match=r"^The key is not one of this gateway's keys\.$"):
            Tenants(auth(("a", "key-1"), allow_anonymous=allow_anonymous)).tenant_of(key)


@pytest.mark.parametrize("key", [None, ""])
def test_no_key_is_refused_unless_anonymous_clients_are_allowed(key: str | None) -> None:
    with pytest.raises(Unauthorized, match="A key is needed"):
        Tenants(auth(("a", "key-1"))).tenant_of(key)
    assert Tenants(auth(("a", "key-1"), allow_anonymous=True)).tenant_of(key) is None


@pytest.mark.parametrize("key", [None, "", "sk-whatever"])
def test_without_keys_everybody_is_anonymous(key: str | None) -> None:
    assert Tenants(auth()).tenant_of(key) is None


@pytest.mark.parametrize(("key", "known"), [("key-1", True), ("key-2", False), ("", False), ("\udc80", False)])
def test_own_keys_are_known_whoever_they_belong_to(key: str, known: bool) -> None:
    assert Tenants(auth(("a", "key-0"), ("b", "key-1"))).knows(key) is known
    assert not Tenants(auth()).knows(key)


def test_a_new_key_works_with_the_lines_it_comes_with() -> None:
    key, lines = new_key('team "a" \\ ü')
    read = tomllib.loads(lines)["auth"]["keys"][0]
    assert key.startswith("sg-")
    assert key not in lines
    settings = AuthSettings(keys=(ClientKey(read["name"], Secret(read["sha256"])),))
    assert Tenants(settings).tenant_of(key) == 'team "a" \\ ü'
    assert new_key("a")[0] != new_key("a")[0]


def test_a_name_that_cannot_be_one_gets_no_key() -> None:
    with pytest.raises(ConfigError, match="name: must be one line of 1 to 256 characters"):
        new_key("a\nb")
