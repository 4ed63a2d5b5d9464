"""The official OpenAI client against the gateway: a reply, a streamed one, the `x-context-*` headers, and the audit.

    make run                                        in one terminal
    .venv/bin/python examples/openai_client.py      in another

Only `base_url` differs from a program that talks to OpenAI; the chat id is optional and names the audit.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import urllib.parse
import urllib.request
from collections.abc import Mapping

from openai import APIConnectionError, APIStatusError, OpenAI
from openai.types.chat import ChatCompletionMessageParam

CHAT = "openai-client-example"


def parse(arguments: list[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", default="http://127.0.0.1:8787", help="the gateway (default http://127.0.0.1:8787)")
    parser.add_argument("--model", default="smollm2")
    parser.add_argument("--key", default=os.environ.get("SLUICEGATE_KEY", "none-needed"), help="a client key, if one is needed")
    parser.add_argument("--max-tokens", type=int, default=48)
    parser.add_argument("question", nargs="?", default="Name three rivers.")
    return parser.parse_args(arguments)


def show_context(headers: Mapping[str, str]) -> None:
    """Prints what the gateway says about the prompt."""
    for name, value in sorted(headers.items()):
        if name.lower().startswith("x-context-"):
            print(f"  {name.lower()}: {value}")


def plain(client: OpenAI, options: argparse.Namespace, messages: list[ChatCompletionMessageParam]) -> None:
    """One answer as a whole."""
    raw = client.chat.completions.with_raw_response.create(model=options.model, messages=messages, max_tokens=options.max_tokens)
    print("Reply:", raw.parse().choices[0].message.content)
    show_context(raw.headers)


def streamed(client: OpenAI, options: argparse.Namespace, messages: list[ChatCompletionMessageParam]) -> None:
    """The same, piece by piece."""
    raw = client.chat.completions.with_raw_response.create(
        model=options.model, messages=messages, max_tokens=options.max_tokens, stream=True
    )
    print("Streamed: ", end="")
    with raw.parse() as chunks:
        for chunk in chunks:
            if chunk.choices:
                print(chunk.choices[0].delta.content or "", end="", flush=True)
    print()
    show_context(raw.headers)


def audit(options: argparse.Namespace) -> None:
    """What was sent, what was left out: read from the gateway's own API."""
    url = f"{options.url}/api/v2/chats/{urllib.parse.quote(CHAT, safe='')}/context-audit?view=summary"
    request = urllib.request.Request(url, headers={"authorization": f"Bearer {options.key}"})
    with urllib.request.urlopen(request, timeout=10) as answer:
        print("Audit:", json.dumps(json.load(answer), indent=2))


def main(arguments: list[str]) -> int:
    """Asks twice, then reads the audit."""
    options = parse(arguments)
    messages: list[ChatCompletionMessageParam] = [{"role": "user", "content": options.question}]
    with OpenAI(base_url=f"{options.url}/v1", api_key=options.key, default_headers={"x-context-chat-id": CHAT}) as client:
        try:
            plain(client, options, messages)
            streamed(client, options, messages)
        except APIConnectionError:
            print(f"nothing answers at {options.url}: start the gateway with `make run`", file=sys.stderr)
            return 1
        except APIStatusError as refused:
            print(f"refused with {refused.status_code}: {refused.message}", file=sys.stderr)
            return 1
    audit(options)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
