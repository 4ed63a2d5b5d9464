"""Names of models as they are met in the wild, and the profile that each of them must get; shared by the tests of names."""

from __future__ import annotations

# One line a profile, the names parted by blanks.
TABLE = {
    "o200k_base": """
        gpt-4o gpt-4o-mini gpt-4o-2024-05-13 gpt-4o-2024-08-06 gpt-4o-2024-11-20 gpt-4o-mini-2024-07-18 gpt-4o-audio-preview
        gpt-4o-audio-preview-2024-12-17 gpt-4o-mini-search-preview-2025-03-11 gpt-4o-search-preview chatgpt-4o-latest GPT-4O
        gpt-4.1 gpt-4.1-2025-04-14 gpt-4.1-mini gpt-4.1-nano-2025-04-14 gpt-4.5-preview gpt-5 gpt-5-2025-08-07 gpt-5-chat-latest
        gpt-5-mini-2025-08-07 gpt-5-nano gpt-5-codex gpt-5-pro-2025-10-06 gpt-5.1 gpt-5.1-codex-max gpt-5.2-pro gpt-5.4-mini
        o1 o1-2024-12-17 o1-preview o1-pro o3 o3-mini o3-mini-high o3-deep-research-2025-06-26 o4-mini o4-mini-2025-04-16
        openai/gpt-4o openai/gpt-4o-2024-08-06 openrouter/openai/gpt-4o:free openrouter/openai/gpt-5:floor azure/gpt-4o
        azure/eu/gpt-4o-2024-08-06 azure/us/gpt-4.1-mini azure/global-standard/gpt-4o-mini azure_ai/gpt-5.4 github/gpt-4o
        github_copilot/gpt-4.1 vercel_ai_gateway/openai/o3-mini ft:gpt-4o-mini-2024-07-18:acme::Ab12
        ft:gpt-4.1-2025-04-14:acme:tone:Ab12:ckpt-step-88 openai/ft:gpt-4o-2024-08-06:acme::x ft:o4-mini-2025-04-16:acme::x
        gpt-4o-2024-08-06.ft-0e208cf33a6a466994aff31a08aba678
    """,
    "cl100k_base": """
        gpt-4 gpt-4-0314 gpt-4-0613 gpt-4-32k-0613 gpt-4-turbo gpt-4-turbo-2024-04-09 gpt-4-turbo-preview gpt-4-0125-preview
        gpt-4-1106-vision-preview gpt-3.5-turbo gpt-3.5-turbo-0125 gpt-3.5-turbo-16k-0613 gpt-3.5-turbo-instruct-0914 gpt-35-turbo
        gpt-35-turbo-16k azure/gpt-35-turbo-0613 openrouter/openai/gpt-4 ft:gpt-3.5-turbo-0613:acme::x ft:gpt-4-0613:acme::x
        ft:davinci-002:acme::x babbage-002 text-embedding-3-large azure/text-embedding-ada-002
    """,
    "p50k_base": "text-davinci-003 text-davinci-002 code-davinci-002 code-cushman-001",
    "r50k_base": "text-davinci-001 text-ada-001 davinci curie babbage davinci:ft-acme-2023-01-01-10-00-00",
    "gpt-oss": """
        gpt-oss-20b openai/gpt-oss-120b gpt-oss:20b gpt-oss:120b-cloud ollama/gpt-oss groq/openai/gpt-oss-120b
        openai.gpt-oss-120b-1:0 vertex_ai/openai/gpt-oss-20b-maas ggml-org/gpt-oss-20b-GGUF gpt-oss-120b-mxfp4.gguf
        fireworks_ai/accounts/fireworks/models/gpt-oss-20b @cf/openai/gpt-oss-120b databricks/databricks-gpt-oss-20b
    """,
    "qwen2.5": """
        Qwen/Qwen2.5-7B-Instruct Qwen2.5-7B-Instruct-Q4_K_M.gguf Qwen/Qwen2.5-7B-Instruct-AWQ Qwen/Qwen2.5-72B-Instruct-GPTQ-Int4
        bartowski/Qwen2.5-14B-Instruct-GGUF hf.co/bartowski/Qwen2.5-0.5B-Instruct-GGUF:Q4_K_M unsloth/Qwen2.5-7B-Instruct-bnb-4bit
        /models/qwen2.5-72b-instruct-q8_0-00001-of-00002.gguf C:\\models\\Qwen2.5-3B-Instruct-IQ4_XS.gguf qwen2.5:7b
        qwen2.5:7b-instruct-q4_0 qwen2.5 qwen2.5-coder:32b openrouter/qwen/qwen-2.5-72b-instruct:free
        Qwen/Qwen2.5-Coder-32B-Instruct together_ai/Qwen/Qwen2.5-7B-Instruct-Turbo @cf/qwen/qwen2.5-coder-32b-instruct
        fireworks_ai/accounts/fireworks/models/qwen2p5-0p5b-instruct mlx-community/Qwen2.5-7B-Instruct-4bit
    """,
    "qwen3": """
        Qwen/Qwen3-8B qwen3:8b qwen3-235b-a22b qwen/qwen3-235b-a22b:free Qwen/Qwen3-30B-A3B-FP8 Qwen3-0.6B-Q8_0.gguf
        Qwen/Qwen3-32B-AWQ cerebras/qwen-3-32b qwen.qwen3-32b-v1:0 unsloth/Qwen3-14B-GGUF Qwen3-30B-A3B-UD-Q4_K_XL.gguf
        fireworks_ai/accounts/fireworks/models/qwen3-1p7b vercel_ai_gateway/alibaba/qwen-3-14b qwen3
    """,
    "qwen3.5": "Qwen/Qwen3.5-397B-A17B deepinfra/Qwen/Qwen3.5-27B novita/qwen/qwen3.5-35b-a3b Qwen3.5-122B-A10B-FP8",
    "deepseek-v3": """
        deepseek-ai/DeepSeek-V3 together_ai/deepseek-ai/DeepSeek-V3 deepseek/deepseek-v3 deepseek-v3:671b
        accounts/fireworks/models/deepseek-v3 novita/deepseek/deepseek-v3-turbo
    """,
    "deepseek-v3.1": """
        deepseek-ai/DeepSeek-V3.1 deepseek.v3-v1:0 us.deepseek.v3-v1:0 fireworks_ai/accounts/fireworks/models/deepseek-v3p1
        deepseek-v3.1:671b-cloud vertex_ai/deepseek-ai/deepseek-v3.1-maas
    """,
    "deepseek-v4": "deepseek-ai/DeepSeek-V4-Pro deepseek/deepseek-v4-flash novita/deepseek/deepseek-v4-flash-0731",
    "deepseek-r1": "deepseek-ai/DeepSeek-R1 deepseek/deepseek-r1:free us.deepseek.r1-v1:0 azure_ai/deepseek-r1",
    "llama3": """
        meta-llama/Llama-3.1-8B-Instruct meta-llama/Meta-Llama-3-70B-Instruct llama3.2:3b llama3 llama3.1:8b-instruct-q4_K_M
        bartowski/Llama-3.2-3B-Instruct-GGUF Meta-Llama-3.1-8B-Instruct-Q5_K_S.gguf groq/llama-3.3-70b-versatile
        groq/llama-3.1-8b-instant groq/llama3-8b-8192 cerebras/llama3.1-8b meta.llama3-8b-instruct-v1:0
        us.meta.llama3-1-70b-instruct-v1:0 bedrock/eu-west-1/meta.llama3-70b-instruct-v1:0
        fireworks_ai/accounts/fireworks/models/llama-v3p1-405b-instruct vertex_ai/meta/llama-3.3-70b-instruct-maas
        together_ai/meta-llama/Llama-3.3-70B-Instruct-Turbo ovhcloud/Meta-Llama-3_1-70B-Instruct
        databricks/databricks-meta-llama-3-3-70b-instruct cloudflare/@cf/meta/llama-3.3-70b-instruct-fp8-fast
        neuralmagic/Meta-Llama-3.1-8B-Instruct-quantized.w8a8
    """,
    "mistral-v1": """
        mistralai/Mistral-7B-Instruct-v0.1 mistralai/Mistral-7B-Instruct-v0.2 TheBloke/Mistral-7B-Instruct-v0.2-GGUF
        mistral.mistral-7b-instruct-v0:2 mistralai/Mixtral-8x7B-Instruct-v0.1 mistral.mixtral-8x7b-instruct-v0:1 open-mixtral-8x7b
        mixtral-8x7b-instruct-v0.1.Q4_K_M.gguf
    """,
    "mistral-v2": "mistral-small-2402 azure/mistral-large-2402 mistral.mistral-large-2402-v1:0",
    "mistral-v3": """
        mistralai/Mistral-7B-Instruct-v0.3 mistral:7b-instruct-v0.3-q4_K_M mistralai/Mistral-Large-Instruct-2407
        vertex_ai/mistral-large@2407 codestral-2405 mistralai/Codestral-22B-v0.1 open-mixtral-8x22b
        mistralai/Mixtral-8x22B-Instruct-v0.1 mistralai/Mistral-Small-Instruct-2409
    """,
    "mistral-v7": "mistral-large-2411 vertex_ai/mistral-large@2411-001 mistralai/Mistral-Large-Instruct-2411",
    "mistral-tekken": """
        open-mistral-nemo mistralai/Mistral-Nemo-Instruct-2407 Mistral-Nemo-Instruct-2407-Q6_K.gguf vertex_ai/mistral-nemo@2407
        mistral-nemo:12b ministral-8b-2410 mistralai/Ministral-8B-Instruct-2410
    """,
    "pixtral-large": "mistralai/Pixtral-Large-Instruct-2411 pixtral-large-2411",
    "pixtral": "mistralai/Pixtral-12B-2409 pixtral-12b-2409 vercel_ai_gateway/mistral/pixtral-12b",
    # Unknown, unsure, or merely alike: moving aliases, base models, fine-tunes, later versions, other makers.
    "approximate": """
        gpt-4o-clone-by-x gpt-4o-my-finetune my-gpt-4o gpt-4o-deploy azure/my-deployment-eu gpt-4-all gpt4o gpt-4omni ../gpt-4o
        acme/gpt-4o gpt-4o:clone ft:acme ft:gpt-6:acme::x gpt-35 o1js gpt-5x o2 o10 gpt-6 gpt-6-sol gpt-audio codex-mini-latest
        azure/ada text-davinci-edit-001 gpt-oss-safeguard-20b gpt-oss-20b-abliterated acme/gpt-oss-20b
        claude-sonnet-4 anthropic/claude-3-5-sonnet-20241022 anthropic.claude-3-haiku-20240307-v1:0 gemini-2.5-pro
        vertex_ai/gemini-1.5-flash grok-4 command-r-plus kimi-k2 zai-org/GLM-4.5 microsoft/phi-4 google/gemma-3-27b-it smollm2
        Qwen/Qwen2.5-7B Qwen/Qwen2.5-Math-7B-Instruct Qwen/Qwen2.5-VL-7B-Instruct Qwen/Qwen2-7B-Instruct Qwen/QwQ-32B qwen-max
        qwen-turbo acme/Qwen2.5-7B-Instruct Qwen2.5-7B-Instruct-abliterated dashscope/qwen-plus Qwen/Qwen3-235B-A22B-Instruct-2507
        qwen3-30b-a3b-thinking-2507 Qwen/Qwen3-Coder-480B-A35B-Instruct Qwen/Qwen3-8B-Base qwen3:30b qwen3:4b Qwen/Qwen3.5-9B
        deepseek-chat deepseek-reasoner deepseek/deepseek-chat deepseek-ai/DeepSeek-V3-0324 deepseek-ai/DeepSeek-V3.2
        deepseek-ai/DeepSeek-V4.1-Flash deepseek-ai/DeepSeek-R1-0528 deepseek-ai/DeepSeek-R1-Distill-Qwen-7B deepseek-r1
        ollama/deepseek-r1 deepseek-r1:8b deepseek-ai/DeepSeek-V2.5
        llama-3 meta-llama/Llama-3.1-8B meta-llama/Meta-Llama-3-8B meta-llama/Llama-2-7b-chat-hf llama2
        meta-llama/Llama-4-Scout-17B-16E-Instruct meta-llama/Llama-3.2-11B-Vision-Instruct meta-llama/Llama-Guard-3-8B
        NousResearch/Hermes-3-Llama-3.1-8B nvidia/Llama-3.1-Nemotron-70B-Instruct acme/Llama-3.1-8B-Instruct
        llama-3-8b-instruct-acme
        mistral-large-latest mistral-small-latest mistral-medium mistral mistralai/Mistral-7B-v0.1 open-mistral-7b
        mistralai/Mistral-Small-24B-Instruct-2501 mistralai/Devstral-Small-2505
        mistral-large-2512 codestral-latest teknium/OpenHermes-2.5-Mistral-7B
    """,
}
NAMES = tuple((name, profile) for profile, names in TABLE.items() for name in names.split())
