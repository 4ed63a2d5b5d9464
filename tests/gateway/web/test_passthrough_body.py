"""The model is found and renamed in place, every other byte stays; uploads are counted while they pass."""

from __future__ import annotations

import asyncio

import pytest

from gateway.errors import ClientCancelled, InvalidRequest, PayloadTooLarge
from gateway.web.passthrough_body import NamedModel, Upload, model_in_form, model_in_json
from tests.support.rooms import Connection, body_message, run

BORDER = b"--edge"
TYPE = "multipart/form-data; boundary=edge"


def part(name: str, value: bytes, more: str = "") -> bytes:
    return BORDER + f'\r\nContent-Disposition: form-data; name="{name}"{more}\r\n\r\n'.encode() + value + b"\r\n"


def form(*parts: bytes) -> bytes:
    return b"".join(parts) + BORDER + b"--\r\n"


@pytest.mark.parametrize(
    ("body", "renamed"),
    [
        (b'{"model":"m","input":"a"}', b'{"model":"n","input":"a"}'),
        (b' {\r\n "input" : [1.0, 2e5 ,"m"],\t"model" :\n"m" , "z":{"model":"m"} } ', None),
        (b'{"\\"model\\"":"m","model":"m"}', b'{"\\"model\\"":"m","model":"n"}'),
        (b'{"mod\\u0065l":"m"}', b'{"mod\\u0065l":"n"}'),
        ('{"é":"€","model":"m"}'.encode(), '{"é":"€","model":"n"}'.encode()),
        (b'{"a":"}{,:\\\\","model":"\\u006d","b":1}', b'{"a":"}{,:\\\\","model":"n","b":1}'),
    ],
)
def test_the_model_of_a_json_object_is_renamed_in_place(body: bytes, renamed: bytes | None) -> None:
    named = model_in_json(body)
    assert named is not None
    assert named.name == "m"
    expected = renamed or b' {\r\n "input" : [1.0, 2e5 ,"m"],\t"model" :\n"n" , "z":{"model":"m"} } '
    assert named.renamed(body, "n") == expected


def test_the_same_name_keeps_its_spelling() -> None:
    body = b'{"model":"\\u006d"}'
    named = model_in_json(body)
    assert named is not None
    assert named.renamed(body, "m") is body


def test_a_name_is_written_as_json_in_json_and_bare_in_a_form() -> None:
    assert NamedModel("m", 1, 4).renamed(b'{"m"}', 'q"\\') == b'{"q\\"\\\\"}'
    assert NamedModel("m", 1, 2, bare=True).renamed(b"-m-", "org/q") == b"-org/q-"


@pytest.mark.parametrize("body", [b"", b"  ", b'["model"]', b'"model"', b"12", b"\x00", b'{"model":null}', b'{"model":3}', b"{}"])
def test_what_is_no_object_or_names_nothing_names_no_model(body: bytes) -> None:
    assert model_in_json(body) is None


@pytest.mark.parametrize(
    "body", [b'{"model":"m","model":"n"}', b'{"model":"m","mod\\u0065l":"n"}', b'{"model":"m"', b'{"a":NaN}', b'{"a":"\xff"}']
)
def test_a_broken_object_or_a_repeated_key_is_refused(body: bytes) -> None:
    with pytest.raises(InvalidRequest):
        model_in_json(body)


@pytest.mark.parametrize("disposition", ['name="model"', "name=model", 'name="model"; x=y'])
def test_the_model_of_a_form_is_renamed_in_place(disposition: str) -> None:
    start = BORDER + f"\r\ncontent-disposition: FORM-DATA; {disposition}\r\nX-A: b\r\n\r\n".encode()
    body = part("language", b"en") + start + b"m\r\n" + part("file", b"m\r\nm", '; filename="model"') + BORDER + b"--\r\n"
    named = model_in_form(body, TYPE)
    assert named is not None
    assert named.renamed(body, "nn") == body.replace(start + b"m\r\n", start + b"nn\r\n")


def test_a_form_may_begin_with_words_and_quote_its_boundary() -> None:
    body = b"words\r\n" + form(part("model", b"m"))
    named = model_in_form(body, 'multipart/form-data; charset=utf-8; boundary="edge"')
    assert named is not None
    assert body[named.start : named.end] == b"m"


