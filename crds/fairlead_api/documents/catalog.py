"""The catalog document: the endpoint of one MCP server, and its definitions exactly as the server sent them.

There is one catalog per McpServer. The operator writes the catalog after a successful discovery; gateways read it.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec
from msgspec import Raw

from fairlead_api.documents.base import DocumentStruct, current_format, sha256, sha256_of_set
from fairlead_api.documents.oauth import OAuthSettings
from fairlead_api.documents.operations import ApiReport, Operation
from fairlead_api.meta import ServerKey

CATALOG: Final = "catalog"
SIGN_IN_TOOL: Final = "sign_in"
"""Name of the only tool of a catalog with `sign_in`."""


class HttpEndpoint(DocumentStruct, kw_only=True, frozen=True, tag_field="transport", tag="streamable-http"):
    """A server behind Streamable HTTP (MCP 2025-03-26 and later)."""

    url: str
    """Absolute `http` or `https` URL. A host name that stands for several pods resolves to one address per pod."""
    host_header: str | None = None
    """Value of the `Host` header in place of the URL's host, for servers that check it."""
    ca_bundle: str | None = None
    """PEM certificates that verify an `https` server; None: the system's."""


class ChildEndpoint(DocumentStruct, kw_only=True, frozen=True, tag_field="transport", tag="stdio-child"):
    """A server that runs as a child process and speaks MCP on standard input and output; outside of clusters only."""

    command: str
    args: tuple[str, ...] = ()
    cwd: str | None = None
    """Absolute working directory; None: that of the gateway."""


class EventsEndpoint(DocumentStruct, kw_only=True, frozen=True, tag_field="transport", tag="sse"):
    """A server behind HTTP+SSE (MCP 2024-11-05): responses arrive on one event stream, requests are posted to another
    URL.
    """

    url: str
    """Absolute URL of the event stream."""
    host_header: str | None = None
    """Value of the `Host` header in place of the URL's host, for servers that check it."""
    ca_bundle: str | None = None
    """PEM certificates that verify an `https` server; None: the system's."""


class TcpEndpoint(DocumentStruct, kw_only=True, frozen=True, tag_field="transport", tag="stdio-tcp"):
    """A stdio server behind a TCP listener, which starts one process per connection that sends the server's token."""

    host: str
    """Host name; one that stands for several pods resolves to one address per pod."""
    port: int
    program: str = ""
    """Name of a program whose processes have the keys of users in their environment. Each connection then sends a
    second line: `program_digest` and a person's key, or nothing. Empty: it sends none.
    """
    program_digest: str = ""
    """Another text for another image, package, command or environment: no key is for another program."""


class OpenApiEndpoint(DocumentStruct, kw_only=True, frozen=True, tag_field="transport", tag="openapi"):
    """An HTTP API that an OpenAPI document describes; each tool has an `operation`."""

    url: str
    """Absolute `http` or `https` URL that paths of operations are appended to."""
    host_header: str | None = None
    """Value of the `Host` header in place of the URL's host, for servers that check it."""
    ca_bundle: str | None = None
    """PEM certificates that verify an `https` server; None: the system's."""


class LocalEndpoint(DocumentStruct, kw_only=True, frozen=True, tag_field="transport", tag="local"):
    """Functions in the gateway process itself. Only the gateway creates this endpoint, for its custom tools."""


Endpoint = HttpEndpoint | ChildEndpoint | EventsEndpoint | TcpEndpoint | OpenApiEndpoint | LocalEndpoint


class CredentialRef(DocumentStruct, kw_only=True, frozen=True):
    """Reference to the credentials of a server. No document contains their values."""

    secret: str
    """Name of a Secret in the release's namespace; outside of a cluster, of a file in the credentials directory."""
    key: str
    """Key in that Secret; the value is a JSON `Credential`."""
    hash: str
    """Truncated hash by which a reader notices that the value has changed."""


