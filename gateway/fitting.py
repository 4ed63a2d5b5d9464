"""From counted blocks to those that are sent: what a strategy left and wrote is taken up, and counted until the whole fits.

Everything is counted as it will be sent, in the shape that the model's file asks for.

A kept block that is the client's own keeps the client's message, byte for byte. One of a known id with another text is an edited
message, one of an unknown id a new one: those are unprotected, and the first to leave again when the last count is over. Knows no
model, no limit's origin and no audit.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, NamedTuple

from gateway.chat import ChatMessage, Diagnostic, made_message
from gateway.settings import MessageShape
from gateway.shaping import shaped
from gateway.shifting import BlockKind, PromptBlock, Reason, ShiftResult, shift_context
from tokenizer_profiles.base import PromptCount, TokenCount


class Sent(NamedTuple):
    """Messages in another shape than they came in: what goes out, the positions of what each is made of, and what was done."""

    messages: Sequence[ChatMessage]
    sources: Sequence[tuple[int, ...]]
    diagnostics: tuple[Diagnostic, ...] = ()


@dataclass(frozen=True, slots=True)
class Counted:
    """A counted prompt: by which profile, whether its text is only estimated, and whether parts counted alone add up.

    With a message shape they don't. `sent` is then what goes out, None where that is as it came; `prompt` still speaks of the
    messages that were given: those that are joined have shares of the count, and what the shape adds is the template's. `alone`
    are the tokens of each by itself, where the profile can tell.
    """

    profile: str
    estimated: bool
    additive: bool
    prompt: PromptCount
    alone: Sequence[TokenCount] | None = None
    sent: Sent | None = None

    @property
    def weights(self) -> Sequence[TokenCount]:
        """What each message costs, for deciding what leaves."""
        return self.prompt.messages if self.alone is None else self.alone


CountMessages = Callable[[Sequence[ChatMessage]], Awaitable[Counted]]
CountAlone = Callable[[Mapping[str, Any]], int]


class Kept(NamedTuple):
    """A block that is sent, with its message; `at` is its place in the assembled prompt, None where it had none.

    `counted` is what it has of the final count, where that was made anew.
    """

    block: PromptBlock
    message: ChatMessage
    at: int | None
    counted: TokenCount | None = None


class Fitted(NamedTuple):
    """What is sent, with its final count, and why the others left; `withdrawn` are new blocks that had to leave again.

    `shortened` are the ids of kept blocks whose text was cut. `untouched` says that every block stayed as it was, and `sent` what
    goes out where that is in another shape.
    """

    kept: Sequence[Kept]
    prompt: PromptCount
    tokens: int
    reasons: Mapping[str, Reason] = MappingProxyType({})
    withdrawn: Sequence[Kept] = ()
    shortened: frozenset[str] = frozenset()
    untouched: bool = False
    sent: Sent | None = None


def counter_of(
    counted: Counted, messages: Sequence[ChatMessage], shape: MessageShape, alone: CountAlone
) -> Callable[[Sequence[PromptBlock]], int]:
    """Counts blocks for a strategy: what surrounds the messages, what is known of the blocks, and `alone` for those it wrote.

    `counted` is the count of these messages, all that there are.
    """
    if shape != "as-is":
        return ShapedCounter(counted, messages, shape, alone)
    prompt = counted.prompt
    fixed = prompt.tools.tokens + prompt.response_format.tokens + prompt.template.tokens
    tokens = _tokens_of(alone)

    def count(blocks: Sequence[PromptBlock]) -> int:
        return fixed + sum([block.tokens or tokens(block) for block in blocks])

    return count


def _tokens_of(alone: CountAlone) -> Callable[[PromptBlock], int]:
    written: dict[tuple[str, str], int] = {}

    def tokens(block: PromptBlock) -> int:
        if block.tokens is not None:
            return block.tokens
        key = (block.role, block.content)
        if key not in written:
            written[key] = alone(block.message)
        return written[key]

    return tokens


class ShapedCounter:
    """Counts blocks for a strategy as they would be sent in a shape: exactly where messages counted alone are known, else by
    their shares of the whole count."""

    def __init__(self, counted: Counted, messages: Sequence[ChatMessage], shape: MessageShape, alone: CountAlone) -> None:
        """As for `counter_of`."""
        self._shape = shape
        self._alone = alone
        self._exact = counted.alone is not None
        self._tokens = _tokens_of(alone)
        self._opening: int | None = None
        self._joined: dict[tuple[int, ...], tuple[int, Sequence[object]]] = {}
        wires = [message.message for message in messages]
        for places in () if counted.sent is None else counted.sent.sources:
            self._remember([wires[at] for at in places], sum(counted.prompt.messages[at].tokens for at in places))
        self._fixed = counted.prompt.total - self._sum(wires, [count.tokens for count in counted.weights])

    def __call__(self, blocks: Sequence[PromptBlock]) -> int:
        """The tokens of a prompt of these blocks."""
        return self._fixed + self._sum([block.message for block in blocks], list(map(self._tokens, blocks)))

    def _sum(self, messages: Sequence[Mapping[str, Any]], tokens: Sequence[int]) -> int:
        total = 0
        for one in shaped(messages, self._shape):
            sources = one.sources
            if len(sources) == 1:
                total += tokens[sources[0]]
            elif not sources:
                total += self._opened(one.message)
            elif self._exact:
                total += self._together(one.message, [messages[at] for at in sources])
            else:
                total += sum([tokens[at] for at in sources])
        return total

    def _opened(self, message: Mapping[str, Any]) -> int:
        if self._opening is None:
            self._opening = self._alone(message)
        return self._opening

    def _together(self, message: Mapping[str, Any], sources: Sequence[object]) -> int:
        known = self._joined.get(tuple(map(id, sources)))
        return self._remember(sources, self._alone(message)) if known is None else known[0]

    def _remember(self, sources: Sequence[object], tokens: int) -> int:
        """Keeps the sources too, since they are known by where they lie in memory."""
        self._joined[tuple(map(id, sources))] = (tokens, sources)
        return tokens


async def taken_up(
    result: ShiftResult[PromptBlock],
    blocks: Sequence[PromptBlock],
    messages: Sequence[ChatMessage],
    *,
    limit: int,
    counted: Counted,
    count: CountMessages,
) -> Fitted:
    """What a strategy left of `blocks`, whose messages these are, counted as it will be sent.

    `counted` is the count of all messages. Where its parts don't hold for any choice of them, or where something was written,
    what is left is counted anew, and more leaves until it fits `limit`.
    """
    kept = _kept(result.kept, blocks, messages)
    own = all(one.at is not None and one.message is messages[one.at] for one in kept)
    if counted.additive and own:
        fixed = counted.prompt.total - sum([part.tokens for part in counted.prompt.messages])
        tokens = fixed + sum([one.block.tokens or 0 for one in kept])
        if tokens <= limit:
            return Fitted(kept, counted.prompt, tokens, result.reasons)
    withdrawn: list[Kept] = []
    everything = own and len(kept) == len(messages)
    found = counted if everything else await count([one.message for one in kept])
    while True:
        prompt = found.prompt
        kept = [_recounted(one, part) for one, part in zip(kept, prompt.messages, strict=True)]
        if prompt.total <= limit:
            break
        fewer = _fewer(kept, prompt, limit)
        if len(fewer) == len(kept):
            break
        withdrawn += [one for one in kept if one.at is None]
        kept = fewer
        found = await count([one.message for one in kept])
    reasons = _with_withdrawn(result.reasons, withdrawn)
    shortened = frozenset(block.id for block in result.truncated) & {one.block.id for one in kept}
    return Fitted(kept, prompt, prompt.total, reasons, withdrawn, shortened, sent=found.sent)


def _recounted(one: Kept, count: TokenCount) -> Kept:
    return one._replace(block=replace(one.block, tokens=count.tokens), counted=count)


def _with_withdrawn(reasons: Mapping[str, Reason], withdrawn: Sequence[Kept]) -> dict[str, Reason]:
    """Why blocks left, with those that had to leave again; without its summary nothing is summarized."""
    out = {**reasons, **{one.block.id: Reason.FINAL_BUDGET for one in withdrawn}}
    if any(one.block.kind is BlockKind.SUMMARY for one in withdrawn):
        out = {key: Reason.CONTEXT_SHIFT if reason is Reason.SUMMARIZED else reason for key, reason in out.items()}
    return out


def _kept(result: Sequence[PromptBlock], blocks: Sequence[PromptBlock], messages: Sequence[ChatMessage]) -> list[Kept]:
    place = {block.id: at for at, block in enumerate(blocks)}
    return [_one_kept(block, place.get(block.id), blocks, messages) for block in result]


def _one_kept(block: PromptBlock, at: int | None, blocks: Sequence[PromptBlock], messages: Sequence[ChatMessage]) -> Kept:
    if at is None:
        return Kept(block, made_message(block.message, block.source), None)
    own = block is blocks[at] or block.message is blocks[at].message
    return Kept(block, messages[at] if own else made_message(block.message, messages[at].source, messages[at].id), at)


def _fewer(kept: Sequence[Kept], prompt: PromptCount, limit: int) -> list[Kept]:
    """Without what was added, else without the oldest groups that have to leave."""
    own = [one for one in kept if one.at is not None]
    if len(own) < len(kept):
        return own
    fixed = prompt.total - sum([part.tokens for part in prompt.messages])

    def count(blocks: Sequence[PromptBlock]) -> int:
        return fixed + sum([block.tokens or 0 for block in blocks])

    stay = {id(block) for block in shift_context([one.block for one in kept], count, limit).kept}
    return [one for one in kept if id(one.block) in stay]
