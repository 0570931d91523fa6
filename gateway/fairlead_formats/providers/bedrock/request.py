"""Requests of Converse, read as raw members so that uninterpreted members reach the provider unchanged.

Pure module. Source: Amazon Bedrock API reference, `Converse`. The API has no tool choice that forbids calls, and
refuses calls in the messages of a request without tools. So a request that must not lead to calls is sent without
tools, and with earlier calls and results written as text. Only the model that produced signed reasoning accepts it, so
`remove_thoughts` removes it from a request that goes to another model.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec
from msgspec import Raw

from fairlead_formats.messages.call import member, text_of
from fairlead_formats.providers.bedrock.blocks import (
    FOREIGN_SIGNATURE,
    REASONING,
    TOOL_RESULT,
    TOOL_USE,
    Block,
    as_request,
    blocks_of,
    is_foreign_reasoning,
    without_calls,
)
from fairlead_formats.wire.family_format import GATEWAY_MEMBER, FamilyRequest, reading_body
from fairlead_formats.wire.protocol import ModelRound
from fairlead_formats.wire.raw_json import array, decode_object

NO_CALLS: Final = "none"
"""Tool choice that forbids calls. The API has no such choice, so it is removed before a request goes to the API."""
_FOREIGN_BYTES: Final = FOREIGN_SIGNATURE.encode()
_CALL_MEMBERS: Final = tuple(f'"{name}"'.encode() for name in (TOOL_USE, TOOL_RESULT))
_MANAGED_PROMPT: Final = ":prompt/"
"""Part of the ARN of a managed prompt (Prompt management), which defines its own tools."""
_encode: Final = msgspec.json.Encoder().encode
_members: Final = msgspec.json.Decoder(dict[str, Raw]).decode
_raws: Final = msgspec.json.Decoder(list[Raw]).decode
_decode: Final = msgspec.json.Decoder().decode
_decode_messages: Final = msgspec.json.Decoder(list[dict[str, Any]]).decode


class _ConverseMembers(msgspec.Struct, rename="camel"):
    messages: list[Raw] = []
    tool_config: dict[str, Raw] | None = None
    fairlead: Raw = Raw(b"{}")


_decode_request: Final = msgspec.json.Decoder(_ConverseMembers).decode


class BedrockRequest(FamilyRequest):
    """A client's request."""

    def __init__(self, body: bytes, model: str, stream: bool) -> None:
        """`model` and `stream` come from the path. Raises BadRequest."""
        with reading_body():
            request_members = _decode_request(body)
            self._members = _members(body)
            self._config = request_members.tool_config or {}
            self._tools = _raws(self._config.get("tools", b"[]"))
            choice = _decode(self._config.get("toolChoice", b"null"))
            names = [_name(_decode(tool)) for tool in self._tools]
        self._take_messages(request_members.messages, "messages")
        self.model = model
        self.stream = stream
        self.gateway_options = request_members.fairlead
        self.tool_names = frozenset(filter(None, names))
        self._choice = next(iter(choice), "") if isinstance(choice, dict) else ""
        self.no_injection = _MANAGED_PROMPT in model or "promptVariables" in self._members
        self._members.pop(GATEWAY_MEMBER, None)

    @property
    def system(self) -> bytes:
        return bytes(self._members.get("system", b"null"))

    def body(self, model_round: ModelRound) -> bytes:
        members = dict(self._members)
        tools = [*self._tools, *model_round.injected_tools]
        messages = [*map(_without_foreign, self.messages), *model_round.added_messages]
        if self.no_injection:
            return _encode({**members, "messages": Raw(array(messages))})
        if not tools or model_round.forbids_calls or self._choice == NO_CALLS:
            members.pop("toolConfig", None)
            messages = [*map(_without_calls, messages)]
        elif model_round.injected_tools or not model_round.sends_forced_choice:
            config = {**self._config, "tools": Raw(array(tools))}
            if not model_round.sends_forced_choice and self._choice in ("any", "tool"):
                config.pop("toolChoice")
            members["toolConfig"] = Raw(_encode(config))
        members["messages"] = Raw(array(messages))
        return _encode(members)


def _name(tool: object) -> str:
    """Name of a tool; empty for an entry that is not a tool, such as a cache point."""
    return text_of(member(member(tool, "toolSpec", "systemTool"), "name"))


def _without_foreign(raw: bytes | Raw) -> bytes | Raw:
    """A message without reasoning that has `FOREIGN_SIGNATURE`."""
    if _FOREIGN_BYTES not in bytes(raw):
        return raw
    message = decode_object(raw)
    blocks = [block for block in blocks_of(message.get("content")) if not is_foreign_reasoning(block)]
    return _encode({**message, "content": blocks or [{"text": "(reasoning)"}]})


def _without_calls(raw: bytes | Raw) -> bytes | Raw:
    """A message with its calls and results written as text."""
    if not any(name in bytes(raw) for name in _CALL_MEMBERS):
        return raw
    message = decode_object(raw)
    return _encode({**message, "content": without_calls(blocks_of(message.get("content")))})


def remove_thoughts(body: bytes, keep_last: int) -> bytes | None:
    """The request without signed reasoning, except in its last `keep_last` messages; None if nothing changes.

    While Claude's thinking is on, the API refuses a last turn in which a call has no reasoning before it. So thinking
    is switched off if reasoning before a call of the last turn was removed, or if that turn begins with a call of a
    model that did not think.
    """
    members = _members(body)
    messages: list[dict[str, Any]] = _decode_messages(members["messages"])
    provider_messages: list[bytes] = []
    has_removed_reasoning = turn_lacks_thinking = False
    turn_begins = True
    for index, message in enumerate(messages):
        blocks, role = blocks_of(message["content"]), message["role"]
        others = [block for block in blocks if REASONING not in block]
        if role != "assistant":
            turn_begins = not all(TOOL_RESULT in block for block in blocks)
            turn_lacks_thinking = turn_lacks_thinking and not turn_begins
        elif turn_begins:
            turn_lacks_thinking = _has_calls(blocks) and REASONING not in blocks[0]
            turn_begins = False
        if role != "assistant" or index >= len(messages) - keep_last or len(others) == len(blocks):
            provider_messages.append(_encode(message))
            continue
        has_removed_reasoning = True
        turn_lacks_thinking = turn_lacks_thinking or _has_calls(others)
        provider_messages += as_request("assistant", others)
    fields = _decode(members.get("additionalModelRequestFields", b"{}"))
    if not has_removed_reasoning and not (turn_lacks_thinking and member(fields, "thinking")):
        return None
    if turn_lacks_thinking and isinstance(fields, dict) and fields.pop("thinking", None) is not None:
        members["additionalModelRequestFields"] = Raw(_encode(fields))
    return _encode({**members, "messages": Raw(array(provider_messages))})


def _has_calls(blocks: Sequence[Block]) -> bool:
    return any(TOOL_USE in block for block in blocks)
