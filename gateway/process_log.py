"""How a serving process writes its log: on standard error, and of an exception the kinds and places only.

Their texts may hold what a client or provider sent: a key, an address, a prompt. Knows nothing of who logs.
"""

from __future__ import annotations

import logging
import traceback
from collections.abc import Iterator
from itertools import islice
from types import TracebackType
from typing import Any

_Caught = tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]
_MOST = 8  # exceptions of one chain


class WithoutTexts(logging.Formatter):
    """One record a line; below it where an exception came from."""

    def format(self, record: logging.LogRecord) -> str:
        """The whole record. What other formatters made of its exception is not taken over, nor left to them."""
        record.exc_text = None
        told = super().format(record)
        record.exc_text = None
        return told

    def formatException(self, ei: _Caught) -> str:  # noqa: N802  # the name is logging's
        """The chain of an exception, its causes first: each with its places and its kind, none with its text."""
        chain = list(islice(_chain(ei[1]), _MOST))
        return "\n".join(_told(error) for error in reversed(chain))

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802
        """The line. Of asyncio's own records the first alone: what follows shows tasks with their exceptions."""
        if record.name == "asyncio":
            record.message = record.message.partition("\n")[0]
        return super().formatMessage(record)


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)


def _told(error: BaseException) -> str:
    places = "".join(traceback.format_tb(error.__traceback__))
    return f"Traceback (most recent call last):\n{places}{type(error).__module__}.{type(error).__qualname__}"


CONFIGURATION: dict[str, Any] = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"plain": {"()": WithoutTexts, "fmt": "%(asctime)s %(levelname)s %(message)s"}},
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "plain"}},
    "root": {"handlers": ["stderr"], "level": "WARNING"},
    "loggers": {"uvicorn": {"handlers": [], "propagate": True}},  # the server has a way of its own otherwise
}
"""What `logging.config.dictConfig` takes: everything that is logged from then on, warnings and worse, is written so."""
