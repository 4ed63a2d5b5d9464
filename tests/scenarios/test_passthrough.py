"""Other endpoints of the OpenAI API through the real gateway: as they came but for the model's name, both ways as they arrive."""

from __future__ import annotations

import hashlib
import http.server
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest

from tests.scenarios.loopback import replies
from tests.scenarios.loopback.errors import checked_answer
from tests.scenarios.loopback.raw_client import RawClient
from tests.scenarios.loopback.running_gateway import SMALL, RunningGateway, write_config
from tests.scenarios.loopback.upstream import Ending, Upstream
from tests.scenarios.loopback.waiting import until

KEY = "sg-of-a-client"
MAX_BODY_BYTES = 6_000_000
RENAMED = 'model = "embedder"\naliases = ["embed-*"]\nprovider = "fake"\nupstream_model = "real-embedder"\n'
DEFAULT = 'provider = "sink"\n'
MORE = f"""
[[auth.keys]]
name = "one"
sha256 = "{hashlib.sha256(KEY.encode()).hexdigest()}"
[providers.sink]
kind = "openai"
api_key = "sk-of-the-sink"
base_url = """
PROMISED_S = 3.0  # the contract says one second; the rest is for a busy machine
SPEECH_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: audio/mpeg\r\ntransfer-encoding: chunked\r\n\r\n"


@dataclass
class Received:
    """One upload at the sink."""

    path: str
    headers: dict[str, str]
    body: bytearray = field(default_factory=bytearray)
    begun: threading.Event = field(default_factory=threading.Event)
    whole: bool = False
    ended: threading.Event = field(default_factory=threading.Event)


