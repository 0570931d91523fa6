"""Classifies the body of a POST to an MCP endpoint as a request, a notification, a response, or a rejection.

Pure module: no I/O, no servers, no tools. The checks are those of MCP 2026-07-28 (Transports, "Protocol version
header", "Request metadata"; SEP-2243, SEP-2575), in the order of the Python SDK, so that a client gets the same status
from the gateway as from the server itself.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec
from msgspec import Raw

from fairlead_gateway.core.client_message import (
    ClientResponse,
    LargeBody,
    Notification,
    RawParams,
    Rejection,
    RequestBody,
)
from fairlead_gateway.core.long_results import HEADER_LIMIT, META_LIMIT, valid_limit
from fairlead_gateway.core.request import FORWARDED, NO_META, Headers, McpRequest, RequestMeta
from fairlead_mcp import capabilities, eras, jsonrpc, members, methods, progress_token, via
from fairlead_mcp.addresses import AllowList
from fairlead_mcp.eras import LEGACY_VERSIONS, MODERN_VERSION
from fairlead_mcp.jsonrpc import UNSET, RawObject
from fairlead_mcp.mending import mend
from fairlead_mcp.progress_token import ProgressToken
from fairlead_mcp.read_bounds import LONG_BYTES, MAX_ITEMS

READ_HEADERS: Final = frozenset(
    {
        b"host",
        b"origin",
        b"access-control-request-headers",
        b"accept",
        b"content-type",
        b"content-length",
        b"transfer-encoding",
        b"connection",
        b"expect",
        b"authorization",
        b"mcp-session-id",
        b"mcp-protocol-version",
        b"mcp-method",
        b"mcp-name",
        b"last-event-id",
        b"fairlead-tier",
        HEADER_LIMIT,
        b"traceparent",
        b"tracestate",
        b"via",
        *FORWARDED,
    }
)
"""Headers of MCP requests that are stored, besides `Mcp-Param-*`; all other headers are dropped."""
SPELLINGS: Final = (
    {name: name for name in READ_HEADERS}
    | {name.title(): name for name in READ_HEADERS}
    | {b"MCP-Protocol-Version": b"mcp-protocol-version"}
)
"""Names in READ_HEADERS, by the spellings that most clients use, because a look-up is cheaper than a conversion to
lower case."""

SESSION: Final = b"mcp-session-id"
_LEGACY: Final = frozenset(version.encode() for version in LEGACY_VERSIONS)
_MODERN: Final = MODERN_VERSION.encode()
_INTEGER: Final = re.compile(rb"-?[0-9]+")
_JSON: Final = b"application/json"
_USUAL_ACCEPT: Final = b"application/json, text/event-stream"

_decode_large: Final = msgspec.json.Decoder(LargeBody).decode
_decode_params: Final = msgspec.json.Decoder(RawParams).decode
_decode_envelope: Final = msgspec.json.Decoder(RequestBody).decode
_NAME_MEMBERS: Final = dict(methods.MCP_NAME_MEMBER)

NOT_A_REQUEST: Final = "the body is not a JSON-RPC 2.0 request, notification or response; batches are not supported"


_NAME_BYTES: Final = 256
"""Maximum number of bytes of an `Mcp-Name` that is cached."""
_TOKEN: Final = progress_token.NAME
_ANY_TOKEN: Final = b"0"
"""Text that replaces the progress token in keys of the `_meta` cache, because each request has another token."""
PARAMS: Final = members.ProtectedNames(
    {
        "_meta",
        "argument",
        "arguments",
        "capabilities",
        "clientInfo",
        "context",
        "cursor",
        "inputResponses",
        "level",
        "name",
        "notifications",
        "protocolVersion",
        "ref",
        "requestId",
        "requestState",
        "task",
        "taskId",
        "uri",
    }
)
"""Members of `params` that MCP defines for any request of either era. Other members are passed on, because servers may
have extensions. A member that differs from one of these only in its spelling is rejected: a server might accept the
misspelled member, and run something to which the gateway did not apply its policies.
"""
META: Final = members.ProtectedNames(
    {
        _TOKEN,
        eras.META_VERSION,
        eras.META_CAPABILITIES,
        eras.META_CLIENT_INFO,
        eras.META_SERVER_INFO,
        eras.META_SUBSCRIPTION,
        eras.META_LOG_LEVEL,
        META_LIMIT,
        "traceparent",
        "tracestate",
        "baggage",
    }
)
"""Members of `_meta` that the gateway reads, writes or leaves out."""
_PARAM_NAMES: Final = PARAMS.names
_MAX_METAS: Final = 256
"""Maximum number of entries in the cache of `_meta`."""
_MAX_META_BYTES: Final = 1024
"""Maximum number of bytes of a `_meta` that is cached. Clients send the same `_meta` again, except for the progress
token."""
_MAX_NAMES: Final = 1024
"""Maximum number of entries in the cache of `Mcp-Name`."""
_cached_names: Final[dict[bytes, str | None]] = {}
"""Decoded names by `Mcp-Name` header; None for an invalid header."""


class KnownMetas:
    """Cache of parsed `_meta`, by raw JSON with _ANY_TOKEN in place of the progress token."""

    def __init__(self) -> None:
        self._metas: dict[bytes, tuple[RequestMeta, Raw]] = {}
        """Parsed `_meta` by key. The value has the key too, to be compared with members of requests."""
        self._last_meta = NO_META
        self._last_key = b""
        self._last_raw = Raw(b"")

    def parsed_if_last(self, member: Raw) -> RequestMeta | None:
        """The parsed `_meta` if it equals the last one; else None. For most requests it does, and comparing costs less
        than copying it for a look-up.
        """
        return self._last_meta if member == self._last_raw else None

    def get(self, raw: bytes) -> RequestMeta | None:
        """The parsed `_meta`; None if it is not cached."""
        if raw == self._last_key:
            return self._last_meta
        cached_meta = self._metas.get(raw)
        if cached_meta is None:
            return None
        meta, member = cached_meta
        self._last_meta = meta
        self._last_key = raw
        self._last_raw = member
        return meta

    def learn(self, raw: bytes) -> RequestMeta:
        """Parse a `_meta` and cache it. Raises one of jsonrpc.UNREADABLE."""
        meta = _read_meta(raw)
        if len(raw) <= _MAX_META_BYTES and not meta.has_traceparent:  # a `_meta` with a trace context is not sent again
            if len(self._metas) >= _MAX_METAS:
                self._metas.clear()
            self._metas[raw] = (meta, Raw(raw))
        return meta


_known_metas: Final = KnownMetas()


def classify(
    headers: Headers, body: bytes, *, acceptable: bool = False
) -> McpRequest | Notification | ClientResponse | Rejection:
    """Classify the message in the body of a POST. Returns the message, or the rejection by the first check that fails.

    `headers` are the headers in READ_HEADERS. `acceptable` skips the checks of `Accept` and `Content-Type`, for a
    request whose headers are equal to those of an earlier request.
    """
    rejection = None if acceptable else _check_headers(headers)
    if rejection is not None:
        return rejection
    try:
        if not body.isascii():
            body.decode()
        if len(body) > LONG_BYTES and _has_many_members(body):
            return Rejection(400, jsonrpc.INVALID_REQUEST, f"params has more than {MAX_ITEMS:,} members")
        envelope = _decode_envelope(body)
    except msgspec.ValidationError:
        return _classify_response(headers, body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        mended_body = mend(body)
        if mended_body is not None:
            return classify(headers, mended_body, acceptable=True)
        return Rejection(400, jsonrpc.PARSE_ERROR, f"Parse error: {_error_text(error)}")
    raw_id = envelope.id  # read once, because mypyc looks up attributes of a msgspec Struct by name
    ident = None if raw_id is UNSET else jsonrpc.copy_raw(raw_id)
    if ident is not None and not (ident.isdigit() or _is_id(ident)):
        return Rejection(400, jsonrpc.INVALID_REQUEST, "id must be a string or an integer")
    return _classify_by_era(headers, envelope.method, ident, envelope.params or {})


def _has_many_members(body: bytes) -> bool:
    """Whether the `params` of a large body have more than MAX_ITEMS members. Each member costs a Python object.

    Counts commas, which is faster than parsing. Commas inside members that MCP defines, such as `arguments`, do not
    count. Raises one of jsonrpc.UNREADABLE.
    """
    params = bytes(_decode_large(body).params)
    if params.count(b",") <= MAX_ITEMS or params[:1] != b"{":
        return False
    parts = _decode_params(params)
    commas_inside = sum(bytes(part).count(b",") for part in msgspec.structs.astuple(parts))
    return params.count(b",") - commas_inside > MAX_ITEMS


def _classify_by_era(
    headers: Headers, method: str, ident: bytes | None, params: RawObject
) -> McpRequest | Notification | Rejection:
    version = headers.get(b"mcp-protocol-version")
    legacy_header = version is None or version in _LEGACY
    meta, token = NO_META, None
    if "_meta" in params:
        try:
            meta, token = read_meta(params["_meta"])
        except jsonrpc.UNREADABLE:
            status = 200 if legacy_header else 400
            return Rejection(status, jsonrpc.INVALID_PARAMS, "params._meta must be an object", ident or b"null")
    modern = not legacy_header or meta.has_version
    misread_message = meta.misread_message or _misread_params(params)
    if misread_message:
        return Rejection(400 if modern else 200, jsonrpc.INVALID_PARAMS, misread_message, ident or b"null")
    if ident is None:
        return Notification(modern, method, params, headers.get(SESSION))
    if not modern:
        return McpRequest(False, method, ident, params, headers.get(SESSION), meta, token)
    request = McpRequest(True, method, ident, params, None, meta, token)
    return _check_modern(headers, version, request) or request


def _misread_params(params: RawObject) -> str | None:
    for name in params:
        if name not in _PARAM_NAMES:
            return PARAMS.explain_misread(params, "params")
    return None


def read_meta(member: Raw) -> tuple[RequestMeta, ProgressToken | None]:
    """Parse `_meta`. Returns it with its progress token. Raises one of jsonrpc.UNREADABLE if `member` is not a JSON
    object.
    """
    meta = _known_metas.parsed_if_last(member)
    if meta is not None and not meta.has_token:
        return meta, None
    raw = bytes(member)
    meta = _known_metas.get(raw)
    if meta is not None and not meta.has_token:
        return meta, None
    begin, end = progress_token.find_token(raw)
    tokenless = raw[:begin] + _ANY_TOKEN + raw[end:] if begin else raw
    meta = _known_metas.get(tokenless) or _known_metas.learn(tokenless)
    if not meta.has_token:
        return meta, None
    if begin:
        return meta, ProgressToken(raw[begin:end], begin)
    return meta, ProgressToken(bytes(jsonrpc.decode_object(raw)[_TOKEN]))


def _read_meta(raw: bytes) -> RequestMeta:
    if len(raw) > LONG_BYTES:
        return RequestMeta("", misread_message=f"params._meta is larger than {LONG_BYTES >> 10} KiB")
    members = jsonrpc.decode_object(raw)
    version, raw_capabilities = members.get(eras.META_VERSION), members.get(eras.META_CAPABILITIES)
    missing_message = ""
    if version is None or raw_capabilities is None:
        missing_member = eras.META_VERSION if version is None else eras.META_CAPABILITIES
        missing_message = f"params._meta lacks the required {missing_member}"
    elif bytes(raw_capabilities)[:1] != b"{":
        missing_message = f"{eras.META_CAPABILITIES} must be an object"
    limit = members.get(META_LIMIT)
    return RequestMeta(
        missing_message,
        None if version is None else _as_header(version),
        has_version=version is not None,
        has_token=_TOKEN in members,
        has_log_level=eras.META_LOG_LEVEL in members,
        misread_message=_misread_meta(raw, members),
        extensions=frozenset() if raw_capabilities is None else capabilities.extensions(raw_capabilities),
        result_tokens=None if limit is None else valid_limit(msgspec.json.decode(limit)) or 0,
        has_traceparent="traceparent" in members,
    )


def _misread_meta(raw: bytes, meta: RawObject) -> str:
    """Error message about a `_meta` that servers might parse differently from the gateway; empty if the `_meta` is
    unambiguous.

    The check is needed because `_meta` is forwarded to servers byte for byte.
    """
    misread_message = META.explain_misread(meta, "params._meta")
    if misread_message is not None:
        return misread_message
    for member in meta:
        # members with `eras.PREFIX` are removed for servers of the other era: a misspelled prefix would slip through
        if not member.startswith(eras.PREFIX) and members.fold(member).startswith(eras.PREFIX):
            return members.misspelling_message(member, eras.PREFIX + "…", "params._meta")
    return (
        "params._meta has a duplicate member, and servers differ in which one they read"
        if members.has_repeated_member(raw)
        else ""
    )


def _check_modern(headers: Headers, version: bytes | None, request: McpRequest) -> Rejection | None:
    meta, method, ident, params = request.meta, request.method, request.id, request.params
    if meta.missing_member:
        return Rejection(400, jsonrpc.INVALID_PARAMS, meta.missing_member, ident)
    if version is None or meta.version != version:
        return _mismatch("MCP-Protocol-Version does not match params._meta", ident)
    if headers.get(b"mcp-method", b"") != method.encode():
        return _mismatch("Mcp-Method does not match the method of the body", ident)
    member = _NAME_MEMBERS.get(method)
    if member is not None and member in params:
        header_name = headers.get(b"mcp-name")
        request.name = _text(params[member])
        if header_name is None or _decode_name(header_name) != request.name:
            return _mismatch(f"Mcp-Name does not match params.{member}", ident)
    elif member is None and method in methods.METHODS:
        rejection = _check_extension_method(methods.METHODS[method], headers, meta, ident, params)
        if rejection is not None:
            return rejection
    if version != _MODERN:
        data = jsonrpc.encode({"supported": [MODERN_VERSION], "requested": version.decode("latin-1")})
        message = f"Unsupported protocol version; supported: {MODERN_VERSION}"
        return Rejection(400, jsonrpc.UNSUPPORTED_PROTOCOL_VERSION, message, ident, data)
    return None


def _check_extension_method(
    row: methods.Method, headers: Headers, meta: RequestMeta, ident: bytes, params: RawObject
) -> Rejection | None:
    """Check a method of an extension: the client must declare the extension, and `Mcp-Name`, if sent, must match."""
    if row.needs_declaration and row.extension not in meta.extensions:
        return extension_not_declared(row.extension, ident)
    header_name = headers.get(b"mcp-name") if row.header is methods.HeaderRule.CHECKED else None
    if header_name is not None and row.member in params and _decode_name(header_name) != _text(params[row.member]):
        return _mismatch(f"Mcp-Name does not match params.{row.member}", ident)
    return None


def extension_not_declared(extension: str, ident: bytes) -> Rejection:
    """JSON-RPC error -32021 for a request that does not declare a required extension."""
    message = f"The request does not declare the extension {extension}"
    data = capabilities.missing_extension_data(extension)
    return Rejection(400, jsonrpc.MISSING_CLIENT_CAPABILITY, message, ident, data)


def _check_headers(headers: Headers) -> Rejection | None:
    """Rejection of a request by its `Accept` or `Content-Type`; None if both are valid (MCP 2025-11-25 and 2026-07-28,
    Transports, "Sending Messages").
    """
    accept = headers.get(b"accept", b"")
    if accept != _USUAL_ACCEPT and not _accepts(accept, _JSON, b"application/*"):
        message = "Not Acceptable: Accept must allow application/json, and text/event-stream if the answer is a stream"
        return Rejection(406, jsonrpc.INVALID_REQUEST, message)
    media_type = headers.get(b"content-type", b"")
    if media_type != _JSON and media_type.partition(b";")[0].strip().lower() != _JSON:
        return Rejection(400, jsonrpc.INVALID_REQUEST, "Content-Type must be application/json")
    return None


def check_origin(headers: Headers, authority: bytes | None, allow: AllowList, installation: str) -> Rejection | None:
    """Check Host (or the authority of an absolute target) and Origin against DNS rebinding, and Via against loops.

    `installation` is the value of `Via` in requests that this gateway sends.
    """
    if not allow.allows_host(headers.get(b"host") if authority is None else authority):
        return Rejection(
            421, jsonrpc.INVALID_REQUEST, "The name in the header Host is not allowed: add it to FAIRLEAD_ALLOWED_HOSTS"
        )
    if not allow.allows_origin(headers.get(b"origin")):
        return Rejection(
            403, jsonrpc.INVALID_REQUEST, "The header Origin is not allowed: add its value to FAIRLEAD_ALLOWED_ORIGINS"
        )
    loop_message = via.explain_refusal(headers[b"via"], installation) if b"via" in headers else None
    return None if loop_message is None else Rejection(508, jsonrpc.INVALID_REQUEST, loop_message)


def prefers_streams(headers: Headers) -> bool:
    """Whether `Accept` names event streams before JSON: the client then gets a stream. Most clients name JSON first."""
    accept = headers.get(b"accept")
    return accept is not None and accept != _USUAL_ACCEPT and accept[:5].lower() == b"text/"


def accepts_streams(headers: Headers) -> bool:
    """Whether `Accept` allows event streams. MCP requires clients to accept event streams, but many clients name only
    JSON."""
    accept = headers.get(b"accept", b"")
    return accept == _USUAL_ACCEPT or _accepts(accept, b"text/event-stream", b"text/*")


def _accepts(accept: bytes, kind: bytes, range_: bytes) -> bool:
    """Whether an Accept header allows the media type `kind`, by name or by `range_`.

    An empty header allows any type. Weights are ignored, even `q=0`.
    """
    ranges = {part.partition(b";")[0].strip().lower() for part in accept.split(b",")}
    return not ranges.isdisjoint((kind, range_, b"*/*")) or ranges == {b""}


def _classify_response(headers: Headers, body: bytes) -> ClientResponse | Rejection:
    """Classify JSON that is not a request: a response from a legacy client, or a rejection."""
    ident = b"null"
    try:
        message = jsonrpc.decode_message(body)
        if message.is_response and headers.get(b"mcp-protocol-version", _MODERN) != _MODERN:
            return ClientResponse(message, headers.get(SESSION))
        if message.id is not UNSET and _is_id(bytes(message.id)):
            ident = bytes(message.id)
    except (msgspec.DecodeError, ValueError, RecursionError):
        pass
    return Rejection(400, jsonrpc.INVALID_REQUEST, NOT_A_REQUEST, ident)


def _is_id(raw: bytes) -> bool:
    return raw.isdigit() or raw[:1] == b'"' or _INTEGER.fullmatch(raw) is not None


def _text(raw: Raw) -> str | None:
    try:
        return jsonrpc.decode_text(raw)
    except (msgspec.DecodeError, ValueError):
        return None


def _decode_name(header: bytes) -> str | None:
    """The decoded `Mcp-Name`; None for an invalid header."""
    name = _cached_names.get(header)
    if name is None:
        name = eras.text_of_header(header)
        if len(header) <= _NAME_BYTES:
            if len(_cached_names) >= _MAX_NAMES:
                _cached_names.clear()
            _cached_names[header] = name
    return name


def _as_header(raw: Raw) -> bytes | None:
    text = _text(raw)
    try:
        return None if text is None else text.encode("latin-1")
    except UnicodeEncodeError:
        return None


def _mismatch(message: str, ident: bytes) -> Rejection:
    return Rejection(400, jsonrpc.HEADER_MISMATCH, message, ident)


def _error_text(error: Exception) -> str:
    return "nested too deeply" if isinstance(error, RecursionError) else str(error)
