"""The unit of a prompt, and what protects it. Knows nothing of budgets, strategies or where a block came from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from gateway.shifting.links import NO_LINKS, ToolLinks, tool_links


class BlockKind(StrEnum):
    """What a block is for; decides before the role whether it is protected."""

    SYSTEM = "system"
    CHARACTER = "character"
    PERSONA = "persona"
    LOREBOOK = "lorebook"
    MEMORY = "memory"
    EXAMPLE = "example"
    HISTORY = "history"
    SUMMARY = "summary"
    TOOL = "tool"
    OTHER = "other"


_KINDS = {kind.value: kind for kind in BlockKind}
PROTECTED_KINDS = (BlockKind.SYSTEM, BlockKind.CHARACTER, BlockKind.PERSONA)
_KIND_OF_ROLE = {
    "system": BlockKind.SYSTEM,
    "developer": BlockKind.SYSTEM,
    "tool": BlockKind.TOOL,
    "function": BlockKind.TOOL,
}
_PROTECTED_ROLES = tuple(role for role, kind in _KIND_OF_ROLE.items() if kind in PROTECTED_KINDS)


@dataclass(frozen=True, slots=True)
class PromptBlock:
    """One unit of the prompt. `tokens` is its cost within a prompt, None where nobody has counted it yet."""

    id: str
    role: str
    content: str
    kind: BlockKind = BlockKind.HISTORY
    source: str = "request"
    protected: bool = False
    pinned: bool = False
    required: bool = False
    relevance: float | None = None
    group: str | None = None
    tokens: int | None = None
    message: Mapping[str, Any] = field(default_factory=dict, repr=False)
    links: ToolLinks = field(default=NO_LINKS, repr=False)
    manual_excluded: bool = False

    @classmethod
    def new(cls, role: str, content: str, *, kind: str = BlockKind.OTHER) -> PromptBlock:
        """A block of one's own: unprotected, uncounted, with a message made of role and content."""
        return cls("", role, content, BlockKind(kind), source="plug-in", message={"role": role, "content": content})

    def with_content(self, text: str) -> PromptBlock:
        """The same block with another text, uncounted."""
        return replace(self, content=text, tokens=None, message={**self.message, "content": text})

    @property
    def self_protected(self) -> bool:
        """Whether the block is protected by what it is, wherever it stands."""
        return self.pinned or self.required or self.kind in PROTECTED_KINDS


def kind_of_role(role: object) -> BlockKind:
    """The kind of a message that names none."""
    return _KIND_OF_ROLE.get(role, BlockKind.HISTORY) if isinstance(role, str) else BlockKind.HISTORY


def text_of(message: Mapping[str, Any]) -> str:
    """The text of a message: its content, or the text parts of it, one a line; "" where it has none."""
    content = message.get("content")
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        texts = (part if isinstance(part, str) else part.get("text") for part in content if isinstance(part, (str, Mapping)))
        return "\n".join(text for text in texts if isinstance(text, str))
    return ""


def block_of(message: Mapping[str, Any], index: int) -> PromptBlock:
    """The block of one message dict of a library user. Its marks (`meta`, `pinned`, `manualExcluded`) count where well-typed."""
    role = message.get("role")
    found = message.get("meta")
    meta: Mapping[str, Any] = found if isinstance(found, Mapping) else {}
    kind = meta.get("kind")
    relevance = meta.get("relevance")
    return PromptBlock(
        id=f"m{index}",
        role=role if isinstance(role, str) else "",
        content=text_of(message),
        kind=_KINDS.get(kind) or kind_of_role(role) if isinstance(kind, str) else kind_of_role(role),
        pinned=_mark(message, meta, "pinned"),
        required=meta.get("required") is True,
        relevance=float(relevance) if isinstance(relevance, (int, float)) and not isinstance(relevance, bool) else None,
        message=message,
        links=tool_links(message),
        manual_excluded=_mark(message, meta, "manualExcluded"),
    )


def message_protects(message: Mapping[str, Any]) -> bool:
    """Whether the block of a message dict would be protected by what it is."""
    if "meta" in message or "pinned" in message:
        return block_of(message, 0).self_protected
    return message.get("role") in _PROTECTED_ROLES


def _mark(message: Mapping[str, Any], meta: Mapping[str, Any], name: str) -> bool:
    value = meta.get(name)
    return (message.get(name) if value is None else value) is True
