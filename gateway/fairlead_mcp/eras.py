"""The two eras of MCP: versions, `_meta` keys, header names, statuses, and the reading of handshakes. No I/O.

The *legacy* era is 2024-11-05 to 2025-11-25, in which `initialize` opens a session. The *modern* era begins with
2026-07-28: every request carries its identity in `params._meta` and, over HTTP, in the headers `MCP-Protocol-Version`,
`Mcp-Method` and `Mcp-Name` (SEP-2243, SEP-2575).
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Mapping
from enum import Enum
from types import MappingProxyType
from typing import Final

import msgspec
from msgspec import UNSET, Raw, UnsetType

from fairlead_mcp import jsonrpc, methods, via
from fairlead_mcp.errors import NotMcp, UnsupportedVersion

MODERN_VERSION: Final = "2026-07-28"
LATEST_LEGACY_VERSION: Final = "2025-11-25"
LEGACY_VERSIONS: Final = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
"""Revisions of the legacy era, oldest first."""

PREFIX: Final = methods.PREFIX
META_VERSION: Final = PREFIX + "protocolVersion"
META_CAPABILITIES: Final = PREFIX + "clientCapabilities"
META_CLIENT_INFO: Final = PREFIX + "clientInfo"
META_SERVER_INFO: Final = PREFIX + "serverInfo"
META_SUBSCRIPTION: Final = PREFIX + "subscriptionId"
META_LOG_LEVEL: Final = PREFIX + "logLevel"

H_VERSION: Final = b"MCP-Protocol-Version"
H_SESSION: Final = b"Mcp-Session-Id"
H_METHOD: Final = b"Mcp-Method"
H_NAME: Final = b"Mcp-Name"
H_PARAM: Final = b"Mcp-Param-"

LISTS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "tools/list": "tools",
        "prompts/list": "prompts",
        "resources/list": "resources",
        "resources/templates/list": "resourceTemplates",
        "skills/list": "skills",
    }
)
"""Member of the result that contains the items, by paginated method."""

ANNOUNCED: Final = ("tools", "prompts", "resources")
"""Capabilities that may have a member `listChanged`."""

MODERN_ONLY_RESULT_MEMBERS: Final = frozenset({"resultType", "ttlMs", "cacheScope"})
"""Members of results that legacy revisions do not define."""

STATUS_OF_CODE: Final[Mapping[int, int]] = MappingProxyType(
    {
        jsonrpc.PARSE_ERROR: 400,
        jsonrpc.INVALID_REQUEST: 400,
        jsonrpc.INVALID_PARAMS: 400,
        jsonrpc.HEADER_MISMATCH: 400,
        jsonrpc.MISSING_CLIENT_CAPABILITY: 400,
        jsonrpc.UNSUPPORTED_PROTOCOL_VERSION: 400,
        jsonrpc.METHOD_NOT_FOUND: 404,
    }
)


_EMPTY: Final = Raw(b"{}")
_NULL: Final = Raw(b"null")
_NOT_DECLARED: Final = (b"null", b"false")
"""Values that declare a capability as absent."""
_decode_optional_text: Final = msgspec.json.Decoder(str | None).decode


class Era(Enum):
    """Family of MCP revisions that an endpoint speaks."""

    LEGACY = "legacy"
    MODERN = "modern"


def era_of(version: str) -> Era:
    """Return the era of a protocol version; versions after the last legacy revision are modern."""
    return Era.LEGACY if version <= LATEST_LEGACY_VERSION else Era.MODERN


def status_for(code: int) -> int:
    """Return the HTTP status of a modern answer with a JSON-RPC error code (200 if none is prescribed)."""
    return STATUS_OF_CODE.get(code, 200)


def header_value(text: str) -> bytes:
    """Encode the value of an `Mcp-Name` or `Mcp-Param-*` header: plain, or as `=?base64?…?=` (SEP-2243).

    Base64 is used for non-ASCII and control characters, outer white space, and text that looks encoded.
    """
    is_plain = text.isascii() and text.isprintable() and text == text.strip() and text != ""
    if is_plain and not text.startswith("=?base64?"):
        return text.encode()
    return b"=?base64?%b?=" % base64.b64encode(text.encode("utf-8", "surrogatepass"))


def text_of_header(value: bytes) -> str | None:
    """Decode a header value, the inverse of `header_value`; None for invalid base64."""
    value = value.strip(b" \t")
    if not (value.startswith(b"=?base64?") and value.endswith(b"?=")):
        return value.decode("latin-1")
    try:
        return base64.b64decode(value[9:-2], validate=True).decode()
    except (binascii.Error, ValueError):
        return None


class Client(msgspec.Struct, frozen=True):
    """`clientInfo` that Fairlead sends in handshakes and in the `_meta` of modern requests."""

    name: str = "fairlead"
    version: str = "0"


class Negotiated(msgspec.Struct, frozen=True):
    """Result of a handshake. `server_info` and `capabilities` are raw JSON objects as the server sent them."""

    era: Era
    protocol_version: str
    server_info: Raw
    capabilities: Raw
    instructions: str | None = None
    remarks: tuple[str, ...] = ()
    """Sentences about malformed members, which count as absent."""
    gateways: tuple[str, ...] = ()
    """Installations of Fairlead between the client and the server's tools (`via.META_GATEWAYS`)."""

    def offers(self, feature: str) -> bool:
        """Whether the server declared a capability: "tools", "resources", "prompts", …"""
        declared = jsonrpc.decode_object(self.capabilities).get(feature)
        return declared is not None and bytes(declared) not in _NOT_DECLARED

    @property
    def announced_lists(self) -> tuple[str, ...]:
        """Lists ("tools", "prompts", "resources") for which the server declared `listChanged`."""
        return announced_lists(self.capabilities)


