"""How a chat is spelled for the API, and the token that stands for a place in the list of chats."""

from __future__ import annotations

import base64
import binascii
import math
from typing import Any

import msgspec

from gateway.stores.base import Place, StoredChat
from gateway.web.wire_audit import iso_time

_place = msgspec.json.Decoder(tuple[float, str])


def chat_object(chat: StoredChat) -> dict[str, Any]:
    """One chat."""
    return {
        "id": chat.chat_id,
        "createdAt": iso_time(chat.created_at),
        "updatedAt": iso_time(chat.updated_at),
        "model": chat.model,
        "status": chat.status.value,
        "generationId": chat.generation_id,
    }


def token_of(place: Place) -> str:
    """A place as it stands in a URL."""
    return base64.urlsafe_b64encode(msgspec.json.encode(place)).decode().rstrip("=")


def place_of(token: str) -> Place | None:
    """The place a token stands for; None for what is no token."""
    try:
        place = _place.decode(base64.b64decode(token + "=" * (-len(token) % 4), altchars=b"-_", validate=True))
    except (ValueError, binascii.Error, msgspec.MsgspecError):
        return None
    return place if math.isfinite(place[0]) else None
