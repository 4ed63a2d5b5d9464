"""Mistral's own chat formats, exact: mistral-common tokenises the requests, offline, from the vocabularies that it holds.

mistral-common is imported by the first count. Images are counted by their size: it would fetch and decode them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from threading import Lock
from typing import Any

from tokenizer_profiles.base import OFF_LOOP_CHARACTERS, Message, PromptCount, Request, TokenizerProfile
from tokenizer_profiles.errors import ProfileDataMissing
from tokenizer_profiles.images import Size
from tokenizer_profiles.json_text import text_weight
from tokenizer_profiles.kinds import ProfileKind, ProfileRequest
from tokenizer_profiles.mistral_chat import MistralChat
from tokenizer_profiles.mistral_text import SENTENCEPIECE_CUT, TEKKEN_CUT
from tokenizer_profiles.package_data import package_file, wanted_file

# By profile name, the vocabulary file inside mistral-common, which also says which version of the chat format is spoken.
MISTRAL_FILES = {
    "mistral-v1": "tokenizer.model.v1",
    "mistral-v2": "mistral_instruct_tokenizer_240216.model.v2",
    "mistral-v3": "mistral_instruct_tokenizer_240323.model.v3",
    "mistral-v7": "mistral_instruct_tokenizer_241114.model.v7",
    "mistral-tekken": "tekken_240718.json",
    "pixtral": "tekken_240911.json",
    "pixtral-large": "mistral_instruct_tokenizer_241114.model.v7m1",
}

_PACKAGE, _EXTRA = "mistral_common", "mistral"


class MistralImageRule:
    """Fit into 1024 pixels, one token for each patch of 16 pixels square and one for each row (mistral-common's ImageEncoder)."""

    def tokens(self, size: Size | None, *, low: bool = False) -> int:
        """See `ImageRule`; there is no low detail."""
        width, height = size or (1024, 1024)
        ratio = max(width / 1024, height / 1024, 1.0)
        across = (max(round(width / ratio), 1) - 1) // 16 + 1
        down = (max(round(height / ratio), 1) - 1) // 16 + 1
        return (across + 1) * down


class MistralProfile(TokenizerProfile):
    """Counts chats in the format that belongs to one vocabulary file of mistral-common."""

    approximate = False

    def __init__(self, name: str) -> None:
        self.name = name
        self._chat: MistralChat | None = None
        self._lock = Lock()

    @property
    def loaded(self) -> bool:
        """See `TokenizerProfile`."""
        return self._chat is not None

    def load(self) -> None:
        """See `TokenizerProfile`. Raises ProfileDataMissing."""
        self._loaded()

    async def count_prompt(self, messages: Sequence[Message], request: Request) -> PromptCount:
        """See `TokenizerProfile`. A request's response format costs nothing here; whether a server adds text is not known."""
        if self.loaded and text_weight((*messages, request), OFF_LOOP_CHARACTERS) < OFF_LOOP_CHARACTERS:
            return self._loaded().count(messages, request)
        return await asyncio.to_thread(lambda: self._loaded().count(messages, request))

    def _loaded(self) -> MistralChat:
        with self._lock:
            if self._chat is None:
                self._chat = _read_chat(MISTRAL_FILES[self.name])
            return self._chat


class MistralKind(ProfileKind):
    """Makes the one profile of a vocabulary file."""

    install = "install sluicegate[mistral]"

    def __init__(self, name: str) -> None:
        self._profile = MistralProfile(name)

    @property
    def data_present(self) -> bool:
        """See `ProfileKind`."""
        return package_file(_PACKAGE, f"data/{MISTRAL_FILES[self._profile.name]}") is not None

    def make(self, request: ProfileRequest) -> MistralProfile:
        """See `ProfileKind`."""
        return self._profile


def mistral_kinds() -> dict[str, ProfileKind]:
    """A fresh kind for each vocabulary, by profile name."""
    return {name: MistralKind(name) for name in MISTRAL_FILES}


def _read_chat(file_name: str) -> MistralChat:
    path = wanted_file(_PACKAGE, f"data/{file_name}", _EXTRA)
    try:
        from mistral_common.tokens.tokenizers.mistral import MistralTokenizer

        tokenizer: Any = MistralTokenizer.from_file(path)
    except ImportError as error:
        raise ProfileDataMissing(f"{error}: install sluicegate[{_EXTRA}]") from error
    return MistralChat(tokenizer, TEKKEN_CUT if file_name.endswith(".json") else SENTENCEPIECE_CUT, MistralImageRule())
