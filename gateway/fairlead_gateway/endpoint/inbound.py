"""Classifies POST requests to an MCP endpoint: a request, a notification, a response, or a rejection with its status.

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
from fairlead_gateway.core.long_results import HEADER_LIMIT, META_LIMIT, within
from fairlead_gateway.core.request import NO_META, Headers, McpRequest, RequestMeta
from fairlead_mcp import capabilities, eras, jsonrpc, members, methods, progress_token, via
from fairlead_mcp.addresses import AllowList
from fairlead_mcp.eras import LEGACY_VERSIONS, MODERN_VERSION
from fairlead_mcp.jsonrpc import UNSET, RawObject
from fairlead_mcp.mending import mend
from fairlead_mcp.progress_token import ProgressToken
from fairlead_mcp.read_bounds import LONG_BYTES, MAX_ITEMS

WANTED: Final = frozenset(
    {
        b"host",
        b"origin",
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
        b"x-forwarded-for",
        b"via",
    }
)
"""Names of the headers that are kept; everything else of a request's head is dropped unread."""
SPELLINGS: Final = (
    {name: name for name in WANTED}
    | {name.title(): name for name in WANTED}
    | {b"MCP-Protocol-Version": b"mcp-protocol-version"}
)
"""The names of WANTED as most clients write them."""

SESSION: Final = b"mcp-session-id"
_LEGACY: Final = frozenset(version.encode() for version in LEGACY_VERSIONS)
_MODERN: Final = MODERN_VERSION.encode()
_INTEGER: Final = re.compile(rb"-?[0-9]+")
_JSON: Final = b"application/json"
_USUAL_ACCEPT: Final = b"application/json, text/event-stream"

_decode_large: Final = msgspec.json.Decoder(LargeBody).decode
_decode_params: Final = msgspec.json.Decoder(RawParams).decode
_decode_envelope: Final = msgspec.json.Decoder(RequestBody).decode
_NAMED: Final = dict(methods.MCP_NAME_MEMBER)

NOT_A_REQUEST: Final = "the body is not a JSON-RPC 2.0 request, notification or response; batches are not taken"


