"""Estimates for sounds and files that stand in a message as base64: by their length, never as text. Knows nothing of messages."""

from __future__ import annotations

import binascii
import math
import struct

AUDIO_TOKENS_A_SECOND = 10  # OpenAI's input audio
FILE_BYTES_A_TOKEN = 32  # a PDF of 1 MB has some 15 pages, read as text and as pictures
FILE_MINIMUM = 1000  # one page, and a file that is named by an id only

_WAV_BYTES_A_SECOND = 32_000  # 16 kHz, 16 bit, mono: where the header names none
_BYTES_A_SECOND = {"wav": _WAV_BYTES_A_SECOND, "pcm16": 48_000, "mp3": 8_000, "flac": 24_000}
_COMPRESSED = 4_000  # opus, aac and what is not known, at a low rate


def decoded_length(data: str) -> int:
    """The bytes of a base64 text, without decoding it."""
    return max(0, len(data) * 3 // 4 - data[-2:].count("="))


def audio_tokens(data: str, kind: str) -> int:
    """The tokens of a base64 sound of format `kind` (wav, mp3 …), at least 1."""
    rate = _wav_rate(data) or _BYTES_A_SECOND.get(kind, _COMPRESSED)
    return max(1, math.ceil(decoded_length(data) / rate * AUDIO_TOKENS_A_SECOND))


def file_tokens(data: str) -> int:
    """A guess for a base64 file whose text cannot be read here."""
    return max(FILE_MINIMUM, decoded_length(data) // FILE_BYTES_A_TOKEN)


def text_file(data: str, media_type: str) -> str | None:
    """The text of a base64 file when it is a text file, else None."""
    if not media_type.startswith("text/") and media_type != "application/json":
        return None
    try:
        return binascii.a2b_base64(data).decode("utf-8", "replace")
    except ValueError:
        return None


def split_data_url(url: str) -> tuple[str, str]:
    """The media type and the base64 text of a data URL; an empty type and the whole text for anything else."""
    head, comma, _ = url[:200].partition(",")
    if not comma or not head.startswith("data:"):
        return "", url
    return head[5:].removesuffix(";base64").lower(), url[len(head) + 1 :]


def _wav_rate(data: str) -> int | None:
    """The bytes a second that a WAV header names."""
    try:
        header = binascii.a2b_base64(data[:512][: len(data[:512]) // 4 * 4])
        at = header.index(b"fmt ") if header[:4] == b"RIFF" else -1
        return int(struct.unpack("<I", header[at + 16 : at + 20])[0]) or None if at > 0 else None
    except (ValueError, struct.error):
        return None
