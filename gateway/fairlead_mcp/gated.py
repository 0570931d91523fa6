"""Capability comparison: finds the tools that a server lists only to clients with certain capabilities.

A server does not say why it lists a tool. So `tools/list` is sent again with all capabilities, and if that lists more
tools, with each capability alone. Calling a hidden tool to see whether it is refused would not work: its name is
unknown, and servers have no common error for unknown tools.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import AbstractAsyncContextManager
from typing import Final, NamedTuple, TypeAlias

import msgspec
from msgspec import Raw

from fairlead_mcp.capabilities import ALL, REQUIRED_TOGETHER, SINGLE
from fairlead_mcp.errors import RpcError
from fairlead_mcp.jsonrpc import METHOD_NOT_FOUND, UNREADABLE
from fairlead_mcp.session import McpSession

LISTING_SECONDS: Final = 30.0
"""Limit for each listing of a comparison."""
SessionOpener: TypeAlias = Callable[[bytes], AbstractAsyncContextManager[McpSession]]
"""Opens a session that declares the given capabilities (raw JSON) and declines the server's requests."""


class Gated(NamedTuple):
    """A tool that a server lists to some clients only."""

    definition: Raw
    requires: tuple[str, ...]
    """Names of the client capabilities that a client has to declare to see the tool."""


async def find_gated_tools(
    open_session: SessionOpener, ungated_names: Collection[str], timeout: float
) -> tuple[Gated, ...]:
    """Return the tools that are not among `ungated_names`, which the server lists to clients without capabilities.

    `timeout` is in seconds, for each listing. Raises McpError.
    """
    gated = {name: raw for name, raw in (await _list(open_session, ALL, timeout)).items() if name not in ungated_names}
    requires: dict[str, tuple[str, ...]] = {}
    for capability, capabilities in SINGLE:
        if len(requires) == len(gated):
            break
        for name in await _list(open_session, capabilities, timeout):
            if name in gated:
                requires.setdefault(name, (capability,))
    return tuple(Gated(raw, requires.get(name, REQUIRED_TOGETHER)) for name, raw in gated.items())


def name_of(definition: Raw) -> str | None:
    """Return the name in a raw definition; None if there is none."""
    try:
        return _decode_named(definition).name
    except UNREADABLE:
        return None


async def _list(open_session: SessionOpener, capabilities: bytes, timeout: float) -> dict[str, Raw]:
    async with open_session(capabilities) as session:
        try:
            items = await session.list_all("tools/list", timeout=timeout)
        except RpcError as error:
            if error.code != METHOD_NOT_FOUND:
                raise
            items = []
    by_name = ((name_of(item), item) for item in items)
    return {name: Raw(bytes(item)) for name, item in by_name if name is not None}


class _Named(msgspec.Struct):
    """Tool definition, of which only the name is read."""

    name: str


_decode_named = msgspec.json.Decoder(_Named).decode
