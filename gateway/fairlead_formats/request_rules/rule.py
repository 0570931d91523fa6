"""Rules of a provider's API, and a request that breaks one. Pure module."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import StrEnum
from typing import Final

import msgspec

INVALID_REQUEST: Final = "invalid_request_error"
"""Type of the error in OpenAI's and Anthropic's APIs."""
INVALID_ARGUMENT: Final = "INVALID_ARGUMENT"
"""Status of the error in Google's APIs."""

_MAX_MESSAGE: Final = 1_000
"""Maximum number of characters of an error's message."""
SchemaCheck = Callable[[object], str | None]
"""Returns why a JSON Schema is not valid in draft 2020-12; None for a valid schema."""


def accept_any_schema(_schema: object) -> None:
    """The check of an API that accepts any schema."""


class ApiFamily(StrEnum):
    """API of a model provider."""

    CHAT = "Chat Completions"
    RESPONSES = "Responses"
    MESSAGES = "Messages"
    GEMINI = "Gemini"
    CONVERSE = "Bedrock Converse"
    REALTIME = "Realtime"
    LIVE = "Gemini Live"


class RequestRule(msgspec.Struct, frozen=True):
    """One rule, with the error for a request that breaks it."""

    name: str
    api: ApiFamily
    rejects: str
    """Requests that are rejected, for people."""
    message: str
    """Message of the error, a template of `str.format`."""
    source: str
    """URL, type of an SDK, or title of a page that documents the rule."""
    param: str | None = None
    """Member of the request that the error names, a template like `message`."""
    code: str | None = None
    type: str = INVALID_REQUEST
    status: int = 400
    """HTTP status; for Gemini Live, the code with which the connection is closed."""


class BrokenRule(msgspec.Struct, frozen=True):
    """A rule that a request breaks."""

    rule: RequestRule
    message: str
    param: str | None = None

    @classmethod
    def of(cls, rule: RequestRule, /, **values: object) -> BrokenRule:
        """The rule, with `values` in its message and param."""
        param = None if rule.param is None else _shorten(rule.param.format(**values))
        return cls(rule, _shorten(rule.message.format(**values)), param)


class ApiRules:
    """Rules of one API. `prefix`: first word of the rules' names."""

    def __init__(self, prefix: str, rules: Iterable[RequestRule]) -> None:
        self.prefix: Final = prefix
        self.by_name: Final = {rule.name: rule for rule in rules}
        """Rules by name, in the order of the documentation."""

    def broken_rule(self, name: str, /, **values: object) -> BrokenRule:
        """The rule with this name, as a request breaks it. `values`: values for the rule's templates."""
        return BrokenRule.of(self.by_name[name], **values)


def _shorten(text: str) -> str:
    """The text, without the middle if it is long: it quotes names and values of the request."""
    half = _MAX_MESSAGE // 2
    return text if len(text) <= _MAX_MESSAGE else f"{text[:half]} … {text[-half:]}"
