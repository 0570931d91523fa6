"""Forwards a server's messages to the client of one request until the request is answered.

Progress, log messages and requests of the server are filtered, and get the tokens, ids and URIs that the client knows.
"""

from __future__ import annotations

import uuid
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
from fairlead_mcp import jsonrpc, url_elicitation
from fairlead_mcp.escaping import escape
from fairlead_mcp.jsonrpc import UNSET
from fairlead_mcp.messages import Message
from fairlead_mcp.uris import UPDATE

MAX_ID: Final = 256
"""Limit on the bytes of the id of a server's request."""
MAX_OPEN: Final = 64
"""Limit on a server's unanswered requests to the client during one request of that client."""

CANCELLED: Final = "notifications/cancelled"
RESOURCE_UPDATED: Final = "notifications/resources/updated"

_decode_level: Final = msgspec.json.Decoder(Level).decode


class MessageRelay:
    """Forwards messages of a server to the client of one request; has to be closed when the request has ended."""

    __slots__ = (
        "_client",
        "_credentials",
        "_exchange",
        "_gateway_token",
        "_level",
        "_modern",
        "_must_escape",
        "_open_ids",
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
        """`client` is None if the client supports no requests of servers; `level` is the lowest severity of log
        messages that the client wants.

        With `level` None a modern client gets no log messages, and a legacy client gets all.
        """
        self._must_escape = route.must_escape
        self._uris = route.uris
        self._server_requests = server_requests
        self._exchange = exchange
        self._modern = request.modern
        self._session = request.session
        self._client = client
        self._credentials = route.binding.credentials
        self._token = request.token
        self._level = level
        self._gateway_token = b""
        """Progress token that the gateway sent to the server."""
        self._open_ids: dict[bytes, bytes] = {}
        """The server's unanswered requests: the server's ids by those sent to the client."""

    def follow(self, gateway_token: bytes) -> None:
        """Forward progress notifications that have `gateway_token`, with the client's own token in its place."""
        self._gateway_token = gateway_token

    def close(self) -> None:
        """Drop the server's unanswered requests, because the client's request, whose stream carried them, has ended."""
        for ident in self._open_ids:
            self._server_requests.forget(ident)

    def notify(self, message: Message) -> bool:
        """Forward a notification if the client wants it; True if it reports progress of the client's request."""
        params = message.params
        if message.method == "notifications/progress":
            if self._token is not None and isinstance(params, Raw):
                progress = translate.progress(params, gateway_token=self._gateway_token, client_token=self._token.value)
                if progress is not None:
                    self._send(progress)
                    return True
        elif message.method == "notifications/message":
            if isinstance(params, Raw) and self._passes_level(params):
                self._send(jsonrpc.notification("notifications/message", params))
        elif message.method == RESOURCE_UPDATED:
            if isinstance(params, Raw) and self._session is not None:
                update = params if self._uris is None else Raw(self._uris.show_in(params, UPDATE))
                self._server_requests.send_update(self._session, update)
        elif message.method == CANCELLED and isinstance(params, Raw):
            self._forward_cancellation(params)
        elif message.method == url_elicitation.COMPLETED and self.opens_pages:
            completion = url_elicitation.completion_notification(params)
            if completion is not None:
                self._send(completion)
        return False

    @property
    def opens_pages(self) -> bool:
        """Whether the client is a legacy client that declared elicitation by URL."""
        return not self._modern and self._client is not None and url_elicitation.declares_urls(self._client.features)

    def on_request(self, message: Message, answer: AnswerServer) -> bool:
        """Forward a request of a legacy server if the client has declared the capability; otherwise reject it.

        Returns False if it was rejected because the client has no open stream.
        """
        assert message.id is not UNSET
        client = self._client
        if not supports_request(client, message) or self._session is None or len(self._open_ids) >= MAX_OPEN:
            answer(url_elicitation.refuse(message, None if client is None else client.features))
            return True
        ident = self._server_requests.ask(self._session, bytes(message.id), answer, self._credentials)
        params = None if message.params is UNSET else message.params
        elicitation = url_elicitation.read_request(message.method, params)
        if elicitation is not None:
            params = Raw(elicitation.legacy_params(_new_id))
        if self._send(jsonrpc.request(ident, str(message.method), params)):
            self._open_ids[ident] = bytes(message.id)
            return True
        self._server_requests.forget(ident)
        answer(
            jsonrpc.error(
                message.id,
                jsonrpc.INTERNAL_ERROR,
                "The client has no open stream on which the gateway can send it this request",
            )
        )
        return False

    def complete_elicitation(self, ident: str) -> None:
        """Tell the client that the user has finished with a page that it was asked to open (MCP 2025-11-25,
        Elicitation, "Completion Notifications for URL Mode Elicitation").
        """
        params = jsonrpc.encode({url_elicitation.ELICITATION_ID: ident})
        self._send(jsonrpc.notification(url_elicitation.COMPLETED, params))

    def _forward_cancellation(self, params: Raw) -> None:
        """Forward the server's cancellation of its request to the client."""
        request_id = cancelled_id(params)
        for ident, server_id in self._open_ids.items():
            if server_id == request_id:
                self._server_requests.forget(ident)
                del self._open_ids[ident]
                self._send(jsonrpc.notification(CANCELLED, jsonrpc.with_member(params, "requestId", ident)))
                return

    def _send(self, message: bytes) -> bool:
        return self._exchange.notify(bytes(escape(message)) if self._must_escape else message)

    def _passes_level(self, params: Raw) -> bool:
        if self._level is None:
            return not self._modern
        try:
            level = _decode_level(params).level
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return False
        return level in LEVELS and LEVELS.index(level) >= LEVELS.index(self._level)


def cancelled_id(params: Raw) -> bytes:
    """The `requestId` of `notifications/cancelled`, raw JSON; empty if it is missing."""
    try:
        return bytes(jsonrpc.decode_object(params)["requestId"])
    except (*jsonrpc.UNREADABLE, KeyError):
        return b""


def supports_request(client: ClientPeer | None, message: Message) -> bool:
    """Whether a server's request may be forwarded: the client has the capability, and the id is at most
    MAX_ID bytes.
    """
    capability = jsonrpc.CAPABILITY_OF.get(str(message.method))
    if capability is None or client is None or not isinstance(message.id, Raw) or len(message.id) > MAX_ID:
        return False
    if message.method == url_elicitation.METHOD:
        return url_elicitation.is_declared(client.features, message.params)
    return b'"%b"' % capability.encode() in client.features


def _new_id() -> str:
    return str(uuid.uuid4())