_NAME_BYTES: Final = 256
"""Longest `Mcp-Name` that is remembered."""
_TOKEN: Final = progress_token.NAME
_ANY_TOKEN: Final = b"0"
"""Value of the token in a `_meta` that is cached: each request has another."""
PARAMS: Final = members.Known(
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
"""Members of `params` in any request of any era. Others are passed on, for a server may have extensions; but not what
a server may take for one of these, or it would run something else than was decided about.
"""
META: Final = members.Known(
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
_REMEMBERED: Final = 256
"""Values of `_meta` that are cached."""
_REMEMBERED_BYTES: Final = 1024
"""Bytes of the longest `_meta` that is cached: clients repeat theirs, but for the progress token."""
_NAMES: Final = 1024
"""Values of `Mcp-Name` that are cached."""
_known_names: Final[dict[bytes, str | None]] = {}
"""Cache of names by header."""


class KnownMetas:
    """Cache by raw `_meta`, in which a progress token whose place could be told is _ANY_TOKEN."""

    def __init__(self) -> None:
        self._metas: dict[bytes, RequestMeta] = {}
        self._last_raw = b""
        self._last = NO_META

    def get(self, raw: bytes) -> RequestMeta | None:
        """The members of a `_meta` that is cached."""
        if raw == self._last_raw:  # clients of one kind say the same: to compare costs less than to hash
            return self._last
        meta = self._metas.get(raw)
        if meta is not None:
            self._last_raw = raw
            self._last = meta
        return meta

    def learn(self, raw: bytes) -> RequestMeta:
        """The members of a `_meta` that is not cached. Raises one of jsonrpc.UNREADABLE."""
        meta = _read_meta(raw)
        if len(raw) <= _REMEMBERED_BYTES and not meta.traced:  # a trace is another with each request
            if len(self._metas) >= _REMEMBERED:
                self._metas.clear()
            self._metas[raw] = meta
        return meta


_known_metas: Final = KnownMetas()


def classify(
    headers: Headers, body: bytes, *, acceptable: bool = False
) -> McpRequest | Notification | ClientResponse | Rejection:
    """The message in a POST, or the first check that it fails. `headers` are those of WANTED that it has; `acceptable`:
    `Accept` and `Content-Type` were checked before, in a request with equal headers.
    """
    refused = None if acceptable else _unacceptable(headers)
    if refused is not None:
        return refused
    try:
        if not body.isascii():
            body.decode()
        if len(body) > LONG_BYTES and _has_many_members(body):
            return Rejection(400, jsonrpc.INVALID_REQUEST, f"params has more than {MAX_ITEMS:,} members")
        envelope = _decode_envelope(body)
    except msgspec.ValidationError:
        return _classify_response(headers, body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        mended = mend(body)
        if mended is not None:
            return classify(headers, mended, acceptable=True)
        return Rejection(400, jsonrpc.PARSE_ERROR, f"Parse error: {_brief(error)}")
    raw_id = envelope.id  # read once, as an attribute of a Struct costs compiled code a look-up
    ident = None if raw_id is UNSET else bytes(raw_id)
    if ident is not None and not (ident.isdigit() or _is_id(ident)):
        return Rejection(400, jsonrpc.INVALID_REQUEST, "id must be a string or an integer")
    return _classify_by_era(headers, envelope.method, ident, envelope.params or {})


def _has_many_members(body: bytes) -> bool:
    """Whether the `params` of a large body have too many members beside what is in the large ones that MCP knows: each
    becomes an object of its own.

    Raises one of jsonrpc.UNREADABLE.
    """
    params = bytes(_decode_large(body).params)
    if params.count(b",") <= MAX_ITEMS or params[:1] != b"{":
        return False
    parts = _decode_params(params)
    inside = sum(bytes(part).count(b",") for part in msgspec.structs.astuple(parts))
    return params.count(b",") - inside > MAX_ITEMS


def _classify_by_era(
    headers: Headers, method: str, ident: bytes | None, params: RawObject
) -> McpRequest | Notification | Rejection:
    version = headers.get(b"mcp-protocol-version")
    legacy_header = version is None or version in _LEGACY
    meta, token = NO_META, None
    if "_meta" in params:
        try:
            meta, token = read_meta(bytes(params["_meta"]))
        except jsonrpc.UNREADABLE:
            status = 200 if legacy_header else 400
            return Rejection(status, jsonrpc.INVALID_PARAMS, "params._meta must be an object", ident or b"null")
    modern = not legacy_header or meta.versioned
    misread = meta.misread or _misread_params(params)
    if misread:
        return Rejection(400 if modern else 200, jsonrpc.INVALID_PARAMS, misread, ident or b"null")
    if ident is None:
        return Notification(modern, method, params, headers.get(SESSION))
    if not modern:
        return McpRequest(False, method, ident, params, headers.get(SESSION), meta, token)
    request = McpRequest(True, method, ident, params, None, meta, token)
    return _check_modern(headers, version, request) or request


def _misread_params(params: RawObject) -> str | None:
    for name in params:
        if name not in _PARAM_NAMES:
            return PARAMS.misread(params, "params")
    return None


def read_meta(raw: bytes) -> tuple[RequestMeta, ProgressToken | None]:
    """Members of a raw `_meta` that decide about a request, and its progress token. Raises one of jsonrpc.UNREADABLE
    where it is not an object.
    """
    meta = _known_metas.get(raw)
    if meta is not None and not meta.token:
        return meta, None
    begin, end = progress_token.find_token(raw)
    tokenless = raw[:begin] + _ANY_TOKEN + raw[end:] if begin else raw
    meta = _known_metas.get(tokenless) or _known_metas.learn(tokenless)
    if not meta.token:
        return meta, None
    if begin:
        return meta, ProgressToken(raw[begin:end], begin)
    return meta, ProgressToken(bytes(jsonrpc.decode_object(raw)[_TOKEN]))


def _read_meta(raw: bytes) -> RequestMeta:
    if len(raw) > LONG_BYTES:
        return RequestMeta("", misread=f"params._meta is larger than {LONG_BYTES >> 10} KiB")
    members = jsonrpc.decode_object(raw)
    version, capabilities_said = members.get(eras.META_VERSION), members.get(eras.META_CAPABILITIES)
    lacking = ""
    if version is None or capabilities_said is None:
        missing = eras.META_VERSION if version is None else eras.META_CAPABILITIES
        lacking = f"params._meta lacks the required {missing}"
    elif bytes(capabilities_said)[:1] != b"{":
        lacking = f"{eras.META_CAPABILITIES} must be an object"
    limit = members.get(META_LIMIT)
    return RequestMeta(
        lacking,
        None if version is None else _as_header(version),
        versioned=version is not None,
        token=_TOKEN in members,
        log_level=eras.META_LOG_LEVEL in members,
        misread=_misread_meta(raw, members),
        extensions=frozenset() if capabilities_said is None else capabilities.extensions(capabilities_said),
        result_tokens=None if limit is None else within(msgspec.json.decode(limit)) or 0,
        traced="traceparent" in members,
    )


def _misread_meta(raw: bytes, meta: RawObject) -> str:
    """A sentence about what servers may read otherwise in a `_meta`, which goes on to them byte for byte."""
    misread = META.misread(meta, "params._meta")
    if misread is not None:
        return misread
    for member in meta:
        # members of this prefix are left out for a server of the other era, in this spelling alone
        if not member.startswith(eras.PREFIX) and members.fold(member).startswith(eras.PREFIX):
            return members.misspelling_message(member, eras.PREFIX + "…", "params._meta")
    return (
        "params._meta has a member twice: servers differ in which one they read"
        if members.has_repeated_member(raw)
        else ""
    )


def _check_modern(headers: Headers, version: bytes | None, request: McpRequest) -> Rejection | None:
    meta, method, ident, params = request.meta, request.method, request.id, request.params
    if meta.lacking:
        return Rejection(400, jsonrpc.INVALID_PARAMS, meta.lacking, ident)
    if version is None or meta.version != version:
        return _mismatch("MCP-Protocol-Version does not match params._meta", ident)
    if headers.get(b"mcp-method", b"") != method.encode():
        return _mismatch("Mcp-Method does not match the method of the body", ident)
    member = _NAMED.get(method)
    if member is not None and member in params:
        named = headers.get(b"mcp-name")
        request.name = _text(params[member])
        if named is None or _named(named) != request.name:
            return _mismatch(f"Mcp-Name does not match params.{member}", ident)
    elif member is None and method in methods.METHODS:
        refused = _check_row(methods.METHODS[method], headers, meta, ident, params)
        if refused is not None:
            return refused
    if version != _MODERN:
        data = jsonrpc.encode({"supported": [MODERN_VERSION], "requested": version.decode("latin-1")})
        message = f"Unsupported protocol version; supported: {MODERN_VERSION}"
        return Rejection(400, jsonrpc.UNSUPPORTED_PROTOCOL_VERSION, message, ident, data)
    return None


def _check_row(
    row: methods.Method, headers: Headers, meta: RequestMeta, ident: bytes, params: RawObject
) -> Rejection | None:
    """Check what the row of an extension's method asks: first its declaration, then `Mcp-Name` where it is sent."""
    if row.needs_declaration and row.extension not in meta.extensions:
        return undeclared(row.extension, ident)
    named = headers.get(b"mcp-name") if row.header is methods.HeaderRule.CHECKED else None
    if named is not None and row.member in params and _named(named) != _text(params[row.member]):
        return _mismatch(f"Mcp-Name does not match params.{row.member}", ident)
    return None


def undeclared(extension: str, ident: bytes) -> Rejection:
    """JSON-RPC error -32021 for a request that has to declare an extension."""
    message = f"The request does not declare the extension {extension}"
    data = capabilities.missing_extension_data(extension)
    return Rejection(400, jsonrpc.MISSING_CLIENT_CAPABILITY, message, ident, data)


def _unacceptable(headers: Headers) -> Rejection | None:
    """Rejection of `Accept` and `Content-Type` (MCP 2025-11-25 and 2026-07-28, Transports, "Sending Messages")."""
    accept = headers.get(b"accept", b"")
    if accept != _USUAL_ACCEPT and not _accepts(accept, _JSON, b"application/*"):
        message = (
            "Not Acceptable: a client must accept application/json, and text/event-stream for what can only be a stream"
        )
        return Rejection(406, jsonrpc.INVALID_REQUEST, message)
    kind = headers.get(b"content-type", b"")
    if kind != _JSON and kind.partition(b";")[0].strip().lower() != _JSON:
        return Rejection(400, jsonrpc.INVALID_REQUEST, "Content-Type must be application/json")
    return None


def check_origin(headers: Headers, authority: bytes | None, allow: AllowList, installation: str) -> Rejection | None:
    """Check Host (or the authority of an absolute target), Origin and Via, before anything else: the defense against
    DNS rebinding and loops. `installation` is the value of `Via` in the gateway's own requests.
    """
    if not allow.host(headers.get(b"host") if authority is None else authority):
        return Rejection(421, jsonrpc.INVALID_REQUEST, "Host is not one that this gateway answers for")
    if not allow.origin(headers.get(b"origin")):
        return Rejection(403, jsonrpc.INVALID_REQUEST, "Origin is not allowed")
    looped = via.refusal(headers[b"via"], installation) if b"via" in headers else None
    return None if looped is None else Rejection(508, jsonrpc.INVALID_REQUEST, looped)


def prefers_streams(headers: Headers) -> bool:
    """Whether a client names event streams before JSON: it then gets one. Most clients name JSON first."""
    accept = headers.get(b"accept")
    return accept is not None and accept != _USUAL_ACCEPT and accept[:5].lower() == b"text/"


def accepts_streams(headers: Headers) -> bool:
    """Whether a client takes event streams. MCP has it say so in any case; many peers name JSON alone, as most answers
    are that.
    """
    accept = headers.get(b"accept", b"")
    return accept == _USUAL_ACCEPT or _accepts(accept, b"text/event-stream", b"text/*")


def _accepts(accept: bytes, kind: bytes, range_: bytes) -> bool:
    """Whether an Accept header allows a media type, by name or by range; an empty one allows any. A weight of 0 is not
    looked for.
    """
    ranges = {part.partition(b";")[0].strip().lower() for part in accept.split(b",")}
    return not ranges.isdisjoint((kind, range_, b"*/*")) or ranges == {b""}


def _classify_response(headers: Headers, body: bytes) -> ClientResponse | Rejection:
    """JSON other than a request: a response from a legacy client is taken, the rest refused."""
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


def _named(header: bytes) -> str | None:
    """The text of an `Mcp-Name`; None for one that is broken."""
    name = _known_names.get(header)
    if name is None:
        name = eras.text_of_header(header)
        if len(header) <= _NAME_BYTES:
            if len(_known_names) >= _NAMES:
                _known_names.clear()
            _known_names[header] = name
    return name


def _as_header(raw: Raw) -> bytes | None:
    text = _text(raw)
    try:
        return None if text is None else text.encode("latin-1")
    except UnicodeEncodeError:
        return None


def _mismatch(message: str, ident: bytes) -> Rejection:
    return Rejection(400, jsonrpc.HEADER_MISMATCH, message, ident)


def _brief(error: Exception) -> str:
    return "nested too deeply" if isinstance(error, RecursionError) else str(error)
