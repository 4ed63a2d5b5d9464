"""GGUF files for tests, written with llama.cpp's own package: a model of one layer of zeros with any vocabulary."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = 1, 2, 3, 4, 5, 6
_WIDTH = 32
_LAYER = {
    "attn_norm": (_WIDTH,),
    "attn_q": (_WIDTH, _WIDTH),
    "attn_k": (_WIDTH, _WIDTH),
    "attn_v": (_WIDTH, _WIDTH),
    "attn_output": (_WIDTH, _WIDTH),
    "ffn_norm": (_WIDTH,),
    "ffn_gate": (_WIDTH, _WIDTH),
    "ffn_up": (_WIDTH, _WIDTH),
    "ffn_down": (_WIDTH, _WIDTH),
}


@dataclass(frozen=True)
class TinyVocabulary:
    """Tokens with their types; merges for byte-level ones, scores for pieces."""

    tokens: Sequence[str]
    types: Sequence[int]
    merges: Sequence[str] = ()
    scores: Sequence[float] = ()

    @classmethod
    def learned_from(cls, texts: Sequence[str], special: Mapping[str, int]) -> TinyVocabulary:
        """Byte-level merges that know no word boundaries, so that any wrong split of a text changes its tokens."""
        tokenizer = Tokenizer(models.BPE())
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        alphabet = pre_tokenizers.ByteLevel.alphabet()
        trainer = trainers.BpeTrainer(vocab_size=4000, initial_alphabet=alphabet, max_token_length=12, show_progress=False)
        tokenizer.train_from_iterator(texts, trainer)
        learned = tokenizer.get_vocab()
        tokens = [*special, *sorted(learned, key=lambda token: learned[token])]
        types = [*special.values(), *[NORMAL] * len(learned)]
        return cls(tokens, types, _merges_of(tokenizer))


@dataclass(frozen=True)
class TinyModel:
    """What is written beside a vocabulary; `extra` are metadata of the type uint32 or bool."""

    pre: str | None = None
    model: str = "gpt2"
    template: str | None = None
    name: str = "tiny"
    extra: Mapping[str, int | bool] = field(default_factory=dict)


def write(path: Path, vocabulary: TinyVocabulary, model: TinyModel) -> Path:
    """A model file that llama.cpp loads."""
    writer = gguf.GGUFWriter(path, "llama")
    sizes = {"context_length": 4096, "embedding_length": _WIDTH, "feed_forward_length": _WIDTH, "block_count": 1}
    for name, size in {**sizes, "head_count": 1, "head_count_kv": 1, "vocab_size": len(vocabulary.tokens)}.items():
        getattr(writer, f"add_{name}")(size)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(_WIDTH)
    _add_tokenizer(writer, vocabulary, model)
    for name, shape in _LAYER.items():
        writer.add_tensor(f"blk.0.{name}.weight", np.zeros(shape, dtype=np.float32))
    writer.add_tensor("token_embd.weight", np.zeros((len(vocabulary.tokens), _WIDTH), dtype=np.float32))
    writer.add_tensor("output_norm.weight", np.zeros((_WIDTH,), dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _add_tokenizer(writer: Any, vocabulary: TinyVocabulary, model: TinyModel) -> None:
    writer.add_tokenizer_model(model.model)
    writer.add_token_list(list(vocabulary.tokens))
    writer.add_token_types(list(vocabulary.types))
    writer.add_name(model.name)
    if vocabulary.merges:
        writer.add_token_merges(list(vocabulary.merges))
    if vocabulary.scores:
        writer.add_token_scores(list(vocabulary.scores))
    if model.pre is not None:
        writer.add_tokenizer_pre(model.pre)
    if model.template is not None:
        writer.add_chat_template(model.template)
    for key, value in model.extra.items():
        (writer.add_bool if isinstance(value, bool) else writer.add_uint32)(key, value)


def _merges_of(tokenizer: Tokenizer) -> list[str]:
    merges = json.loads(tokenizer.to_str())["model"]["merges"]
    return [" ".join(pair) for pair in merges]
