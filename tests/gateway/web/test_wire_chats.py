"""A place in the list of chats survives its way through a URL; anything else is no place."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.web.wire_chats import place_of, token_of


@given(time=st.floats(0, 1e11, allow_nan=False), chat_id=st.text(min_size=1, max_size=256).filter(str.isprintable))
def test_a_token_leads_back_to_its_place(time: float, chat_id: str) -> None:
    token = token_of((time, chat_id))
    assert token.replace("-", "").replace("_", "").isalnum()
    assert place_of(token) == (time, chat_id)


@pytest.mark.parametrize("written", [b"", b"[]", b"[1]", b'["x","y"]', b"[1,2]", b'{"a":1}', b'[1e999,"x"]', b"\xff"])
def test_what_is_no_place_is_told(written: bytes) -> None:
    assert place_of(base64.urlsafe_b64encode(written).decode()) is None


@pytest.mark.parametrize("token", ["!", "a", "\u00e9", "=", " "])
def test_what_is_no_token_is_told(token: str) -> None:
    assert place_of(token) is None
