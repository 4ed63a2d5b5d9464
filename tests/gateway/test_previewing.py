"""A preview from a file is the gateway's own; a count is by the configured tokenizer, or by the name of the model."""

from __future__ import annotations

import asyncio
import io
import json
from pathlib import Path
from typing import Any

import pytest

from gateway import previewing
from gateway.app import Configuration, create_app, load_configuration
from gateway.errors import InvalidRequest, ModelNotFound
from gateway.previewing import Tally, count, count_lines, preview, preview_lines
from gateway.providers.openai_compatible import OpenAICompatibleProvider
from tests.support.rooms import fetch, run
from tests.support.running_app import GATEWAY, MODEL, started, write_tree
from tokenizer_profiles import PromptCount, TokenCount

NAMED = MODEL.replace('"m"', '"gpt-4o"').replace("approximate", "auto")


def chat(turns: int = 12, **more: Any) -> bytes:
    """A request of the model `m`, beyond its 100 tokens with the turns it has when nothing is said."""
    said = [{"role": ("user", "assistant")[i % 2], "content": f"turn {i} of some words"} for i in range(turns)]
    return json.dumps({"model": "m", "messages": [{"role": "system", "content": "Be terse."}, *said], **more}).encode()


@pytest.fixture
def configuration(tmp_path: Path) -> Configuration:
    return load_configuration(write_tree(tmp_path, m=MODEL, named=NAMED), {})


@pytest.mark.parametrize("strategies", [[], ["truncate"], ["manual", "truncate"]])
def test_a_preview_is_what_the_gateway_itself_says(configuration: Configuration, strategies: list[str]) -> None:
    async def asked() -> Any:
        app = create_app(configuration)
        body = {"request": json.loads(chat()), **({"strategies": strategies} if strategies else {})}
        async with started(app):
            return (await fetch(app, "POST", "/api/v2/context-preview", body)).json()

    told = run(asked())
    found = json.loads(json.dumps(run(preview(configuration, chat(), strategies)), default=lambda raw: json.loads(bytes(raw))))
    assert found == told.get("previews", [told])
    assert [each["contextStrategy"] for each in found] == (strategies or ["truncate"])


