"""Asks with the official Python client, of any generation."""

from __future__ import annotations

import sys
from typing import Any

import openai
from openai_shapes import read_plain, read_stream
from telling import Outcome, tell, told, with_tool_result

CLIENT = openai.OpenAI(base_url=sys.argv[1], api_key="sk-of-the-client")


def create(request: dict[str, Any], messages: list[dict[str, Any]]) -> Any:
    """One request; the raw response, which has the headers."""
    options: dict[str, Any] = {name: request[name] for name in ("tools",) if name in request}
    if request["stream"]:
        options |= {"stream": True, "stream_options": {"include_usage": True}}
    return CLIENT.chat.completions.with_raw_response.create(
        model=request["model"], messages=messages, extra_body=request["extra"], **options
    )


def ask(request: dict[str, Any], outcome: Outcome) -> None:
    """A reply, and with tools the one after their results."""
    raw = create(request, request["messages"])
    outcome["headers"] = told(raw.headers.items())
    read_stream(raw.parse(), outcome) if request["stream"] else read_plain(raw.parse(), outcome)
    if "toolResult" in request:
        more = with_tool_result(request["messages"], outcome["calls"], request["toolResult"])
        reply = create({**request, "stream": False}, more).parse()
        outcome["followUp"] = reply.choices[0].message.content


tell(openai.__version__, ask)
