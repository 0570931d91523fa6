"""Requests with `functions`, rewritten to requests with `tools`.

Pure module. Source: OpenAI's API reference, `POST /v1/chat/completions`, deprecated members. A message calls one
function, in `function_call {name, arguments}`, and a message of the role `function` answers it by name. `function_call`
has no id, so the gateway adds `id` to the calls that it writes, and finds the stored turn if the client returns the id.
With `functions` a call may stay without a result. With `tools` it may not, so the result of such a call becomes
`_NO_RESULT`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec
from msgspec import Raw

from fairlead_formats.messages.call import FUNCTION_CALL
from fairlead_formats.providers.openai_chat.answer import TOOL_CALLS
from fairlead_formats.wire.call_ids import is_made_here
from fairlead_formats.wire.family_format import reading_body
from fairlead_formats.wire.protocol import ModelRound, WireFormat, WireRequest
from fairlead_formats.wire.raw_json import array
from fairlead_formats.wire.wrapped import WrappedRequest

FUNCTIONS: Final = "functions"
_NO_RESULT: Final = "The result of this call was not sent."
_FUNCTION_MARKS: Final = (b"function_call", b'"function"')
_encode: Final = msgspec.json.Encoder().encode
_members: Final = msgspec.json.Decoder(dict[str, Raw]).decode
_raws: Final = msgspec.json.Decoder(list[Raw]).decode
_decode: Final = msgspec.json.Decoder().decode
_NULL: Final = Raw(b"null")


def uses_functions(body: bytes) -> bool:
    """Whether a request has `functions` and no `tools`; false for a body that cannot be read."""
    if b'"functions"' not in body:
        return False
    try:
        members = _members(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return False
    return bytes(members.get(FUNCTIONS, b""))[:1] == b"[" and bytes(members.get("tools", _NULL)) == b"null"


def rewrite_to_tools(body: bytes) -> bytes:
    """The body of a request, rewritten to `tools`, `tool_choice` and `tool_calls`. Raises BadRequest."""
    with reading_body():
        members = _members(body)
        functions = _raws(members.pop(FUNCTIONS))
        members["tools"] = Raw(
            array([b'{"type":"function","function":%b}' % bytes(function) for function in functions])
        )
        choice = _decode(members.pop(FUNCTION_CALL, _NULL))
        if choice is not None and "tool_choice" not in members:
            names_function = isinstance(choice, dict)
            members["tool_choice"] = Raw(
                _encode({"type": "function", "function": choice} if names_function else choice)
            )
        if bytes(members.get("messages", b""))[:1] == b"[":
            members["messages"] = Raw(array(_Messages().rewrite(_raws(members["messages"]))))
        return _encode(members)


class _Messages:
    """Rewrites the messages of one conversation."""

    def __init__(self) -> None:
        self._tools_messages: list[bytes | Raw] = []
        self._open_call: tuple[str, object] | None = None
        """Id and name of the call whose result has not been read."""
        self._call_count = 0

    def rewrite(self, messages: Sequence[Raw]) -> list[bytes | Raw]:
        for message in messages:
            if any(mark in bytes(message) for mark in _FUNCTION_MARKS) and bytes(message)[:1] == b"{":
                self._rewrite_message(message)
            else:
                self._add(message)
        self._close()
        return self._tools_messages

    def _rewrite_message(self, message: Raw) -> None:
        members: dict[str, Any] = dict(_members(message))
        role, call = _decode(members.get("role", _NULL)), _decode(members.get(FUNCTION_CALL, _NULL))
        if role == "function":
            self._add_result(message, members)
        elif role == "assistant" and isinstance(call, dict) and bytes(members.get(TOOL_CALLS, _NULL)) == b"null":
            self._add_call(members, call)
        elif FUNCTION_CALL in members and call is None:
            del members[FUNCTION_CALL]
            self._add(_encode(members))
        else:
            self._add(message)

    def _add(self, message: bytes | Raw) -> None:
        self._close()
        self._tools_messages.append(message)

    def _add_call(self, members: dict[str, Any], call: dict[str, Any]) -> None:
        self._call_count += 1
        ident = call.pop("id", None)
        if not isinstance(ident, str) or not is_made_here(ident):
            ident = f"call_function_{self._call_count}"
        name = call.pop("name", "")
        function = {"name": name, "arguments": call.pop("arguments", "{}")}
        del members[FUNCTION_CALL]
        members.setdefault("content", None)
        members[TOOL_CALLS] = [{"id": ident, "type": "function", "function": function, **call}]
        self._add(_encode(members))
        self._open_call = ident, name

    def _add_result(self, message: Raw, members: dict[str, Any]) -> None:
        if self._open_call is None or _decode(members.get("name", _NULL)) != self._open_call[1]:
            self._add(message)  # a result without a call, which the API accepts only in this role
            return
        ident, self._open_call = self._open_call[0], None
        members.pop("name")
        content = members.get("content", _NULL)
        members |= {"role": "tool", "tool_call_id": ident, "content": "" if bytes(content) == b"null" else content}
        self._tools_messages.append(_encode(members))

    def _close(self) -> None:
        if self._open_call is not None:
            ident, self._open_call = self._open_call[0], None
            self._tools_messages.append(_encode({"role": "tool", "tool_call_id": ident, "content": _NO_RESULT}))


class FunctionsRequest(WrappedRequest):
    """A request with `functions`, for a provider that gets `tools`."""

    single_call = True

    def __init__(self, inner: WireRequest, client_request: WireRequest | None) -> None:
        """`inner`: the request rewritten to `tools`. `client_request`: the request as the client sent it, which goes to
        a provider of Chat Completions unless the gateway adds tools; None for providers of other APIs.
        """
        super().__init__(inner)
        self._client_request = client_request

    def body(self, model_round: ModelRound) -> bytes:
        is_unchanged = not model_round.injected_tools and self.inner.messages is self.inner.client_messages
        request = self._client_request if is_unchanged and self._client_request is not None else self.inner
        return request.body(model_round)


def read_functions(inner: WireFormat, body: bytes, *, native: bool) -> FunctionsRequest:
    """Read a client's request. `native`: the provider's API is Chat Completions. Raises BadRequest."""
    return FunctionsRequest(inner.read(rewrite_to_tools(body)), inner.read(body) if native else None)
