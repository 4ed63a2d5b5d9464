"""The provider kind `litellm`: every provider that does not speak OpenAI's format, through the litellm library. Its one door.

The library is imported when the first request needs it, which takes seconds, in a thread. It is told to fetch, log, repeat,
cache and drop nothing; what it does on the network is seen in `litellm_wire`. Its errors enter no message and no log.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import os
import warnings
from collections.abc import Coroutine
from typing import Any

import httpx

from gateway.errors import NotFound, ProviderAuth, ProviderNotFound
from gateway.providers.base import Forwarded, ForwardedRequest, OutgoingRequest, Provider, ProviderConfig, Reply, account_of
from gateway.providers.deadline import Patience
from gateway.providers.litellm_answer import Chunks, WholeAnswer
from gateway.providers.litellm_errors import Translation
from gateway.providers.litellm_request import HINTS, arguments_of, wants_usage
from gateway.providers.litellm_wire import CURRENT, BlockingTransport, CallTransport, LibraryCall, Route
from gateway.providers.replies import open_reply
from gateway.providers.upstream import Upstream
from gateway.published_limits import published_limits

PASSTHROUGH = "passthrough"
_LONGER_S = 60.0  # the library's own timeout lies behind ours
_ENVIRONMENT = {  # read by the library when it is imported
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "LITELLM_LOCAL_ANTHROPIC_BETA_HEADERS": "True",
    "LITELLM_OFFLINE_MODE": "true",
    "LITELLM_MODE": "PRODUCTION",  # else it reads a .env file
}
_SETTINGS: dict[str, Any] = {
    "suppress_debug_info": True,
    "set_verbose": False,
    "telemetry": False,
    "drop_params": False,
    "modify_params": False,
    "num_retries": None,
    "model_fallbacks": None,
    "cache": None,
    "callbacks": [],
    "input_callback": [],
    "success_callback": [],
    "failure_callback": [],
    "turn_off_message_logging": True,
    "disable_streaming_logging": True,
    "disable_token_counter": True,  # else it invents a usage, and asks a model hub for tokenizers
    "disable_hf_tokenizer_download": True,
}
# Costs, spend and logs: some of it asks the provider, and the event loop would stand still meanwhile.
_BOOKKEEPING = ("success_handler", "failure_handler", "response_cost_calculator")
_LATER_BOOKKEEPING = (
    "async_success_handler",
    "async_failure_handler",
    "dispatch_success_handlers",
    "dispatch_failure_handlers",
    "dispatch_attempt_failure_handlers",
)
_LOGGERS = ("LiteLLM", "LiteLLM Proxy", "LiteLLM Router")


class LitellmProvider(Provider):
    """One provider of the library, or all of them where no base_url is configured."""

    def __init__(self, config: ProviderConfig) -> None:
        self.name = config.name
        self._config = config
        self._timeouts = config.timeouts
        self._passthrough = config.api_key == PASSTHROUGH
        self._route = Route(config)
        self._settings = self._call_settings()

    async def send(self, outgoing: OutgoingRequest) -> Reply:
        """See Provider.send. A plain answer has arrived whole when this returns; also raises InvalidRequest."""
        arguments = arguments_of(outgoing.body) | self._settings
        if arguments.keys().isdisjoint(("max_tokens", "max_completion_tokens")):
            arguments |= await asyncio.to_thread(_within, arguments["model"], outgoing.room)
        if self._passthrough:
            arguments["api_key"] = _bearer(outgoing.authorization)
        library = await asyncio.to_thread(_library)
        patience = Patience(self._timeouts)
        call = LibraryCall(self._route, patience, outgoing.stream, own_key=self._passthrough)
        try:
            body = await self._asked(library, arguments, call, stream=outgoing.stream)
            upstream = Upstream(httpx.Response(200, stream=body), patience, self._timeouts.connect_s)
            return await open_reply(upstream, stream=outgoing.stream)
        except BaseException:
            patience.close()
            await call.aclose()
            raise

    async def forward(self, request: ForwardedRequest) -> Forwarded:
        """There are no other endpoints: the library translates chat completions alone."""
        raise NotFound(f"The provider {self.name} is reached through litellm, which passes nothing on but chat completions.")

    def account(self, authorization: str | None) -> str:
        """See Provider.account."""
        key = authorization if self._passthrough else self._config.api_key
        return account_of(self._config.base_url or "litellm", "\n".join([key or "", *self._config.headers.values()]))

    async def ask(self, method: str, path: str, body: bytes = b"") -> bytes:
        """See Provider.ask; this kind has no such paths."""
        raise _no_path(path)

    async def ask_below(self, method: str, path: str, body: bytes = b"") -> bytes:
        """See Provider.ask_below; this kind has no such paths."""
        raise _no_path(path)

    async def context_limit(self, upstream_model: str) -> int | None:
        """None: the published catalogue, which is the library's, answers instead."""
        return None

    async def aclose(self) -> None:
        """Closes every connection."""
        await self._route.aclose()

    async def _asked(self, library: Any, arguments: dict[str, Any], call: LibraryCall, *, stream: bool) -> httpx.AsyncByteStream:
        translation = Translation(call, self._timeouts.connect_s, tuple(arguments))
        usage_wanted = wants_usage(arguments)
        if stream:  # the usage is remembered in any case
            arguments["stream_options"] = {**arguments.get("stream_options", {}), "include_usage": True}
        token = CURRENT.set(call)
        try:
            with translation.ours(begun=False), call.patience:
                await _leave_out_hints(library, arguments)
                answer = await library.acompletion(**arguments, stream=stream)
                if hasattr(answer, "__anext__"):
                    return Chunks(answer, translation, usage_wanted=usage_wanted)
                return WholeAnswer(answer, call)
        finally:
            CURRENT.reset(token)

    def _call_settings(self) -> dict[str, Any]:
        config = self._config
        settings = {
            "api_base": self._route.api_base,
            "api_key": None if self._passthrough else config.api_key,
            "extra_headers": dict(config.headers) or None,
            "timeout": config.timeouts.total_s + _LONGER_S,
        }
        return {name: value for name, value in settings.items() if value is not None} | {"num_retries": 0, "max_retries": 0}


