from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tokenizer_profiles.model_names import base_model, hosted_model, open_model


@pytest.mark.parametrize(
    ("name", "bare"),
    [
        ("gpt-4o", "gpt-4o"),
        ("gpt-4o-2024-08-06", "gpt-4o"),
        ("openai/gpt-4o", "gpt-4o"),
        ("openrouter/openai/gpt-4o:free", "gpt-4o"),
        ("azure/gpt-4o", "gpt-4o"),
        ("azure/eu/gpt-4o-2024-08-06", "gpt-4o"),
        ("ft:gpt-4o-mini-2024-07-18:acme::Ab12", "gpt-4o-mini"),
        ("openai/ft:gpt-4o:acme::x:ckpt-step-10", "gpt-4o"),
        ("gpt-4o-2024-08-06.ft-0e20", "gpt-4o"),
        ("davinci:ft-acme-2023", "davinci"),
        ("ft:", ""),
        ("gpt-4-1106-preview", "gpt-4-preview"),
        (" GPT-4O ", "gpt-4o"),
        ("", ""),
        ("acme/gpt-4o", "acme/gpt-4o"),
        ("azure/acme/gpt-4o", "acme/gpt-4o"),
        ("gpt-4o:clone", "gpt-4o:clone"),
    ],
)
def test_only_known_shapes_are_put_aside(name: str, bare: str) -> None:
    assert base_model(name) == bare


@pytest.mark.parametrize(
    ("name", "bare"),
    [
        ("Qwen/Qwen2.5-7B-Instruct", "qwen2.5-7b-instruct"),
        ("bartowski/Qwen2.5-7B-Instruct-GGUF:Q4_K_M", "qwen2.5-7b-instruct"),
        ("/models/Qwen2.5-7B-Instruct-Q4_K_M-00001-of-00002.gguf", "qwen2.5-7b-instruct"),
        ("c:\\acme\\Qwen3-30B-A3B-UD-Q4_K_XL.gguf", "qwen3-30b-a3b"),
        ("Qwen2.5-7B-Instruct-GPTQ-Int4", "qwen2.5-7b-instruct"),
        ("Meta-Llama-3.1-8B-Instruct-quantized.w8a8", "meta-llama-3.1-8b-instruct"),
        ("qwen2.5:7b-instruct-q4_0", "qwen2.5:7b-instruct"),
        ("qwen/qwen3-32b:free", "qwen3-32b"),
        ("accounts/fireworks/models/qwen2p5-7b-instruct", "qwen2.5-7b-instruct"),
        ("mistral.mistral-7b-instruct-v0:2", "mistral-7b-instruct-v0.2"),
        ("bedrock/us-gov-east-1/meta.llama3-8b-instruct-v1:0", "llama3-8b-instruct"),
        ("us.deepseek.r1-v1:0", "deepseek-r1"),
        ("deepseek.v3-v1:0", "deepseek-v3.1"),
        ("vertex_ai/mistral-large@2407", "mistral-large-2407"),
        ("databricks-gpt-oss-20b", "gpt-oss-20b"),
        ("acme/Qwen2.5-7B-Instruct-AWQ", "acme/qwen2.5-7b-instruct-awq"),
        ("Qwen3-8B-2507", "qwen3-8b-2507"),
        ("", ""),
        ("/", "/"),
    ],
)
def test_an_open_model_is_the_same_however_it_is_packed(name: str, bare: str) -> None:
    assert open_model(name) == bare


@pytest.mark.parametrize("name", ["deepseek-ai/DeepSeek-R1", "openrouter/deepseek/deepseek-r1:free", "us.deepseek.r1-v1:0"])
def test_a_hosted_model_has_a_host_or_a_publisher(name: str) -> None:
    assert hosted_model(name) == "deepseek-r1"


@pytest.mark.parametrize("name", ["deepseek-r1", "ollama/deepseek-r1", "ollama_chat/deepseek-r1", "deepseek-r1:8b", ""])
def test_a_name_alone_may_be_one_of_ollamas(name: str) -> None:
    assert hosted_model(name) == ""


@settings(deadline=None, max_examples=200)
@given(st.text(max_size=60) | st.text("ftqp0123:/.-_@\\gu", max_size=60))
def test_no_name_raises(name: str) -> None:
    assert isinstance(base_model(name) + open_model(name) + hosted_model(name), str)
