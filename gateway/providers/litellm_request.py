"""What of a chat request goes to litellm, and what may not. Pure; never imports the library.

The library takes its own settings (addresses, keys, mocks, fallbacks) by the same arguments as a request's fields. So only
fields that are known to belong to a request become arguments; every other one goes into `extra_body`, which the library puts
into the body for most providers, and which steers nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from gateway.errors import InvalidRequest, ProviderNotFound

# Fields of OpenAI's chat completions, and those of other providers that the library translates by name.
_FIELDS = frozenset(
    [
        "model",
        "messages",
        "functions",
        "function_call",
        "temperature",
        "top_p",
        "n",
        "stream_options",
        "stop",
        "max_tokens",
        "max_completion_tokens",
        "modalities",
        "prediction",
        "audio",
        "presence_penalty",
        "frequency_penalty",
        "logit_bias",
        "user",
        "response_format",
        "seed",
        "tools",
        "tool_choice",
        "parallel_tool_calls",
        "logprobs",
        "top_logprobs",
        "reasoning_effort",
        "verbosity",
        "safety_identifier",
        "service_tier",
        "store",
        "prompt_cache_key",
        "prompt_cache_retention",
        "thinking",
        "web_search_options",
        "top_k",
        "min_p",
        "top_a",
        "repetition_penalty",
    ]
)
# What means the same as its absence: many clients send it always, and the library refuses it where a provider has no such field.
_NEUTRAL: dict[str, Any] = {
    "presence_penalty": 0,
    "frequency_penalty": 0,
    "n": 1,
    "logprobs": False,
    "store": False,
    "logit_bias": {},
    "parallel_tool_calls": True,
    "response_format": {"type": "text"},
}
HINTS = ("user", "prompt_cache_key", "prompt_cache_retention", "safety_identifier")  # no answer depends on these
_LEFT_OUT = ("stream", "metadata")  # the first is told apart; the second is for OpenAI's dashboard, and a setting of the library
_NOT_ADDRESSES = frozenset(
    [
        "role",
        "name",
        "text",
        "thinking",
        "title",
        "context",
        "input",
        "arguments",
        "citations",
        "annotations",
        "signature",
        "tool_calls",
        "function_call",
        "reasoning",
        "reasoning_content",
        "refusal",
        "thinking_blocks",
        "provider_specific_fields",
    ]
)
_FETCHED = ("http://", "https://")


def arguments_of(body: bytes) -> dict[str, Any]:
    """The fields of a request as the library's arguments, values equal to the request's.

    Raises InvalidRequest for an address that the library would fetch, ProviderNotFound for a model's name that is an address.
    """
    request: dict[str, Any] = json.loads(body)
    _require_no_addresses(request.get("messages"))
    if "://" in request["model"]:
        raise ProviderNotFound("The model's name holds an address. Set the address as base_url, and upstream_model without it.")
    arguments: dict[str, Any] = {}
    others: dict[str, Any] = {}
    for name, value in request.items():
        if value is None or name in _LEFT_OUT or (name in _NEUTRAL and value == _NEUTRAL[name]):
            continue
        (arguments if name in _FIELDS else others)[name] = value
    return arguments | ({"extra_body": others} if others else {})


def wants_usage(arguments: dict[str, Any]) -> bool:
    """Whether the client asked for the chunk with the usage at the end of its stream. Raises InvalidRequest."""
    options = arguments.get("stream_options", {})
    if not isinstance(options, dict):
        raise InvalidRequest("stream_options must be an object.", param="stream_options")
    return options.get("include_usage") is True


def _require_no_addresses(messages: Any) -> None:
    path = next(_addresses(messages, "messages"), None)
    if path is not None:
        raise InvalidRequest(
            f"{path} is an http address. For this provider images, files and sounds must come inside the request, as data: URLs.",
            param=path,
        )


def _addresses(value: Any, path: str) -> Iterator[str]:
    """The JSON paths of what the library would fetch; texts are only read."""
    if isinstance(value, list):
        for index, inner in enumerate(value):
            if not (isinstance(inner, str) and path.endswith(".content")):
                yield from _addresses(inner, f"{path}[{index}]")
    elif isinstance(value, dict):
        for name, inner in value.items():
            if name in _NOT_ADDRESSES or (name == "content" and isinstance(inner, str)):
                continue
            yield from _addresses(inner, f"{path}.{name}")
    elif isinstance(value, str) and value.strip()[:8].lower().startswith(_FETCHED):
        yield path
