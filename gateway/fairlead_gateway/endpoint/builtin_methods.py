"""MCP methods that the gateway answers itself: handshakes, `ping`, log levels, and lists. The bytes of lists are
prepared in advance.

Pure module, except for random session ids.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec
from msgspec import Raw

from fairlead_gateway.calls.sealed.sessions import SessionIds
from fairlead_gateway.core.client_message import Rejection
from fairlead_gateway.core.request import Exchange, McpRequest, agent_of
from fairlead_gateway.endpoint.responses import NO_EXTRA, result_parts
from fairlead_gateway.policy.view import View
from fairlead_mcp import eras, jsonrpc, methods, via

LIST_TTL_MS: Final = 30_000
"""`ttlMs` of lists: time in milliseconds for which a modern client may cache them."""
LEGACY_LIST_TAIL: Final = b"}"
"""End of a list result for legacy clients. For modern clients, cache hints and `_meta` precede it."""
LISTS: Final[dict[str, str | None]] = {
    "tools/list": None,
    "prompts/list": "prompts",
    "resources/list": "resources",
    "resources/templates/list": "resources",
    "skills/list": "skills",
}
"""List methods, each with the capability that the endpoint must have; None if the method needs no capability."""


class MethodResult(msgspec.Struct, frozen=True):
    """A successful response: the parts of its body, and additional header lines."""

    body: tuple[bytes | Raw, ...]
    extra: bytes = NO_EXTRA


class BuiltinMethods:
    """Methods that the gateway answers itself, without storing session state.

    `server_info` is the gateway's `serverInfo`, raw JSON. `set_level` stores the log level of a session for an agent,
    and returns False for an unknown level. `gateways` takes the base path of an endpoint, and returns the names of this
    installation and of the installations behind the endpoint's servers.
    """

    def __init__(
        self,
        server_info: bytes,
        sessions: SessionIds,
        set_level: Callable[[bytes | None, str, str], bool],
        gateways: Callable[[bytes], list[str]],
    ) -> None:
        self._gateways = gateways
        self._server_info = server_info
        self._sessions = sessions
        self._set_session_level = set_level
        self._modern_meta = b',"resultType":"complete","ttlMs":%d,"cacheScope":"private","_meta":{"%b":%b' % (
            LIST_TTL_MS,
            eras.META_SERVER_INFO.encode(),
            server_info,
        )
        self._modern_list_tail = self._modern_meta + b"}}"

    def answer(self, view: View, request: McpRequest, exchange: Exchange) -> MethodResult | Rejection:
        """The answer to a request, or a rejection of a method that the client's era does not have.

        A session that `initialize` opens belongs to the principal of `exchange`.
        """
        method = request.method
        if method in LISTS and LISTS[method] in (None, *features_of(view)):
            return self._list(view, request)
        if request.modern:
            if method == "server/discover":
                return self._discover(view, request)
        elif method == "initialize":
            return self._initialize(view, request, exchange.identity.owner)
        elif method == "ping":
            return MethodResult(result_parts(request.id, b"{}"))
        elif method == "logging/setLevel":
            return self._set_level(request, agent_of(exchange))
        status = 404 if request.modern else 200
        return Rejection(status, jsonrpc.METHOD_NOT_FOUND, f"Method not found: {method}", request.id)

    def _set_level(self, request: McpRequest, agent: str) -> MethodResult | Rejection:
        try:
            level = jsonrpc.decode_text(request.params["level"])
        except (KeyError, msgspec.DecodeError, UnicodeDecodeError):
            level = ""
        if not self._set_session_level(request.session, level, agent):
            return Rejection(200, jsonrpc.INVALID_PARAMS, f"Unknown log level: {level!r}", request.id)
        return MethodResult(result_parts(request.id, b"{}"))

    def _list(self, view: View, request: McpRequest) -> MethodResult | Rejection:
        cursor = request.params.get("cursor")
        if cursor is not None and bytes(cursor) != b"null":
            status = 400 if request.modern else 200
            return Rejection(status, jsonrpc.INVALID_PARAMS, "Invalid cursor: the list has one page", request.id)
        tail = self._modern_list_tail if request.modern else LEGACY_LIST_TAIL
        if request.method == "skills/list" and not request.modern:
            # the skills extension requires cache hints in both eras
            tail = b',"ttlMs":%d,"cacheScope":"private"}' % LIST_TTL_MS
        if request.method != "tools/list":
            return MethodResult(result_parts(request.id, view.resources.listings[request.method], tail))
        hidden_meta = view.hidden_member
        if hidden_meta:
            tail = self._modern_meta + b",%b}}" % hidden_meta if request.modern else b',"_meta":{%b}}' % hidden_meta
        listing = view.listing if request.modern else view.legacy_listing
        return MethodResult(result_parts(request.id, *listing, tail))

    def _discover(self, view: View, request: McpRequest) -> MethodResult:
        members = {
            "supportedVersions": [eras.MODERN_VERSION],
            "capabilities": capabilities(view, modern=True),
            **_instructions(view),
            "resultType": "complete",
            "ttlMs": LIST_TTL_MS,
            "cacheScope": "private",
            "_meta": {
                eras.META_SERVER_INFO: Raw(view.server_info or self._server_info),
                via.META_GATEWAYS: self._gateways(view.base),
            },
        }
        return MethodResult(result_parts(request.id, jsonrpc.encode(members)))

    def _initialize(self, view: View, request: McpRequest, owner: str) -> MethodResult | Rejection:
        try:
            requested_version = jsonrpc.decode_text(request.params["protocolVersion"])
        except (KeyError, msgspec.DecodeError, UnicodeDecodeError):
            message = "params.protocolVersion must be a string"
            return Rejection(200, jsonrpc.INVALID_PARAMS, message, request.id)
        members = {
            "protocolVersion": requested_version
            if requested_version in eras.LEGACY_VERSIONS
            else eras.LATEST_LEGACY_VERSION,
            "capabilities": capabilities(view, modern=False),
            "serverInfo": Raw(view.server_info or self._server_info),
            **_instructions(view),
            "_meta": {via.META_GATEWAYS: self._gateways(view.base)},
        }
        client_capabilities = request.params.get("capabilities", b"{}")
        session_id = self._sessions.issue(str(members["protocolVersion"]), client_capabilities, owner)
        header = b"%b: %b\r\n" % (eras.H_SESSION.lower(), session_id)
        return MethodResult(result_parts(request.id, jsonrpc.encode(members)), header)


def features_of(view: View) -> frozenset[str]:
    """Features of an endpoint other than tools.

    If stored results can be read with `resources/read`, `resources` is one of them even if no server has resources.
    """
    features = view.resources.features
    return features | {"resources"} if view.lists_reader or view.full_view is not None else features


def capabilities(view: View, *, modern: bool) -> dict[str, dict[str, bool] | dict[str, Raw]]:
    """`ServerCapabilities` of an endpoint: tools, and the other features of its servers.

    Legacy clients always get `logging`, because the gateway handles their log levels. Tasks are declared only as the
    extension of 2026-07-28 (SEP-2663); `capabilities.tasks` of 2025-11-25 is not supported.
    """
    features = features_of(view)
    server_capabilities: dict[str, dict[str, bool] | dict[str, Raw]] = {"tools": {"listChanged": True}}
    if "prompts" in features:
        server_capabilities["prompts"] = {"listChanged": True}
    if "resources" in features:
        subscribe = {"subscribe": True} if "resources.subscribe" in features else {}
        server_capabilities["resources"] = {"listChanged": True, **subscribe}
    if "completions" in features:
        server_capabilities["completions"] = {}
    if "logging" in features or not modern:
        server_capabilities["logging"] = {}
    extensions = {
        name: settings for name, settings in view.resources.extensions.items() if modern or name != methods.TASKS
    }
    if extensions:
        server_capabilities["extensions"] = extensions
    return server_capabilities


def _instructions(view: View) -> dict[str, str]:
    return {} if view.instructions is None else {"instructions": view.instructions}
