"""What llama.cpp's server makes of a chat request before and after its template sees it. Knows no template and no tokens.

Source: llama.cpp, tools/server/server-common.cpp (`oaicompat_chat_params_parse`), common/chat.cpp (`render_message_to_json`,
`common_chat_templates_apply_jinja`) and common/chat-auto-parser-generator.cpp; each rule was compared with a running server.
What that server refuses (a last call without its result, two replies at the end) is handed over as it came.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

from tokenizer_profiles.base import Message

Chat = list[dict[str, Any]]
RenderChat = Callable[[Chat, bool], str]  # messages, whether the reply is asked for -> the template's text

_INT64, _UINT64 = 1 << 63, 1 << 64
# What the server knows such families by, among them [SYSTEM_PROMPT] with [ARGS] for the later Mistrals.
_OWN_FORMATS = re.compile(
    r"<\|channel\|>|\[SYSTEM_PROMPT\](?=[\s\S]*\[ARGS\])|>>>all|<\|tool_calls_section_begin\|>|<\|tool_list_start\|>"
    r"|List of tools: \[|<\|role_sep\|>|｜DSML｜|<\|tool_call>call:|source_lang_code"
)
_OPENS_THINKING, _CLOSES_THINKING = "<think>", "</think>"
_FRACTION = re.compile(r"\d\.\d|\d[eE][-+\d]")
_WRITES_ARGUMENTS = re.compile(r"\barguments['\"\]]*\s*\|\s*tojson")
_MARK = "\U0010fffd"  # the last private-use character; around the text of a number that JSON would write in another way
_MARKED = re.compile(f'"?{_MARK}([-+.0-9a-z]*){_MARK}"?')


@dataclass(frozen=True, slots=True)
class Thinking:
    """The texts around the reasoning of a reply that is continued; empty where the template knows none.

    `certain` is false when they are a guess, because the template opens the reasoning itself.
    """

    start: str = ""
    end: str = ""
    certain: bool = True


def has_own_format(source: str) -> bool:
    """Whether the server has rules of its own for this template's family (gpt-oss, Kimi, LFM2 …), which are not known here."""
    return _OWN_FORMATS.search(source) is not None


def template_variables(today: date) -> dict[str, Any]:
    """What every template sees beside the messages and the special tokens; `today` is the server's."""
    return {"enable_thinking": True, "date_string": f"{today:%d %b %Y}", "datetime": f"{today:%b %d %Y}"}


def template_tools(tools: object) -> object:
    """Tool definitions with the keys that reach the template; anything malformed as it came."""
    if not isinstance(tools, list) or not all(_is_function(tool) for tool in tools):
        return tools
    return [{"type": "function", "function": _definition(tool["function"])} for tool in tools]


def template_message(message: Message, text: object, *, objects: bool, developers: bool) -> dict[str, Any]:
    """One message with the keys that reach the template, in their order; `text` is its content, already one text or parts.

    `objects`: the arguments of calls are handed over decoded; `developers`: the template knows the role developer.
    """
    role = message.get("role")
    out = {"role": "system" if role == "developer" and not developers else role, "content": text}
    out |= {key: message[key] for key in ("reasoning_content", "name", "tool_call_id") if message.get(key)}
    calls = message.get("tool_calls")
    if isinstance(calls, list) and calls:
        out["tool_calls"] = [_call(call, objects=objects) for call in calls]
    return out


def joined_parts(texts: Sequence[str]) -> str:
    """The content of several text parts, for a template that takes only texts."""
    return _joined(texts, "\n")


def written_numbers(text: str) -> str:
    """A rendered text with its numbers as the server writes them: floating point has six digits."""
    return _MARKED.sub(r"\1", text)


def has_fractions(message: Message) -> bool:
    """Whether its calls hold numbers that are not whole: a template that prints them without `tojson` prints other digits."""
    calls = message.get("tool_calls")
    functions = [call.get("function") for call in calls if isinstance(call, Mapping)] if isinstance(calls, list) else []
    return any(_FRACTION.search(str(function.get("arguments"))) for function in functions if isinstance(function, Mapping))


def writes_arguments(source: str) -> bool:
    """Whether a template hands the arguments of a call to `tojson` as a whole, and does not print them one by one."""
    return _WRITES_ARGUMENTS.search(source) is not None


def continues_reply(chat: Sequence[Message]) -> bool:
    """Whether the server lets the model continue the last message instead of asking for a new one."""
    return bool(chat) and chat[-1].get("role") == "assistant" and not chat[-1].get("tool_calls")


