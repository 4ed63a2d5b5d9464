"""The log tells where an exception came from and of which kind it is, and nothing that its text may hold."""

from __future__ import annotations

import copy
import io
import logging.config
from collections.abc import Iterator

import pytest

from gateway.process_log import CONFIGURATION

SECRET = "sk-planted"


@pytest.fixture
def written() -> Iterator[io.StringIO]:
    """What a process writes that is configured so."""
    stream = io.StringIO()
    root = logging.getLogger()
    kept, level = root.handlers[:], root.level
    configuration = copy.copy(CONFIGURATION)
    configuration["handlers"] = {"stderr": {**CONFIGURATION["handlers"]["stderr"], "stream": stream}}
    logging.config.dictConfig(configuration)
    yield stream
    root.handlers[:] = kept
    root.setLevel(level)


def fails() -> None:
    """Raises an exception with a cause and a context, each with a secret in its text."""
    try:
        try:
            int(SECRET)
        except ValueError as error:
            raise KeyError(SECRET) from error
    except KeyError:
        raise RuntimeError(SECRET) from None


def logged(logger: str) -> None:
    """Has a logger tell of it."""
    try:
        fails()
    except RuntimeError as error:
        error.add_note(SECRET)
        logging.getLogger(logger).error("it failed inside", exc_info=True)


@pytest.mark.parametrize("logger", ["gateway.web", "uvicorn.error", "asyncio", "somebody.elses"])
def test_an_exception_is_told_without_its_text(written: io.StringIO, logger: str) -> None:
    logged(logger)
    told = written.getvalue()
    assert SECRET not in told
    assert "ERROR it failed inside\nTraceback" in told
    assert "in fails" in told
    assert told.endswith("builtins.RuntimeError\n")


def test_the_causes_come_first(written: io.StringIO) -> None:
    try:
        try:
            int(SECRET)
        except ValueError as error:
            raise KeyError(SECRET) from error
    except KeyError:
        logging.getLogger("gateway").exception("it failed")
    kinds = [line for line in written.getvalue().splitlines() if line.startswith("builtins.")]
    assert kinds == ["builtins.ValueError", "builtins.KeyError"]
    assert SECRET not in written.getvalue()


def test_a_chain_that_bites_its_tail_has_an_end(written: io.StringIO) -> None:
    first, second = ValueError(SECRET), KeyError(SECRET)
    first.__context__, second.__context__ = second, first
    logging.getLogger("gateway").error("it failed", exc_info=first)
    assert written.getvalue().count("Traceback") == 8


def test_of_a_task_that_failed_its_exception_is_not_shown(written: io.StringIO) -> None:
    logging.getLogger("asyncio").error("Task exception was never retrieved\nfuture: <Task exception=ValueError('%s')>", SECRET)
    assert SECRET not in written.getvalue()
    assert "never retrieved" in written.getvalue()


def test_what_others_say_in_several_lines_is_kept(written: io.StringIO) -> None:
    logging.getLogger("gateway").warning("one\ntwo")
    assert "WARNING one\ntwo" in written.getvalue()


def test_what_is_no_warning_is_not_written(written: io.StringIO) -> None:
    logging.getLogger("gateway").info("all is well")
    assert written.getvalue() == ""


def test_what_another_formatter_made_of_a_record_is_neither_used_nor_changed(written: io.StringIO) -> None:
    other, theirs = logging.StreamHandler(io.StringIO()), logging.StreamHandler(io.StringIO())
    root = logging.getLogger()
    root.handlers[:0] = [other]
    root.handlers.append(theirs)
    logged("gateway")
    assert SECRET not in written.getvalue()
    assert SECRET in other.stream.getvalue()
    assert SECRET in theirs.stream.getvalue()
