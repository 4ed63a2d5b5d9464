"""Asks with LangChain's ChatOpenAI."""

from __future__ import annotations

import sys
from importlib.metadata import version
from typing import Any

from langchain_core.messages import AIMessage, ToolMessage
from langchain_openai import ChatOpenAI
from telling import Outcome, tell, told


def chat_model(request: dict[str, Any]) -> Any:
    """The model as a program sets it up."""
    model = ChatOpenAI(
        base_url=sys.argv[1],
        api_key="sk-of-the-client",
        model=request["model"],
        extra_body=request["extra"],
        stream_usage=True,
        include_response_headers=True,
    )
    return model.bind_tools(request["tools"]) if "tools" in request else model


def ask(request: dict[str, Any], outcome: Outcome) -> None:
    """A reply, and with tools the one after their results."""
    model = chat_model(request)
    reply = (streamed if request["stream"] else plain)(model, request, outcome)
    read(reply, outcome)
    if "toolResult" in request:
        results = [ToolMessage(request["toolResult"], tool_call_id=call["id"]) for call in reply.tool_calls]
        spoken = AIMessage(content=reply.content, tool_calls=reply.tool_calls)
        outcome["followUp"] = model.invoke([*request["messages"], spoken, *results]).text


def plain(model: Any, request: dict[str, Any], outcome: Outcome) -> Any:
    """A whole reply."""
    reply = model.invoke(request["messages"])
    outcome["text"] = reply.text
    return reply


def streamed(model: Any, request: dict[str, Any], outcome: Outcome) -> Any:
    """The sum of a stream."""
    reply = None
    for chunk in model.stream(request["messages"]):
        outcome["text"] += chunk.text
        reply = chunk if reply is None else reply + chunk
    return reply


def read(reply: Any, outcome: Outcome) -> None:
    """A reply as LangChain keeps it."""
    described = reply.response_metadata
    outcome |= {"id": described.get("id"), "finish": described["finish_reason"]}  # a stream's id is not kept
    outcome["usage"] = [reply.usage_metadata["input_tokens"], reply.usage_metadata["output_tokens"]]
    outcome["report"] = described.get("contextShift") or reply.additional_kwargs.get("contextShift")
    outcome["headers"] = told(described.get("headers", {}).items())
    outcome["calls"] = [{"id": call["id"], "name": call["name"], "arguments": call["args"]} for call in reply.tool_calls]


tell(version("langchain-openai"), ask)
