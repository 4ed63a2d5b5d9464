"""Notices that the client has left, which the server tells only through `receive`, and ends the work done for it."""

from __future__ import annotations

import asyncio
from types import TracebackType

from gateway.errors import ClientCancelled, GatewayError, ShuttingDown
from gateway.web.asgi import Receive

START_S = 0.02  # an answer that takes less is not worth a task of its own; a departure before it is noticed then


class ClientWatch:
    """While entered, a departure of the client cancels the task that entered; `over` ends the watch before the last word."""

    def __init__(self, receive: Receive) -> None:
        self.departed = False
        self._receive = receive
        self._watching = False
        self._owner: asyncio.Task[object] | None = None
        self._task: asyncio.Task[object] | None = None
        self._starting: asyncio.TimerHandle | None = None

    def __enter__(self) -> ClientWatch:
        self._owner = asyncio.current_task()
        self._watching = True
        self._starting = asyncio.get_running_loop().call_later(START_S, self._start)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.over()
        if self._starting is not None:
            self._starting.cancel()
        if self._task is not None:
            self._task.cancel()

    def over(self) -> None:
        """From now on a departure means nothing."""
        self._watching = False

    def why_cancelled(self) -> GatewayError:
        """Why the work was cancelled: the client left, or the gateway goes down."""
        if self.departed:
            return ClientCancelled("The client left before the end of its answer.")
        return ShuttingDown("The gateway is shutting down; the request was cut off at the end of its grace. Try again.")

    def _start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._wait())

    async def _wait(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        if self._watching and self._owner is not None:
            self.departed = True
            self._owner.cancel()
