"""What of a request goes on, and to whom: paths that stay below the base URL, the client's headers, the model's provider."""

from __future__ import annotations

import asyncio
import gzip
import hashlib
from typing import Any

import pytest

from gateway.errors import GatewayError, InvalidRequest, MethodNotAllowed, NotFound
from gateway.secret import Secret
from gateway.settings import AuthSettings, ClientKey, ServerSettings, Settings
from gateway.web.guards import Client
from gateway.web.passthrough_body import Upload
from gateway.web.passthrough_request import MOST_CHARACTERS, PEEKED_BYTES, Asked, path_below_v1, read_request
from tests.support.rooms import Connection, body_message, open_rooms, post_scope, run
from tests.support.small_chats import model_config

EDGE = "multipart/form-data; boundary=edge"
KEY = "sg-one"
KEYS = AuthSettings(keys=(ClientKey("one", Secret(hashlib.sha256(KEY.encode()).hexdigest())),))
MODELS = [model_config(aliases=("alias-*",), upstream_model="real"), model_config(None, upstream_model="fallback")]


def field(name: str, value: bytes) -> bytes:
    return f'--edge\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n'.encode() + value + b"\r\n"


END = b"--edge--\r\n"


def read(path: str, *pieces: bytes, scope: dict[str, Any] | None = None, **settings: Any) -> tuple[Asked, bytes]:
    """The request read, and the whole of its body."""

    async def main() -> tuple[Asked, bytes]:
        models = settings.pop("models", MODELS)
        connection = Connection([body_message(piece, more=place < len(pieces) - 1) for place, piece in enumerate(pieces)])
        engine = open_rooms(settings=Settings(**settings), models=models).engine
        asked = await read_request(engine, (scope or {}) | {"path": path}, connection.receive)
        body = asked.request.body
        return asked, body if isinstance(body, bytes) else b"".join([piece async for piece in body])

    return run(main())


def post(path: str, *pieces: bytes, content_type: str = "application/json", **more: Any) -> tuple[Asked, bytes]:
    return read(path, *pieces, scope=post_scope(content_type=content_type), **more)


@pytest.mark.parametrize(
    "below",
    [
        "/embeddings",
        "/chat/completions/chatcmpl-1/messages",
        "/files/file-1/content",
        "/x/a%2Fb%20c/d:e@f",
        "/responses/r.1",
        "/files/..a/b..",
        "/files/~!$&'()*+,;=",
    ],
)
def test_what_follows_v1_stays_as_it_was_sent(below: str) -> None:
    assert path_below_v1("/v1" + below) == below


@pytest.mark.parametrize(
    "below",
    [
        "/..",
        "/../admin",
        "/files/../../admin",
        "/files/./x",
        "/%2e%2e/admin",
        "/.%2E/admin",
        "/files/%2e",
        "/%252e%252e/admin",
        "/%25252e./admin",
        "/files%2f..%2f..%2fadmin",
        "/files/..%5c..%5cadmin",
        "/files/%2e%2e;x/admin",
        "/files/..;/admin",
        "/files/%20..%20/admin",
        "/files\\..\\admin",
        "//evil.test/x",
        "/http://evil.test/x",
        "/files/%0d%0aHost:%20evil.test",
        "/files/%00",
        "/files/%7f",
        "/files/a b",
        "/files/é",
        "/files/%",
        "/files/%zz",
        "/files/a?b",
        "/files/a#b",
        "/@evil.test:80/\n",
        "/",
        "",
    ],
)
def test_a_path_that_might_lead_elsewhere_is_refused(below: str) -> None:
    with pytest.raises(InvalidRequest):
        path_below_v1("/v1" + below)


@pytest.mark.parametrize(
    "below", ["/chat%2Fcompletions", "/chat/%63ompletions", "/Chat/completions", "/chat;x/completions", "/chat%2f/completions%20"]
)
def test_a_chat_completion_in_disguise_is_not_found(below: str) -> None:
    with pytest.raises(NotFound, match="/v1/chat/completions"):
        path_below_v1("/v1" + below)


