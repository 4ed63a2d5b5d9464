"""How long a call may take: first token, silence, total. Knows nothing of HTTP.

One timer serves a whole call. Whoever waits for the upstream waits inside `with patience:`; hearing something only moves
the moment, which costs an assignment, and the timer looks at the moment when it fires.
"""

from __future__ import annotations

import asyncio
from types import TracebackType

from gateway.errors import ProviderTimeout
from gateway.providers.base import Timeouts


class Patience:
    """The clock of one call; leaving the `with` block after the moment has passed raises ProviderTimeout."""

    __slots__ = ("_armed_for", "_at", "_begun", "_cancelling", "_end", "_expired", "_handle", "_loop", "_task", "_timeouts")

    def __init__(self, timeouts: Timeouts, since: float | None = None) -> None:
        """`since`: when the call began, in the loop's time; now, if it isn't given."""
        self._loop = asyncio.get_running_loop()
        self._timeouts = timeouts
        began = self._loop.time() if since is None else since
        self._end = began + timeouts.total_s
        self._at = min(began + timeouts.first_token_s, self._end)
        self._armed_for = 0.0
        self._handle: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[object] | None = None
        self._cancelling = 0
        self._begun = False
        self._expired = False

    def begin(self) -> None:
        """The answer has begun: from now on only silence and the whole are bounded."""
        self._begun = True
        self.heard()

    def heard(self) -> None:
        """Something arrived; silence is measured from here."""
        if self._begun:
            self._at = min(self._loop.time() + self._timeouts.idle_s, self._end)

    def at_most(self, seconds: float) -> None:
        """Lowers what is left to so many seconds."""
        self._end = self._at = min(self._at, self._loop.time() + seconds)

    def close(self) -> None:
        """Stops the timer."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def __enter__(self) -> None:
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("patience is for tasks")
        self._task = task
        self._cancelling = task.cancelling()
        if self._handle is None or self._at < self._armed_for:
            self._arm()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        task, self._task = self._task, None
        if not self._expired or task is None:
            return
        self._expired = False
        if task.uncancel() <= self._cancelling and kind is asyncio.CancelledError:
            raise self._timeout() from error

    def _arm(self) -> None:
        self.close()
        self._armed_for = self._at
        self._handle = self._loop.call_at(self._at, self._fire)

    def _fire(self) -> None:
        self._handle = None
        if self._task is None:
            return
        if self._loop.time() < self._at:
            self._arm()
            return
        self._expired = True
        self._task.cancel()

    def _timeout(self) -> ProviderTimeout:
        if self._at >= self._end:
            seconds, what = self._timeouts.total_s, "did not finish its answer"
        elif self._begun:
            seconds, what = self._timeouts.idle_s, "fell silent in the middle of its answer"
        else:
            seconds, what = self._timeouts.first_token_s, "sent no first token"
        return ProviderTimeout(f"The provider {what} within {seconds:g} s.", metadata={"timeoutSeconds": seconds})
