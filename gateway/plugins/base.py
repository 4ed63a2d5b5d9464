"""What a plug-in author imports, and nothing else: blocks, results, the hooks, and the host they register with.

    def register(host: PluginHost) -> Cleanup | None:
        return host.strategies.register("my-strategy", MyStrategy())

Knows nothing of threads, files or the web.
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from gateway.chat import Diagnostic
from gateway.shifting import ContextStrategy, PromptBlock, Reason, ShiftOptions, ShiftResult, TokenCounter
from gateway.shifting.strategies.base import Cleanup

__all__ = [
    "Cleanup",
    "ContextStrategy",
    "Diagnostic",
    "InterceptionContext",
    "Interceptors",
    "PluginHost",
    "PromptBlock",
    "PromptInterceptor",
    "Reason",
    "ShiftOptions",
    "ShiftResult",
    "Strategies",
    "TokenCounter",
]


@dataclass(frozen=True, slots=True)
class InterceptionContext:
    """What an interceptor may know of the request: no key, no header. Numbers are tokens.

    `prompt_limit` is what the prompt is brought down to: the context limit less reply reserve and margin. `count_tokens` counts
    a list of blocks as a prompt.
    """

    model: str
    upstream_model: str
    strategy: str
    context_limit: int
    reply_reserve: int
    prompt_limit: int
    count_tokens: TokenCounter
    chat_id: str | None = None
    tenant: str | None = None


class PromptInterceptor(Protocol):
    """Looks at the kept blocks and gives back those to send. Sync or async."""

    def __call__(
        self, blocks: Sequence[PromptBlock], request: InterceptionContext, /
    ) -> Sequence[PromptBlock] | Awaitable[Sequence[PromptBlock]]:
        """The blocks after this hook: added, edited or removed ones among them."""


class Strategies(Protocol):
    """Where strategies are registered."""

    def register(self, name: str, strategy: Any) -> Cleanup:
        """Adds a strategy: an object with `shift`, or a callable, sync or async, with or without the keyword `options`.

        The cleanup removes just this registration and may be called twice. Raises TypeError or ValueError.
        """


class Interceptors(Protocol):
    """Where interceptors are registered."""

    def register(self, name: str, hook: PromptInterceptor, priority: float = 100, timeout_s: float | None = None) -> Cleanup:
        """Adds a hook; a lower priority runs first, equals in the order of registration. `timeout_s` is in seconds.

        Without one `[plugins] interceptor_timeout_s` holds. Raises TypeError or ValueError.
        """


class PluginHost(Protocol):
    """What `register` of a plug-in is given."""

    @property
    def strategies(self) -> Strategies:
        """Ways of shortening."""

    @property
    def interceptors(self) -> Interceptors:
        """Hooks that see the prompt before it is sent."""
