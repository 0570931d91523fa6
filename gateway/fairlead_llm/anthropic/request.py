"""Requests of Anthropic Messages: read as raw members, so that what is not understood goes out as it came.

Pure module. Wire format: Anthropic's API reference, `POST /v1/messages`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec
from msgspec import Raw

from fairlead_llm.anthropic.history import outgoing
from fairlead_llm.raw_json import array
from fairlead_llm.wire import BadRequest

OWN_MEMBER: Final = "fairlead"
"""Member of a request that is the gateway's, and does not go out."""
_TOOLSET: Final = "_toolset_"
"""In the type of an entry for several tools, which has no name; calls of them name the family in front of it."""
_encode: Final = msgspec.json.Encoder().encode
_NONE: Final = Raw(b'{"type":"none"}')


class _ToolEntry(msgspec.Struct):
    name: str = ""
    type: str | None = None


class _MessagesMembers(msgspec.Struct):
    model: str
    messages: list[Raw]
    stream: bool | None = None
    tools: list[_ToolEntry] | None = None
    tool_choice: dict[str, Any] | None = None
    fairlead: Raw = Raw(b"{}")


_read: Final = msgspec.json.Decoder(_MessagesMembers).decode
_members: Final = msgspec.json.Decoder(dict[str, Raw]).decode
_raws: Final = msgspec.json.Decoder(list[Raw]).decode


class AnthropicRequest:
    """One request of a client."""

    no_injection = False

    def __init__(self, body: bytes) -> None:
        """Raises BadRequest."""
        try:
            read, self._members = _read(body), _members(body)
        except msgspec.ValidationError as error:
            raise BadRequest(f"the body: {error}") from error
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise BadRequest(f"the body is not JSON: {error}") from error
        except RecursionError as error:
            raise BadRequest("the body is nested too deeply") from error
        if not read.messages:
            raise BadRequest("messages: give at least one", "messages")
        self.model = read.model
        self.client_messages: Sequence[bytes | Raw] = [*read.messages]
        self.messages: Sequence[bytes | Raw] = self.client_messages
        self._came = sum(map(len, map(bytes, read.messages)))
        self.stream = bool(read.stream)
        self.own = read.fairlead
        self._tools: list[Raw] = _raws(self._members["tools"]) if read.tools else []
        self.tool_names = frozenset(filter(None, map(_name, read.tools or ())))
        self._choice = read.tool_choice or {}
        self._members.pop(OWN_MEMBER, None)

    @property
    def tools(self) -> bytes:
        return _encode(self._tools)

    @property
    def system(self) -> bytes:
        return bytes(self._members.get("system", b"null"))

    @property
    def restored_bytes(self) -> int:
        return sum(map(len, map(bytes, self.messages))) - self._came

    def body(
        self,
        model: str,
        more: Sequence[bytes],
        injected: Sequence[bytes],
        *,
        usage: bool,
        first: bool = True,
        last: bool = False,
    ) -> bytes:
        members = dict(self._members)
        members["model"] = Raw(_encode(model))
        tools = [*self._tools, *injected]
        members["messages"] = Raw(array([*outgoing(self.messages, calls=bool(tools)), *more]))
        if injected:
            members["tools"] = Raw(array(tools))
        if last and tools:
            members["tool_choice"] = _NONE
        elif not first and self._choice.get("type") in ("any", "tool"):
            members["tool_choice"] = Raw(_encode({**_parallel(self._choice), "type": "auto"}))
        return _encode(members)


def _parallel(choice: dict[str, Any]) -> dict[str, Any]:
    """Members of a choice that hold whichever tool is chosen."""
    return {name: value for name, value in choice.items() if name not in ("type", "name")}


def _name(tool: _ToolEntry) -> str:
    """Name by which calls of a tool of the caller's are known; of a toolset that of its family."""
    family, toolset, _ = (tool.type or "").partition(_TOOLSET)
    return tool.name or (family if toolset else "")
