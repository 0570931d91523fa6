"""Reads everything that a server lists, unchanged. `catalog_build` checks the definitions."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Final

import msgspec
from msgspec import Raw

from fairlead_api.documents.catalog import Endpoint
from fairlead_api.documents.operations import ApiReport
from fairlead_mcp import capabilities, jsonrpc, methods
from fairlead_mcp.errors import ConnectFailed, ConnectionLost, McpError, RpcError
from fairlead_mcp.session import LIST_SECONDS, McpSession

EMPTY: Final = Raw(b"{}")
METHOD_NOT_FOUND: Final = -32601
OPTIONAL_SECONDS: Final = 10.0
"""Maximum timeout of each listing other than `tools/list`."""

RESOURCES: Final = "resources/list"
TEMPLATES: Final = "resources/templates/list"
PROMPTS: Final = "prompts/list"
SKILLS: Final = "skills/list"
_CAPABILITY: Final = {RESOURCES: "resources", TEMPLATES: "resources", PROMPTS: "prompts"}
_SHAREABLE: Final = {"resources": RESOURCES, "resourceTemplates": TEMPLATES, "prompts": PROMPTS, "skills": SKILLS}
"""Lists that often differ from user to user, by their names in `discovery.shared`."""
_CAPABILITIES_OF: Final = {
    "resources": ("resources",),
    "resourceTemplates": ("resources", "completions"),
    "prompts": ("prompts", "completions"),
}
_LIST_CAPABILITIES: Final = frozenset({*_CAPABILITY.values(), "completions", "extensions", "experimental"})
"""Capabilities that a listing of tools alone does not need."""


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
    """Gated tools by name, with the client capabilities that they require."""
    compared: bool = True
    """Whether the capability comparison has been made."""
    ttl_ms: int = 0
    """The shortest `ttlMs` of the server's lists; 0 if it sends none."""
    announced: Mapping[str, str] = {}
    """Lists ("tools", "prompts", "resources") that the server announced as changed, with the time (RFC 3339)."""
    notes: tuple[str, ...] = ()
    """One sentence for each declared listing that failed."""
    gateways: tuple[str, ...] = ()
    """Fairlead installations between this operator and the server's tools."""
    endpoint: Endpoint | None = None
    """The endpoint that answered, if it differs from the requested one."""
    remarks: tuple[str, ...] = ()
    """One sentence for each deviation from MCP's schema that was accepted."""
    api: ApiReport | None = None
    """Set for the listing of an HTTP API, whose `tools` were made by `join_operation`."""

    @property
    def definition_count(self) -> int:
        """Number of definitions of all kinds."""
        return sum(map(len, self._lists))

    @property
    def size(self) -> int:
        """Bytes of all definitions."""
        return sum(memoryview(raw).nbytes for items in self._lists for raw in items)

    def with_shared(self, shared_kinds: Collection[str]) -> RawListing:
        """The listing of the tools, and of what `shared_kinds` names: `resources`, `resourceTemplates`, `prompts`,
        `skills` and `instructions`. These lists often differ from user to user, such as the titles of their files.
        """
        try:
            declared_members = jsonrpc.decode_object(self.capabilities)
        except jsonrpc.UNREADABLE:
            declared_members = {}
        left_out = _LIST_CAPABILITIES.difference(*(_CAPABILITIES_OF.get(kind, ()) for kind in shared_kinds))
        members = {name: value for name, value in declared_members.items() if name not in left_out}
        extension_names = {methods.TASKS, methods.SKILLS} if "skills" in shared_kinds else {methods.TASKS}
        extensions = capabilities.extension_settings(self.capabilities)
        if settings := {name: extensions[name] for name in sorted(extension_names) if name in extensions}:
            members["extensions"] = Raw(jsonrpc.encode(settings))
        return msgspec.structs.replace(
            self,
            capabilities=Raw(jsonrpc.encode(members)),
            instructions=self.instructions if "instructions" in shared_kinds else None,
            resources=self.resources if "resources" in shared_kinds else (),
            resource_templates=self.resource_templates if "resourceTemplates" in shared_kinds else (),
            prompts=self.prompts if "prompts" in shared_kinds else (),
            skills=self.skills if "skills" in shared_kinds else (),
        )

    @property
    def _lists(self) -> tuple[tuple[Raw, ...], ...]:
        return self.tools, self.resources, self.resource_templates, self.prompts, self.skills


