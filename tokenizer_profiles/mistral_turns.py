"""Whether mistral-common takes a chat, with its own validator, asked once for each turn. Knows no tokens and no texts.

The validator looks at each message, at each pair of neighbours, at the last message, and at the number of results since the last
calls, of which none is open behind an answer. So it takes a chat when it takes each turn of it: from one user message behind an
answer to the next one, both included.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any

from tokenizer_profiles.mistral_messages import Shape, refusal

_REMEMBERED = 4096  # turns


class TurnValidator:
    """Asks one format of mistral-common. `normalized` makes an instruct request of its messages.

    With `single_results` (the second version of the format) the encoder demands more than the validator does: one result for the
    calls since the last user message.
    """

    def __init__(self, validator: Any, instruct: Any, normalized: Any, *, single_results: bool) -> None:
        self._validator = validator
        self._instruct = instruct
        self._normalized = normalized
        self._single_results = single_results
        self._takes_turn = lru_cache(_REMEMBERED)(self._validate)
        self._takes_results = lru_cache(_REMEMBERED)(self._encode)

    def takes(self, shapes: Sequence[Shape]) -> bool:
        """Whether the chat is taken as it is."""
        starts = [at for at in range(1, len(shapes) - 1) if shapes[at].role == "user" and shapes[at - 1].answers]
        turns = [tuple(shapes[start : end + 1]) for start, end in pairwise([0, *starts, len(shapes)])]
        if not all(map(self._takes_turn, turns)):
            return False
        return not self._single_results or self._takes_results(tuple(shapes[last_user(shapes) :]))

    def _validate(self, shapes: Sequence[Shape]) -> bool:
        try:
            self._validator.validate_messages(_messages(shapes))
        except refusal():
            return False
        return all(shape.exact for shape in shapes)

    def _encode(self, shapes: Sequence[Shape]) -> bool:
        try:
            self._instruct.encode_instruct(self._normalized(_messages(shapes)))
        except refusal():
            return False
        return True


def last_user(shapes: Sequence[Shape]) -> int:
    """Where the last user messages are; 0 when there are none."""
    return max((at for at, shape in enumerate(shapes) if shape.role == "user"), default=0)


def _messages(shapes: Sequence[Shape]) -> list[Any]:
    return [message for shape in shapes for message in shape.messages]
