"""From a request below /v1 to what is sent on, and to whom: the provider of the model that the body names, else of `_default`.

Paths that might lead out of a provider's base URL are refused. Sends nothing itself.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import unquote

from gateway.errors import InvalidRequest, MethodNotAllowed, NotFound
from gateway.providers.base import ForwardedRequest, Provider
from gateway.web.asgi import Receive, Scope, lower_headers
from gateway.web.passthrough_body import NamedModel, Upload, model_in_form, model_in_json, too_large
from gateway.web.request_body import read_body
from gateway.web.rooms import Engine

PEEKED_BYTES = 65_536
MOST_CHARACTERS = 16_384
_PATH = re.compile(r"/v1(?:/(?:[A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2})+)+")
_QUERY = re.compile(rb"[\x21-\x7e]*")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_JSON_TYPES = ("", "application/json", "text/json")
_FORMS_WITHOUT_MODEL = ("/files", "/uploads", "/containers", "/vector_stores")
_OWN_HEADERS = (b"x-context-", b"x-sluicegate-")


@dataclass(frozen=True, slots=True)
class Asked:
    """A request to be sent on, who gets it, and where to learn that its client has left; the upload, if it is one."""

    request: ForwardedRequest
    provider: Provider
    receive: Receive
    upload: Upload | None = None


async def read_request(engine: Engine, scope: Scope, receive: Receive) -> Asked:
    """The request as it will be sent. Its body is read as far as it takes to find the model.

    Raises InvalidRequest, ModelNotFound, NotFound, MethodNotAllowed, PayloadTooLarge, UnsupportedMediaType, ClientCancelled.
    """
    path, headers = path_below_v1(scope["path"]), lower_headers(scope)
    query: bytes = scope["query_string"]
    if not _QUERY.fullmatch(query) or len(path) + len(query) > MOST_CHARACTERS:
        raise InvalidRequest(f"The query holds characters that no URL has, or the URL is longer than {MOST_CHARACTERS}.")
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind in _JSON_TYPES or kind.endswith("+json"):
        return await _read_json(engine, scope, receive, path, headers)
    upload = await _begun_upload(engine, receive, path, headers)
    beginning = await upload.beginning(0)
    named = model_in_form(beginning, headers["content-type"]) if kind == "multipart/form-data" else None
    provider, model = _recipient(engine, named)
    renamed = named.renamed(beginning, model) if named else beginning
    if upload.whole:
        return Asked(_request(engine, scope, path, renamed), provider, receive)
    upload.begin_with(renamed)
    declared = _declared(headers)
    size = None if declared is None else declared + len(renamed) - len(beginning)
    return Asked(_request(engine, scope, path, upload, size=size), provider, upload.receive_after, upload)


def path_below_v1(path: str) -> str:
    """What follows /v1, percent-encoded as it came.

    Raises InvalidRequest for a path that might lead out of a provider's base URL, NotFound for a chat completion in disguise,
    MethodNotAllowed for the models, which are the gateway's own.
    """
    if not _PATH.fullmatch(path):
        raise InvalidRequest("The path holds characters that no path has. Percent-encode them.")
    decoded, before = unquote(path), path
    while decoded != before:  # whoever stands behind may decode more than once
        decoded, before = unquote(decoded), decoded
    segments = [part.partition(";")[0].strip() for part in decoded.replace("\\", "/").split("/")]
    if _CONTROL.search(decoded) or not {".", ".."}.isdisjoint(segments):
        raise InvalidRequest("The path holds . or .. or control characters, which might lead elsewhere. Leave them out.")
    meant = [segment.lower() for segment in segments if segment][1:]
    if meant == ["chat", "completions"]:
        raise NotFound("There is no such path. Chat completions are at /v1/chat/completions, spelled like that.")
    if meant[:1] == ["models"]:
        raise MethodNotAllowed("The models of this gateway can only be read.", metadata={"allowed": "GET, HEAD"})
    return path.removeprefix("/v1")


async def _read_json(engine: Engine, scope: Scope, receive: Receive, path: str, headers: dict[str, str]) -> Asked:
    """A request whose body, if it has one, is JSON. It goes on without a content encoding."""
    body = await read_body(receive, headers, engine.settings.server.max_body_bytes)
    named = model_in_json(body)
    provider, model = _recipient(engine, named)
    renamed = named.renamed(body, model) if named else body
    return Asked(_request(engine, scope, path, renamed, without=b"content-encoding"), provider, receive)


async def _begun_upload(engine: Engine, receive: Receive, path: str, headers: Mapping[str, str]) -> Upload:
    """An upload whose beginning has arrived; the whole of a form whose model stands further back, behind a file.

    Otherwise a file meant for one provider would be sent to another.
    """
    limit = engine.settings.server.max_body_bytes
    if (_declared(headers) or 0) > limit:
        raise too_large(limit)
    upload = Upload(receive, limit)
    beginning = await upload.beginning(PEEKED_BYTES)
    content_type = headers["content-type"]
    may_name = content_type.lower().startswith("multipart/form-data") and not path.startswith(_FORMS_WITHOUT_MODEL)
    if may_name and not upload.whole and model_in_form(beginning, content_type) is None:
        await upload.beginning(limit + 1)
    return upload


def _recipient(engine: Engine, named: NamedModel | None) -> tuple[Provider, str]:
    """Who gets the request, and what he calls the model. Raises ModelNotFound, and NotFound where nobody can be told."""
    config = engine.models.resolve(named.name) if named else engine.models.default
    if config is None:
        raise NotFound(
            "The request names no model, and there is no models/_default.toml to say which provider takes it. "
            "Name a configured model in the body, or add that file."
        )
    return engine.providers[config.provider], config.upstream_name(named.name if named else "")


def _request(
    engine: Engine, scope: Scope, path: str, body: bytes | Upload, *, size: int | None = None, without: bytes = b""
) -> ForwardedRequest:
    return ForwardedRequest(
        scope["method"],
        path,
        query=scope["query_string"],
        headers=[(name, value) for name, value in scope["headers"] if name != without and _goes_on(engine, name, value)],
        body=body,
        size=size,
        authorization=scope["state"]["client"].authorization,
    )


def _goes_on(engine: Engine, name: bytes, value: bytes) -> bool:
    """Whether a header isn't meant for the gateway itself; one that holds a key of the gateway always is."""
    if engine.tenants.knows(value.decode("latin-1").strip().rpartition(" ")[2]):
        return False
    own = {chosen.lower().encode() for chosen in engine.settings.clients.chat_id_headers}
    return name not in own and not name.startswith(_OWN_HEADERS)


def _declared(headers: Mapping[str, str]) -> int | None:
    length = headers.get("content-length", "")
    return int(length) if length.isascii() and length.isdigit() else None