def announced_lists(capabilities: bytes | Raw) -> tuple[str, ...]:
    """Return the lists whose capability has `listChanged`; none if the capabilities are malformed."""
    features = []
    for feature in ANNOUNCED:
        try:
            settings = jsonrpc.decode_object(jsonrpc.decode_object(capabilities).get(feature, Raw(b"{}")))
        except jsonrpc.UNREADABLE:
            continue
        if bytes(settings.get("listChanged", b"")) == b"true":
            features.append(feature)
    return tuple(features)


def listen_params(features: Iterable[str]) -> bytes:
    """Make the `params` of `subscriptions/listen` for changes of these lists (MCP 2026-07-28, Subscriptions)."""
    return jsonrpc.encode({"notifications": {f"{feature}ListChanged": True for feature in features}})


def meta_members(client: Client, capabilities: bytes = b"{}") -> dict[str, Raw]:
    """Make the three members that a modern request has in `params._meta`."""
    return {
        META_VERSION: Raw(jsonrpc.encode(MODERN_VERSION)),
        META_CAPABILITIES: Raw(capabilities),
        META_CLIENT_INFO: Raw(jsonrpc.encode(client)),
    }


def modern_params(params: bytes | Raw | None, client: Client, capabilities: bytes = b"{}") -> bytes:
    """Set the members that a modern request has in `params._meta`; other members stay byte for byte. `capabilities`
    are the client's, as raw JSON.
    """
    members = jsonrpc.decode_object(params) if params is not None else {}
    meta = jsonrpc.decode_object(members["_meta"]) if "_meta" in members else {}
    meta.update(meta_members(client, capabilities))
    members["_meta"] = Raw(jsonrpc.encode(meta))
    return jsonrpc.encode(members)


def initialize_params(client: Client, capabilities: bytes = b"{}") -> bytes:
    """Make the `params` of a legacy `initialize` with the newest legacy revision; `capabilities` are raw JSON."""
    return b'{"protocolVersion":"%b","capabilities":%b,"clientInfo":%b}' % (
        LATEST_LEGACY_VERSION.encode(),
        capabilities,
        jsonrpc.encode(client),
    )


