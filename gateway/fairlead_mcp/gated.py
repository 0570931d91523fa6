"""Tools that a server lists only to clients with a capability, found by comparing its lists.

A server does not say why it lists a tool, so it is asked again as a client that has every capability, and where that
shows more, for each capability alone. A refused call would not do in place of that: servers word an unknown tool in any
way they like, and nothing would tell a client that there is such a tool.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import AbstractAsyncContextManager
from typing import Final, NamedTuple, TypeAlias

import msgspec
from msgspec import Raw

from fairlead_mcp.capabilities import ALL, SINGLE, TOGETHER
from fairlead_mcp.errors import RpcError
from fairlead_mcp.jsonrpc import METHOD_NOT_FOUND, UNREADABLE
from fairlead_mcp.session import McpSession

LOOK_SECONDS: Final = 30.0
"""Bound of each listing of a comparison."""
Declaring: TypeAlias = Callable[[bytes], AbstractAsyncContextManager[McpSession]]
"""Opens a session that declares these capabilities (raw JSON) and declines what the server asks."""


class Gated(NamedTuple):
    """A tool that a server lists to some clients only."""

    definition: Raw
    requires: tuple[str, ...]
    """Names of the client capabilities without which it is not listed."""


async def behind_capabilities(declaring: Declaring, listed: Collection[str], timeout: float) -> tuple[Gated, ...]:
    """The tools that a server lists beyond `listed`, the names that it lists to clients without capabilities.

    `timeout` is in seconds, for each listing. Raises McpError.
    """
    gated = {name: raw for name, raw in (await _list(declaring, ALL, timeout)).items() if name not in listed}
    requires: dict[str, tuple[str, ...]] = {}
    for capability, declared in SINGLE:
        if len(requires) == len(gated):
            break
        for name in await _list(declaring, declared, timeout):
            if name in gated:
                requires.setdefault(name, (capability,))
    return tuple(Gated(raw, requires.get(name, TOGETHER)) for name, raw in gated.items())


def name_of(definition: Raw) -> str | None:
    """The name in a raw definition; None where it has none."""
    try:
        return _decode_named(definition).name
    except UNREADABLE:
        return None


async def _list(declaring: Declaring, capabilities: bytes, timeout: float) -> dict[str, Raw]:
    async with declaring(capabilities) as session:
        try:
            items = await session.list_all("tools/list", timeout=timeout)
        except RpcError as error:
            if error.code != METHOD_NOT_FOUND:
                raise
            items = []
    by_name = ((name_of(item), item) for item in items)
    return {name: Raw(bytes(item)) for name, item in by_name if name is not None}


class _Named(msgspec.Struct):
    name: str


_decode_named = msgspec.json.Decoder(_Named).decode
