"""vLLM's own count: a chat request as it is for `POST /tokenize`, which renders it as the chat endpoint does. Pure.

Keys after vLLM's TokenizeChatRequest. It does not unfold images and sounds: they are estimated on top. For gpt-oss its chat
endpoint does not use the template that /tokenize uses: an estimate.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tokenizer_profiles.base import Message, Request
from tokenizer_profiles.remote_whole import PromptFormat, Question

_TAKEN = (
    "tools",
    "chat_template",
    "chat_template_kwargs",
    "add_generation_prompt",
    "continue_final_message",
    "add_special_tokens",
    "media_io_kwargs",
    "mm_processor_kwargs",
)
_TEMPLATE_KEYS = ("reasoning_effort", "documents")  # the chat endpoint hands them to the template


def question(model: str, messages: Sequence[Message], request: Request) -> Question:
    """The request that counts a chat."""
    body: dict[str, Any] = {key: request[key] for key in _TAKEN if request.get(key) is not None}
    body |= {"messages": list(messages)} | ({"model": model} if model else {})
    handed = {key: request[key] for key in _TEMPLATE_KEYS if request.get(key) is not None}
    given = body.get("chat_template_kwargs", {})
    if handed and isinstance(given, Mapping):
        body["chat_template_kwargs"] = {**handed, **given}
    media = [part for message in messages for part in _media(message)]
    return Question("/tokenize", body, [{"content": media}] if media else [], exact="gpt-oss" not in model.lower())


VLLM = PromptFormat(question, "count")


def _media(message: Message) -> list[object]:
    content = message.get("content")
    parts = content if isinstance(content, list) else []
    return [part for part in parts if not (isinstance(part, str) or (isinstance(part, Mapping) and part.get("type") == "text"))]
