from __future__ import annotations

import base64
import struct

from tokenizer_profiles.attachments import audio_tokens, decoded_length, file_tokens, split_data_url, text_file


def wav(seconds: int, rate: int = 8_000) -> str:
    head = b"RIFF\x00\x00\x00\x00WAVEfmt " + struct.pack("<IHHIIHH", 16, 1, 1, rate, rate * 2, 2, 16) + b"data\x00\x00\x00\x00"
    return base64.b64encode(head + bytes(seconds * rate * 2)).decode()


def test_the_length_of_base64_is_known_without_decoding() -> None:
    assert [decoded_length(base64.b64encode(bytes(size)).decode()) for size in range(7)] == list(range(7))


def test_a_wav_costs_ten_tokens_a_second_of_its_own_rate() -> None:
    assert 100 <= audio_tokens(wav(10), "wav") <= 101
    assert 100 <= audio_tokens(wav(10, 44_100), "wav") <= 101


def test_a_sound_without_a_header_is_estimated_by_its_format() -> None:
    minute = base64.b64encode(bytes(480_000)).decode()
    assert audio_tokens(minute, "mp3") == 600
    assert audio_tokens(minute, "pcm16") == 100
    assert audio_tokens(minute, "unheard-of") == 1200
    assert audio_tokens("", "wav") == 1
    assert audio_tokens("!", "wav") == 1
    assert audio_tokens(base64.b64encode(b"RIFFxxxxWAVE").decode(), "wav") == 1


def test_a_file_costs_at_least_a_page() -> None:
    assert file_tokens("AAAA") == 1000
    assert file_tokens("A" * 4_000_000) == 3_000_000 // 32


def test_a_text_file_is_read() -> None:
    assert text_file(base64.b64encode("Grüße".encode()).decode(), "text/plain") == "Grüße"
    assert text_file("AAAA", "application/pdf") is None
    assert text_file("A", "text/plain") is None


def test_a_data_url_is_taken_apart() -> None:
    assert split_data_url("data:Text/Plain;base64,QUJD") == ("text/plain", "QUJD")
    assert split_data_url("QUJD") == ("", "QUJD")
