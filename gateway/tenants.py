"""From a client's key to its tenant. Knows no header; only hashes of keys are ever kept."""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets

from gateway.errors import Unauthorized
from gateway.settings import AuthSettings, ClientKey
from gateway.toml_tree import Place, read_table


class Tenants:
    """Everybody who may use the gateway."""

    def __init__(self, auth: AuthSettings) -> None:
        self._keys = tuple((key.name, key.sha256.reveal().lower()) for key in auth.keys)
        self._anonymous = auth.allow_anonymous or not auth.keys

    def tenant_of(self, key: str | None) -> str | None:
        """The tenant of a key; None for an anonymous client where those are allowed. Raises Unauthorized.

        Without configured keys whatever a client sends is ignored. Every hash is compared, so that the time tells nothing.
        """
        if not self._keys or (not key and self._anonymous):
            return None
        if not key:
            raise Unauthorized("A key is needed: send it as Authorization: Bearer KEY or as api-key.")
        found = self._names(key)
        if not found:
            raise Unauthorized("The key is not one of this gateway's keys.")
        return found[0]

    def knows(self, key: str) -> bool:
        """Whether a text is one of the gateway's own keys, which nobody else may be shown."""
        return bool(self._keys and key and self._names(key))

    def _names(self, key: str) -> list[str]:
        digest = _sha256(key)
        return [name for name, known in self._keys if hmac.compare_digest(digest, known)]


def new_key(name: str) -> tuple[str, str]:
    """A new key, to be shown once, and the lines for gateway.toml. Raises ConfigError for a name that can't be one."""
    key = "sg-" + secrets.token_urlsafe(32)
    digest = _sha256(key)
    read_table(ClientKey, {"name": name, "sha256": digest}, Place("a new key"))
    return key, f'[[auth.keys]]\nname = {json.dumps(name, ensure_ascii=False)}\nsha256 = "{digest}"'


def _sha256(key: str) -> str:
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()
