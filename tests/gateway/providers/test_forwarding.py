"""Which headers go which way, and where a path leads."""

from __future__ import annotations

import httpx
import pytest

from gateway.errors import ProviderBadRequest
from gateway.providers.forwarding import answer_headers, is_event_stream, merged_query, request_headers, url_below


def pairs(**headers):
    return [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]


@pytest.mark.parametrize(
    "name",
    [
        "Connection",
        "Keep-Alive",
        "Proxy-Authorization",
        "Proxy-Connection",
        "TE",
        "Trailer",
        "Transfer-Encoding",
        "Upgrade",
        "HTTP2-Settings",
        "Host",
        "Content-Length",
        "Expect",
        "Authorization",
        "API-Key",
        "X-API-Key",
        "X-Goog-API-Key",
        "Cookie",
        "User-Agent",
        "Origin",
        "Referer",
        "Sec-Fetch-Site",
        "Forwarded",
        "X-Forwarded-For",
        "X-Forwarded-Host",
        "X-Real-IP",
        "Via",
        "X-Original-URL",
        "X-Rewrite-URL",
        "X-HTTP-Method-Override",
    ],
)
def test_what_belongs_to_the_client_or_its_connection_stays_here(name):
    assert request_headers([(name.encode(), b"x"), (b"X-Title", b"t")]) == [(b"x-title", b"t"), (b"accept-encoding", b"identity")]


def test_what_connection_names_stays_here_both_ways():
    headers = [*pairs(connection="X-Hop, keep-alive", etag="e"), *pairs(Connection="openai-hop", openai_hop="1", x_hop="1")]
    assert dict(request_headers(headers)) == {b"etag": b"e", b"accept-encoding": b"identity"}
    assert answer_headers(headers) == [(b"etag", b"e")]


def test_everything_else_goes_up_in_order_and_repeated():
    headers = pairs(content_type="multipart/form-data; boundary=x", openai_beta="a", accept="*/*", range="bytes=0-1")
    headers += pairs(openai_beta="b", idempotency_key="k", x_stainless_lang="python")
    assert request_headers(headers)[:-1] == headers


@pytest.mark.parametrize("value", [b"a\r\nx-evil: 1", b"a\nb", b"a\x00", b"\x7f", b"\xff"])
def test_what_is_no_header_goes_neither_way(value):
    assert request_headers([(b"x-title", value)]) == [(b"accept-encoding", b"identity")]
    assert answer_headers([(b"etag", value)]) == []


def test_a_name_that_is_none_goes_nowhere_and_a_value_may_be_text():
    assert request_headers([(b"x title", b"t"), (b"x-a", "é\t".encode())])[:-1] == [(b"x-a", "é\t".encode())]


@pytest.mark.parametrize(
    ("accepted", "asked"),
    [
        ("gzip, deflate, br, zstd", "gzip, deflate"),
        ("br", "identity"),
        ("GZIP;q=0.5", "gzip"),
        ("gzip;q=0, deflate", "deflate"),
        ("gzip;q=0.000", "identity"),
        ("*", "identity"),
        ("", "identity"),
    ],
)
def test_only_encodings_that_can_be_undone_are_asked_for(accepted, asked):
    assert request_headers(pairs(accept_encoding=accepted)) == [(b"accept-encoding", asked.encode())]


def test_of_an_answer_only_what_is_known_comes_down():
    kept = pairs(Content_Type="a/b", content_encoding="gzip", content_disposition="x", content_length="3", retry_after="2")
    kept += pairs(openai_processing_ms="5", x_ratelimit_remaining_tokens="7", etag="e", cache_control="no-store")
    dropped = pairs(set_cookie="a=b", server="s", date="d", alt_svc="h3", strict_transport_security="max-age=1", via="v")
    dropped += pairs(x_request_id="r", location="http://inner.test/", access_control_allow_origin="*", www_authenticate="x")
    dropped += pairs(x_context_limit="1", cf_ray="r", transfer_encoding_x="1", x_any="1")
    assert answer_headers([*dropped, *kept]) == [(name.lower(), value) for name, value in kept]


@pytest.mark.parametrize("other", [pairs(transfer_encoding="chunked"), pairs(Content_Type="Text/Event-Stream; charset=utf-8")])
def test_where_the_body_tells_its_end_no_length_is_told(other):
    assert b"content-length" not in dict(answer_headers([*pairs(content_length="3"), *other]))


@pytest.mark.parametrize(
    ("headers", "is_one"),
    [
        (pairs(content_type="text/event-stream"), True),
        (pairs(content_type="text/event-stream; charset=utf-8", content_encoding="identity"), True),
        (pairs(content_type="text/event-stream", content_encoding="gzip"), False),
        (pairs(content_type="application/json"), False),
        ([], False),
    ],
)
def test_a_stream_of_events_is_one_that_can_be_read(headers, is_one):
    assert is_event_stream(headers) is is_one


@pytest.mark.parametrize(
    ("query", "merged"),
    [
        (b"", b"v=1&key=a+b"),
        (b"limit=2&after=%2fx+y&include[]=a&include[]=b", b"limit=2&after=%2fx+y&include[]=a&include[]=b&v=1&key=a+b"),
        (b"v=9&limit=2&%76=8&key", b"limit=2&v=1&key=a+b"),
        (b"&&a&", b"a&v=1&key=a+b"),
    ],
)
def test_configured_parameters_win_and_the_clients_stay_as_sent(query, merged):
    assert merged_query(query, httpx.QueryParams({"v": "1", "key": "a b"})) == merged
    assert merged_query(b"a=%2f", httpx.QueryParams()) == b"a=%2f"


@pytest.mark.parametrize(
    ("base", "url"),
    [
        ("http://h.test/v1/", "http://h.test/v1/a%2fb/c:d?x=%2f&y[]=1"),
        ("https://h.test:8/openai/v1?drop=me", "https://h.test:8/openai/v1/a%2fb/c:d?x=%2f&y[]=1"),
        ("http://h.test", "http://h.test/a%2fb/c:d?x=%2f&y[]=1"),
    ],
)
def test_a_path_stands_below_the_base_url_as_it_was_sent(base, url):
    assert str(url_below(httpx.URL(base), "/a%2fb/c:d", b"x=%2f&y[]=1")) == url


@pytest.mark.parametrize("path", ["/../x", "/a/../../x", "/é", "/" + "a" * 70_000, "/a\n"])
def test_a_path_that_leads_out_or_is_none_is_refused(path):
    with pytest.raises(ProviderBadRequest):
        url_below(httpx.URL("http://h.test/v1"), path, b"")