@functools.cache
def _library() -> Any:
    """The library, imported and quiet. Takes seconds the first time."""
    for name in _LOGGERS:  # they would write requests and keys
        logging.getLogger(name).disabled = True
    warnings.filterwarnings("ignore", category=UserWarning, module="pydantic")  # about the library's own models
    os.environ.update(_ENVIRONMENT)
    import litellm
    from litellm.litellm_core_utils.litellm_logging import Logging
    from litellm.litellm_core_utils.logging_worker import GLOBAL_LOGGING_WORKER
    from litellm.llms.custom_httpx.http_handler import AsyncHTTPHandler

    for name, value in _SETTINGS.items():
        setattr(litellm, name, value)
    for name in _BOOKKEEPING:
        setattr(Logging, name, _nothing)
    for name in _LATER_BOOKKEEPING:
        setattr(Logging, name, _nothing_later)
    litellm.main._encoding_cache = _NoTokenizer()
    GLOBAL_LOGGING_WORKER.ensure_initialized_and_enqueue = _not_kept
    litellm.sync_transport = BlockingTransport()
    AsyncHTTPHandler.create_async_transport = staticmethod(lambda *_, **__: CallTransport())
    logging.getLogger("httpx").setLevel(logging.WARNING)  # it would write addresses
    return litellm


class _NoTokenizer:
    """In place of the library's, which is heavy, counts where a provider named no usage, and moves TIKTOKEN_CACHE_DIR."""

    def encode(self, *_: object, **__: object) -> list[int]:
        return []


def _nothing(*_: object, **__: object) -> None:
    pass


async def _nothing_later(*_: object, **__: object) -> None:
    pass


def _not_kept(async_coroutine: Coroutine[object, object, object]) -> None:
    async_coroutine.close()


async def _leave_out_hints(library: Any, arguments: dict[str, Any]) -> None:
    """Fields that no answer depends on go only where the provider has a place for them."""
    hints = [name for name in HINTS if name in arguments]
    if hints:
        supported = await asyncio.to_thread(library.get_supported_openai_params, model=arguments["model"]) or ()
        for name in hints:
            if name not in supported:
                del arguments[name]


def _within(model: str, room: int | None) -> dict[str, int]:
    """A reply limit, where the library would ask for the longest reply the model has and the context has less room."""
    published = None if room is None else published_limits(model)
    longest = None if published is None else published.max_output
    return {"max_tokens": room} if room is not None and longest is not None and room < longest else {}


def _bearer(authorization: str | None) -> str:
    """The client's key. Without one the library would take the gateway's from the environment."""
    scheme, _, key = (authorization or "").partition(" ")
    key = key.strip()
    if scheme.lower() != "bearer" or not key:
        raise ProviderAuth("This provider is used with the client's own key: send it as Authorization: Bearer.", status=401)
    if not (key.isascii() and key.isprintable()) or key.startswith("os.environ/"):
        raise ProviderAuth("The Authorization header holds no key.", status=401)
    return key


def _no_path(path: str) -> ProviderNotFound:
    return ProviderNotFound(f"A provider of kind litellm answers chat completions alone, not {path}.")