@pytest.mark.parametrize("below", ["/models", "/models/ft:x", "/%6dodels"])
def test_the_models_are_the_gateways_own(below: str) -> None:
    with pytest.raises(MethodNotAllowed):
        path_below_v1("/v1" + below)


@pytest.mark.parametrize("query", [b"a b", b"a\r\nb", "é".encode(), b"a" * MOST_CHARACTERS])
def test_a_query_that_is_none_is_refused(query: bytes) -> None:
    with pytest.raises(InvalidRequest):
        read("/v1/files", b"", scope=post_scope() | {"query_string": query})


def test_method_path_and_query_go_on() -> None:
    scope = post_scope() | {"method": "PATCH", "query_string": b"limit=2&after=%2Fx&include[]=a"}
    request = read("/v1/files/a%2Fb", b"", scope=scope)[0].request
    assert (request.method, request.path, request.query) == ("PATCH", "/files/a%2Fb", b"limit=2&after=%2Fx&include[]=a")


def test_an_alias_in_json_becomes_the_upstreams_name_and_nothing_else_changes() -> None:
    asked, body = post("/v1/embeddings", b'{ "input":[1.0, 2e1],', b'"model" : "alias-1"}')
    assert body == b'{ "input":[1.0, 2e1],"model" : "real"}'
    assert asked.provider.name == "up"


@pytest.mark.parametrize("body", [b"", b"[1]", b'{"model":null}', b'{"input":"x"}'])
def test_json_without_a_model_goes_on_as_it_is(body: bytes) -> None:
    assert post("/v1/batches/b/cancel", body)[1] == body


def test_a_body_without_a_type_is_json_if_it_looks_like_it() -> None:
    assert read("/v1/embeddings", b'{"model":"m"}', scope=post_scope())[1] == b'{"model":"real"}'


def test_compressed_json_goes_on_plain() -> None:
    scope = post_scope(content_type="application/json", content_encoding="gzip")
    asked, body = read("/v1/embeddings", gzip.compress(b'{"model":"m"}'), scope=scope)
    assert body == b'{"model":"real"}'
    assert b"content-encoding" not in dict(asked.request.headers)


def test_an_unknown_name_gets_the_name_that_the_default_gives_it() -> None:
    assert post("/v1/embeddings", b'{"model":"else"}')[1] == b'{"model":"fallback"}'


@pytest.mark.parametrize(
    ("body", "code"),
    [(b'{"model":"else"}', "MODEL_NOT_FOUND"), (b"{}", "NOT_FOUND"), (b'{"model":"m","model":"m"}', "INVALID_REQUEST")],
)
def test_without_a_default_a_request_must_name_a_known_model_once(body: bytes, code: str) -> None:
    with pytest.raises(GatewayError) as caught:
        post("/v1/embeddings", body, models=[model_config()])
    assert caught.value.code == code


def test_who_has_no_default_is_told_what_to_add() -> None:
    with pytest.raises(NotFound, match=r"models/_default\.toml"):
        post("/v1/files", b"", models=[model_config()])


def test_a_small_form_goes_on_whole_with_its_model_renamed() -> None:
    asked, body = post("/v1/audio/transcriptions", field("file", b"x"), field("model", b"m") + END, content_type=EDGE)
    assert body == field("file", b"x") + field("model", b"real") + END
    assert asked.upload is None


def test_a_large_form_streams_with_its_model_renamed_and_its_length_right() -> None:
    large = b"x" * PEEKED_BYTES
    pieces = [field("model", b"m"), field("file", large), large, END]
    size = sum(map(len, pieces))
    scope = post_scope(content_type=EDGE, content_length=str(size))
    asked, body = read("/v1/audio/transcriptions", *pieces, scope=scope)
    assert isinstance(asked.request.body, Upload)
    assert asked.request.body is asked.upload
    assert body == field("model", b"real") + field("file", large) + large + END
    assert asked.request.size == len(body) == size + 3


