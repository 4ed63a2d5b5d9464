"""Which model a name means: prefixes, fine-tune ids, dates, quantisations and routing suffixes put aside. Knows no profiles.

Only known shapes are put aside: a name that merely resembles a known one stays what it is.
"""

from __future__ import annotations

import re

_ROUTING = re.compile(r":(?:free|nitro|floor|extended|exacto|online|beta|thinking)$")
_GATEWAYS = "openrouter|vercel_ai_gateway|litellm_proxy|github|github_copilot"
_REGIONS = "eu|us|us-gov|apac|global|global-standard"
_PREFIX = re.compile(rf"(?:(?:{_GATEWAYS})/)?(?:(?:openai|azure_ai|azure)/(?:(?:{_REGIONS})/)?)?")
_FINE_TUNED = re.compile(r"\.ft-[0-9a-f]+$|:ft-.*$")  # Azure's, and that of the first generation
_DATE = re.compile(r"-(?:20\d\d-\d\d-\d\d|\d{4})(?=-|$)")

# Who serves or publishes a model under its own name; behind anybody else's it may be another one.
_KNOWN_FOLDER = re.compile(
    "openrouter|vercel_ai_gateway|litellm_proxy|groq|together|together_ai|fireworks_ai|accounts|fireworks|models|deepinfra|novita"
    "|nebius|hyperbolic|sambanova|cerebras|ollama|ollama_chat|hosted_vllm|vllm|lm_studio|huggingface|hf.co|huggingface.co|replicate"
    "|bedrock|converse|bedrock_mantle|sagemaker|vertex_ai|azure|azure_ai|databricks|watsonx|cloudflare|@cf|@hf|nscale|ovhcloud"
    "|crusoe|baseten|wandb|scaleway|perplexity|snowflake|oci|anyscale|llamafile|xinference|nvidia_nim|library|ai"
    "|qwen|alibaba|deepseek|deepseek-ai|meta|meta-llama|mistral|mistralai|openai"
    "|unsloth|bartowski|lmstudio-community|thebloke|quantfactory|mlx-community|ggml-org|neuralmagic|redhatai|casperhansen"
    "|hugging-quants|maziyarpanahi|mradermacher|second-state"
    r"|[a-z]{2}(?:-gov)?-[a-z]+-\d"  # a region
)
_BEDROCK = re.compile(r"(?:(?:us|eu|apac|global|us-gov)\.)?(?:meta|mistral|openai|qwen|(deepseek))\.(?=[a-z])")
_BEDROCK_VERSION = re.compile(r"-(?:v?1:0|v(0):(\d))$")  # v0:2 is Mistral's v0.2, v1:0 is Bedrock's own
_BEDROCK_V3_1 = re.compile(r"deepseek\.v3-v1:0$")  # the only name that does not say its version
_FILE = re.compile(r"(?:-\d{5}-of-\d{5})?\.gguf$")
_QUANTISED = re.compile(
    r"[-_.:](?:"
    r"i?q\d(?:_(?:\d|k|s|m|l|xl|xs|xxs|nl))*(?:_\d+)*"  # llama.cpp's names: q4_k_m, iq2_xxs, q4_0_4_8
    r"|bf16|f16|f32|fp16|fp8(?:-dynamic|-block)?|fp4|nvfp4|mxfp4|int[48]|[3468]-?bit|w\d+a\d+"
    r"|awq|gptq|gguf|ggml|exl[23]|mlx|bnb|nf4|marlin|imat|i1|ud"
    r"|quantized|turbo|fast|lite|maas|cloud|hf"  # a host's word for its own quantisation or format
    r")$"
)


def base_model(name: str) -> str:
    """The bare lower-case name of an OpenAI model, without prefix, date, fine-tune id or routing suffix.

    `openai/gpt-4o-2024-08-06` and `ft:gpt-4o:acme::Ab12` are `gpt-4o`.
    """
    name = _PREFIX.sub("", name.strip().lower(), count=1)
    name = name.split(":")[1] if name.startswith("ft:") else _FINE_TUNED.sub("", name)
    return _DATE.sub("", _ROUTING.sub("", name))


def open_model(name: str) -> str:
    """The bare lower-case name of a model with open weights, without host, publisher, file ending and quantisation.

    `bartowski/Qwen2.5-7B-Instruct-GGUF` and `Qwen2.5-7B-Instruct-Q4_K_M.gguf` are `qwen2.5-7b-instruct`; a tag stays
    (`qwen2.5:7b`), because a name with a tag is one of Ollama's. Behind an unknown publisher the name stays whole.
    """
    whole = _ROUTING.sub("", name.strip().lower())
    *folders, bare = whole.replace("\\", "/").split("/")
    if _FILE.search(bare):
        bare = _FILE.sub("", bare)
    elif not all(map(_KNOWN_FOLDER.fullmatch, folders)):
        return whole
    bare = _BEDROCK_V3_1.sub("deepseek.v3.1", bare)
    bare = _BEDROCK.sub(lambda match: "deepseek-" if match[1] else "", bare, count=1) if _BEDROCK.match(bare) else bare
    bare = _BEDROCK_VERSION.sub(lambda match: f"-v0.{match[2]}" if match[1] else "", bare)
    return _unquantised(re.sub(r"(\d)p(?=\d)", r"\1.", bare.removeprefix("databricks-")).replace("@", "-"))


def hosted_model(name: str) -> str:
    """`open_model` where a host or a publisher stands before it, else nothing: alone, or on Ollama, it means another model."""
    lower = name.strip().lower()
    return open_model(name) if _BEDROCK.match(lower) or re.match(r"(?!ollama)[^/]+/", lower) else ""


def _unquantised(name: str) -> str:
    while (shorter := _QUANTISED.sub("", name)) != name:
        name = shorter
    return name
