"""OpenAI's byte pair encodings, exact, from rank files that are already on this machine. Never downloads anything.

The files lie in the installed litellm package, which is found without importing it, or in TIKTOKEN_CACHE_DIR. Text of special
tokens is plain text here, as it is for OpenAI's chat endpoint. tiktoken itself is imported by the first count, not before.
"""

from __future__ import annotations

import os
import re
from base64 import b64decode
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from hashlib import sha256
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path
from threading import Lock

from tokenizer_profiles.errors import ProfileDataMissing
from tokenizer_profiles.openai_chat import TextTokenizer

WHITESPACE_STEP = 65_536  # characters; longer than the longest merge of any encoding, and a multiple of it
WHITESPACE_LIMIT = 8 * WHITESPACE_STEP  # a run up to here goes to tiktoken whole; near a million characters it panics

# Rust's \s, the first without line ends: where a pattern takes these apart, tiktoken matches them without backtracking.
_BLANK = r"[^\S\r\n\x1c-\x1f]"
_ANY_BLANK = r"[^\S\x1c-\x1f]"


@dataclass(frozen=True, slots=True)
class BytePairEncoding:
    """Where an encoding's ranks are and how it splits text: file name (SHA-1 of the file's address), SHA-256, pattern.

    With `ranks` only that many of the file's are taken, and the digest is that of the lines so cut. `blank` matches characters
    of which a long run is too much for tiktoken.
    """

    name: str
    file_name: str
    digest: str
    pattern: str = field(repr=False)
    ranks: int | None = None
    blank: str = field(default=_BLANK, repr=False)


# Names, digests and patterns are those of tiktoken_ext/openai_public.py, tiktoken 0.14.
O200K_BASE = BytePairEncoding(
    name="o200k_base",
    file_name="fb374d419588a4632f3f557e76b4b70aebbca790",
    digest="446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d",
    pattern="|".join(
        (
            r"""[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?""",
            r"""[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?""",
            r"""\p{N}{1,3}""",
            r""" ?[^\s\p{L}\p{N}]+[\r\n/]*""",
            r"""\s*[\r\n]+""",
            r"""\s+(?!\S)""",
            r"""\s+""",
        )
    ),
)
CL100K_BASE = BytePairEncoding(
    name="cl100k_base",
    file_name="9b5ad71b2ce5302211f9c61530b329a4922fc6a4",
    digest="223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7",
    pattern="|".join(
        (
            r"""'(?i:[sdmt]|ll|ve|re)""",
            r"""[^\r\n\p{L}\p{N}]?+\p{L}++""",
            r"""\p{N}{1,3}+""",
            r""" ?[^\s\p{L}\p{N}]++[\r\n]*+""",
            r"""\s++$""",
            r"""\s*[\r\n]""",
            r"""\s+(?!\S)""",
            r"""\s""",
        )
    ),
)
P50K_BASE = BytePairEncoding(
    name="p50k_base",
    file_name="ec7223a39ce59f226a68acc30dc1af2788490e15",
    digest="94b5ca7dff4d00767bc256fdd1b27e5b17361d7b8a5f968547f9f23eb70d2069",
    pattern=r"""'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s""",
    blank=_ANY_BLANK,
)
# p50k_base is r50k_base with runs of spaces added at its end, so that the first lines of its file are r50k's file.
R50K_BASE = replace(
    P50K_BASE,
    name="r50k_base",
    digest="306cd27f03c1a714eca7108e03d66b7dc042abe8c258b44c199a7ed9838dd930",
    ranks=50_256,
)


class BytePairTokenizer(TextTokenizer):
    """Counts text in one encoding; the vocabulary is read once, by `load` or by the first count."""

    def __init__(self, encoding: BytePairEncoding) -> None:
        super().__init__(self._count_once)
        self._encoding = encoding
        self._encode: Callable[[str], list[int]] | None = None
        self._lock = Lock()

    @property
    def loaded(self) -> bool:
        """See `TextTokenizer`."""
        return self._encode is not None

    @property
    def data_present(self) -> bool:
        """Whether the rank file is on this machine (its content is not checked)."""
        return any(path.is_file() for path in _places(self._encoding))

    @property
    def install(self) -> str:
        """See `ProfileKind`."""
        return _install(self._encoding)

    def load(self) -> None:
        """See `TextTokenizer`. Raises ProfileDataMissing."""
        self._encoder()

    def _encoder(self) -> Callable[[str], list[int]]:
        with self._lock:
            if self._encode is None:
                self._encode = _build(self._encoding)
            return self._encode

    def _count_once(self, text: str) -> int:
        encode = self._encode or self._encoder()
        if len(text) <= WHITESPACE_LIMIT:
            return len(encode(text))
        return sum(len(encode(piece)) for piece in split_whitespace(text, blank=self._encoding.blank))


def split_whitespace(text: str, limit: int = WHITESPACE_LIMIT, blank: str = _BLANK) -> Iterator[str]:
    """The text in pieces whose tokens are those of the whole, so that no whitespace run is too long for tiktoken.

    Only runs of more than `limit` characters (65,536 or more) are cut, where they begin and then every 65,536 characters, as long
    as so many are left: a short rest would miss the merge with what stands before it. For a run of one repeated character that
    is exact; one of changing characters may come out a token too high at each cut.
    """
    start = 0
    # Only where a run begins: tried at each of its characters, runs that are too short would cost the square of their length.
    for run in re.finditer(f"(?<!{blank}){blank}{{{limit + 1},}}", text):
        for cut in range(run.start(), run.end() - WHITESPACE_STEP + 1, WHITESPACE_STEP):
            yield text[start:cut]
            start = cut
    yield text[start:]


def _places(encoding: BytePairEncoding) -> Iterator[Path]:
    litellm = find_spec("litellm")
    if litellm is not None and litellm.origin is not None:
        yield Path(litellm.origin).parent / "litellm_core_utils" / "tokenizers" / encoding.file_name
    if cache := os.environ.get("TIKTOKEN_CACHE_DIR"):
        yield Path(cache) / encoding.file_name


def _rank_file(encoding: BytePairEncoding) -> bytes:
    for path in filter(Path.is_file, _places(encoding)):
        data = _first_lines(path.read_bytes(), encoding.ranks)
        if sha256(data).hexdigest() == encoding.digest:
            return data
    raise ProfileDataMissing(f"the rank file of {encoding.name} is not on this machine: {_install(encoding)}")


def _install(encoding: BytePairEncoding) -> str:
    where = f"set TIKTOKEN_CACHE_DIR to a directory with the file {encoding.file_name}"
    return f"install sluicegate[litellm], which holds it, or {where}"


def _first_lines(data: bytes, ranks: int | None) -> bytes:
    """A line a rank, in rising order."""
    return data if ranks is None else b"".join(data.splitlines(keepends=True)[:ranks])


def _build(encoding: BytePairEncoding) -> Callable[[str], list[int]]:
    data = _rank_file(encoding)
    try:
        from tiktoken import Encoding
    except ImportError as error:
        raise ProfileDataMissing(f"{encoding.name} is counted with tiktoken: install tiktoken") from error
    ranks = {b64decode(token): int(rank) for token, rank in (line.split() for line in BytesIO(data) if line.strip())}
    built = Encoding(encoding.name, pat_str=encoding.pattern, mergeable_ranks=ranks, special_tokens={})
    ranks.clear()  # the encoding keeps this very dictionary, some 30 MB, only to decode
    return built.encode_ordinary
