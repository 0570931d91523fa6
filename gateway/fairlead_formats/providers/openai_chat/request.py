"""Requests of Chat Completions, read as raw members so that uninterpreted members reach the provider unchanged.

Pure module. Source: OpenAI's API reference, `POST /v1/chat/completions`. Some compatible servers put signed reasoning
into messages: in calls (`extra_content`; Google, "Thought signatures", "OpenAI compatibility"), or in lists of details
or blocks. Only the model that produced the reasoning accepts it, so `remove_thoughts` removes it from a request to
another model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec import Raw

from fairlead_formats.providers.openai_chat.answer import TOOL_CALLS
from fairlead_formats.wire.family_format import GATEWAY_MEMBER, FamilyRequest, reading_body
from fairlead_formats.wire.protocol import ModelRound
from fairlead_formats.wire.raw_json import array

Pieces = Sequence[bytes | Raw]
_encode: Final = msgspec.json.Encoder().encode
_AUTO: Final = Raw(b'"auto"')
_NONE: Final = Raw(b'"none"')
SUBSTITUTE_SIGNATURE: Final = "skip_thought_signature_validator"
"""Signature that Gemini accepts in place of a removed one."""
_EXTRA_CONTENT: Final = "extra_content"
_REASONING_LISTS: Final = ("reasoning_details", "thinking_blocks")
_members: Final = msgspec.json.Decoder(dict[str, Raw]).decode
_raws: Final = msgspec.json.Decoder(list[Raw]).decode


class _Function(msgspec.Struct):
    name: str = ""


class _ToolName(msgspec.Struct):
    function: _Function | None = None
    custom: _Function | None = None


class _StreamOptions(msgspec.Struct):
    include_usage: bool | None = None


class _ReadMembers(msgspec.Struct):
    model: str
    messages: list[Raw]
    stream: bool | None = None
    stream_options: _StreamOptions | None = None
    tools: list[_ToolName] | None = None
    tool_choice: Any = None
    n: int | None = None
    functions: list[Raw] | None = None
    fairlead: Raw = Raw(b"{}")


_decode_request: Final = msgspec.json.Decoder(_ReadMembers).decode


class ChatRequest(FamilyRequest):
    """A client's request."""

    def __init__(self, body: bytes) -> None:
        """Raises BadRequest."""
        with reading_body():
            request_members = _decode_request(body)
            self._members = _members(body)
        self._take_messages(request_members.messages, "messages")
        self.model = request_members.model
        self.stream = bool(request_members.stream)
        self.include_usage = request_members.stream_options is not None and bool(
            request_members.stream_options.include_usage
        )
        self.gateway_options = request_members.fairlead
        # the provider judges `functions` beside `tools`; the gateway cannot continue one of several answers (`n`)
        self.no_injection = request_members.functions is not None or (request_members.n or 1) != 1
        self._tools = _raws(self._members["tools"]) if request_members.tools else []
        self.tool_names = frozenset(map(_name, request_members.tools or ()))
        self._choice = request_members.tool_choice
        self._members.pop(GATEWAY_MEMBER, None)

    @property
    def system(self) -> bytes:
        return b"null"  # system prompts are messages

    def body(self, model_round: ModelRound) -> bytes:
        members: dict[str, Pieces] = {name: (raw,) for name, raw in self._members.items()}
        members["model"] = (_encode(model_round.model),)
        members["messages"] = _array([*self.messages, *model_round.added_messages])
        if model_round.injected_tools:
            members["tools"] = _array([*self._tools, *model_round.injected_tools])
        if model_round.forbids_calls and (model_round.injected_tools or self._tools):
            members["tool_choice"] = (_NONE,)
        elif not model_round.sends_forced_choice and self._forces_call:
            members["tool_choice"] = (_AUTO,)
        if self.stream and model_round.requests_usage:
            stream_options = self._members.get("stream_options", Raw(b"null"))
            options = {} if bytes(stream_options) == b"null" else _members(stream_options)
            members["stream_options"] = (_encode({**options, "include_usage": True}),)
        return b"".join(_object(members))

    @property
    def _forces_call(self) -> bool:
        choice = self._choice
        if isinstance(choice, dict):
            allowed_tools = choice.get("allowed_tools")
            return not isinstance(allowed_tools, dict) or allowed_tools.get("mode") == "required"
        return bool(choice == "required")


def _name(tool: _ToolName) -> str:
    function = tool.function or tool.custom
    return "" if function is None else function.name


def _array(items: Sequence[bytes | Raw]) -> Pieces:
    """Pieces of a JSON array. They are joined only with the whole body, so that megabytes are copied once."""
    pieces: list[bytes | Raw] = [b"["]
    for index, item in enumerate(items):
        pieces += (b",", item) if index else (item,)
    return [*pieces, b"]"]


def _object(members: Mapping[str, Pieces]) -> Pieces:
    pieces: list[bytes | Raw] = []
    for name, value in members.items():
        pieces += (b"," if pieces else b"{", _encode(name), b":", *value)
    return [*pieces, b"}"]


def remove_thoughts(body: bytes, keep_last: int) -> bytes | None:
    """The request without signed reasoning, except in its last `keep_last` messages; None if nothing was removed."""
    members = _members(body)
    messages = _raws(members["messages"])
    early_count = len(messages) - keep_last
    stripped_messages = [_remove_reasoning(message) for message in messages[:early_count]]
    if stripped_messages == messages[:early_count]:
        return None
    return _encode({**members, "messages": Raw(array([*stripped_messages, *messages[early_count:]]))})


def _remove_reasoning(raw: Raw) -> bytes | Raw:
    if not any(b'"%s"' % name.encode() in bytes(raw) for name in (_EXTRA_CONTENT, *_REASONING_LISTS)):
        return raw
    members: dict[str, Any] = {name: value for name, value in _members(raw).items() if name not in _REASONING_LISTS}
    calls = members.get(TOOL_CALLS)
    if calls is not None and bytes(calls)[:1] == b"[":
        members[TOOL_CALLS] = [_replace_signature(call) for call in _raws(calls)]
    return _encode(members)


def _replace_signature(call: Raw) -> Raw:
    members = _members(call)
    if _EXTRA_CONTENT not in members:
        return call
    return Raw(_encode({**members, _EXTRA_CONTENT: {"google": {"thought_signature": SUBSTITUTE_SIGNATURE}}}))