class SentCredential(msgspec.Struct, rename="camel", omit_defaults=True, frozen=True, kw_only=True):
    """Credential as a request carries it."""

    headers: dict[str, str] = msgspec.field(default_factory=dict)
    query: dict[str, str] = msgspec.field(default_factory=dict)
    """Parameters of the query, for an `OpenApiEndpoint`."""
    cookies: dict[str, str] = msgspec.field(default_factory=dict)
    """Likewise."""

    def __repr__(self) -> str:
        return f"SentCredential({sorted(self.headers)}, {sorted(self.query)}, {sorted(self.cookies)})"


_SECRETS: Final = ("token", "client_secret", "private_key", "resource_client_secret", "resource_private_key")


class Credential(SentCredential, rename="camel", omit_defaults=True, frozen=True, kw_only=True):
    """Content of one key of a credentials Secret: headers for each request, variables for the child's environment, and
    arguments of tools.
    """

    schemes: dict[str, SentCredential] = msgspec.field(default_factory=dict)
    """By security scheme of an OpenAPI document: what requests of operations that need the scheme send as well."""
    env: dict[str, str] = msgspec.field(default_factory=dict)
    token: str = ""
    """First line to send on a connection to a `TcpEndpoint`."""
    client_secret: str = ""
    """Secret of the OAuth client in `Catalog.oauth`."""
    private_key: str = ""
    """Private key of that client, PEM or JWK, for `private_key_jwt`."""
    resource_client_secret: str = ""
    """Secret of the client in `OAuthSettings.resource_client`."""
    resource_private_key: str = ""
    """Private key of that client."""
    arguments: dict[str, dict[str, str]] = msgspec.field(default_factory=dict)
    """Values of hidden arguments, by the server's names of the tool and the argument."""

    def __repr__(self) -> str:
        secrets = "".join(f", {name}" for name in _SECRETS if getattr(self, name))
        openapi = "".join(
            f", {name}={sorted(getattr(self, name))}" for name in ("query", "cookies", "schemes") if getattr(self, name)
        )
        secrets += f", arguments={sorted(self.arguments)}" if self.arguments else ""
        return f"Credential(headers={sorted(self.headers)}, env={sorted(self.env)}{openapi}{secrets})"


class DeclaredLatency(DocumentStruct, kw_only=True, frozen=True):
    """Latency that the tool's author or the McpServer declares; times in milliseconds."""

    estimated_duration_ms: int | None = None
    """Expected median duration of a call."""
    estimate_untrusted: bool = False
    """Whether the estimate comes from untrusted annotations. Such an estimate can remove the tool from tiers, but not
    put it into one.
    """
    max_duration_ms: int | None = None
    """Time limit of a call."""
    idempotent: bool | None = None
    """Whether a call may be repeated after a failure."""
    cacheable_seconds: int | None = None
    """Time for which a result may be reused for equal arguments."""


class ToolShape(DocumentStruct, kw_only=True, frozen=True):
    """How clients see and call a tool, where that differs from the server's definition."""

    definition: Raw
    """The definition for clients: with their name of the tool, its arguments and output schema. Hashes, pins and
    approvals are of the server's definition."""
    name: str | None = None
    """Clients' name of the tool, without prefix; None: the server's."""
    arguments: dict[str, str] = msgspec.field(default_factory=dict)
    """The server's names of renamed arguments, by the clients' names."""
    hidden: tuple[str, ...] = ()
    """The server's names of arguments that clients cannot set."""
    values: dict[str, Any] = msgspec.field(default_factory=dict)
    """Values of arguments in every call, by the server's names."""
    defaults: dict[str, Any] = msgspec.field(default_factory=dict)
    """Values of arguments in calls without them, by the server's names."""
    secrets: tuple[str, ...] = ()
    """The server's names of hidden arguments whose values are in `Credential.arguments`."""
    select: str | None = None
    """JMESPath expression that selects the part of a result that clients get; None: all of it."""


