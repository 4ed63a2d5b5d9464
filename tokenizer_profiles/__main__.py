"""`python -m tokenizer_profiles MODEL < request.json`: the tokens of a chat request, part by part. Knows no gateway."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from typing import Any

from tokenizer_profiles.base import PromptCount, TokenCount
from tokenizer_profiles.errors import ProfileError
from tokenizer_profiles.registry import ProfileRegistry


def main(arguments: list[str] | None = None) -> int:
    """Counts the request on standard input; 0 when counted, 1 when the input or the profile is wrong."""
    parser = argparse.ArgumentParser(prog="tokenizer_profiles", description="Count the tokens of a chat request (JSON on stdin).")
    parser.add_argument("model", help="the model's name")
    parser.add_argument("--profile", default="auto", help="a profile's name instead of the model's own")
    options = parser.parse_args(arguments)
    try:
        profile = ProfileRegistry.with_builtins().resolve(options.profile, options.model)
        request = _request(sys.stdin.read())
        count = asyncio.run(profile.count_prompt(request.pop("messages"), request))
    except (ProfileError, ValueError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.write(_report(profile.name, count))
    return 0


def _request(text: str) -> dict[str, Any]:
    request = json.loads(text)
    messages = request.get("messages") if isinstance(request, dict) else None
    if not isinstance(messages, list) or not all(isinstance(message, dict) for message in messages):
        raise ValueError("the input is no chat request: a JSON object with a list of messages is needed")
    return dict(request)


def _report(profile: str, count: PromptCount) -> str:
    parts = [(f"message {number}", part) for number, part in enumerate(count.messages)]
    parts += [("tools", count.tools), ("response format", count.response_format), ("template", count.template)]
    lines = [_line(label, part) for label, part in parts if part.tokens]
    return "\n".join([*lines, _line(f"total ({profile})", TokenCount(count.total, count.approximate)), ""])


def _line(label: str, count: TokenCount) -> str:
    return f"{count.tokens:>9}  {label}{', approximate' if count.approximate else ''}"


if __name__ == "__main__":
    sys.exit(main())
