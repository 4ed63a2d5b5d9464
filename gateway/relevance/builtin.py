"""The scorers that `[recall] scorer` may name."""

from __future__ import annotations

from collections.abc import Callable

from gateway.relevance.base import RelevanceScorer
from gateway.relevance.endpoint import Endpoint, EndpointRelevance
from gateway.relevance.local import LocalRelevance
from gateway.relevance.none import NoRelevance

BUILTIN: dict[str, Callable[[Callable[[], Endpoint]], RelevanceScorer]] = {  # given a way to find the endpoint, if it needs one
    "none": lambda find: NoRelevance(),
    "local": lambda find: LocalRelevance(),
    "endpoint": lambda find: EndpointRelevance(find(), LocalRelevance()),
}
