"""The strategies that come with the product, by name."""

from __future__ import annotations

from gateway.shifting.strategies.base import ContextStrategy
from gateway.shifting.strategies.manual import Manual
from gateway.shifting.strategies.truncate import Truncate

BUILTIN: dict[str, ContextStrategy] = {
    "manual": Manual(),
    "truncate": Truncate(),
}
