"""The `hf:DIR` profiles: a folder as Hugging Face lays it out, with tokenizer.json and a chat template. Downloads nothing.

The tokenizer is read as it stands in the file: transformers' AutoTokenizer rebuilds some of them, and then miscounts. A folder
without a chat template has exact texts and approximate chats. Knows no gateway.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any

from tokenizer_profiles.errors import ProfileDataMissing
from tokenizer_profiles.images import ImageRule
from tokenizer_profiles.kinds import ProfileKind, ProfileRequest
from tokenizer_profiles.template_profile import TemplateProfile
from tokenizer_profiles.tokenizer_data import ReadTokenizer, TokenizerData

NAME = "hf"
_FLAGS = ("lstrip", "rstrip", "normalized", "single_word", "special")


class HuggingFaceKind(ProfileKind):
    """Makes one profile for each folder and way to price images; a folder is read once for all of them."""

    takes_argument = True

    def __init__(self, image_rule_for: Callable[[str], ImageRule]) -> None:
        self._image_rule_for = image_rule_for
        self._reads: dict[str, ReadTokenizer] = {}
        self._made: dict[tuple[str, ImageRule], TemplateProfile] = {}

    def make(self, request: ProfileRequest) -> TemplateProfile:
        """See `ProfileKind`. The argument is the folder; whether it is there shows when it is loaded."""
        folder, rule = request.argument, self._image_rule_for(request.model)
        made = self._made.get((folder, rule))
        if made is None:
            read = self._reads.setdefault(folder, cache(partial(read_folder, Path(folder).expanduser())))
            made = self._made.setdefault((folder, rule), TemplateProfile(f"{NAME}:{folder}", read, rule))
        return made


def read_folder(folder: Path) -> TokenizerData:
    """The tokenizer and the chat template of a folder. Raises ProfileDataMissing."""
    config = _json_file(folder / "tokenizer_config.json")
    variables = _special_tokens(_json_file(folder / "special_tokens_map.json")) | _special_tokens(config)
    tokenizer = read_tokenizer(folder / "tokenizer.json")
    _add_configured(tokenizer, config, variables)
    return TokenizerData(tokenizer, _chat_template(folder, config), variables)


def read_tokenizer(path: Path) -> Any:
    """The `tokenizers.Tokenizer` of a tokenizer.json. Raises ProfileDataMissing."""
    try:
        from tokenizers import Tokenizer
    except ImportError as error:
        raise ProfileDataMissing(f"{path} is read with tokenizers: install sluicegate[transformers]") from error
    if not path.is_file():
        raise ProfileDataMissing(f"{path} is not there: the profile {NAME}:DIR wants a folder with a tokenizer.json")
    try:
        return Tokenizer.from_file(str(path))
    except Exception as error:  # tokenizers raises nothing more precise when it does not understand a file
        raise ProfileDataMissing(f"{path} is no tokenizer that the installed tokenizers can read: {error}") from error


def _json_file(path: Path) -> Mapping[str, Any]:
    """The object in a JSON file; empty when there is none."""
    if not path.is_file():
        return {}
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ProfileDataMissing(f"{path} cannot be read: {error}") from error
    return value if isinstance(value, dict) else {}


def _special_tokens(config: Mapping[str, Any]) -> dict[str, str]:
    """`bos_token` and the like by name; each is a text, or an object that holds it."""
    texts = {
        key: value.get("content") if isinstance(value, dict) else value for key, value in config.items() if key.endswith("_token")
    }
    return {key: text for key, text in texts.items() if isinstance(text, str)}


def _add_configured(tokenizer: Any, config: Mapping[str, Any], variables: Mapping[str, str]) -> None:
    """Adds the tokens that stand in the configuration alone, as transformers does when it loads a folder."""
    from tokenizers import AddedToken

    known = {token.content for token in tokenizer.get_added_tokens_decoder().values()}
    listed = config.get("added_tokens_decoder")
    for token in listed.values() if isinstance(listed, dict) else ():
        if isinstance(token, dict) and isinstance(token.get("content"), str) and token["content"] not in known:
            flags = {flag: token[flag] for flag in _FLAGS if isinstance(token.get(flag), bool)}
            tokenizer.add_tokens([AddedToken(token["content"], **flags)])
            known.add(token["content"])
    tokenizer.add_special_tokens([AddedToken(text, special=True) for text in variables.values() if text and text not in known])


def _chat_template(folder: Path, config: Mapping[str, Any]) -> str:
    """One template; where there is one for tools of its own, both in one that chooses."""
    inside = _json_file(folder / "chat_template.json").get("chat_template", config.get("chat_template"))
    named = _named(inside)
    for name, path in (
        ("default", folder / "chat_template.jinja"),
        ("tool_use", folder / "additional_chat_templates" / "tool_use.jinja"),
    ):
        if path.is_file():
            named[name] = path.read_text(encoding="utf-8")
    default = named.get("default", "")
    if "tool_use" not in named:
        return default
    return "{% if tools %}\n" + _ended(named["tool_use"]) + "{%+ else %}\n" + _ended(default) + "{%+ endif %}"


def _named(templates: object) -> dict[str, str]:
    if isinstance(templates, str):
        return {"default": templates}
    listed = [template for template in templates if isinstance(template, dict)] if isinstance(templates, list) else []
    return {str(template.get("name")): str(template.get("template", "")) for template in listed}


def _ended(template: str) -> str:
    """Without the one line end that Jinja drops at the end of a template."""
    return template.removesuffix("\n")
