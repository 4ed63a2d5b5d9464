"""A prompt that is ready to send, or known not to fit. Values only: whoever holds one may look, send or refuse."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec

from gateway.audit import AuditBlock, AuditSummary, encode_body
from gateway.chat import ChatMessage, ChatRequest, Diagnostic
from gateway.errors import GatewayError, Number, ProviderContextOverflow, TokenBudgetExceeded
from gateway.shifting import ContextBudget

_OVERFLOW = (
    "This model's maximum context length is {limit} tokens. However, you requested {sum} tokens ({prompt} in the messages, "
    "{reserve} in the completion). Please reduce the length of the messages or completion. "
    "The prompt is too long: only protected messages are left. [{code}] [context_length_exceeded]"
)


def overflow_message(code: str, *, limit: int, prompt: int, reserve: int) -> str:
    """The one wording by which existing clients recognise an overflow; numbers are tokens."""
    return _OVERFLOW.format(limit=limit, sum=prompt + reserve, prompt=prompt, reserve=reserve, code=code)


@dataclass(frozen=True, slots=True)
class PreparedPrompt:
    """A request after fitting.

    `model` is the requested name, `configured` that of the file that answers for it (`_default` for the one of all others).
    `blocks` are the audit's, in order, and `excluded` those that were left out. `messages` are those that the blocks speak of,
    the request's own and others; `kept` are the positions of those that go out, in order. Where it is `shaped`, what is made of
    several blocks goes out in their place and stands behind `messages`. `output_limit` is the number that replaces the request's
    own reply limits, None where they stand. Token numbers as in the audit.
    """

    request: ChatRequest
    provider: str
    model: str
    configured: str
    upstream_model: str
    strategy: str
    tokenizer: str
    approximate: bool
    budget: ContextBudget
    prompt_tokens: int
    prompt_tokens_before: int
    blocks: Sequence[AuditBlock]
    excluded: Sequence[AuditBlock]
    messages: Sequence[ChatMessage]
    kept: Sequence[int]
    report: str
    output_limit: int | None = None
    shaped: bool = False
    diagnostics: tuple[Diagnostic, ...] = ()

    @property
    def fits(self) -> bool:
        """Whether prompt and reply fit the context limit; the safety margin doesn't count."""
        return self.prompt_tokens <= self.budget.hard_limit

    @property
    def deficit(self) -> int:
        """By how many tokens it does not fit; 0 when it fits."""
        return max(0, self.prompt_tokens - self.budget.hard_limit)

    @property
    def truncated(self) -> list[AuditBlock]:
        """The blocks that were compressed rather than dropped."""
        return [block for block in self.blocks if block.truncated_to is not None or block.reason == "summarized"]

    @property
    def outgoing(self) -> bytes:
        """The request for the provider: the client's own bytes where nothing had to change."""
        request = self.request
        everything = self.messages is request.messages and len(self.kept) == len(request.messages)
        if request.untouched and everything and self.upstream_model == request.model and self.output_limit is None:
            return request.body
        changed: dict[str, bytes] = {}
        if self.upstream_model != request.model:
            changed["model"] = msgspec.json.encode(self.upstream_model)
        if self.output_limit is not None:
            limit = self.output_limit
            too_large = (name for name in request.limit_fields if float(request.fields[name]) > limit)
            changed.update(dict.fromkeys(too_large, b"%d" % limit))
        messages = self.messages
        changed["messages"] = b"[" + b",".join([messages[i].outgoing for i in self.kept]) + b"]"
        return _join({**request.fields, **changed})

    def require_fit(self) -> None:
        """Raises TokenBudgetExceeded when what must stay does not fit."""
        if self.fits:
            return
        metadata: dict[str, Number] = {
            "contextLimit": self.budget.context_limit,
            "replyReserve": self.budget.reply_reserve,
            "protectedTokens": self.prompt_tokens,
            "deficit": self.deficit,
            "tokenizerProfile": self.tokenizer,
            "approximate": self.approximate,
        }
        message = overflow_message(
            TokenBudgetExceeded.code,
            limit=self.budget.context_limit,
            prompt=self.prompt_tokens,
            reserve=self.budget.reply_reserve,
        )
        raise TokenBudgetExceeded(message, param="messages", metadata=metadata)

    def explained(self, error: GatewayError) -> GatewayError:
        """A provider's overflow in the wording that clients recognise, with the numbers known here; any other error as it is."""
        if not isinstance(error, ProviderContextOverflow):
            return error
        named = error.metadata.get("providerLimit")
        limit = int(named) if isinstance(named, int) else self.budget.context_limit
        reserve = self.budget.reply_reserve
        prompt = max(self.prompt_tokens, limit - reserve + 1)
        message = overflow_message(error.code, limit=limit, prompt=prompt, reserve=reserve)
        return ProviderContextOverflow(message, param="messages", metadata=error.metadata)

    def body(self) -> bytes:
        """The audit's body: the blocks, and the messages they speak of."""
        messages, sent = self.messages, self.kept if self.shaped else None
        parsed = [message.message for message in messages]
        return encode_body(self.blocks, [message.outgoing for message in messages], parsed, sent)

    def summary(self) -> AuditSummary:
        """The audit of this prompt without its blocks."""
        return AuditSummary(
            provider=self.provider,
            model=self.model,
            upstream_model=self.upstream_model,
            context_strategy=self.strategy,
            tokenizer=self.tokenizer,
            approximate=self.approximate,
            context_limit=self.budget.context_limit,
            reply_reserve=self.budget.reply_reserve,
            safety_margin=self.budget.margin,
            prompt_tokens=self.prompt_tokens,
            prompt_tokens_before=self.prompt_tokens_before,
            diagnostics=self.diagnostics,
        )


def _join(fields: Mapping[str, bytes]) -> bytes:
    return b"{" + b",".join([msgspec.json.encode(key) + b":" + raw for key, raw in fields.items()]) + b"}"
