"""Whole answers of Chat Completions: what one round said, and the one answer that all rounds become.

Pure module. Members that are not understood stay as they came.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec import Raw

TOOL_CALLS: Final = "tool_calls"
BETWEEN: Final = "\n\n"
"""Between the texts of two rounds."""
_NULL: Final = Raw(b"null")
_encode: Final = msgspec.json.Encoder().encode
_members: Final = msgspec.json.Decoder(dict[str, Raw]).decode
_raws: Final = msgspec.json.Decoder(list[Raw]).decode
_any: Final = msgspec.json.Decoder().decode


class BadAnswer(ValueError):
    """An answer that is no chat completion."""


class ChatAnswer:
    """The answer of one round."""

    def __init__(self, body: bytes) -> None:
        """Raises BadAnswer."""
        try:
            self._members = _members(body)
            self._choices = [_members(choice) for choice in _raws(self._members.get("choices", b"[]"))]
            choice = self._choices[0] if self._choices else {}
            self._message = _members(choice.get("message", b"{}"))
            usage = _any(self._members.get("usage", b"null"))
            self.message: Any = _any(choice.get("message", b"{}"))
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise BadAnswer(f"the provider's answer is no chat completion: {error}") from error
        if not self._choices:
            raise BadAnswer("the provider's answer has no choices")
        self.usage: Mapping[str, Any] = usage if isinstance(usage, dict) else {}
        content = self.message.get("content")
        self.text: str = content if isinstance(content, str) else ""

    @property
    def in_request(self) -> bytes:
        """The message as it stands in the next request: without members that are null, `content` apart."""
        kept = {name: raw for name, raw in self._message.items() if name == "content" or bytes(raw) != b"null"}
        return _encode(kept)

    def written(
        self,
        first: ChatAnswer,
        texts: Sequence[str],
        usage: Mapping[str, Any],
        shown: Collection[str],
        more: Mapping[str, Any],
    ) -> bytes:
        """This last answer as that of all rounds: id and time of the `first`, `texts` of the earlier ones in front, the
        sum of usage, of the calls those whose ids are in `shown`, and `more` members.
        """
        members = {**self._members, **{name: Raw(_encode(value)) for name, value in more.items()}}
        for name in ("id", "created"):
            if name in first._members:
                members[name] = first._members[name]
        if usage:
            members["usage"] = Raw(_encode(usage))
        message = dict(self._message)
        if texts:
            said = [*texts, self.text] if self.text else [*texts]
            message["content"] = Raw(_encode(BETWEEN.join(said)))
        choice = {**self._choices[0]}
        found = bytes(message.pop(TOOL_CALLS, _NULL))
        calls = [] if found == b"null" else [raw for raw in _raws(found) if _id(raw) in shown]
        if calls:
            message[TOOL_CALLS] = Raw(_encode(calls))
        elif bytes(choice.get("finish_reason", b"")) == b'"tool_calls"':
            choice["finish_reason"] = Raw(b'"stop"')
        choice["message"] = Raw(_encode(message))
        members["choices"] = Raw(_encode([choice, *self._choices[1:]]))
        return _encode(members)


class _CallId(msgspec.Struct):
    id: str = ""


def _id(raw: Raw) -> str:
    try:
        return msgspec.json.decode(raw, type=_CallId).id
    except msgspec.MsgspecError:
        return ""
