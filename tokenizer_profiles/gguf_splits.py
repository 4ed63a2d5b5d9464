"""How llama.cpp splits a text into words before it merges bytes, by the name in a model file's `tokenizer.ggml.pre`.

The rules are facts of llama.cpp (src/llama-vocab.cpp), which simplifies some models' own expressions: what it counts is what its
server will count. A name stands here only when its rule was compared with that server (see the tests). Knows no tokenizer.
"""

from __future__ import annotations

from dataclasses import dataclass

_CONTRACTION = r"'(?:[sStTmMdD]|[rR][eE]|[vV][eE]|[lL][lL])"
_SPACES = r"\s*[\r\n]+|\s+(?!\S)|\s+"
_WORD = r"[^\r\n\p{L}\p{N}]?\p{L}+"
_SIGNS = r" ?[^\s\p{L}\p{N}]+[\r\n]*"
_SIGNS_OR_SLASHES = r" ?[^\s\p{L}\p{N}]+[\r\n/]*"
_GPT2 = r"'(?:s|t|re|ve|m|ll|d)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)"
_PUNCTUATION = r"!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~"
# A letter that is not a small (large) one of ASCII: all of any other script are both.
_LARGE, _SMALL = r"[\p{L}&&[^a-z]]", r"[\p{L}&&[^A-Z]]"


def _cased(ending: str) -> str:
    before = r"[^\r\n\p{L}\p{N}]?"
    return f"{before}{_LARGE}*{_SMALL}+{ending}|{before}{_LARGE}+{_SMALL}*{ending}"


_DIGIT, _THREE_DIGITS = r"\p{N}", r"\p{N}{1,3}"
_GPT2_DIGITS = (_DIGIT, _GPT2)
_LLAMA3 = (f"{_CONTRACTION}|{_WORD}|{_THREE_DIGITS}|{_SIGNS}|{_SPACES}",)
_QWEN2 = (f"{_CONTRACTION}|{_WORD}|{_DIGIT}|{_SIGNS}|{_SPACES}",)
_QWEN35 = (rf"{_CONTRACTION}|[^\r\n\p{{L}}\p{{N}}]?[\p{{L}}\p{{M}}]+|{_DIGIT}| ?[^\s\p{{L}}\p{{M}}\p{{N}}]+[\r\n]*|{_SPACES}",)
_DEEPSEEK3 = (
    _THREE_DIGITS,
    "[一-龥\u3040-ゟ゠-ヿ]+",
    rf"[{_PUNCTUATION}][A-Za-z]+|[^\r\n\p{{L}}\p{{P}}\p{{S}}]?[\p{{L}}\p{{M}}]+| ?[\p{{P}}\p{{S}}]+[\r\n]*|{_SPACES}",
)
_TEKKEN = (f"{_cased('')}|{_DIGIT}|{_SIGNS_OR_SLASHES}|{_SPACES}",)
_GPT4O = (f"{_cased(f'(?:{_CONTRACTION})?')}|{_THREE_DIGITS}|{_SIGNS_OR_SLASHES}|{_SPACES}",)
_FALCON = (r"[\p{P}\$\+<=>\^~\|`]+", _GPT2, "[0-9][0-9][0-9]")
_DEFAULT = (r"[\p{P}\$\+<=>\^~\|]+", _GPT2, r"\p{N}+", "[0-9][0-9][0-9]")


@dataclass(frozen=True, slots=True)
class Splitting:
    """Expressions, each applied to the pieces that the one before left; whole words may be tokens without any merge.

    `adds_bos` is what llama.cpp does when the model file does not say.
    """

    expressions: tuple[str, ...]
    ignores_merges: bool = False
    adds_bos: bool = False


_FAMILIES = (
    (Splitting(_GPT2_DIGITS), "smollm starcoder refact command-r codeshell exaone minerva-7b"),
    (Splitting((_GPT2,)), "gpt-2 phi-2 gigachat a.x-4.0 mellum exaone4 mpt olmo jais trillion granite-docling"),
    (Splitting(_LLAMA3, ignores_merges=True, adds_bos=True), "llama-bpe llama3 llama-v3 falcon3 falcon-h1 pixtral midm-2.0 lfm2"),
    (Splitting(_LLAMA3), "dbrx smaug-bpe glm4 chatglm-bpe"),
    (Splitting(_QWEN2), "qwen2 deepseek-r1-qwen stablelm2 megrez hunyuan grok-2"),
    (Splitting(_QWEN35), "qwen35"),
    (Splitting(_DEEPSEEK3), "deepseek-v3 hunyuan-dense"),
    (Splitting(_TEKKEN, ignores_merges=True, adds_bos=True), "tekken"),
    (Splitting(_GPT4O), "gpt-4o llama4 kanana2 minimax-m2"),
    (Splitting(_FALCON), "falcon"),
    (Splitting(_DEFAULT), "default"),
)
SPLITTINGS = {name: splitting for splitting, names in _FAMILIES for name in names.split()}
