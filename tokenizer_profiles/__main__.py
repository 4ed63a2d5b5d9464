"""`python -m tokenizer_profiles MODEL < request.json`: the tokens of a chat request, part by part. Knows no gateway."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from typing import Any

from tokenizer_profiles.base import PromptCount, TokenCount
from tokenizer_profiles.errors import ProfileError, UnknownProfile
from tokenizer_profiles.registry import ProfileRegistry

COUNTED, NOT_COUNTED, WRONG_INPUT = 0, 1, 2


def main(arguments: list[str] | None = None) -> int:
    """Counts the request on standard input: 0 when counted, 1 when its profile cannot be had here, 2 when the input is wrong."""
    parser = argparse.ArgumentParser(prog="tokenizer_profiles", description="Count the tokens of a chat request (JSON on stdin).")
    parser.add_argument("model", help="the model's name")
    parser.add_argument("--profile", default="auto", help="a profile's name instead of the model's own")
    parser.add_argument("--json", action="store_true", help="one JSON object for programs")
    options = parser.parse_args(arguments)
    registry = ProfileRegistry.with_builtins()
    try:
        profile = registry.resolve(options.profile, options.model)
        request = _request(sys.stdin.read())
        count = asyncio.run(profile.count_prompt(request.pop("messages"), request))
    except ProfileError as error:
        sys.stderr.write(f"{error}\n")
        return WRONG_INPUT if isinstance(error, UnknownProfile) else NOT_COUNTED
    except ValueError as error:
        sys.stderr.write(f"{error}\n")
        return WRONG_INPUT
    reason = registry.choose(options.model).reason if options.profile == "auto" else ""
    sys.stdout.write(_as_json(profile.name, count, reason) if options.json else _as_text(profile.name, count, reason))
    return COUNTED


def _request(text: str) -> dict[str, Any]:
    try:
        request = json.loads(text)
    except ValueError as error:
        raise ValueError(f"the input is no JSON: {error}") from error
    except RecursionError:
        raise ValueError("the input is nested too deeply") from None
    messages = request.get("messages") if isinstance(request, dict) else None
    if not isinstance(messages, list) or not all(isinstance(message, dict) for message in messages):
        raise ValueError("the input is no chat request: a JSON object with a list of messages is needed")
    return dict(request)


def _as_text(profile: str, count: PromptCount, reason: str) -> str:
    parts = [(f"message {number}", part) for number, part in enumerate(count.messages)]
    parts += [("tools", count.tools), ("response format", count.response_format), ("template", count.template)]
    lines = [_line(label, part) for label, part in parts if part.tokens]
    total = _line(f"total, {'approximate' if count.approximate else 'exact'} (profile {profile})", TokenCount(count.total))
    return "\n".join([*lines, total, *([f"approximate: {reason}"] if reason else []), ""])


def _line(label: str, count: TokenCount) -> str:
    return f"{count.tokens:>9}  {label}{', approximate' if count.approximate else ''}"


def _as_json(profile: str, count: PromptCount, reason: str) -> str:
    parts = {"tools": count.tools, "response_format": count.response_format, "template": count.template}
    answer = {
        "profile": profile,
        "total": count.total,
        "approximate": count.approximate,
        **({"reason": reason} if reason else {}),
        "messages": [_part(message) for message in count.messages],
        **{name: _part(part) for name, part in parts.items()},
    }
    return json.dumps(answer) + "\n"


def _part(count: TokenCount) -> dict[str, object]:
    return {"tokens": count.tokens, "approximate": count.approximate}


if __name__ == "__main__":
    sys.exit(main())