class Sink(http.server.ThreadingHTTPServer):
    """A provider that takes uploads, and tells of them while they arrive."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Taking)
        self.uploads: list[Received] = []


class _Taking(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Sink

    def log_message(self, format: str, *arguments: Any) -> None:  # noqa: A002  # the signature is the library's
        """Says nothing."""

    def do_POST(self) -> None:  # the name is the library's
        """Takes one upload."""
        upload = Received(self.path, {name.lower(): value for name, value in self.headers.items()})
        self.server.uploads.append(upload)
        try:
            self._take(upload)
        finally:
            self.close_connection = True
            upload.ended.set()
        if upload.whole:
            self.send_response(200)
            self.send_header("content-length", "2")
            self.send_header("connection", "close")
            self.end_headers()
            self.wfile.write(b"{}")

    def _take(self, upload: Received) -> None:
        length = upload.headers.get("content-length")
        while length is None or len(upload.body) < int(length):
            wanted = int(self.rfile.readline() or b"-1", 16) if length is None else 4096
            data = self.rfile.read(wanted) if length is None else self.rfile.read1(min(wanted, int(length) - len(upload.body)))
            if length is None:
                self.rfile.readline()
            if not data:
                upload.whole = wanted == 0
                return
            upload.body += data
            upload.begun.set()
        upload.whole = True


@pytest.fixture(scope="module")
def sink() -> Iterator[Sink]:
    """A provider for uploads."""
    with Sink() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def passing(upstream: Upstream, sink: Sink, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningGateway]:
    """A gateway with keys, a model of another name upstream, and a default."""
    folder = tmp_path_factory.mktemp("passing")
    write_config(
        folder,
        upstream.url,
        server=f"max_body_bytes = {MAX_BODY_BYTES}",
        provider='api_key = "sk-of-the-gateway"\nquery = {"api-version" = "3"}',
        more=MORE + f'"http://127.0.0.1:{sink.server_address[1]}/v1"',
        models={"small": SMALL, "embedder": RENAMED, "_default": DEFAULT},
    )
    with RunningGateway(folder) as running:
        running.http.headers["authorization"] = f"Bearer {KEY}"
        yield running
    running.require_clean_log()


def uploaded(sink: Sink, path: str) -> Received:
    """The only upload under a path."""
    return until(lambda: [upload for upload in sink.uploads if upload.path == path], f"an upload to {path}")[0]


def form(model: bytes | None, file: bytes) -> bytes:
    """A multipart form with boundary `edge`."""
    named = b'--edge\r\nContent-Disposition: form-data; name="model"\r\n\r\n%s\r\n' % model if model else b""
    file_part = b'--edge\r\nContent-Disposition: form-data; name="file"; filename="f.bin"\r\n\r\n%s\r\n' % file
    return named + file_part + b"--edge--\r\n"


FORM_TYPE = {"content-type": "multipart/form-data; boundary=edge"}


def test_an_alias_becomes_the_upstreams_name_and_every_other_byte_stays(passing: RunningGateway, upstream: Upstream) -> None:
    answer = b'{"object" : "list",\n "data":[]}'
    script = upstream.script(replies.answer(answer, openai_processing_ms="5", set_cookie="a=b"), model="real-embedder")
    body = b'{ "input": ["\\u00e9", 1.0],\n "model" :"embed-1" , "dimensions":2e2}'
    response = passing.http.post(
        "/v1/embeddings?user=a%2Fb&api-version=1", content=body, headers={"content-type": "application/json", "cookie": "a=b"}
    )
    call = script.arrival()
    assert call.body == body.replace(b"embed-1", b"real-embedder")
    assert (call.method, call.path) == ("POST", "/v1/embeddings?user=a%2Fb&api-version=3")
    assert (response.status_code, response.content) == (200, answer)
    assert response.headers["openai-processing-ms"] == "5"
    assert response.headers["x-request-id"].startswith("req_")
    assert "set-cookie" not in response.headers
    assert call.headers["authorization"] == "Bearer sk-of-the-gateway"
    assert KEY not in str(call.headers)
    assert "cookie" not in call.headers


@pytest.mark.parametrize("name", ["api-key", "x-sluicegate-key", "x-any"])
def test_a_clients_key_goes_no_further(passing: RunningGateway, upstream: Upstream, name: str) -> None:
    script = upstream.script(replies.answer(b"{}"))
    passing.http.post("/v1/responses", json={"model": script.model}, headers={name: KEY})
    assert KEY not in str(script.arrival().headers)


def test_the_official_client_asks_for_embeddings(passing: RunningGateway, upstream: Upstream) -> None:
    data = b'{"object":"list","model":"e","data":[{"object":"embedding","index":0,"embedding":[0.5]}],"usage":{}}'
    script = upstream.script(replies.answer(data))
    with passing.openai(api_key=KEY) as client:
        found = client.embeddings.create(model=script.model, input="x", encoding_format="float")
    assert found.data[0].embedding == [0.5]


def test_a_binary_answer_comes_whole(passing: RunningGateway, upstream: Upstream) -> None:
    sound = bytes(range(256)) * 2000
    script = upstream.script(
        SPEECH_HEAD, *(replies.chunked(sound[at : at + 65_536]) for at in range(0, len(sound), 65_536)), replies.END
    )
    response = passing.http.post("/v1/audio/speech", json={"model": script.model, "input": "x"})
    assert (response.headers["content-type"], response.content) == ("audio/mpeg", sound)


def test_events_arrive_before_the_end_and_unchanged(passing: RunningGateway, upstream: Upstream) -> None:
    gate = upstream.gate()
    first, second = b"event: response.created\nid: 1\ndata: {}\n\n", b": ping\n\nevent: done\ndata: {}\n\n"
    script = upstream.script(replies.STREAM_HEAD, replies.chunked(first), gate, replies.chunked(second), replies.END)
    with passing.http.stream("POST", "/v1/responses", json={"model": script.model, "stream": True}) as response:
        assert response.headers["content-type"] == "text/event-stream"
        chunks = response.iter_raw()
        assert next(chunks) == first
        gate.open()
        assert b"".join(chunks) == second


def test_a_broken_stream_of_events_ends_with_an_error_and_done(passing: RunningGateway, upstream: Upstream) -> None:
    script = upstream.script(replies.STREAM_HEAD, replies.chunked(b"data: {}\n\n"), 0.1, Ending.RESET)
    text = passing.http.post("/v1/responses", json={"model": script.model}).text
    assert text.startswith('data: {}\n\ndata: {"error"')
    assert "PROVIDER_UNREACHABLE" in text
    assert text.endswith("\n\ndata: [DONE]\n\n")


def test_half_a_file_is_not_taken_for_a_whole_one(passing: RunningGateway, upstream: Upstream) -> None:
    script = upstream.script(SPEECH_HEAD, replies.chunked(b"half"), 0.1, Ending.RESET)
    with pytest.raises(httpx.RemoteProtocolError):
        passing.http.post("/v1/audio/speech", json={"model": script.model})


def test_a_refusal_and_a_redirect_are_told_in_our_own_words(passing: RunningGateway, upstream: Upstream) -> None:
    refused = upstream.script(replies.refusal(400, "sk-of-the-gateway at http://inner.test"))
    response = passing.http.post("/v1/embeddings", json={"model": refused.model})
    error = checked_answer(response.status_code, response.headers, response.json())
    assert error["code"] == "PROVIDER_BAD_REQUEST"
    assert "inner" not in response.text
    elsewhere = upstream.script(replies.answer(b"", 302, location="http://inner.test/v1/embeddings"))
    response = passing.http.post("/v1/embeddings", json={"model": elsewhere.model})
    error = checked_answer(response.status_code, response.headers, response.json())
    assert (response.status_code, error["code"]) == (502, "PROVIDER_INVALID_RESPONSE")
    assert "inner" not in f"{response.text}{response.headers}"


@pytest.mark.parametrize("moment", ["before", "during"])
def test_a_client_that_leaves_ends_the_providers_call(passing: RunningGateway, upstream: Upstream, moment: str) -> None:
    steps = [SPEECH_HEAD, replies.chunked(b"sound")] if moment == "during" else []
    script = upstream.script(*steps, upstream.gate())
    client = RawClient(passing.url)
    client.post({"model": script.model}, "/v1/audio/speech", authorization=f"Bearer {KEY}")
    call = script.arrival()
    if moment == "during":
        client.read_until(b"sound")
    client.leave()
    assert call.gone.wait(PROMISED_S)


def begin_upload(client: RawClient, path: str, *more: str) -> None:
    head = [f"POST {path} HTTP/1.1", f"host: {client.host}", f"authorization: Bearer {KEY}", *more, "", ""]
    client.send("\r\n".join(head).encode())


def test_an_upload_of_some_megabytes_arrives_while_it_is_sent(passing: RunningGateway, sink: Sink) -> None:
    body = form(None, bytes(range(256)) * 16_000)
    with RawClient(passing.url) as client:
        begin_upload(client, "/v1/files", f"content-type: {FORM_TYPE['content-type']}", f"content-length: {len(body)}")
        client.send(body[:200_000])
        upload = uploaded(sink, "/v1/files")
        assert upload.begun.wait(10)
        client.send(body[200_000:])
        assert b" 200 " in client.read_until(b"{}")
    assert upload.whole
    assert upload.body == body
    assert upload.headers["content-length"] == str(len(body))
    assert upload.headers["authorization"] == "Bearer sk-of-the-sink"


def test_a_form_of_unknown_length_streams_too(passing: RunningGateway, sink: Sink) -> None:
    body = form(b"anything", b"y" * 300_000)
    pieces = (body[at : at + 50_000] for at in range(0, len(body), 50_000))
    response = passing.http.post("/v1/audio/transcriptions", content=pieces, headers=FORM_TYPE)
    upload = uploaded(sink, "/v1/audio/transcriptions")
    assert (response.status_code, upload.body) == (200, body)
    assert upload.headers["transfer-encoding"] == "chunked"


@pytest.mark.parametrize("leaves", [True, False], ids=["leaving", "too large"])
def test_an_upload_that_fails_reaches_no_provider_whole(passing: RunningGateway, sink: Sink, leaves: bool) -> None:
    path = f"/v1/uploads/{'left' if leaves else 'large'}"
    with RawClient(passing.url) as client:
        begin_upload(client, path, "content-type: audio/wav", "transfer-encoding: chunked")
        client.send(replies.chunked(b"x" * 200_000))
        upload = uploaded(sink, path)
        assert upload.begun.wait(10)
        if leaves:
            client.leave()
        else:
            client.send(replies.chunked(b"x" * MAX_BODY_BYTES))
            assert b"PAYLOAD_TOO_LARGE" in client.read_until(b"}}")
    assert upload.ended.wait(PROMISED_S)
    assert not upload.whole


@pytest.mark.parametrize("path", ["/v1/../admin", "/v1/files/%2e%2e/%2e%2e/admin", "/v1/..%2fadmin", "/v1/\\..\\admin"])
def test_a_path_that_leads_elsewhere_goes_nowhere(passing: RunningGateway, sink: Sink, path: str) -> None:
    before = len(sink.uploads)
    with RawClient(passing.url) as client:
        client.post(b"{}", path, authorization=f"Bearer {KEY}")
        assert b" 400 " in client.read_until(b"\r\n")
    assert len(sink.uploads) == before


def test_without_a_key_nothing_is_passed_on(passing: RunningGateway, sink: Sink) -> None:
    before = len(sink.uploads)
    response = httpx.post(f"{passing.url}/v1/files", content=b"x", headers={"content-type": "audio/wav"}, trust_env=False)
    assert (response.status_code, response.json()["error"]["code"]) == (401, "UNAUTHORIZED")
    assert len(sink.uploads) == before
