from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import gguf
import pytest

from tests.tokenizer_profiles.smollm2_server import model_path
from tests.tokenizer_profiles.tiny_gguf import CONTROL, TinyModel, TinyVocabulary, write
from tokenizer_profiles.errors import ProfileDataMissing
from tokenizer_profiles.gguf_file import GgufKind, read_gguf
from tokenizer_profiles.images import ImageRule, PatchRule
from tokenizer_profiles.kinds import ProfileRequest

TEMPLATE = "{% for m in messages %}<s>{{ m.content }}{% endfor %}{% if add_generation_prompt %}<e>{% endif %}"


@pytest.fixture(scope="module")
def vocabulary() -> TinyVocabulary:
    return TinyVocabulary.learned_from(["Grüße, 世界! def f(x):\n\t"], {"<s>": CONTROL, "<e>": CONTROL})


def kind() -> GgufKind:
    rules: dict[str, ImageRule] = {"": PatchRule(1), "other": PatchRule(2)}
    return GgufKind(rules.__getitem__)


def test_a_real_model_brings_tokenizer_template_and_variables() -> None:
    data = read_gguf(Path(model_path()))
    assert data.tokenizer.encode("<|im_start|>user\nHi<|im_end|>").ids[:1] == [1]
    assert "named SmolLM" in data.chat_template
    assert data.variables == {"bos_token": "<|im_start|>", "eos_token": "<|im_end|>"}
    assert (data.dialect, data.bos_tokens) == ("llama.cpp", 0)


def test_bos_and_eos_are_the_files(vocabulary: TinyVocabulary, tmp_path: Path) -> None:
    ids: dict[str, int | bool] = {"tokenizer.ggml.bos_token_id": 0, "tokenizer.ggml.eos_token_id": 1}
    data = read_gguf(write(tmp_path / "a.gguf", vocabulary, TinyModel(pre="llama-bpe", extra=ids)))
    assert (data.variables, data.bos_tokens) == ({"bos_token": "<s>", "eos_token": "<e>"}, 1)
    said: dict[str, int | bool] = {**ids, "tokenizer.ggml.add_bos_token": False}
    assert read_gguf(write(tmp_path / "b.gguf", vocabulary, TinyModel(pre="llama-bpe", extra=said))).bos_tokens == 0


def test_a_model_without_a_template_is_served_as_chatml(vocabulary: TinyVocabulary, tmp_path: Path) -> None:
    data = read_gguf(write(tmp_path / "m.gguf", vocabulary, TinyModel(pre="qwen2")))
    assert "<|im_start|>" in data.chat_template


def test_a_profile_is_made_once_for_each_file_and_price_of_images(tmp_path: Path) -> None:
    made = kind()
    first = made.make(ProfileRequest(argument=str(tmp_path / "absent.gguf")))
    assert first.name == f"gguf:{tmp_path / 'absent.gguf'}"
    assert not first.loaded
    assert made.make(ProfileRequest(argument=str(tmp_path / "absent.gguf"))) is first
    assert made.make(ProfileRequest(argument=str(tmp_path / "absent.gguf"), model="other")) is not first
    assert made.make(ProfileRequest(argument=str(tmp_path / "another.gguf"))) is not first
    assert (made.takes_argument, made.approximate) == (True, False)


def test_a_profile_counts_what_the_template_renders(vocabulary: TinyVocabulary, tmp_path: Path) -> None:
    path = write(tmp_path / "m.gguf", vocabulary, TinyModel(pre="smollm", template=TEMPLATE))
    profile = kind().make(ProfileRequest(argument=str(path)))
    profile.load()
    counted = asyncio.run(profile.count_prompt([{"role": "user", "content": "<s><e>"}, {"role": "user", "content": ""}], {}))
    assert (counted.total, counted.approximate) == (5, False)


def test_a_path_in_the_home_folder_is_found(vocabulary: TinyVocabulary, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    write(tmp_path / "m.gguf", vocabulary, TinyModel(pre="smollm", template=TEMPLATE))
    profile = kind().make(ProfileRequest(argument="~/m.gguf"))
    profile.load()
    assert profile.loaded


def broken(vocabulary: TinyVocabulary, path: Path, name: str) -> Path:
    """A model file with one defect."""
    if name == "later part":
        writer = gguf.GGUFWriter(path, "llama")
        writer.add_uint32("split.no", 1)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.close()
        return path
    extras: dict[str, dict[str, int | bool]] = {
        "wrong template": {"tokenizer.chat_template": 5},
        "ends prompts": {"tokenizer.ggml.add_eos_token": True},
        "two templates": {"tokenizer.chat_template.tool_use": True},
    }
    extra = extras.get(name, {})
    model = {"other model": TinyModel(model="bert"), "other rule": TinyModel(pre="gpt-7")}.get(
        name, TinyModel("smollm", extra=extra)
    )
    write(path, vocabulary, model)
    if name == "truncated":
        path.write_bytes(path.read_bytes()[:3000])
    return path


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("later part", "no vocabulary inside: give the first file of a split model"),
        ("other model", "a vocabulary of the kind 'bert'"),
        ("other rule", "the pre-tokenizer 'gpt-7'"),
        ("wrong template", "tokenizer.chat_template: not of the type"),
        ("ends prompts", "ends every prompt with EOS"),
        ("two templates", "a second chat template"),
        ("truncated", "damaged or not complete"),
    ],
)
def test_what_cannot_be_counted_is_said_with_the_file(vocabulary: TinyVocabulary, tmp_path: Path, name: str, said: str) -> None:
    profile = kind().make(ProfileRequest(argument=str(broken(vocabulary, tmp_path / "broken.gguf", name))))
    with pytest.raises(ProfileDataMissing, match=r"broken\.gguf") as raised:
        profile.load()
    assert said in str(raised.value)
    assert not profile.loaded


def test_neither_numpy_nor_gguf_is_needed() -> None:
    script = (
        "import sys; from pathlib import Path; from tokenizer_profiles.gguf_file import read_gguf;"
        f"read_gguf(Path({model_path()!r})); print(sorted({{'numpy', 'gguf', 'transformers'}} & sys.modules.keys()))"
    )
    answer = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)  # noqa: S603  (our own)
    assert answer.stdout.strip() == "[]"
