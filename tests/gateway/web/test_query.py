"""Numbers in a query are whole, within bounds, or refused with their name."""

from __future__ import annotations

import pytest

from gateway.errors import InvalidRequest
from gateway.web.query import whole_number


@pytest.mark.parametrize(("query", "expected"), [({}, 5), ({"n": "1"}, 1), ({"n": "10"}, 10), ({"n": "007"}, 7)])
def test_a_number_within_its_bounds_is_read(query: dict[str, str], expected: int) -> None:
    assert whole_number(query, "n", 5, least=1, most=10) == expected


@pytest.mark.parametrize("written", ["", "0", "11", "-1", "1.0", "1e1", "\u0661", "x", "1" * 5000])
def test_anything_else_is_refused(written: str) -> None:
    with pytest.raises(InvalidRequest, match="`n` must be a whole number from 1 to 10") as caught:
        whole_number({"n": written}, "n", 5, least=1, most=10)
    assert caught.value.param == "n"
