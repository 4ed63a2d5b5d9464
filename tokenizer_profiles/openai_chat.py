"""A profile that counts by OpenAI's published chat rules with any text counter. Knows no tokenizer and no gateway."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tokenizer_profiles.base import AdditiveProfile, Message, PromptCount, Request, TokenCount
from tokenizer_profiles.images import ImageRule
from tokenizer_profiles.json_text import text_weight
from tokenizer_profiles.kinds import ProfileKind, ProfileRequest
from tokenizer_profiles.message_counter import ChatRules, MessageCounter
from tokenizer_profiles.text_memo import RememberingCounter
from tokenizer_profiles.tool_counter import ToolCounter


class TextTokenizer:
    """Counts the tokens of plain texts: what a member of the family brings. Counts are remembered for all who share it."""

    approximate: bool = False

    def __init__(self, count: Callable[[str], int]) -> None:
        self.count = RememberingCounter(count)

    @property
    def loaded(self) -> bool:
        """Whether the next count needs nothing from disk."""
        return True

    @property
    def data_present(self) -> bool:
        """Whether `load` would find what it needs."""
        return True

    @property
    def install(self) -> str:
        """See `ProfileKind`."""
        return ""

    def load(self) -> None:
        """Reads what is needed; from any thread, at any time, more than once."""


class OpenAIChatProfile(AdditiveProfile):
    """Counts chats by OpenAI's rules; `image_rule` is the model's, the tokenizer may be shared with other profiles."""

    def __init__(self, name: str, tokenizer: TextTokenizer, rules: ChatRules, image_rule: ImageRule) -> None:
        self.name = name
        self.approximate = tokenizer.approximate
        self._tokenizer = tokenizer
        self._primer = TokenCount(rules.reply_primer, tokenizer.approximate or not rules.published)
        self._tools = ToolCounter(tokenizer.count, rules)
        self._messages = MessageCounter(tokenizer.count, rules, image_rule, approximate=tokenizer.approximate)

    @property
    def loaded(self) -> bool:
        """See `TokenizerProfile`."""
        return self._tokenizer.loaded

    def load(self) -> None:
        """See `TokenizerProfile`. Raises ProfileDataMissing."""
        self._tokenizer.load()

    def __call__(self, messages: Sequence[Message]) -> int:
        """See `AdditiveProfile`."""
        return self._empty.total + sum(map(self._messages.tokens, messages))

    def count_message(self, message: Message) -> TokenCount:
        """See `AdditiveProfile`."""
        return self._messages.count(message)

    def count_request(self, request: Request) -> PromptCount:
        """See `AdditiveProfile`."""
        return PromptCount((), self._tools.tools(request), self._tools.response_format(request), self._primer)

    def new_weight(self, messages: Sequence[Message], request: Request, enough: int) -> int:
        """See `AdditiveProfile`. Quick for messages of role and text that are remembered, as most of a long chat are."""
        knows = self._tokenizer.count.knows
        weight = text_weight(request, enough, knows)
        for message in messages:
            if weight >= enough:
                break
            if len(message) > 2 or not knows(message.get("content")):
                weight += text_weight(message, enough, knows)
        return weight

    def count_text(self, text: str) -> int:
        """See `AdditiveProfile`."""
        return self._tokenizer.count(text)


class OpenAIChatKind(ProfileKind):
    """Makes one profile for each way to price images; all of them share one tokenizer and its memory."""

    def __init__(self, name: str, tokenizer: TextTokenizer, rules: ChatRules, image_rule_for: Callable[[str], ImageRule]) -> None:
        self.approximate = tokenizer.approximate
        self.install = tokenizer.install
        self._name = name
        self._tokenizer = tokenizer
        self._rules = rules
        self._image_rule_for = image_rule_for
        self._made: dict[ImageRule, OpenAIChatProfile] = {}

    @property
    def data_present(self) -> bool:
        """See `ProfileKind`."""
        return self._tokenizer.data_present

    def make(self, request: ProfileRequest) -> OpenAIChatProfile:
        """See `ProfileKind`."""
        rule = self._image_rule_for(request.model)
        made = self._made.get(rule)
        if made is None:
            made = self._made.setdefault(rule, OpenAIChatProfile(self._name, self._tokenizer, self._rules, rule))
        return made
