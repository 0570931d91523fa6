"""One discovery: everything that a server lists, as it sent it.

Does no more than read; what it finds is judged in `catalog_build`.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import msgspec
from msgspec import Raw

from fairlead_api.documents.catalog import Endpoint
from fairlead_mcp import capabilities, methods
from fairlead_mcp.errors import ConnectFailed, ConnectionLost, McpError, RpcError
from fairlead_mcp.session import LIST_SECONDS, McpSession

EMPTY: Final = Raw(b"{}")
METHOD_NOT_FOUND: Final = -32601
ASIDE_SECONDS: Final = 10.0
"""Bound of each listing beside `tools/list`."""

RESOURCES: Final = "resources/list"
TEMPLATES: Final = "resources/templates/list"
PROMPTS: Final = "prompts/list"
SKILLS: Final = "skills/list"
_CAPABILITY: Final = {RESOURCES: "resources", TEMPLATES: "resources", PROMPTS: "prompts"}


class RawListing(msgspec.Struct, frozen=True):
    """Result of one discovery: raw definitions in the order in which the server listed them."""

    protocol_version: str
    server_info: Raw = EMPTY
    capabilities: Raw = EMPTY
    instructions: str | None = None
    tools: tuple[Raw, ...] = ()
    resources: tuple[Raw, ...] = ()
    resource_templates: tuple[Raw, ...] = ()
    prompts: tuple[Raw, ...] = ()
    skills: tuple[Raw, ...] = ()
    requires: Mapping[str, tuple[str, ...]] = {}
    """Tools that are listed only to clients with capabilities, by name, and the names of these capabilities."""
    compared: bool = True
    """Whether it is known which tools those are."""
    ttl_ms: int = 0
    """How long the server says that its lists keep, the shortest of them; 0 = it does not say."""
    announced: Mapping[str, str] = {}
    """Lists ("tools", "prompts", "resources") that the server said have changed, to the time (RFC 3339)."""
    notes: tuple[str, ...] = ()
    """A sentence for each listing that was declared and failed."""
    gateways: tuple[str, ...] = ()
    """Installations of Fairlead that its tools come through."""
    endpoint: Endpoint | None = None
    """Where its server turned out to be reached, if not where it was asked."""
    remarks: tuple[str, ...] = ()
    """Sentences about what was taken although its shape is not MCP's."""

    @property
    def listed(self) -> int:
        """Definitions of all kinds together."""
        return sum(map(len, self._lists))

    @property
    def size(self) -> int:
        """Bytes of all definitions."""
        return sum(memoryview(raw).nbytes for items in self._lists for raw in items)

    @property
    def _lists(self) -> tuple[tuple[Raw, ...], ...]:
        return self.tools, self.resources, self.resource_templates, self.prompts, self.skills


@dataclass(frozen=True, slots=True)
class KeptListing:
    """A listing as it is kept until the next one: compressed, as a look at its server reads it and nobody else."""

    capabilities: Raw
    packed: bytes

    @classmethod
    def of(cls, listing: RawListing) -> KeptListing:
        return cls(listing.capabilities, zlib.compress(msgspec.json.encode(listing), level=1))

    def unpack(self) -> RawListing:
        """The listing itself; its definitions are views of one buffer."""
        return msgspec.json.decode(zlib.decompress(self.packed), type=RawListing)


async def read_everything(session: McpSession, timeout: float = LIST_SECONDS) -> RawListing:
    """Every page of every listing that the server offers. Raises McpError. `timeout` is in seconds, for `tools/list`.

    `tools/list` is asked for in any case and decides whether the server is verified. The other listings are asked for
    where the capability is declared; one that fails is noted and left empty, because many servers declare `resources`
    and implement half of it, and their tools are none the worse for it.
    """
    notes: list[str] = []
    tools = await _tools(session, timeout)
    aside = min(timeout / 4, ASIDE_SECONDS)
    listings = {
        method: await _optional(session, method, notes, aside) if session.offers(capability) else ()
        for method, capability in _CAPABILITY.items()
    }
    return RawListing(
        protocol_version=session.protocol_version,
        server_info=_copy(session.server_info),
        capabilities=_copy(session.capabilities),
        instructions=session.instructions,
        tools=tools,
        resources=listings[RESOURCES],
        resource_templates=listings[TEMPLATES],
        prompts=listings[PROMPTS],
        skills=await _optional(session, SKILLS, notes, aside) if _has_skills(session) else (),
        ttl_ms=min((ttl for ttl in session.ttl.values() if ttl > 0), default=0),
        notes=tuple(notes),
        remarks=session.remarks,
        gateways=session.negotiated.gateways,
    )


async def _tools(session: McpSession, timeout: float) -> tuple[Raw, ...]:
    try:
        return tuple(_copy(item) for item in await session.list_all("tools/list", timeout=timeout))
    except RpcError as error:
        if error.code == METHOD_NOT_FOUND and not session.offers("tools"):
            return ()
        raise


async def _optional(session: McpSession, method: str, notes: list[str], timeout: float) -> tuple[Raw, ...]:
    try:
        return tuple(_copy(item) for item in await session.list_all(method, timeout=timeout))
    except (ConnectFailed, ConnectionLost):
        raise  # says something about the server as a whole
    except McpError as error:
        if not (isinstance(error, RpcError) and error.code == METHOD_NOT_FOUND):
            notes.append(f"{method} failed: {error}")
        return ()


def _has_skills(session: McpSession) -> bool:
    return methods.SKILLS in capabilities.extensions(session.capabilities)


def _copy(raw: Raw) -> Raw:
    """An item is a view of its whole page: kept for long, it would keep the page."""
    return Raw(bytes(raw))
