"""The catalog document: how to reach one MCP server, and its definitions exactly as it sent them.

Written by the operator after a discovery that succeeded, one per McpServer; read by the gateway.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec
from msgspec import Raw

from fairlead_api.documents.base import DocumentStruct, current_format, sha256, sha256_of_set
from fairlead_api.meta import ServerKey

CATALOG: Final = "catalog"


class HttpEndpoint(DocumentStruct, kw_only=True, frozen=True, tag_field="transport", tag="streamable-http"):
    """A server behind Streamable HTTP (MCP 2025-03-26 and later)."""

    url: str
    """Absolute `http` or `https` URL. A host name that stands for several pods resolves to one address per pod."""
    host_header: str | None = None
    """Sent as `Host` in place of the URL's own, for servers that check it."""
    ca_bundle: str | None = None
    """PEM certificates that an `https` server is verified against; absent = the system's."""


class ChildEndpoint(DocumentStruct, kw_only=True, frozen=True, tag_field="transport", tag="stdio-child"):
    """A server that runs as a child process and speaks over its standard input and output; off a cluster only."""

    command: str
    args: tuple[str, ...] = ()
    cwd: str | None = None
    """Absolute working directory; absent = that of the gateway."""


class EventsEndpoint(DocumentStruct, kw_only=True, frozen=True, tag_field="transport", tag="sse"):
    """A server behind HTTP+SSE (MCP 2024-11-05): answers come on one event stream, requests are posted beside it."""

    url: str
    """Absolute URL of the event stream."""
    host_header: str | None = None
    """As for `HttpEndpoint`."""
    ca_bundle: str | None = None
    """As for `HttpEndpoint`."""


class TcpEndpoint(DocumentStruct, kw_only=True, frozen=True, tag_field="transport", tag="stdio-tcp"):
    """A server on stdio behind a listener that starts one process per connection, after the token of its credential."""

    host: str
    """A name that stands for several pods resolves to one address per pod."""
    port: int


class LocalEndpoint(DocumentStruct, kw_only=True, frozen=True, tag_field="transport", tag="local"):
    """Functions inside the gateway itself, which publishes this one for its own tools; never written by an operator."""


Endpoint = HttpEndpoint | ChildEndpoint | EventsEndpoint | TcpEndpoint | LocalEndpoint


class CredentialRef(DocumentStruct, kw_only=True, frozen=True):
    """Where the credentials of a server are kept. Their values are in no document."""

    secret: str
    """Name of a Secret in the release's namespace (off a cluster: of a file in the credentials directory)."""
    key: str
    """Key in that Secret; its value is a JSON `Credential`."""
    hash: str
    """Changes when the value does, so that a reader knows when to read it again; says nothing about the value."""


class Credential(msgspec.Struct, rename="camel", omit_defaults=True, frozen=True, kw_only=True):
    """The content of one key of a credentials Secret: what goes with each request, or into the child's environment."""

    headers: dict[str, str] = msgspec.field(default_factory=dict)
    env: dict[str, str] = msgspec.field(default_factory=dict)
    token: str = ""
    """First line of a connection to a `TcpEndpoint`."""

    def __repr__(self) -> str:
        token = ", token" if self.token else ""
        return f"Credential(headers={sorted(self.headers)}, env={sorted(self.env)}{token})"


class DeclaredLatency(DocumentStruct, kw_only=True, frozen=True):
    """Latency declared by a tool's author or by the McpServer; times in milliseconds."""

    estimated_duration_ms: int | None = None
    estimate_untrusted: bool = False
    """Whether the estimate is the author's, whose annotations are not trusted: it takes the tool out of tiers, and puts
    it into none.
    """
    max_duration_ms: int | None = None
    idempotent: bool | None = None
    cacheable_seconds: int | None = None


class ToolEntry(DocumentStruct, kw_only=True, frozen=True):
    """One tool: its raw definition, and what the McpServer adds to it."""

    name: str
    """As the server calls it, unprefixed."""
    definition: Raw
    """The JSON object from `tools/list`, byte for byte."""
    hash: str
    """Over the raw definition: decides what counts as a change."""
    search_hash: str
    """Over name, description, schemas, tags and categories: decides what a search index renews."""
    enabled: bool = True
    description: str | None = None
    """Shown in place of the definition's own."""
    tags: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    latency: DeclaredLatency | None = None
    min_tier: str | None = None
    """The fastest tier that may show it, by the McpServer; None: any."""
    authored_min_tier: str | None = None
    """By its definition. The slower of both counts."""
    probe_arguments: dict[str, Any] | None = None
    """Arguments that are safe to call it with; None = none were given."""
    calls_per_minute: int | None = None
    """Calls per minute of all agents together; None = no limit."""
    concurrency: int | None = None
    """Calls in flight of all agents together, at each gateway replica; None = no limit."""
    result_tokens: int | None = None
    """Tokens of a result; None = no limit."""
    speech: str | None = None
    """When a speech model says a result: `Wait`, `WhenIdle`, `Interrupt` or `Silent`; None: by how long calls take."""
    requires: tuple[str, ...] = ()
    """Client capabilities without which the server neither lists nor knows it, such as `sampling`."""


class Definition(DocumentStruct, kw_only=True, frozen=True):
    """A resource, a resource template or a prompt: its name (or URI) and its raw definition."""

    name: str
    definition: Raw
    hash: str