def test_a_preview_asks_nobody_but_closes_everything(configuration: Configuration, monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[str] = []

    async def aclose(self: OpenAICompatibleProvider) -> None:
        closed.append(self.name)

    monkeypatch.setattr(OpenAICompatibleProvider, "aclose", aclose)
    monkeypatch.setattr(OpenAICompatibleProvider, "ask", None)
    run(preview(configuration, chat(), []))
    run(count(configuration, chat(), None))
    with pytest.raises(InvalidRequest):
        run(preview(configuration, chat(), ["nonsense"]))
    assert closed == ["up"] * 3


def test_a_preview_opens_no_store(tmp_path: Path) -> None:
    store = tmp_path / "audits.db"
    tree = write_tree(tmp_path / "tree", GATEWAY.replace("memory:", f"sqlite:///{store}"))
    run(preview(load_configuration(tree, {}), chat(), []))
    assert not store.exists()


def test_people_read_what_stays_what_leaves_and_why(configuration: Configuration) -> None:
    (found,) = run(preview(configuration, chat(), []))
    lines = list(preview_lines(found))
    assert lines[0] == "m at up, strategy truncate, tokenizer approximate, approximate"
    assert lines[1].startswith("limit 100 tokens: 75 for the prompt, 25 for the reply and a margin of ")
    assert lines[2].endswith(f"{found['budget']['promptTokensBefore']} before: fits")
    assert len(lines) == 4 + len(found["blocks"])
    rows = {row.split(": ")[0].split()[-2]: row for row in lines[5:]}
    assert rows["m0"].split()[1:] == ["kept", "protected-system", "m0", "system:", "Be", "terse."]
    assert rows["m1"].split()[1:6] == ["left", "out", "context-shift", "m1", "user:"]
    assert rows["m12"].split()[1:3] == ["kept", "current-turn"]
    assert all(row.split()[0].startswith("~") for row in rows.values())


def test_people_read_by_how_much_it_does_not_fit(configuration: Configuration) -> None:
    (found,) = run(preview(configuration, chat(1, messages=[{"role": "user", "content": "word " * 200}]), []))
    verdict = list(preview_lines(found))[2]
    assert verdict.endswith(f": does not fit: {found['deficit']} tokens too many; nothing would be sent")
    assert found["deficit"] > 0


def test_remarks_and_shortened_blocks_are_told(configuration: Configuration) -> None:
    (found,) = run(preview(configuration, chat(2, contextShift={"marks": [{"index": 99, "pinned": True}]}), []))
    found["blocks"][-1] |= {"truncatedTo": 7, "content": "long\n" * 100}
    *_, block, remark = preview_lines(found)
    assert block.split()[1:4] == ["cut", "to", "7"]
    assert block.endswith("…")
    assert remark.startswith("warning: a mark speaks of no message")


def test_no_text_reaches_the_terminal_as_a_command(configuration: Configuration) -> None:
    nasty = [{"role": "user\x1b[2J", "content": "a\x1b[31m\u202e\x07b"}]
    (found,) = run(preview(configuration, chat(messages=nasty), []))
    tally = run(count(configuration, chat(messages=nasty), None))
    printed = "\n".join([*preview_lines(found), *count_lines(tally)])
    assert not {"\x1b", "\u202e", "\x07"} & set(printed)
    assert "a\ufffd[31m" in printed


def test_a_count_is_by_the_configured_tokenizer(configuration: Configuration) -> None:
    tally = run(count(configuration, chat(2), None))
    assert (tally.profile, tally.roles, len(tally.prompt.messages)) == ("approximate", ["system", "user", "assistant"], 3)
    assert (tally.prompt.approximate, tally.reason) == (True, "")


@pytest.mark.parametrize("configured", [True, False])
def test_another_model_may_be_named(configuration: Configuration, configured: bool) -> None:
    body = json.dumps({"messages": [{"role": "user", "content": "hello world", "meta": {"pinned": True}}]}).encode()
    tally = run(count(configuration if configured else None, body, "gpt-4o"))
    assert (tally.profile, tally.prompt.total, tally.prompt.approximate, tally.reason) == ("o200k_base", 9, False, "")


@pytest.mark.parametrize("configured", [True, False])
def test_a_model_that_nobody_configured_is_counted_by_its_name(configuration: Configuration, configured: bool) -> None:
    tally = run(count(configuration if configured else None, chat(2), "never-heard-of"))
    assert (tally.profile, tally.reason) == ("approximate", "no tokenizer is known for a model of this name")


def test_people_read_a_count_part_by_part() -> None:
    prompt = PromptCount((TokenCount(6), TokenCount(5, True)), TokenCount(7, True), TokenCount(0), TokenCount(3))
    assert list(count_lines(Tally("p", prompt, ["user", "assistant"], "why"))) == [
        "        6  message 0, user",
        "        5  message 1, assistant, approximate",
        "        7  tools, approximate",
        "        3  template",
        "       21  total, approximate (profile p)",
        "approximate: why",
    ]
    exact = PromptCount((TokenCount(6),), TokenCount(0), TokenCount(0), TokenCount(3))
    assert list(count_lines(Tally("p", exact, ["user"])))[-1] == "        9  total, exact (profile p)"


def test_a_preview_needs_a_model_that_is_configured(configuration: Configuration) -> None:
    with pytest.raises(ModelNotFound):
        asyncio.run(preview(configuration, chat(model="other"), []))


def test_input_comes_from_a_file_or_from_standard_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "request.json").write_bytes(b"file")
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"input \xff")))
    assert previewing.read_input(str(tmp_path / "request.json")) == b"file"
    assert previewing.read_input("-") == b"input \xff"
    for nothing in (str(tmp_path), str(tmp_path / "nowhere"), "\0"):
        with pytest.raises(InvalidRequest, match="It can't be read: "):
            previewing.read_input(nothing)
