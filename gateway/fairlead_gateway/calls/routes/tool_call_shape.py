"""Translates calls of a tool whose shape differs from its server's definition: the arguments, and errors that name
them. Pure module.

Clients use the names of the shape. Policies, the audit log, the cache and the server use the server's names.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

import msgspec
from msgspec import Raw

from fairlead_api.documents.catalog import Credential, ToolShape
from fairlead_gateway.core.call_shape import MisnamedArgument
from fairlead_mcp import jsonrpc
from fairlead_mcp.errors import RpcError
from fairlead_mcp.jsonrpc import RawObject
from fairlead_mcp.masking import Mask
from fairlead_mcp.members import ProtectedNames
from fairlead_mcp.parameters import Parameter
from fairlead_tools.selection import ResultSelection, select

_decode: Final = msgspec.json.Decoder(dict[str, Raw] | None).decode
SMALL_RESULT: Final = 8 << 10
"""Maximum bytes of a result whose part is selected in the event loop, which takes about a millisecond."""
_LOCATION: Final = "params.arguments"


class ToolCallShape:
    """Implements `core.call_shape.CallShape` for one tool, with the secret values of its arguments."""

    __slots__ = (
        "_client_names",
        "_defaults",
        "_mask",
        "_protected_names",
        "_quoted_name",
        "_secrets",
        "_server_names",
        "_values",
        "missing_secret",
        "param_headers",
        "selection",
    )

    def __init__(
        self, shape: ToolShape, param_headers: tuple[Parameter, ...], secrets: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        self.param_headers = param_headers
        self.selection: ResultSelection | None = None
        if shape.select is not None:
            self.selection = ResultSelection(shape.select, b'"outputSchema"' in bytes(shape.definition))
        self._server_names = shape.arguments
        self._client_names = {name: client_name for client_name, name in shape.arguments.items()}
        self._protected_names = ProtectedNames((*shape.hidden, *self._client_names))
        self._values = _encode_members(shape.values)
        self._defaults = _encode_members(shape.defaults)
        self._secrets = _encode_members({name: secrets[name] for name in shape.secrets if name in secrets})
        self._mask = Mask(Credential(arguments={"": dict(secrets)}))
        self.missing_secret = next((name for name in shape.secrets if name not in secrets), None)
        names = "|".join(map(re.escape, self._client_names))
        self._quoted_name = re.compile(rf"(['\"`])({names})\1") if names else None

    def to_server(self, arguments: bytes | Raw | None) -> Raw:
        client_arguments = (None if arguments is None else _decode(arguments)) or {}
        server_arguments: dict[str, Raw] = {}
        unchanged_names: list[str] = []
        for name, value in client_arguments.items():
            server_name = self._server_names.get(name)
            if server_name is not None:
                server_arguments[server_name] = value
            elif name in self._client_names:
                raise MisnamedArgument(f"unknown argument '{name}': it is called '{self._client_names[name]}'")
            elif name not in self._protected_names.names:
                server_arguments[name] = value
                unchanged_names.append(name)
        misread = self._protected_names.explain_misread(unchanged_names, _LOCATION)
        if misread is not None:
            raise MisnamedArgument(misread)
        for name, value in self._defaults.items():
            server_arguments.setdefault(name, value)
        server_arguments.update(self._values)
        return Raw(jsonrpc.encode(server_arguments))

    def add_secrets(self, members: RawObject) -> RawObject:
        if not self._secrets or "arguments" not in members:
            return members
        arguments = {**jsonrpc.decode_object(members["arguments"]), **self._secrets}
        return {**members, "arguments": Raw(jsonrpc.encode(arguments))}

    def show_text(self, text: str) -> str:
        """A server's text in which quoted argument names are replaced by the clients' names."""
        if self._quoted_name is None:
            return text
        return self._quoted_name.sub(lambda match: f"{match[1]}{self._client_names[match[2]]}{match[1]}", text)

    def show_error(self, error: RpcError) -> RpcError:
        error = self._mask.error(error)
        text = self.show_text(error.message)
        return error if text == error.message else RpcError(error.code, text, error.data, status=error.status)

    def show_failure(self, result: Raw) -> Raw:
        """The result of a failed call with the clients' argument names in its texts; other results unchanged."""
        if self._quoted_name is None or b'"isError"' not in bytes(result):
            return result
        try:
            members = jsonrpc.decode_object(result)
            if bytes(members.get("isError", b"")) != b"true":
                return result
            content = msgspec.json.decode(members["content"])
        except (KeyError, *jsonrpc.UNREADABLE):
            return result
        is_changed = False
        for block in content if isinstance(content, list) else ():
            if isinstance(block, dict) and isinstance(block.get("text"), str):
                text = self.show_text(block["text"])
                is_changed = is_changed or text != block["text"]
                block["text"] = text
        if not is_changed:
            return result
        members["content"] = Raw(jsonrpc.encode(content))
        return Raw(jsonrpc.encode(members))

    def reshape_small(self, result: Raw) -> Raw | None:
        client_result = self.show_failure(result)
        if self.selection is None:
            return client_result
        return Raw(select(self.selection, bytes(client_result))) if len(client_result) <= SMALL_RESULT else None


def _encode_members(values: dict[str, Any]) -> dict[str, Raw]:
    return {name: Raw(jsonrpc.encode(value)) for name, value in values.items()}