class Limits(DocumentStruct, kw_only=True, frozen=True):
    """Bounds that the McpServer sets on calls to it; absent = the gateway's defaults."""

    concurrency: int | None = None
    calls_per_second: float | None = None
    burst: int | None = None
    """Calls that may come at once after a pause; None, of older operators = those of one second."""
    timeout_ms: int | None = None
    max_timeout_ms: int | None = None
    """How far progress moves `timeout_ms`."""
    retries: int | None = None
    hedge_after_ms: int | None = None
    """None = calls are never sent twice."""
    max_result_bytes: int | None = None


class Refreshed(DocumentStruct, kw_only=True, frozen=True):
    """The last discovery that somebody asked for."""

    at: str
    """RFC 3339, when it began."""
    failure: str = ""
    """Why it brought nothing; empty where it succeeded."""


class Catalog(DocumentStruct, kw_only=True, frozen=True, tag_field="kind", tag=CATALOG):
    """Everything that the gateway needs to list and call the tools of one server."""

    version: int = msgspec.field(default_factory=current_format)
    namespace: str
    name: str
    uid: str
    generation: int
    """`metadata.generation` of the McpServer that this was made from."""
    prefix: str | None = None
    """Exposed names are `{prefix}__{tool}`; None keeps the server off the merged endpoints (its prefix is taken).
    Empty: its tools are shown under their own names, before any other tool of that name.
    """
    endpoint: Endpoint
    credential: CredentialRef | None = None
    protocol_version: str
    """Revision that was negotiated; `2026-07-28` and later are called without a handshake."""
    server_info: Raw = Raw(b"{}")
    capabilities: Raw = Raw(b"{}")
    instructions: str | None = None
    gateways: tuple[str, ...] = ()
    """Installations of Fairlead that its tools come through, as its handshake names them."""
    session: str = "Shared"
    on_disconnect: str = "MarkOffline"
    trust_annotations: bool = False
    online: bool = True
    """False: the last discovery failed and `on_disconnect` keeps the last definitions."""
    limits: Limits = Limits()
    tools: tuple[ToolEntry, ...] = ()
    resources: tuple[Definition, ...] = ()
    resource_templates: tuple[Definition, ...] = ()
    prompts: tuple[Definition, ...] = ()
    skills: tuple[Definition, ...] = ()
    """Entries of `skills/list` by the URI of their `SKILL.md` (SEP-2640)."""
    pinned: bool = False
    """Whether only what was approved may be served: files of skills are compared with the digests in their entries."""
    held: int = 0
    """Definitions that are held back until they are approved. Not part of the content: nobody is shown them."""
    announced: dict[str, str] = msgspec.field(default_factory=dict)
    """Lists ("tools", "prompts", "resources") to the time, RFC 3339, when the server last announced that they have
    changed: its clients are notified then, whether or not the definitions are others.
    """
    hash: str = ""
    """Over the sorted hashes of all definitions: an unchanged server costs one comparison."""
    updated_at: str = ""
    """RFC 3339, when the content last changed. Not part of what counts as a change."""
    refreshed: Refreshed | None = None
    """Set by discoveries that were asked for, and by no other, so that an unchanged server costs no write."""

    @property
    def key(self) -> ServerKey:
        return ServerKey(self.namespace, self.name)


class _SearchFields(msgspec.Struct, rename="camel"):
    description: Raw = Raw(b"")
    input_schema: Raw = Raw(b"")
    output_schema: Raw = Raw(b"")


_search_fields = msgspec.json.Decoder(_SearchFields).decode


def definition_hash(definition: bytes | Raw) -> str:
    """Hash of one raw definition; any byte that differs, differs here."""
    return sha256(bytes(definition))


def search_hash(
    name: str, definition: bytes | Raw, *, tags: tuple[str, ...] = (), categories: tuple[str, ...] = ()
) -> str:
    """Hash of what a search index is built from: name, description, schemas, tags and categories.

    Raises msgspec.DecodeError when the definition is not a JSON object.
    """
    fields = _search_fields(bytes(definition))
    texts = [name.encode(), bytes(fields.description), bytes(fields.input_schema), bytes(fields.output_schema)]
    return sha256(*texts, *(t.encode() for t in tags), b"", *(c.encode() for c in categories))


def list_hash(catalog: Catalog) -> str:
    """Hash over all definitions of a catalog, instructions among them, independent of the order in which the server
    listed them.
    """
    parts = [] if catalog.instructions is None else [f"instructions {sha256(catalog.instructions.encode())}"]
    return sha256_of_set(
        parts
        + [" ".join(["tool", t.name, t.hash, *t.requires]) for t in catalog.tools]
        + [f"resource {d.name} {d.hash}" for d in catalog.resources]
        + [f"template {d.name} {d.hash}" for d in catalog.resource_templates]
        + [f"prompt {d.name} {d.hash}" for d in catalog.prompts]
        + [f"skill {d.name} {d.hash}" for d in catalog.skills]
    )


def same_content(catalog: Catalog, other: Catalog) -> bool:
    """Whether two catalogs say the same, aside from when they were made and last refreshed, and what is held back."""
    return content(catalog) == content(other)


def content(catalog: Catalog) -> Catalog:
    """The catalog without what does not count as a change of it."""
    return msgspec.structs.replace(catalog, updated_at="", refreshed=None, held=0)
