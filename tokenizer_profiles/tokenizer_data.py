"""What is read of a model that brings its own tokenizer and chat template: from a folder, a model file or a package.

Every source of such data is one file beside this one, with a function that gives a `TokenizerData`. Knows none of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Dialect = Literal["transformers", "llama.cpp"]


@dataclass(frozen=True, slots=True)
class TokenizerData:
    """A tokenizer with its chat template.

    `tokenizer` is a `tokenizers.Tokenizer`, a package that is imported only where one is made. It encodes without adding
    anything (no BOS); the text of an added token is that token, as servers take it. `variables` are what the template sees
    beside the messages (`bos_token`, `eos_token` …). `dialect` says whose server is mirrored where they differ in what they hand
    to a template. `bos_tokens` is how many tokens that server puts in front of a render which does not begin with `bos_token`
    itself.
    """

    tokenizer: Any
    chat_template: str
    variables: Mapping[str, str] = field(default_factory=dict)
    dialect: Dialect = "transformers"
    bos_tokens: int = 0


ReadTokenizer = Callable[[], TokenizerData]  # raises ProfileDataMissing; slow, called once, from any thread
