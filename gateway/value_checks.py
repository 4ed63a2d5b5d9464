"""What a configuration value may be, beyond its type. Knows no key and no file.

A check takes the value and gives a complaint, or None. Complaints repeat numbers, never texts: a text may be a secret.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Annotated, Any
from urllib.parse import urlsplit

from gateway.secret import Secret, SecretUrl

Check = Callable[[Any], str | None]


def between(low: float, high: float) -> Check:
    """From `low` to `high`, both included."""
    return lambda value: None if low <= value <= high else f"must be between {low} and {high}, not {value}"


def at_least(low: float) -> Check:
    """`low` or more."""
    return lambda value: None if value >= low else f"must be {low} or more, not {value}"


def above(low: float) -> Check:
    """More than `low`."""
    return lambda value: None if value > low else f"must be more than {low}, not {value}"


def matching(pattern: str, says: str) -> Check:
    """A text that the pattern matches as a whole; `says` is what the complaint calls it."""
    compiled = re.compile(pattern)
    return lambda value: None if compiled.fullmatch(value) else f"must be {says}"


def is_web_address(value: str) -> str | None:
    """An http or https URL with a host."""
    complaint = "must be an http:// or https:// address with a host, without spaces and #"
    if re.search(r"[\s#]", value):
        return complaint
    try:
        parts = urlsplit(value)
        port_fits = parts.port is None or parts.port > 0
    except ValueError:
        return complaint
    return None if parts.scheme in ("http", "https") and parts.hostname and port_fits else complaint


_LINE = r"[^\x00-\x1f\x7f-\x9f\ud800-\udfff]"
_TOKEN = r"[A-Za-z0-9!#$%&'*+.^_`|~-]+"  # noqa: S105 - the grammar of a header name

Text = Annotated[str, matching(_LINE + "+", "one line of text, not empty")]
Name = Annotated[str, matching(_LINE + "{1,256}", "one line of 1 to 256 characters")]
Label = Annotated[str, matching(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}", "letters, digits, _, . and -, at most 128 of them")]
Port = Annotated[int, between(0, 65535)]
Count = Annotated[int, at_least(0)]
Positive = Annotated[int, at_least(1)]
Share = Annotated[float, between(0, 1)]
Seconds = Annotated[float, above(0)]
Origin = Annotated[str, matching(r"\*|null|[a-z][a-z0-9+.-]*://[^/\s]+", 'an origin such as "https://chat.example", or "*"')]
EntryPoint = Annotated[str, matching(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*", '"package.module:function"')]
HeaderName = Annotated[str, matching(_TOKEN, "the name of an HTTP header")]
HeaderValue = Annotated[Secret, matching(r"[\x20-\x7e]*", "printable ASCII without line breaks")]
Sha256 = Annotated[Secret, matching(r"[0-9A-Fa-f]{64}", "64 hexadecimal digits")]
WebAddress = Annotated[SecretUrl, is_web_address]
StoreAddress = Annotated[
    SecretUrl,
    matching(r"[a-z][a-z0-9+.-]*://\S.*|memory:", 'a URL such as "sqlite:///var/sluicegate.db", or "memory:"'),
]