@pytest.mark.parametrize(
    "beginning",
    [
        b"",
        BORDER,
        BORDER + b"--\r\n",
        form(part("file", b'\r\nContent-Disposition: form-data; name="model"\r\n\r\nm')),
        form(part("file", b"m", '; filename="a; name=model"')),
        form(part("model", b"m", '; filename="m.bin"')),
        form(part("model", b"\xff")),
        part("model", b"m"),  # where it ends has not arrived
        BORDER + b'\r\nContent-Disposition: form-data; name="model"',
        form(BORDER + b"\r\n\r\nm\r\n"),
    ],
)
def test_a_form_without_a_whole_field_of_that_name_names_no_model(beginning: bytes) -> None:
    assert model_in_form(beginning, TYPE) is None


@pytest.mark.parametrize("content_type", ["multipart/form-data", "multipart/form-data; boundary=other", "multipart/é"])
def test_without_its_boundary_a_form_cannot_be_read(content_type: str) -> None:
    assert model_in_form(form(part("model", b"m")), content_type) is None


def test_a_form_that_names_two_models_is_refused() -> None:
    with pytest.raises(InvalidRequest) as caught:
        model_in_form(form(part("model", b"m"), part("model", b"n")), TYPE)
    assert caught.value.param == "model"


def upload(*pieces: bytes, max_bytes: int = 100, ends: bool = True) -> tuple[Upload, Connection]:
    last = len(pieces) - 1
    connection = Connection([body_message(piece, more=not ends or place < last) for place, piece in enumerate(pieces)])
    return Upload(connection.receive, max_bytes), connection


def test_pieces_pass_as_they_arrive_and_empty_ones_do_not() -> None:
    async def main() -> None:
        body, connection = upload(b"ab", b"", b"cd", b"")
        assert await anext(body) == b"ab"
        assert len(connection.waiting) == 3
        assert not body.whole
        assert [piece async for piece in body] == [b"cd"]
        assert body.whole

    run(main())


def test_the_beginning_is_seen_without_being_taken() -> None:
    async def main() -> None:
        body, connection = upload(b"ab", b"cd", b"ef")
        assert await body.beginning(3) == b"abcd"
        assert len(connection.waiting) == 1
        assert [piece async for piece in body] == [b"ab", b"cd", b"ef"]

    run(main())


def test_another_beginning_takes_its_place() -> None:
    async def main() -> None:
        body, _ = upload(b"ab", b"cd", b"ef")
        await body.beginning(3)
        body.begin_with(b"X")
        assert [piece async for piece in body] == [b"X", b"ef"]
        body.begin_with(b"")
        assert [piece async for piece in body] == []

    run(main())


def test_a_body_beyond_the_bound_fails_where_it_passes_it() -> None:
    async def main() -> None:
        body, _ = upload(b"abc", b"de", b"f", max_bytes=4)
        assert await anext(body) == b"abc"
        with pytest.raises(PayloadTooLarge) as caught:
            await anext(body)
        assert body.failure is caught.value
        assert caught.value.metadata == {"maxBytes": 4}

    run(main())


def test_a_body_of_just_the_bound_passes() -> None:
    async def main() -> None:
        body, _ = upload(b"abc", b"d", max_bytes=4)
        assert await body.beginning(100) == b"abcd"
        assert body.failure is None

    run(main())


def test_a_client_that_leaves_in_the_middle_is_the_failure() -> None:
    async def main() -> None:
        body, connection = upload(b"ab", ends=False)
        connection.leaves.set()
        assert await anext(body) == b"ab"
        with pytest.raises(ClientCancelled):
            await anext(body)
        assert isinstance(body.failure, ClientCancelled)

    run(main())


def test_a_watch_hears_of_the_client_only_after_the_whole_body() -> None:
    async def main() -> None:
        body, connection = upload(b"ab", b"cd")
        connection.leaves.set()
        watching = asyncio.ensure_future(body.receive_after())
        assert await anext(body) == b"ab"
        await asyncio.sleep(0)
        assert not watching.done()
        assert await anext(body) == b"cd"
        assert (await watching)["type"] == "http.disconnect"

    run(main())
