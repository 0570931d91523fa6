"""Interface through which calls use the shape of a tool."""

from __future__ import annotations

from typing import Protocol

from msgspec import Raw

from fairlead_mcp.errors import RpcError
from fairlead_mcp.jsonrpc import RawObject
from fairlead_mcp.parameters import Parameter
from fairlead_tools.selection import ResultSelection


class MisnamedArgument(ValueError):
    """A call uses the server's name of an argument, not the clients' name. The message gives the clients' name."""


class CallShape(Protocol):
    """Translates calls of a tool whose shape for clients differs from the server's definition."""

    param_headers: tuple[Parameter, ...]
    """Arguments that the server also gets as headers (`Mcp-Param-*`), by the server's names."""
    selection: ResultSelection | None
    """The part of results that clients get; None for whole results."""
    missing_secret: str | None
    """An argument whose secret value the gateway does not have, which is why calls are refused; None if all values are
    known.
    """

    def to_server(self, arguments: bytes | Raw | None) -> Raw:
        """Translate arguments for the server: rename them, and add defaults and the values of hidden arguments. Raises
        MisnamedArgument if an argument has the server's name, or a spelling that some parsers read as a hidden
        argument; jsonrpc.UNREADABLE if the bytes are not a JSON object.
        """
        ...

    def add_secrets(self, members: RawObject) -> RawObject:
        """Add the secret values of arguments to the params of a call. Returns the same object if there is nothing to
        add.
        """
        ...

    def show_error(self, error: RpcError) -> RpcError:
        """Replace the server's argument names in an error by the clients' names, and mask secrets. Returns the same
        error if it contains neither.
        """
        ...

    def reshape_small(self, result: Raw) -> Raw | None:
        """Reshape a small result: clients' names in errors, and the selected part. Returns None for a result so large
        that selecting its part would block the event loop.
        """
        ...
