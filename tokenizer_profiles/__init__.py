"""How many tokens a chat has for a model. Usable alone; importing it imports no tokenizer.

profile = ProfileRegistry.with_builtins().resolve("auto", "gpt-4o")
count = await profile.count_prompt(messages, request)
"""

from __future__ import annotations

from tokenizer_profiles.base import AdditiveProfile, Message, PromptCount, Request, TokenCount, TokenizerProfile
from tokenizer_profiles.errors import ProfileDataMissing, ProfileError, ProfileNeedsServer, RemoteUnavailable, UnknownProfile
from tokenizer_profiles.kinds import Ask, Choice, ProfileDescription, ProfileKind, ProfileRequest
from tokenizer_profiles.registry import ProfileRegistry

__all__ = [
    "AdditiveProfile",
    "Ask",
    "Choice",
    "Message",
    "ProfileDataMissing",
    "ProfileDescription",
    "ProfileError",
    "ProfileKind",
    "ProfileNeedsServer",
    "ProfileRegistry",
    "ProfileRequest",
    "PromptCount",
    "RemoteUnavailable",
    "Request",
    "TokenCount",
    "TokenizerProfile",
    "UnknownProfile",
]
