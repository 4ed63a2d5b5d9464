"""A plug-in author needs one import."""

from __future__ import annotations

from gateway.plugins import base


def test_everything_an_author_needs_is_there() -> None:
    needed = {"PromptBlock", "ShiftResult", "TokenCounter", "ContextStrategy", "PromptInterceptor", "InterceptionContext"}
    assert needed | {"PluginHost", "Cleanup", "Diagnostic"} <= set(base.__all__)
    assert [name for name in base.__all__ if not hasattr(base, name)] == []


def test_the_context_of_a_request_holds_no_secret() -> None:
    assert not {"authorization", "headers", "key", "api_key"} & set(base.InterceptionContext.__slots__)
