"""Asks with the LiteLLM library, as one asks an OpenAI-compatible server with it."""

from __future__ import annotations

import sys
from importlib.metadata import version
from typing import Any

import litellm
from openai_shapes import read_plain, read_stream
from telling import Outcome, tell, told, with_tool_result


def create(request: dict[str, Any], messages: list[dict[str, Any]]) -> Any:
    """One request."""
    options: dict[str, Any] = {name: request[name] for name in ("tools",) if name in request}
    if request["stream"]:
        options |= {"stream": True, "stream_options": {"include_usage": True}}
    return litellm.completion(
        model="openai/" + request["model"],
        api_base=sys.argv[1],
        api_key="sk-of-the-client",
        messages=messages,
        extra_body=request["extra"],
        **options,
    )


def ask(request: dict[str, Any], outcome: Outcome) -> None:
    """A reply, and with tools the one after their results."""
    reply = create(request, request["messages"])
    outcome["headers"] = told(reply._hidden_params.get("additional_headers", {}).items(), "llm_provider-")
    read_stream(reply, outcome) if request["stream"] else read_plain(reply, outcome)
    if "toolResult" in request:
        more = with_tool_result(request["messages"], outcome["calls"], request["toolResult"])
        outcome["followUp"] = create({**request, "stream": False}, more).choices[0].message.content


tell(version("litellm"), ask)
