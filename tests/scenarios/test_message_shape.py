"""A provider that insists on a shape gets it: what it receives, what that counts, what the audit and the previews say of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.scenarios.loopback import replies
from tests.scenarios.loopback.chats import conversation
from tests.scenarios.loopback.running_gateway import SMALL, RunningGateway, run_command, write_config
from tests.scenarios.loopback.upstream import Upstream
from tokenizer_profiles.base import AdditiveProfile
from tokenizer_profiles.registry import ProfileRegistry

CALL = {
    "role": "assistant",
    "content": None,
    "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}],
}
CHAT: list[dict[str, Any]] = [
    {"role": "assistant", "content": "Hello, I am the guide."},
    {"role": "system", "content": "Be kind."},
    {"role": "user", "content": "Where is the river?"},
    {"role": "user", "content": [{"type": "text", "text": "And the hill?"}]},
    CALL,
    {"role": "tool", "tool_call_id": "c1", "content": "south"},
    {"role": "developer", "content": "Be brief."},
    {"role": "assistant", "content": "South."},
    {"role": "assistant", "content": "Both."},
    {"role": "user", "content": "Thanks.", "seed": 1.50},
]
MERGED = [
    *CHAT[:2],
    {"role": "user", "content": [{"type": "text", "text": "Where is the river?\n\nAnd the hill?"}]},
    *CHAT[4:7],
    {"role": "assistant", "content": "South.\n\nBoth."},
    CHAT[9],
]
STRICT = [
    {"role": "system", "content": "Be kind.\n\nBe brief."},
    {"role": "user", "content": "(continued)"},
    CHAT[0],
    MERGED[2],
    *CHAT[4:6],
    *MERGED[6:],
]
LONG = conversation(turns=6, tokens=24)
OPENING = {"role": "user", "content": "(continued)"}


@pytest.fixture(scope="module")
def shaping(upstream: Upstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningGateway]:
    """A gateway with a model for each shape."""
    folder = tmp_path_factory.mktemp("shaping")
    shapes = ("as-is", "merge", "strict")
    models = {shape: f"{SMALL.replace('small', shape)}message_shape = '{shape}'\n" for shape in shapes}
    write_config(folder, upstream.url, models=models)
    with RunningGateway(folder) as running:
        yield running
    running.require_clean_log()


def tokens(messages: list[dict[str, Any]]) -> int:
    """What a prompt costs by OpenAI's rules."""
    profile = ProfileRegistry.with_builtins().resolve("o200k_base", "small")
    assert isinstance(profile, AdditiveProfile)
    return profile(messages)


def audited(gateway: RunningGateway, chat_id: str) -> dict[str, Any]:
    """The audit of a chat, whose included blocks add up."""
    audit = gateway.ended_audit(chat_id)
    assert sum(block["tokens"] for block in audit["blocks"] if block["included"]) == audit["budget"]["promptTokens"]
    assert min(block["tokens"] for block in audit["blocks"]) >= 0
    return audit


@pytest.mark.parametrize(("shape", "expected"), [("as-is", CHAT), ("merge", MERGED), ("strict", STRICT)])
def test_the_provider_gets_the_shape_and_the_audit_both_the_sources_and_what_was_sent(
    shaping: RunningGateway, upstream: Upstream, shape: str, expected: list[dict[str, Any]]
) -> None:
    script = upstream.script(replies.plain(), model=f"{shape}-whole")
    body = {"model": script.model, "messages": CHAT, "contextShift": {"chatId": script.model}}
    response = shaping.post(body)
    assert response.status_code == 200, response.text
    assert script.sent["messages"] == expected
    assert int(response.headers["x-context-prompt-tokens"]) == tokens(expected)
    audit = audited(shaping, script.model)
    assert audit["providerMessages"] == expected
    assert [block["role"] for block in audit["blocks"] if block["source"] == "request"] == [item["role"] for item in CHAT]
    assert [block["content"] for block in audit["blocks"]][1:5] == [
        "Hello, I am the guide.",
        "Be kind.",
        "Where is the river?",
        "And the hill?",
    ]
    told = [item["message"] for item in audit["diagnostics"] if item["code"] == "message-shape"]
    assert [text.split(":")[0] for text in told] == ([] if shape == "as-is" else [f"message_shape {shape}"])


