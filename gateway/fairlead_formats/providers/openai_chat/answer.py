"""Whole answers of Chat Completions: the provider's answer of each round, and the one answer that the client gets.

Pure module. A round is one request to the model; the gateway runs tools between rounds. A model's answer is not
trusted. Members that the gateway does not interpret are kept unchanged.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec import Raw

from fairlead_formats.messages.call import truncates
from fairlead_formats.wire.call_ids import new_id
from fairlead_formats.wire.protocol import BadAnswer, CallKey, InnerCall, LoopResult, WireAnswer

ROUND_SEPARATOR: Final = "\n\n"
"""Text between the texts of two rounds."""
_encode: Final = msgspec.json.Encoder().encode
_members: Final = msgspec.json.Decoder(dict[str, Raw]).decode
_raws: Final = msgspec.json.Decoder(list[Raw]).decode
_decode: Final = msgspec.json.Decoder().decode
TOOL_CALLS: Final = "tool_calls"
KINDS: Final = ("function", "custom")


class ChatAnswer:
    """The provider's answer in one round."""

    def __init__(self, body: bytes) -> None:
        """Raises BadAnswer."""
        try:
            self._members = _members(body)
            self._choices = [_members(choice) for choice in _raws(self._members.get("choices", b"[]"))]
            choice = self._choices[0] if self._choices else {}
            self._message = _members(choice.get("message", b"{}"))
            usage = _decode(self._members.get("usage", b"null"))
            self._decoded_message: dict[str, Any] = _decode(choice.get("message", b"{}"))
            reason = _decode(choice.get("finish_reason", b"null"))
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise BadAnswer(f"the provider's answer is not a chat completion: {error}") from error
        if not self._choices:
            raise BadAnswer("the provider's answer has no choices")
        self.usage: Mapping[str, Any] = usage if isinstance(usage, dict) else {}
        content = self._decoded_message.get("content")
        self.text: str = content if isinstance(content, str) else ""
        self._is_truncated = truncates(reason)
        self.malformed_call = False  # this API does not report unreadable calls
        self._add_missing_ids()

    def _add_missing_ids(self) -> None:
        """Give a new id to each call that has none or repeats an earlier call's id, because results are matched to
        calls by id.
        """
        calls = calls_of(self._decoded_message)
        earlier_ids: set[str] = set()
        has_new_ids = False
        for call in calls:
            ident = call.get("id")
            if not isinstance(ident, str) or not ident or ident in earlier_ids:
                call["id"] = new_id()
                has_new_ids = True
            else:
                earlier_ids.add(ident)
        if has_new_ids:
            self._message[TOOL_CALLS] = Raw(_encode(calls))

    @property
    def message(self) -> Mapping[str, Any]:
        return without_calls(self._decoded_message) if self._is_truncated else self._decoded_message

    @property
    def head(self) -> dict[str, Raw]:
        """Members that identify the answer for clients."""
        return {name: raw for name, raw in self._members.items() if name in ("id", "created")}

    @property
    def request_messages(self) -> list[bytes]:
        """The message for the next request, without members that are null, except `content`."""
        members = {name: raw for name, raw in self._message.items() if name == "content" or bytes(raw) != b"null"}
        return [_encode(members)]

    def unwrap(self, calls: Mapping[str, InnerCall]) -> None:
        for call in calls_of(self._decoded_message):
            inner_call = calls.get(str(call.get("id")))
            if inner_call is not None:
                call["function"] = {"name": inner_call.name, "arguments": inner_call.arguments.decode()}
        self._message[TOOL_CALLS] = Raw(_encode(self._decoded_message.get(TOOL_CALLS)))

    def turn_key(self, earlier_answers: Sequence[WireAnswer]) -> CallKey | None:
        return None

    def write(self, loop: LoopResult) -> bytes:
        """The client's answer, with the id and time of the first round. The API has no form to show the gateway's
        calls.
        """
        client_tools = loop.client_tools
        rounds = [round_answer for round_answer in loop.earlier_answers if isinstance(round_answer, ChatAnswer)]
        first_round = rounds[0] if rounds else self
        texts = [round_answer.text for round_answer in rounds if round_answer.text]
        members = {**self._members, **{name: Raw(_encode(value)) for name, value in loop.extra_members.items()}}
        members |= first_round.head
        if loop.usage:
            members["usage"] = Raw(_encode(loop.usage))
        message, choice = dict(self._message), dict(self._choices[0])
        if texts:
            message["content"] = Raw(_encode(ROUND_SEPARATOR.join([*texts, self.text] if self.text else texts)))
        calls = calls_of(self._decoded_message)
        is_visible = [client_tools is None or calls_one_of(call, client_tools) for call in calls]
        if not all(is_visible):
            message.pop(TOOL_CALLS, None)
            if any(is_visible):
                raws = [raw for raw in _raws(self._message[TOOL_CALLS]) if bytes(raw)[:1] == b"{"]
                message[TOOL_CALLS] = Raw(_encode([*itertools.compress(raws, is_visible)]))
            elif bytes(choice.get("finish_reason", b"")) == b'"tool_calls"':
                choice["finish_reason"] = Raw(b'"stop"')
        choice["message"] = Raw(_encode(message))
        members["choices"] = Raw(_encode([choice, *self._choices[1:]]))
        return _encode(members)


def calls_of(message: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The calls in a message, without entries that are not objects."""
    entries = message.get(TOOL_CALLS)
    return [call for call in entries if isinstance(call, dict)] if isinstance(entries, list) else []


def without_calls(message: Mapping[str, Any]) -> dict[str, Any]:
    """The message without its calls."""
    return {name: value for name, value in message.items() if name != TOOL_CALLS}


def name_of(call: Mapping[str, Any]) -> str:
    """Name of the called tool; empty if the call has none."""
    for kind in KINDS:
        function = call.get(kind)
        if isinstance(function, dict) and isinstance(function.get("name"), str):
            return str(function["name"])
    return ""


def calls_one_of(call: Mapping[str, Any], names: Collection[str]) -> bool:
    """Whether the call is for one of these tools."""
    return name_of(call) in names
