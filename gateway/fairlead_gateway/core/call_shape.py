"""Interface of the shape of a tool, as its calls use it."""

from __future__ import annotations

from typing import Protocol

from msgspec import Raw

from fairlead_mcp.errors import RpcError
from fairlead_mcp.jsonrpc import RawObject
from fairlead_mcp.parameters import Parameter
from fairlead_tools.selection import ResultSelection


class MisnamedArgument(ValueError):
    """A call has an argument under a name that clients do not have for it; the message says which name they have."""


class CallShape(Protocol):
    """Translates calls of a tool that clients see in another shape than its server defines."""

    param_headers: tuple[Parameter, ...]
    """Arguments that the server gets as headers too (`Mcp-Param-*`), by the server's names."""
    selection: ResultSelection | None
    """Part of results that clients get; None for all of it."""
    lacking: str | None
    """An argument whose secret value the gateway does not have, so that calls are refused; None without one."""

    def to_server(self, arguments: bytes | Raw | None) -> Raw:
        """The arguments for the server: renamed, with defaults and with the values of hidden arguments.

        Raises MisnamedArgument for an argument under the server's name, or in a spelling that some parsers read as a
        hidden argument; jsonrpc.UNREADABLE for bytes that are not a JSON object.
        """
        ...

    def add_secrets(self, members: RawObject) -> RawObject:
        """Params of a call with the secret values of arguments; the same object if it has no arguments or secrets."""
        ...

    def show_error(self, error: RpcError) -> RpcError:
        """An error of the server with the clients' names of arguments, and without secrets; the error itself if it has
        none of both.
        """
        ...

    def show_small(self, result: Raw) -> Raw | None:
        """A result with the clients' names in its errors, and its selected part; None if it is too large to select a
        part of it in the event loop.
        """
        ...