@pytest.mark.parametrize("shape", ["merge", "strict"])
def test_what_has_the_shape_already_goes_out_byte_for_byte(shaping: RunningGateway, upstream: Upstream, shape: str) -> None:
    script = upstream.script(replies.plain(), model=f"{shape}-fits")
    body = b'{ "model":"%s", "messages": [ {"role":"user", "content":"\\u0061", "seed": 1.50}]}' % script.model.encode()
    response = shaping.http.post("/v1/chat/completions", content=body, headers={"content-type": "application/json"})
    assert response.status_code == 200, response.text
    assert script.arrival().body == body


@pytest.mark.parametrize(("short_of", "expected"), [(0, [LONG[0], OPENING, *LONG[-4:]]), (1, [LONG[0], *LONG[-3:]])])
def test_a_cut_is_made_until_it_fits_with_what_the_shape_adds(
    shaping: RunningGateway, upstream: Upstream, short_of: int, expected: list[dict[str, Any]]
) -> None:
    script = upstream.script(replies.plain(), model=f"strict-cut-{short_of}")
    room = tokens([LONG[0], OPENING, *LONG[-4:]]) - short_of
    options = {"chatId": script.model, "contextLimit": room + 15, "replyReserve": 15}
    shaping.post({"model": script.model, "messages": LONG, "contextShift": options})
    assert script.sent["messages"] == expected
    audit = audited(shaping, script.model)
    assert audit["providerMessages"] == expected
    assert audit["budget"]["promptTokens"] == tokens(expected) <= room


def test_neighbours_that_only_a_cut_makes_are_joined(shaping: RunningGateway, upstream: Upstream) -> None:
    script = upstream.script(replies.plain(), model="merge-cut")
    options = {"chatId": script.model, "marks": [{"index": 1, "pinned": True}]}
    shaping.post({"model": script.model, "messages": LONG[:-2] + LONG[-1:], "contextShift": options})
    sent = script.sent["messages"]
    joined = {"role": "user", "content": "\n\n".join([LONG[1]["content"], LONG[7]["content"]])}
    assert sent[:2] == [LONG[0], joined]
    assert audited(shaping, script.model)["budget"]["promptTokens"] == tokens(sent) <= 150


@pytest.mark.parametrize("chat", [CHAT, LONG], ids=["whole", "cut"])
@pytest.mark.parametrize("shape", ["merge", "strict"])
@pytest.mark.parametrize("strategy", ["truncate", "summarize"])
def test_previews_agree_with_the_generation(
    shaping: RunningGateway, upstream: Upstream, shape: str, strategy: str, chat: list[dict[str, Any]]
) -> None:
    script = upstream.script(replies.plain(), model=f"{shape}-preview-{strategy}-{len(chat)}")
    memory = [{"content": "The river rises in spring."}]
    body = {
        "model": script.model,
        "messages": chat,
        "contextStrategy": strategy,
        "contextShift": {"memory": memory, "chatId": script.model},
    }
    preview = shaping.http.post("/api/v2/context-preview", json=body).json()
    assert script.calls == []
    shaping.post(body)
    audit = audited(shaping, script.model)
    assert {name: audit[name] for name in preview if name in audit} == {
        name: value for name, value in preview.items() if name not in ("fits", "deficit")
    }
    assert preview["providerMessages"] == script.sent["messages"]


def test_the_preview_command_says_the_same(shaping: RunningGateway) -> None:
    file = shaping.folder / "request.json"
    file.write_text(json.dumps({"model": "strict-x", "messages": CHAT}))
    done = run_command(shaping.folder, "preview", str(file), "--config", "config", "--json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert (told["providerMessages"], told["budget"]["promptTokens"]) == (STRICT, tokens(STRICT))
