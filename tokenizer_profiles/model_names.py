"""Which model a name means: provider prefixes, fine-tune ids, dates and routing suffixes put aside. Knows no profiles.

Only known shapes are put aside: a name that merely resembles a known one stays what it is.
"""

from __future__ import annotations

import re

_PREFIX = re.compile(r"(?:openrouter/)?(?:openai|azure)/")
_ROUTING = re.compile(r":(?:free|nitro|floor|extended|exacto|online|beta|thinking)$")
_DATE = re.compile(r"-(?:20\d\d-\d\d-\d\d|\d{4})(?=-|$)")


def base_model(name: str) -> str:
    """The bare lower-case name of the model, without prefix, date, fine-tune id or routing suffix.

    `openai/gpt-4o-2024-08-06` and `ft:gpt-4o:acme::Ab12` are `gpt-4o`.
    """
    name = name.strip().lower()
    name = _PREFIX.sub("", name, count=1) if _PREFIX.match(name) else name
    if name.startswith("ft:"):
        name = name.split(":")[1]
    return _DATE.sub("", _ROUTING.sub("", name))