def test_a_model_behind_a_large_file_is_found_all_the_same() -> None:
    pieces = [field("file", b"x" * 3 * PEEKED_BYTES), field("model", b"m"), END]
    asked, body = post("/v1/audio/transcriptions", *pieces, content_type=EDGE)
    assert body.endswith(field("model", b"real") + END)
    assert asked.upload is None


@pytest.mark.parametrize(("path", "content_type"), [("/v1/files", EDGE), ("/v1/uploads/u/parts", EDGE), ("/v1/x", "audio/wav")])
def test_what_names_no_model_streams_on_after_its_beginning(path: str, content_type: str) -> None:
    async def main() -> None:
        connection = Connection([body_message(b"x" * PEEKED_BYTES, more=True), body_message(b"y", more=True), body_message(b"")])
        engine = open_rooms(models=MODELS).engine
        asked = await read_request(engine, post_scope(content_type=content_type) | {"path": path}, connection.receive)
        assert len(connection.waiting) == 2
        assert asked.request.size is None
        assert asked.upload is not None
        assert [len(piece) async for piece in asked.upload] == [PEEKED_BYTES, 1]

    run(main())


def test_an_upload_that_says_it_is_too_large_is_refused_unread() -> None:
    scope = post_scope(content_type="audio/wav", content_length="11")
    with pytest.raises(GatewayError) as caught:
        read("/v1/x", scope=scope, server=ServerSettings(max_body_bytes=10))
    assert caught.value.code == "PAYLOAD_TOO_LARGE"


@pytest.mark.parametrize("content_type", ["application/json", "audio/wav", EDGE])
def test_a_body_that_turns_out_too_large_is_refused(content_type: str) -> None:
    with pytest.raises(GatewayError) as caught:
        post("/v1/x", b"123456", b"78901", content_type=content_type, server=ServerSettings(max_body_bytes=10))
    assert caught.value.code == "PAYLOAD_TOO_LARGE"


def test_while_an_upload_is_under_way_the_watch_waits() -> None:
    async def main() -> None:
        connection = Connection([body_message(b"x" * PEEKED_BYTES, more=True), body_message(b"y")])
        engine = open_rooms(models=MODELS).engine
        asked = await read_request(engine, post_scope(content_type="audio/wav") | {"path": "/v1/x"}, connection.receive)
        watching = asyncio.ensure_future(asked.receive())
        await asyncio.sleep(0.01)
        assert len(connection.waiting) == 1
        assert asked.upload is not None
        assert [len(piece) async for piece in asked.upload] == [PEEKED_BYTES, 1]
        connection.leaves.set()
        assert (await watching)["type"] == "http.disconnect"

    run(main())


def sent_headers(**headers: str) -> dict[bytes, bytes]:
    asked, _ = read("/v1/files", b"", scope=post_scope(**headers), auth=KEYS)
    return dict(asked.request.headers)


def test_what_is_meant_for_the_gateway_stays_here() -> None:
    sent = sent_headers(X_Title="t", x_context_chat_id="c", x_sluicegate_key="k", **{"x-conversation-id": "c"})
    assert sent == {b"X-Title": b"t"}


@pytest.mark.parametrize("value", [KEY, f"Bearer {KEY}", f"bearer  {KEY}", f" {KEY} "])
@pytest.mark.parametrize("name", ["authorization", "x-any"])
def test_a_key_of_the_gateway_goes_on_in_no_header(name: str, value: str) -> None:
    assert sent_headers(**{name: value, "x-title": "t"}) == {b"x-title": b"t"}


def test_the_clients_own_authorization_goes_along() -> None:
    scope = post_scope() | {"state": {"client": Client(None, "Bearer theirs")}}
    assert read("/v1/files", b"", scope=scope)[0].request.authorization == "Bearer theirs"