class _Discovered(msgspec.Struct, rename="camel"):
    """Result of `server/discover`."""

    supported_versions: list[str]
    capabilities: Raw = _EMPTY
    instructions: Raw = _NULL
    server_info: Raw | UnsetType = UNSET
    meta: Raw = msgspec.field(name="_meta", default=_EMPTY)


class _Initialized(msgspec.Struct, rename="camel"):
    """Result of `initialize`."""

    protocol_version: str
    capabilities: Raw = _EMPTY
    server_info: Raw = _EMPTY
    instructions: Raw = _NULL
    meta: Raw = msgspec.field(name="_meta", default=_EMPTY)


_decode_discovered = msgspec.json.Decoder(_Discovered).decode
_decode_initialized = msgspec.json.Decoder(_Initialized).decode


def read_discover(result: bytes | Raw) -> Negotiated | None:
    """Read a `server/discover` result; None if it does not offer the modern version, so that `initialize` is next."""
    try:
        discovered = _decode_discovered(result)
    except jsonrpc.UNREADABLE:
        return None
    if MODERN_VERSION not in discovered.supported_versions:
        return None
    info, meta = discovered.server_info, _members(discovered.meta)
    if info is UNSET:
        info = meta.get(META_SERVER_INFO, _EMPTY)
    return _negotiation(Era.MODERN, MODERN_VERSION, info, discovered.capabilities, discovered.instructions, meta)


def read_initialize(result: bytes | Raw) -> Negotiated:
    """Read an `initialize` result. Raises NotMcp for a malformed one, UnsupportedVersion for an unknown revision."""
    try:
        initialized = _decode_initialized(result)
    except jsonrpc.UNREADABLE as error:
        raise NotMcp(f"the answer to initialize has an unexpected shape: {error}") from error
    if initialized.protocol_version not in LEGACY_VERSIONS:
        raise UnsupportedVersion(
            f"the server answers with protocol version {initialized.protocol_version!r}; supported are "
            f"{', '.join(LEGACY_VERSIONS)}"
        )
    return _negotiation(
        Era.LEGACY,
        initialized.protocol_version,
        initialized.server_info,
        initialized.capabilities,
        initialized.instructions,
        _members(initialized.meta),
    )


def _negotiation(
    era: Era, version: str, server_info: Raw, capabilities: Raw, instructions: Raw, meta: jsonrpc.RawObject
) -> Negotiated:
    """Make the result of a handshake; malformed members count as absent, with a remark.

    PHP writes an empty map as `[]`, Go a nil map as `null`. Leniency is safe, as lists are requested whatever the
    capabilities are.
    """
    remarks = []
    if not _is_object(capabilities):
        remarks.append(f"the server's capabilities are {_excerpt(capabilities)}, not an object: they count as absent")
        capabilities = _EMPTY
    if not _is_object(server_info):
        remarks.append(f"the server's serverInfo is {_excerpt(server_info)}, not an object: it counts as absent")
        server_info = _EMPTY
    try:
        text = _decode_optional_text(instructions)
    except jsonrpc.UNREADABLE:
        remarks.append(f"the server's instructions are {_excerpt(instructions)}, not a string: they are left out")
        text = None
    gateways = via.gateways(meta.get(via.META_GATEWAYS))
    return Negotiated(era, version, server_info.copy(), capabilities.copy(), text, tuple(remarks), gateways)


def _members(raw: Raw) -> jsonrpc.RawObject:
    return jsonrpc.decode_object(raw) if _is_object(raw) else {}


def _excerpt(raw: Raw) -> str:
    return jsonrpc.excerpt(bytes(raw))


def _is_object(raw: Raw) -> bool:
    return bytes(raw).lstrip()[:1] == b"{"
