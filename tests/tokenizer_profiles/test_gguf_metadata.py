from __future__ import annotations

import struct
import time
from contextlib import suppress
from pathlib import Path

import gguf
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.tokenizer_profiles.smollm2_server import model_path
from tests.tokenizer_profiles.tiny_gguf import CONTROL, TinyModel, TinyVocabulary, write
from tokenizer_profiles.errors import ProfileDataMissing
from tokenizer_profiles.gguf_metadata import read_metadata

KEY = struct.pack("<Q", 1) + b"k"


def header(pairs: int, version: int = 3) -> bytes:
    return b"GGUF" + struct.pack("<IQQ", version, 0, pairs)


def written(path: Path) -> Path:
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_string("a.text", "Grüße\n世界")
    writer.add_array("a.list", ["x", "", "Ġ"])
    writer.add_array("a.numbers", [-1, 0, 7])
    writer.add_array("a.lists", [[1, 2], [3]])
    writer.add_bool("a.bool", True)
    writer.add_uint32("a.uint32", 2**32 - 1)
    writer.add_int8("a.int8", -8)
    writer.add_uint64("a.uint64", 2**64 - 1)
    writer.add_float64("a.float64", 0.1)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    return path


def test_every_type_is_read_as_it_was_written(tmp_path: Path) -> None:
    assert read_metadata(written(tmp_path / "m.gguf")) == {
        "general.architecture": "llama",
        "a.text": "Grüße\n世界",
        "a.list": ["x", "", "Ġ"],
        "a.numbers": [-1, 0, 7],
        "a.lists": [[1, 2], [3]],
        "a.bool": True,
        "a.uint32": 2**32 - 1,
        "a.int8": -8,
        "a.uint64": 2**64 - 1,
        "a.float64": 0.1,
    }


def test_the_weights_behind_are_not_read(tmp_path: Path) -> None:
    path = written(tmp_path / "m.gguf")
    known = read_metadata(path)
    with path.open("ab") as file:
        file.truncate(5 << 30)  # sparse: five gigabytes of nothing
    assert read_metadata(path) == known


def test_a_model_is_read_like_its_own_package_reads_it(tmp_path: Path) -> None:
    vocabulary = TinyVocabulary.learned_from(["Grüße, 世界! ", "def f(x):\n\t"], {"<|end|>": CONTROL})
    path = write(tmp_path / "tiny.gguf", vocabulary, TinyModel(pre="smollm", template="{{ messages }}"))
    fields = gguf.GGUFReader(path).fields
    assert read_metadata(path) == {key: field.contents() for key, field in fields.items() if not key.startswith("GGUF.")}


def test_a_real_vocabulary_is_there_in_a_moment() -> None:
    before = time.process_time()
    metadata = read_metadata(Path(model_path()))
    assert time.process_time() - before < 1
    assert len(metadata["tokenizer.ggml.tokens"]) == 49152
    assert len(metadata["tokenizer.ggml.merges"]) == 48900
    assert metadata["tokenizer.ggml.add_bos_token"] is False


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "cannot be read as a model file"),
        (b"GG", "is not a GGUF file: it begins with b'GG'"),
        (b"PK\x03\x04" + b"\x00" * 60, "is not a GGUF file"),
        (b"GGUF", "is damaged or not complete"),
        (header(0, version=1), "of version 1"),
        (b"GGUF" + struct.pack(">IQQ", 3, 0, 0), "of version 50331648"),
        (header(1), "1 values of 13 bytes or more at byte 24 of 24"),
        (header(2**60), "is damaged or not complete"),
        (header(1) + KEY + struct.pack("<IQ", 8, 50) + b"x" * 9, "a text of 50 bytes"),
        (header(1) + KEY + struct.pack("<IQ", 8, 2**63) + b"x" * 9, "a text of 9223372036854775808 bytes"),
        (header(1) + KEY + struct.pack("<IIQ", 9, 8, 2**40), "1099511627776 values of 8 bytes"),
        (header(1) + KEY + struct.pack("<IIQ", 9, 5, 2**62), "4611686018427387904 values of 4 bytes"),
        (header(1) + KEY + struct.pack("<II", 77, 0), "a value of the unknown type 77"),
        (header(1) + KEY + struct.pack("<I", 9) + struct.pack("<IQ", 9, 1) * 9 + bytes(99), "a value of the unknown type 9"),
    ],
)
def test_what_is_no_model_file_is_said(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "bad.gguf"
    path.write_bytes(content)
    with pytest.raises(ProfileDataMissing, match=r"bad\.gguf") as raised:
        read_metadata(path)
    assert said in str(raised.value)


@pytest.mark.parametrize("name", ["absent.gguf", ""])
def test_a_path_without_a_file_is_said(tmp_path: Path, name: str) -> None:
    with pytest.raises(ProfileDataMissing, match="give the path of a GGUF file"):
        read_metadata(tmp_path / name)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 400), st.binary(min_size=1, max_size=8), st.integers(0, 400))
def test_damage_anywhere_is_read_or_said(tmp_path: Path, at: int, damage: bytes, cut: int) -> None:
    path = written(tmp_path / "damaged.gguf")
    content = path.read_bytes()
    path.write_bytes((content[:at] + damage + content[at + len(damage) :])[: len(content) - cut])
    with suppress(ProfileDataMissing):
        assert isinstance(read_metadata(path), dict)
