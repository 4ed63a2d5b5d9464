"""The strategies that come with the product, by name."""

from __future__ import annotations

from gateway.shifting.strategies.base import ContextStrategy
from gateway.shifting.strategies.manual import Manual
from gateway.shifting.strategies.summarize import Summarize
from gateway.shifting.strategies.truncate import Truncate
from gateway.shifting.strategies.vector_recall import VectorRecall

BUILTIN: dict[str, ContextStrategy] = {
    "manual": Manual(),
    "summarize": Summarize(),
    "truncate": Truncate(),
    "vector-recall": VectorRecall(),
}
