"""How a driver reads what to ask and tells what came of it: JSON lines. Knows no client and nothing of the repository.

A driver runs in its client's own environment: `python drivers/NAME.py URL`, one request on each line of the input. It fills an
outcome, and whatever the client raises stands in `error`; what it had of the reply by then stays.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable
from typing import Any

Outcome = dict[str, Any]
TOLD_HEADERS = ("x-context-", "x-request-id")


def tell(version: str, ask: Callable[[dict[str, Any], Outcome], None]) -> None:
    """Asks everything that stands in the input; the first line of the output is the client's version."""
    print(json.dumps({"version": version}))  # noqa: T201
    for line in sys.stdin:
        request = json.loads(line)
        outcome = empty(request["name"])
        try:
            ask(request, outcome)
        except Exception as error:  # noqa: BLE001  # whatever a client raises is what is looked at
            outcome["error"] = described(error)
        print(json.dumps(outcome), flush=True)  # noqa: T201


def empty(name: str) -> Outcome:
    """The outcome of a request that has brought nothing yet."""
    fields: Outcome = {"text": "", "id": None, "finish": None, "usage": None, "calls": [], "followUp": None}
    return {"name": name, **fields, "report": None, "headers": {}, "error": None}


def described(error: Exception) -> dict[str, Any]:
    """What a program can find out about an exception."""
    body = getattr(error, "body", None)
    return {
        "class": type(error).__name__,
        "kinds": [kind.__name__ for kind in type(error).__mro__],
        "status": getattr(error, "status_code", None),
        "code": getattr(error, "code", None) or (body.get("code") if isinstance(body, dict) else None),
        "text": str(error),
    }


def told(headers: Iterable[tuple[str, str]], prefix: str = "") -> dict[str, str]:
    """The gateway's own headers."""
    named = ((name.lower().removeprefix(prefix), value) for name, value in headers)
    return {name: value for name, value in named if name.startswith(TOLD_HEADERS)}


def gathered(pieces: Iterable[tuple[int, str | None, str | None, str | None]]) -> list[dict[str, str]]:
    """Tool calls (index, id, name, arguments) put together from their pieces."""
    calls: dict[int, dict[str, str]] = {}
    for index, *texts in pieces:
        call = calls.setdefault(index, {"id": "", "name": "", "arguments": ""})
        for key, text in zip(call, texts, strict=True):
            call[key] += text or ""
    return list(calls.values())


def with_tool_result(messages: list[dict[str, Any]], calls: list[dict[str, str]], result: str) -> list[dict[str, Any]]:
    """The next turn's messages: the calls, and one result for each."""
    made = [
        {"id": call["id"], "type": "function", "function": {"name": call["name"], "arguments": call["arguments"]}}
        for call in calls
    ]
    answered = [{"role": "tool", "tool_call_id": call["id"], "content": result} for call in calls]
    return [*messages, {"role": "assistant", "content": None, "tool_calls": made}, *answered]
