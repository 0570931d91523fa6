"""Requests of Anthropic Messages, read as raw members so that uninterpreted members reach the provider unchanged.

Pure module. Source: Anthropic's API reference, `POST /v1/messages`. Only the model that produced signed thinking
accepts it, so `remove_thoughts` removes it from a request that goes to another model.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec
from msgspec import Raw

from fairlead_formats.providers.anthropic.blocks import SIGNED, TOOL_USE, Block, as_message, blocks_of
from fairlead_formats.providers.anthropic.history import split_rounds
from fairlead_formats.providers.anthropic.threads import THREAD, refuse_continuation
from fairlead_formats.wire.family_format import GATEWAY_MEMBER, FamilyRequest, reading_body
from fairlead_formats.wire.protocol import ModelRound
from fairlead_formats.wire.raw_json import array

_TOOLSET: Final = "_toolset_"
"""Part of the `type` of a toolset. The text before this part is the name in calls of the toolset, which is a tool entry
without a `name`.
"""
_encode: Final = msgspec.json.Encoder().encode
_FORBIDDING_CHOICE: Final = Raw(b'{"type":"none"}')
_members: Final = msgspec.json.Decoder(dict[str, Raw]).decode
_raws: Final = msgspec.json.Decoder(list[Raw]).decode


class _ToolEntry(msgspec.Struct):
    name: str = ""
    type: str | None = None


class _MessagesMembers(msgspec.Struct):
    model: str
    messages: list[Raw]
    stream: bool | None = None
    tools: list[_ToolEntry] | None = None
    tool_choice: dict[str, Any] | None = None
    thread: dict[str, Any] | None = None
    fairlead: Raw = Raw(b"{}")


_decode_request: Final = msgspec.json.Decoder(_MessagesMembers).decode


class AnthropicRequest(FamilyRequest):
    """A client's request."""

    def __init__(self, body: bytes) -> None:
        """Raises BadRequest."""
        with reading_body():
            request_members = _decode_request(body)
            self._members = _members(body)
        refuse_continuation(request_members.thread)
        self._take_messages(request_members.messages, "messages")
        self.model = request_members.model
        self.stream = bool(request_members.stream)
        self.gateway_options = request_members.fairlead
        self._tools = _raws(self._members["tools"]) if request_members.tools else []
        self.tool_names = frozenset(filter(None, map(_name, request_members.tools or ())))
        self._choice = request_members.tool_choice or {}
        self._members.pop(GATEWAY_MEMBER, None)
        self._members.pop(THREAD, None)

    @property
    def system(self) -> bytes:
        return bytes(self._members.get("system", b"null"))

    def body(self, model_round: ModelRound) -> bytes:
        members = dict(self._members)
        members["model"] = Raw(_encode(model_round.model))
        tools = [*self._tools, *model_round.injected_tools]
        members["messages"] = Raw(array([*split_rounds(self.messages, calls=bool(tools)), *model_round.added_messages]))
        if model_round.injected_tools:
            members["tools"] = Raw(array(tools))
        if model_round.forbids_calls and tools:
            members["tool_choice"] = _FORBIDDING_CHOICE
        elif not model_round.sends_forced_choice and self._choice.get("type") in ("any", "tool"):
            members["tool_choice"] = Raw(_encode({**_common_choice_members(self._choice), "type": "auto"}))
        return _encode(members)


def _common_choice_members(choice: dict[str, Any]) -> dict[str, Any]:
    """Members of a tool choice that apply to every tool."""
    return {name: value for name, value in choice.items() if name not in ("type", "name")}


def _name(tool: _ToolEntry) -> str:
    """Name by which calls refer to a client's tool; for a toolset, the part of its type before `_toolset_`."""
    family, toolset, _ = (tool.type or "").partition(_TOOLSET)
    return tool.name or (family if toolset else "")


class _RoleAndContent(msgspec.Struct):
    role: str
    content: Raw


_role_and_content: Final = msgspec.json.Decoder(_RoleAndContent).decode


def remove_thoughts(body: bytes, keep_last: int) -> bytes | None:
    """The request without signed thinking, except in its last `keep_last` messages; None if nothing changes.

    While thinking is on, the API refuses a last turn in which a call has no thinking before it. So thinking is switched
    off if thinking before a call of the last turn was removed, or if that turn begins with a call of a model that did
    not think.
    """
    members: dict[str, Any] = dict(_members(body))
    messages = _raws(members["messages"])
    provider_messages: list[bytes | Raw] = []
    has_removed_thinking = turn_lacks_thinking = False
    turn_begins = True
    for index, raw in enumerate(messages):
        message = _role_and_content(raw)
        blocks = blocks_of(bytes(message.content))
        if message.role != "assistant":
            turn_begins = not all(block.kind == "tool_result" for block in blocks)
            turn_lacks_thinking = turn_lacks_thinking and not turn_begins
        elif turn_begins:
            turn_lacks_thinking = _has_call(blocks) and blocks[0].kind not in SIGNED
            turn_begins = False
        others = [block for block in blocks if block.kind not in SIGNED]
        if message.role != "assistant" or index >= len(messages) - keep_last or len(others) == len(blocks):
            provider_messages.append(raw)
            continue
        has_removed_thinking = True
        turn_lacks_thinking = turn_lacks_thinking or _has_call(others)
        provider_messages += as_message("assistant", others)
    if not has_removed_thinking and not (turn_lacks_thinking and "thinking" in members):
        return None
    if turn_lacks_thinking:
        members.pop("thinking", None)
    return _encode({**members, "messages": Raw(array(provider_messages))})


def _has_call(blocks: list[Block]) -> bool:
    return any(block.kind == TOOL_USE for block in blocks)
