"""A tokenizer of one token a character, but for the added tokens it is given; and a small chat template for it."""

from __future__ import annotations

from tokenizers import AddedToken, Regex, Tokenizer, models, pre_tokenizers

TURNS = ("<s>", "<turn>", "</turn>")
TEMPLATE = (
    "{{ bos_token }}{% if tools %}<turn>tools\n{{ tools | tojson }}</turn>{% endif %}"
    "{% for message in messages %}<turn>{{ message.role }}\n{{ message.content }}"
    "{% for call in message.tool_calls or [] %}{{ call.function.name }}({{ call.function.arguments | tojson }}){% endfor %}"
    "</turn>{% endfor %}{% if add_generation_prompt %}<turn>assistant\n{% endif %}"
)


def toy_tokenizer(*added: str | AddedToken) -> Tokenizer:
    """Added tokens given as text take no part in normalising."""
    tokenizer = Tokenizer(models.WordLevel({"?": 0}, unk_token="?"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")
    tokenizer.add_tokens([AddedToken(text, normalized=False) if isinstance(text, str) else text for text in added])
    return tokenizer