def continued(render: RenderChat, chat: Chat, last: Message, thinking: Thinking) -> str:
    """The prompt of a chat whose last message, a reply, is left open; `last` is that message as it came.

    The messages before it are rendered, then the text that asks for a reply, its reasoning and its content.
    """
    before = render(chat[:-1], False)
    content, reasoning = last.get("content"), last.get("reasoning_content") or ""
    if not content and not reasoning:
        return before
    asking = added_text(before, render(chat[:-1], True))
    if thinking.start:
        at = asking.find(thinking.start)
        asking = (asking if at < 0 else asking[:at]) + thinking.start + str(reasoning)
    if reasoning and not content:
        return before + asking
    return before + asking + thinking.end + _open_content(content)


def added_text(before: str, after: str) -> str:
    """What stands in `after` behind all that both texts begin with."""
    at = next(
        (at for at, (one, other) in enumerate(zip(before, after, strict=False)) if one != other), min(len(before), len(after))
    )
    return after[at:]


def learn_thinking(render: RenderChat) -> Thinking:
    """How a template wraps the reasoning of its last reply: tried with a reply that has both reasoning and content."""
    question = {"role": "user", "content": "Q"}
    reasoning, content = "Rk7reasoning", "Ck7content"
    asking = added_text(render([question], False), render([question], True))
    text = render([question, {"role": "assistant", "content": content, "reasoning_content": reasoning}], False)
    head, found, tail = text.partition(reasoning)
    end, closed, _ = tail.partition(content)
    opened = asking.find(_OPENS_THINKING)
    if found and closed and asking and asking in head:
        return Thinking(asking[opened:], end, certain=False) if opened >= 0 else Thinking(head.rpartition(asking)[2], end)
    if opened < 0 and not _takes_thinking_out(render):
        return Thinking()
    return Thinking(certain=False) if _CLOSES_THINKING in asking else Thinking(_OPENS_THINKING, _CLOSES_THINKING, certain=False)


def _takes_thinking_out(render: RenderChat) -> bool:
    """Whether a template looks for reasoning in the content of earlier replies."""
    reply = {"role": "assistant", "content": f"R{_CLOSES_THINKING}C"}
    text = render([{"role": "user", "content": "Q"}, reply, {"role": "user", "content": "Q"}], False)
    return bool(text) and reply["content"] not in text


def _is_function(tool: object) -> bool:
    function = tool.get("function") if isinstance(tool, Mapping) else None
    return isinstance(function, Mapping) and "name" in function


def _definition(function: Mapping[str, Any]) -> dict[str, Any]:
    parameters = _with_server_numbers(function.get("parameters", {}))
    return {"name": function["name"], "description": function.get("description", ""), "parameters": parameters}


def _call(call: object, *, objects: bool) -> object:
    function = call.get("function") if isinstance(call, Mapping) else None
    if not isinstance(call, Mapping) or not isinstance(function, Mapping):
        return call
    arguments = function.get("arguments")
    text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False, separators=(",", ":"))
    handed: object = _decoded(text) if objects else text
    out = {"type": "function", "function": {"name": function.get("name"), "arguments": handed}}
    return {**out, "id": call["id"]} if call.get("id") else out


def _decoded(text: str) -> object:
    try:
        return _with_server_numbers(json.loads(text))
    except (ValueError, RecursionError):
        return text


def _with_server_numbers(value: object) -> object:
    """Numbers as the server keeps and writes them: whole ones in 64 bits with a sign, others in C's %g."""
    if isinstance(value, dict):
        return {key: _with_server_numbers(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_with_server_numbers(inner) for inner in value]
    if isinstance(value, bool) or not isinstance(value, int | float):
        return value
    if isinstance(value, int) and -_INT64 <= value < _UINT64:
        return value if value < _INT64 else value - _UINT64
    return _with_six_digits(value)


def _with_six_digits(value: float) -> object:
    try:
        text = f"{value:g}"
    except OverflowError:  # a whole number beyond floating point
        return value
    if repr(float(text)) == text:
        return float(text)
    return int(text) if text == str(int(float(text))) else f"{_MARK}{text}{_MARK}"


def _open_content(content: object) -> str:
    if isinstance(content, list):
        return _joined([str(part.get("text", "")) for part in content if isinstance(part, Mapping)], "\n\n")
    return content if isinstance(content, str) else ""


def _joined(texts: Sequence[str], between: str) -> str:
    """Empty texts at the start leave nothing."""
    joined = ""
    for text in texts:
        joined += between + text if joined else text
    return joined
