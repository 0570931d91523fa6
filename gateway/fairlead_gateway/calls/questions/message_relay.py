"""Messages of a server to the client of one request, between the request and its answer.

Progress, log messages and requests of the server, filtered and rewritten for that client.
"""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import Raw

from fairlead_gateway.calls.questions.server_requests import ServerRequests
from fairlead_gateway.calls.translation import translate
from fairlead_gateway.calls.translation.wire import Level
from fairlead_gateway.core.client_peer import AnswerServer, ClientPeer
from fairlead_gateway.core.request import Exchange, McpRequest
from fairlead_gateway.core.route import Route
from fairlead_gateway.upstream.log_levels import LEVELS
from fairlead_mcp import jsonrpc
from fairlead_mcp.escaping import escape
from fairlead_mcp.jsonrpc import UNSET
from fairlead_mcp.messages import Message
from fairlead_mcp.uris import UPDATE

MAX_ID: Final = 256
"""Bytes of the id of a server's request that is passed on to a client."""
MAX_OPEN: Final = 64
"""Requests of servers that one request of a client may leave open."""

CANCELLED: Final = "notifications/cancelled"
RESOURCE_UPDATED: Final = "notifications/resources/updated"

_PASSED_ON: Final = frozenset({"notifications/elicitation/complete"})
_decode_level: Final = msgspec.json.Decoder(Level).decode


class MessageRelay:
    """Messages of a server on the way to the client of one request, filtered and rewritten for that client."""

    __slots__ = (
        "_client",
        "_escapes",
        "_exchange",
        "_level",
        "_modern",
        "_open",
        "_ours",
        "_server_requests",
        "_session",
        "_token",
        "_uris",
    )

    def __init__(
        self,
        server_requests: ServerRequests,
        exchange: Exchange,
        request: McpRequest,
        client: ClientPeer | None,
        level: str | None,
        route: Route,
    ) -> None:
        """`client` is set where the client offers something to servers, `level` where it asks for log messages. To be
        closed with the request.
        """
        self._escapes = route.escapes
        self._uris = route.uris
        self._server_requests = server_requests
        self._exchange = exchange
        self._modern = request.modern
        self._session = request.session
        self._client = client
        self._token = request.token
        self._level = level
        self._ours = b""
        self._open: dict[bytes, bytes] = {}
        """Ids under which the client was asked, and those of the server."""

    def follow(self, ours: bytes) -> None:
        """Pass on the server's progress under the token `ours`, as that of the client's own token."""
        self._ours = ours

    def close(self) -> None:
        """Forget what the client was asked, for its request is answered or given up."""
        for ident in self._open:
            self._server_requests.forget(ident)

    def notify(self, message: Message) -> bool:
        """Pass it on where its client wants it; True for progress of this request."""
        params = message.params
        if message.method == "notifications/progress":
            if self._token is not None and isinstance(params, Raw):
                progress = translate.progress(params, gateway_token=self._ours, client_token=self._token.value)
                if progress is not None:
                    self._tell(progress)
                    return True
        elif message.method == "notifications/message":
            if isinstance(params, Raw) and self._wants(params):
                self._tell(jsonrpc.notification("notifications/message", params))
        elif message.method == RESOURCE_UPDATED:
            if isinstance(params, Raw) and self._session is not None:
                shown = params if self._uris is None else Raw(self._uris.show_in(params, UPDATE))
                self._server_requests.outlet(self._session, shown)
        elif message.method == CANCELLED and isinstance(params, Raw):
            self._withdraw(params)
        elif message.method in _PASSED_ON and not self._modern and isinstance(params, Raw):
            self._tell(jsonrpc.notification(str(message.method), params))
        return False

    def on_request(self, message: Message, answer: AnswerServer) -> None:
        """Pass a legacy server's request on to a client that declared its capability; refuse it otherwise."""
        assert message.id is not UNSET
        if not offers(self._client, message) or self._session is None or len(self._open) >= MAX_OPEN:
            answer(jsonrpc.reply_to_server(message))
            return
        ident = self._server_requests.ask(self._session, bytes(message.id), answer)
        params = None if message.params is UNSET else message.params
        if self._tell(jsonrpc.request(ident, str(message.method), params)):
            self._open[ident] = bytes(message.id)
        else:
            self._server_requests.forget(ident)
            answer(jsonrpc.error(message.id, jsonrpc.INTERNAL_ERROR, "The client cannot be asked now"))

    def _withdraw(self, params: Raw) -> None:
        """Pass on the server's cancellation of a request to the client."""
        given_up = cancelled_id(params)
        for ident, server_id in self._open.items():
            if server_id == given_up:
                self._server_requests.forget(ident)
                del self._open[ident]
                self._tell(jsonrpc.notification(CANCELLED, jsonrpc.with_member(params, "requestId", ident)))
                return

    def _tell(self, message: bytes) -> bool:
        return self._exchange.notify(bytes(escape(message)) if self._escapes else message)

    def _wants(self, params: Raw) -> bool:
        if self._level is None:
            return not self._modern
        try:
            level = _decode_level(params).level
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return False
        return level in LEVELS and LEVELS.index(level) >= LEVELS.index(self._level)


def cancelled_id(params: Raw) -> bytes:
    """The id, raw JSON, in `notifications/cancelled`; empty where there is none."""
    try:
        return bytes(jsonrpc.decode_object(params)["requestId"])
    except (*jsonrpc.UNREADABLE, KeyError):
        return b""


def offers(client: ClientPeer | None, message: Message) -> bool:
    """Whether the client declared the capability that a server's request needs, and its id is short enough to keep."""
    capability = jsonrpc.CAPABILITY_OF.get(str(message.method))
    if capability is None or client is None or not isinstance(message.id, Raw) or len(message.id) > MAX_ID:
        return False
    return b'"%b"' % capability.encode() in client.features
