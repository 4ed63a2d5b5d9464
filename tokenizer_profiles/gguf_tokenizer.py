"""Builds the tokenizer that llama.cpp makes of a model file's metadata. Knows no file and no template.

Two kinds of vocabulary: byte-level BPE ("gpt2": Qwen, Llama 3, DeepSeek …) and sentencepiece's BPE with scores ("llama": Llama 2,
Mistral, Gemma …). Source of the rules: llama.cpp, src/llama-vocab.cpp. The package `tokenizers` is imported at first use.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from tokenizer_profiles.errors import ProfileDataMissing
from tokenizer_profiles.gguf_splits import SPLITTINGS, Splitting

_BYTE_LEVEL, _PIECES = "gpt2", "llama"  # values of tokenizer.ggml.model
_UNKNOWN, _CONTROL, _USER_DEFINED = 2, 3, 4  # token types whose text is parsed as the token
_DEFAULT_SPECIAL = {"bos": 1, "eos": 2}
_DEFAULT_BYTE_LEVEL_SPECIAL = 11
_SPACE = "\u2581"
_SWALLOWS_SPACES = re.compile("phi-?3", re.IGNORECASE)  # llama.cpp goes by the model's name
_PARSED_TYPES = frozenset((_UNKNOWN, _CONTROL, _USER_DEFINED))
# Taken for control tokens whatever type the file gives them.
_ALWAYS_PARSED = re.compile(
    r"<\|(eot_id|im_end|end|return|call|endoftext|eom_id|end_of_text|channel|message|start|constrain|fim_(prefix|suffix|middle|pad|repo)"
    r"|repo_name|file_sep)\|>|<(end_of_turn|end_of_utterance|fim[-_](prefix|suffix|middle|pad|repo)|reponame|/s|EOT|PRE|SUF|MID|PAD|REPO)>"
    r"|_<EOT>|\[(EOT|EOS|PAD)\]|<｜(end▁of▁sentence|fim▁(begin|hole|end))｜>"
)


def build_tokenizer(metadata: Mapping[str, Any]) -> Any:
    """The `tokenizers.Tokenizer` of a model's vocabulary; it adds nothing to a text.

    Raises ProfileDataMissing for another kind of vocabulary, an unknown rule of splitting, or data that do not fit together.
    """
    try:
        from tokenizers import AddedToken
    except ImportError as failure:
        raise ProfileDataMissing("the package tokenizers is missing: install sluicegate[gguf]") from failure
    splitting = _splitting(metadata)
    tokenizer = _piece_tokenizer(metadata) if splitting is None else _byte_level_tokenizer(metadata, splitting)
    tokenizer.add_special_tokens([AddedToken(text, normalized=False) for text in _parsed_texts(metadata)])
    return tokenizer


def adds_bos(metadata: Mapping[str, Any]) -> bool:
    """Whether BOS is put in front of a prompt. Raises ProfileDataMissing as `build_tokenizer` does."""
    splitting = _splitting(metadata)
    return bool(metadata.get("tokenizer.ggml.add_bos_token", splitting is None or splitting.adds_bos))


def special_token(metadata: Mapping[str, Any], which: Literal["bos", "eos"]) -> str:
    """The text of BOS or EOS; llama.cpp has a number for each kind of vocabulary when the file names none."""
    number = _DEFAULT_SPECIAL[which] if metadata.get("tokenizer.ggml.model") == _PIECES else _DEFAULT_BYTE_LEVEL_SPECIAL
    number = metadata.get(f"tokenizer.ggml.{which}_token_id", number)
    tokens = metadata["tokenizer.ggml.tokens"]
    return str(tokens[number]) if 0 <= number < len(tokens) else ""


def _splitting(metadata: Mapping[str, Any]) -> Splitting | None:
    """How a byte-level vocabulary wants texts to be split; None for one of pieces, which are not split."""
    if _SWALLOWS_SPACES.search(str(metadata.get("general.name", ""))):
        raise ProfileDataMissing(
            "Phi-3's special tokens swallow spaces, which is not counted exactly here: use the profile remote"
        )
    model = metadata.get("tokenizer.ggml.model")
    if model == _PIECES:
        return None
    if model != _BYTE_LEVEL:
        raise ProfileDataMissing(
            f"a vocabulary of the kind {model!r} is not counted exactly here: use the profile remote or approximate"
        )
    name = metadata.get("tokenizer.ggml.pre", "default")
    splitting = SPLITTINGS.get(name)
    if splitting is None:
        raise ProfileDataMissing(f"the pre-tokenizer {name!r} is not known here: use the profile remote or approximate")
    return splitting


def _byte_level_tokenizer(metadata: Mapping[str, Any], splitting: Splitting) -> Any:
    from tokenizers import Regex, Tokenizer, models, pre_tokenizers

    vocabulary = _vocabulary(metadata)
    merges = _pairs(metadata.get("tokenizer.ggml.merges", ()))
    unknown = next((pair for pair in merges if not {*pair, "".join(pair)} <= vocabulary.keys()), None)
    if unknown is not None:
        raise ProfileDataMissing(f"the vocabulary does not hold the merge {unknown!r}: download the model again")
    tokenizer = Tokenizer(models.BPE(vocabulary, merges, ignore_merges=splitting.ignores_merges))
    splits = [pre_tokenizers.Split(Regex(expression), "isolated") for expression in splitting.expressions]
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([*splits, byte_level])
    return tokenizer


def _piece_tokenizer(metadata: Mapping[str, Any]) -> Any:
    """Merges in the order of the scores of what they make; what is in no piece falls into bytes."""
    from tokenizers import Tokenizer, models, normalizers

    vocabulary, scores = _vocabulary(metadata), metadata.get("tokenizer.ggml.scores", ())
    if len(scores) < len(vocabulary):
        raise ProfileDataMissing(f"{len(vocabulary)} pieces have {len(scores)} scores: download the model again")
    unknown = metadata["tokenizer.ggml.tokens"][0]
    tokenizer = Tokenizer(models.BPE(vocabulary, _scored_pairs(vocabulary, scores), byte_fallback=True, unk_token=unknown))
    space = normalizers.Replace(" ", _SPACE)
    prefix = metadata.get("tokenizer.ggml.add_space_prefix", True)
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend(_SPACE), space]) if prefix else space
    return tokenizer


def _vocabulary(metadata: Mapping[str, Any]) -> dict[str, int]:
    return {token or f"[EMPTY_{number}]": number for number, token in enumerate(metadata["tokenizer.ggml.tokens"])}


def _scored_pairs(vocabulary: Mapping[str, int], scores: Sequence[float]) -> list[tuple[str, str]]:
    pairs = [
        (-scores[number], number, at, piece[:at], piece[at:])
        for piece, number in vocabulary.items()
        for at in range(1, len(piece))
        if piece[:at] in vocabulary and piece[at:] in vocabulary
    ]
    return [(left, right) for *_, left, right in sorted(pairs)]


def _pairs(merges: Sequence[str]) -> list[tuple[str, str]]:
    """Each merge is two tokens with a space between; the first one's first character may itself be a space."""
    cut = [(merge, merge.find(" ", 1)) for merge in merges]
    return [(merge[:at], merge[at + 1 :]) for merge, at in cut]


def _parsed_texts(metadata: Mapping[str, Any]) -> list[str]:
    tokens, types = metadata["tokenizer.ggml.tokens"], metadata.get("tokenizer.ggml.token_type", ())
    typed = [token for token, kind in zip(tokens, types, strict=False) if token and kind in _PARSED_TYPES]
    return list(dict.fromkeys([*typed, *filter(_ALWAYS_PARSED.fullmatch, tokens)]))