class ToolEntry(DocumentStruct, kw_only=True, frozen=True):
    """One tool: its raw definition, and the settings that the McpServer adds."""

    name: str
    """Name that the server lists, without prefix."""
    definition: Raw
    """The JSON object from `tools/list`, byte for byte."""
    hash: str
    """Hash of the raw definition, to detect changes."""
    search_hash: str
    """Hash of name, description, schemas, tags and categories; a search index renews the tool when it changes."""
    enabled: bool = True
    description: str | None = None
    """Description to show in place of the definition's."""
    tags: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    latency: DeclaredLatency | None = None
    min_tier: str | None = None
    """The fastest tier that may show the tool, from the McpServer; None: any."""
    authored_min_tier: str | None = None
    """The fastest tier that may show the tool, from its definition. The slower of both tiers counts."""
    probe_arguments: dict[str, Any] | None = None
    """Arguments for probes, safe to call the tool with; None: none given."""
    calls_per_minute: int | None = None
    """Limit on calls per minute over all agents; None: no limit."""
    concurrency: int | None = None
    """Limit on concurrent calls over all agents, per gateway replica; None: no limit."""
    result_tokens: int | None = None
    """Limit on the tokens of a result; None: no limit."""
    speech: str | None = None
    """When a speech model speaks a result: `Wait`, `WhenIdle`, `Interrupt` or `Silent`; None: depends on the
    latency.
    """
    operation: Operation | None = None
    """HTTP request of a call, where the server is an `OpenApiEndpoint`."""
    requires: tuple[str, ...] = ()
    """Client capabilities, such as `sampling`, without which the server does not list the tool and rejects calls of
    it.
    """
    shape: ToolShape | None = None
    """How clients see and call the tool; None: as the server defines it, except for `description`."""

    @property
    def shown_definition(self) -> Raw:
        """The definition for clients, still without `description` and prefix."""
        return self.definition if self.shape is None else self.shape.definition

    @property
    def shown_name(self) -> str:
        """Clients' name of the tool, without prefix."""
        return self.name if self.shape is None or self.shape.name is None else self.shape.name


class Definition(DocumentStruct, kw_only=True, frozen=True):
    """A resource, a resource template or a prompt: its name (or URI) and its raw definition."""

    name: str
    definition: Raw
    hash: str


class Limits(DocumentStruct, kw_only=True, frozen=True):
    """Limits that the McpServer sets on calls of its tools; None: the gateway's default applies."""

    concurrency: int | None = None
    calls_per_second: float | None = None
    burst: int | None = None
    """Calls that may start at once after a pause; None, from older operators: as many as in one second."""
    timeout_ms: int | None = None
    max_timeout_ms: int | None = None
    """Limit to which progress notifications extend `timeout_ms`."""
    retries: int | None = None
    hedge_after_ms: int | None = None
    """Delay after which a call is sent a second time; None: never."""
    max_result_bytes: int | None = None


class Refreshed(DocumentStruct, kw_only=True, frozen=True):
    """The last discovery that somebody requested."""

    at: str
    """Start time in RFC 3339."""
    failure: str = ""
    """Why the discovery failed; empty on success."""