@dataclass(frozen=True, slots=True)
class PackedListing:
    """A listing that is compressed, to save memory, because only reconciles of its server read it."""

    capabilities: Raw
    """The server's capabilities, uncompressed, because they are read more often."""
    packed: bytes
    """The whole listing as compressed JSON."""

    @classmethod
    def of(cls, listing: RawListing) -> PackedListing:
        return cls(listing.capabilities, zlib.compress(msgspec.json.encode(listing), level=1))

    def unpack(self) -> RawListing:
        """The listing; its definitions are views of one buffer."""
        return msgspec.json.decode(zlib.decompress(self.packed), type=RawListing)


async def read_everything(session: McpSession, timeout: float = LIST_SECONDS) -> RawListing:
    """Read every page of every listing that the server offers. Raises McpError.

    `tools/list` is always requested, with `timeout` in seconds, and decides whether the server is verified. Another
    listing is requested if its capability is declared. If such a listing fails, the failure is noted and the listing
    counts as empty: many servers declare `resources` and implement them only partially, which does not affect their
    tools.
    """
    return await _read(session, timeout, _SHAREABLE.values(), str)


async def read_shared(session: McpSession, shared_kinds: Collection[str], timeout: float = LIST_SECONDS) -> RawListing:
    """Read every page of `tools/list` and of the lists that `shared_kinds` names, and nothing else
    (`RawListing.with_shared`). The notes about failed lists quote no words of the server, which may speak of the user
    whose token the session has. Raises McpError.
    """
    methods_to_read = [method for kind, method in _SHAREABLE.items() if kind in shared_kinds]
    listing = await _read(session, timeout, methods_to_read, lambda error: error.reason)
    return listing.with_shared(shared_kinds)


async def _read(
    session: McpSession, timeout: float, methods_to_read: Collection[str], describe: Callable[[McpError], str]
) -> RawListing:
    """The tools, and the `methods_to_read` lists; `describe` makes the notes about failed ones. Raises McpError."""
    notes: list[str] = []
    listing = await _list_tools(session, timeout)
    optional_timeout = min(timeout / 4, OPTIONAL_SECONDS)
    lists: dict[str, tuple[Raw, ...]] = {}
    for method in methods_to_read:
        is_offered = session.offers(_CAPABILITY[method]) if method in _CAPABILITY else _has_skills(session)
        if is_offered:
            lists[method] = await _list_optional(session, method, notes, optional_timeout, describe)
    return msgspec.structs.replace(
        listing,
        resources=lists.get(RESOURCES, ()),
        resource_templates=lists.get(TEMPLATES, ()),
        prompts=lists.get(PROMPTS, ()),
        skills=lists.get(SKILLS, ()),
        ttl_ms=_shortest_ttl(session),
        notes=tuple(notes),
        remarks=session.remarks,
    )


async def _list_tools(session: McpSession, timeout: float) -> RawListing:
    """The listing of the tools, with the data of the handshake. Raises McpError."""
    tools = await _tool_definitions(session, timeout)
    return RawListing(
        protocol_version=session.protocol_version,
        server_info=_copy(session.server_info),
        capabilities=_copy(session.capabilities),
        instructions=session.instructions,
        tools=tools,
        ttl_ms=_shortest_ttl(session),
        remarks=session.remarks,
        gateways=session.negotiated.gateways,
    )


def _shortest_ttl(session: McpSession) -> int:
    return min((ttl for ttl in session.ttl.values() if ttl > 0), default=0)


async def _tool_definitions(session: McpSession, timeout: float) -> tuple[Raw, ...]:
    """All tools; none if the server neither declares tools nor knows the method. Raises McpError."""
    try:
        return tuple(_copy(item) for item in await session.list_all("tools/list", timeout=timeout))
    except RpcError as error:
        if error.code == METHOD_NOT_FOUND and not session.offers("tools"):
            return ()
        raise


async def _list_optional(
    session: McpSession, method: str, notes: list[str], timeout: float, describe: Callable[[McpError], str]
) -> tuple[Raw, ...]:
    """All items of an optional listing; none after a failure. A failure is added to `notes` in the words of `describe`,
    unless the server does not know the method. Only a lost connection is raised.
    """
    try:
        return tuple(_copy(item) for item in await session.list_all(method, timeout=timeout))
    except (ConnectFailed, ConnectionLost):
        raise  # concerns the server as a whole
    except McpError as error:
        if not (isinstance(error, RpcError) and error.code == METHOD_NOT_FOUND):
            notes.append(f"{method} failed: {describe(error)}")
        return ()


def _has_skills(session: McpSession) -> bool:
    return methods.SKILLS in capabilities.extensions(session.capabilities)


def _copy(raw: Raw) -> Raw:
    """Copy an item, because a view would keep its whole page in memory."""
    return Raw(bytes(raw))