class Catalog(DocumentStruct, kw_only=True, frozen=True, tag_field="kind", tag=CATALOG):
    """All data that the gateway needs to list and call the tools of one server."""

    version: int = msgspec.field(default_factory=current_format)
    namespace: str
    name: str
    uid: str
    generation: int
    """`metadata.generation` of the McpServer that this catalog was built from."""
    prefix: str | None = None
    """Prefix of exposed names, `{prefix}__{tool}`. None keeps the server off the merged endpoints, because its prefix
    is taken. Empty: tools keep their own names, and win over any other tool of the same name.
    """
    endpoint: Endpoint
    credential: CredentialRef | None = None
    oauth: OAuthSettings | None = None
    """How to get an access token for each call; None: `credential` has all that requests need."""
    protocol_version: str
    """Negotiated revision; servers of `2026-07-28` and later are called without a handshake."""
    server_info: Raw = Raw(b"{}")
    capabilities: Raw = Raw(b"{}")
    instructions: str | None = None
    gateways: tuple[str, ...] = ()
    """Installations of Fairlead between this gateway and the tools, from the server's handshake."""
    session: str = "Shared"
    """`Shared`, or `PerClient`: each client session has a session of its own with the server."""
    on_disconnect: str = "MarkOffline"
    """Handling of an unreachable server's tools: `MarkOffline`, they stay listed, or `Remove`."""
    trust_annotations: bool = False
    """Whether the annotations in the server's definitions, such as `readOnlyHint`, are trusted."""
    online: bool = True
    """False: the last discovery failed, and `on_disconnect` keeps the last definitions listed."""
    limits: Limits = Limits()
    tools: tuple[ToolEntry, ...] = ()
    resources: tuple[Definition, ...] = ()
    resource_templates: tuple[Definition, ...] = ()
    prompts: tuple[Definition, ...] = ()
    skills: tuple[Definition, ...] = ()
    """Entries of `skills/list`; the name is the URI of their `SKILL.md` (SEP-2640)."""
    api: ApiReport | None = None
    """Report on the OpenAPI document, where the server is an `OpenApiEndpoint`."""
    pinned: bool = False
    """Whether only approved definitions may be served. If so, gateways also compare files of skills with the digests in
    the approved entries of the skills.
    """
    held: int = 0
    """Number of definitions that are held back. `same_content` ignores it, because clients do not see these
    definitions.
    """
    announced: dict[str, str] = msgspec.field(default_factory=dict)
    """Kind of list (`tools`, `prompts`, `resources`) to the time, in RFC 3339, when the server last announced a change.
    The gateway then notifies its clients, even if the definitions are the same.
    """
    hash: str = ""
    """Hash over the sorted hashes of all definitions, which makes comparing two catalogs cheap."""
    updated_at: str = ""
    """Time of the last change of the other members, in RFC 3339. `same_content` ignores it."""
    sign_in: bool = False
    """Whether the catalog holds a single tool, SIGN_IN_TOOL, which the operator made because the server lists its tools
    only to a person and nobody has signed in yet. The gateway answers a call of this tool with a link to sign in.
    """
    lists_read_at: float = 0.0
    """When a gateway last read the server's lists with a person's token, in seconds since the epoch; 0: never, or not
    known. It is a hint for the other gateways, which need not read them too. `same_content` ignores it.
    """
    refreshed: Refreshed | None = None
    """The last requested discovery. Periodic discoveries do not change this member, so that they need not write the
    catalog of an unchanged server.
    """

    @property
    def key(self) -> ServerKey:
        return ServerKey(self.namespace, self.name)


class _SearchFields(msgspec.Struct, rename="camel"):
    description: Raw = Raw(b"")
    input_schema: Raw = Raw(b"")
    output_schema: Raw = Raw(b"")


_search_fields = msgspec.json.Decoder(_SearchFields).decode


def definition_hash(definition: bytes | Raw) -> str:
    """Hash of the bytes of one raw definition."""
    return sha256(bytes(definition))


def search_hash(
    name: str, definition: bytes | Raw, *, tags: tuple[str, ...] = (), categories: tuple[str, ...] = ()
) -> str:
    """Hash of the input of a search index: name, description, schemas, tags and categories.

    Raises msgspec.DecodeError when the definition is not a JSON object.
    """
    fields = _search_fields(bytes(definition))
    texts = [name.encode(), bytes(fields.description), bytes(fields.input_schema), bytes(fields.output_schema)]
    return sha256(*texts, *(t.encode() for t in tags), b"", *(c.encode() for c in categories))


def list_hash(catalog: Catalog) -> str:
    """Hash over all definitions of a catalog and its instructions, independent of the order in which the server lists
    them.
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
    """Whether two catalogs have the same content; times, requested discoveries and held-back definitions do not
    count.
    """
    return content(catalog) == content(other)


def content(catalog: Catalog) -> Catalog:
    """The catalog without the members that do not count as a change."""
    return msgspec.structs.replace(catalog, updated_at="", refreshed=None, held=0, lists_read_at=0.0)
