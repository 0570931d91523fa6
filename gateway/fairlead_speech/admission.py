"""Admission of a speech session: authenticates its request, reads the options that choose its tools, and takes one of
the limited slots for open sessions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import parse_qsl

import msgspec

from fairlead_formats.wire.errors import LlmError
from fairlead_gateway.calls.path.direct import Origin
from fairlead_gateway.core.identity import BY_OWNER, IDENTITY
from fairlead_gateway.core.share_counts import ShareCounts
from fairlead_gateway.endpoint.upgrades import UpgradeRequest
from fairlead_gateway.limits.shares import Shares, ShareTaken
from fairlead_mcp.misread_values import explain_misreading
from fairlead_models.credentials import PROVIDER_KEY, take_credential
from fairlead_models.errors import llm_error
from fairlead_offers.offer.offers import OfferWishes
from fairlead_offers.problems import RATE_LIMITED
from fairlead_web.guard import RequestGuard

WISHES: Final = {
    "x-fairlead-tier": "tier",
    "x-fairlead-servers": "servers",
    "x-fairlead-tags": "tags",
    "x-fairlead-tools": "tools",
    "x-fairlead-max-tools": "maxTools",
}
"""Headers or query parameters that choose the tools of a session, each with the equivalent member of `fairlead` in a
request to a model.
"""
_LIST_OPTIONS: Final = frozenset({"servers", "tags"})
_PROTOCOL_HEADER: Final = b"sec-websocket-protocol"
_KEY_PREFIX: Final = "openai-insecure-api-key."
"""Prefix of the WebSocket subprotocol that contains an API key. Browsers send keys like this, because they cannot set
the headers of a WebSocket.
"""
_RETRY_HEADERS: Final = {"retry-after": "5"}


class SessionRequest(msgspec.Struct, frozen=True):
    """Request for a speech session, after its principal was authenticated."""

    origin: Origin
    headers: Mapping[str, str]
    """Headers by lower-case name, without credentials."""
    query: Mapping[str, str]
    """Query parameters for the provider, without credentials and without the parameters in WISHES."""
    wishes: OfferWishes
    """Options that choose the tools of the session."""
    provider_key: str
    """The caller's own API key for the provider; empty if the caller sent none."""


class _Credentials:
    """Reads a credential from a subprotocol, which browsers send, or from a header, which SDKs send."""

    public = False
    own_pages = False
    any_origin = False

    def credential(self, scope: Any) -> bytes | None:
        """Remove the credential from the scope, and return it as a value of the header `Authorization`. Raises
        Problem.
        """
        protocols = ",".join(value.decode("latin-1") for name, value in scope["headers"] if name == _PROTOCOL_HEADER)
        keys = [protocol.strip() for protocol in protocols.split(",") if protocol.strip().startswith(_KEY_PREFIX)]
        scope["headers"] = [field for field in scope["headers"] if field[0] != _PROTOCOL_HEADER]
        if keys:
            key = keys[0].removeprefix(_KEY_PREFIX).encode("latin-1")
            scope["headers"].append((b"authorization", b"Bearer " + key))
        return take_credential(scope)


async def admit(guard: RequestGuard, request: UpgradeRequest, client: tuple[str, int] | None) -> SessionRequest:
    """Authenticate a request for a session. `client`: IP address and port of the client. Raises LlmError."""
    scope: dict[str, Any] = {
        "type": "http",
        "path": request.path,
        "query_string": request.target.partition(b"?")[2],
        "headers": [*request.fields],
        "client": client,
        BY_OWNER: request.is_by_owner,
    }
    problem = await guard.check(scope, _Credentials())
    if problem is not None:
        raise llm_error(problem)
    raw_headers = {name: value for name, value in scope["headers"] if name != b"authorization"}
    headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in raw_headers.items()}
    query = dict(parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True))
    wishes = _read_wishes({name: query.pop(name, "") or headers.get(name, "") for name in WISHES})
    origin = Origin(scope["client"][0], raw_headers, scope[IDENTITY])
    return SessionRequest(origin, headers, query, wishes, scope.get(PROVIDER_KEY, ""))


def _read_wishes(values: Mapping[str, str]) -> OfferWishes:
    """Parse `values`, keyed by header name, into the options that choose tools. Raises LlmError."""
    wishes: dict[str, object] = {}
    for name, value in values.items():
        member = WISHES[name]
        if value.strip():
            entries = [word.strip() for word in value.split(",") if word.strip()]
            wishes[member] = entries if member in _LIST_OPTIONS else value.strip()
    try:
        if "maxTools" in wishes:
            wishes["maxTools"] = msgspec.json.decode(str(wishes["maxTools"]), type=int)
        return msgspec.convert(wishes, OfferWishes)
    except msgspec.MsgspecError as error:
        message = f"fairlead: {explain_misreading(error, 'the value')}"
        raise LlmError(400, message, "invalid_request", param="fairlead") from error


class SessionSlots:
    """Limits the open speech sessions of a gateway, in total and for each agent."""

    def __init__(self, limit: int, limit_per_agent: int = 0, counts: ShareCounts | None = None) -> None:
        """`limit_per_agent`: 0 for a quarter of `limit`. `counts`: counts the refused requests."""
        self._open = Shares("speech_sessions", limit, limit_per_agent, counts)
        self._setups = Shares("speech_setups", limit, limit_per_agent, counts)

    @property
    def open(self) -> int:
        """Number of open sessions."""
        return self._open.total

    def slot(self, agent: str) -> SessionSlot:
        """Make the slot for a session of an agent. The slot does not count until it is taken."""
        return SessionSlot(self._open, self._setups, agent)


class SessionSlot:
    """Slot of one speech session within the limits of the gateway. Its owner calls `release` at the end, even if taking
    the slot was refused.
    """

    def __init__(self, open_: Shares, setups: Shares, agent: str) -> None:
        self._open = open_
        self._setups = setups
        self._agent = agent
        self._held_shares: Shares | None = None

    def take_for_setup(self) -> None:
        """Take a slot for a WebSocket that has not sent its first message, the setup. Raises LlmError if the limit of
        such WebSockets, or of sessions, is reached.
        """
        taken_share = self._open.bound(self._agent)
        if taken_share is not None:
            raise _refusal(taken_share, "are open already")
        self._take(self._setups, "wait for their first message, the setup")

    def take_for_session(self) -> None:
        """Take a slot for an open session, and give back the slot that was taken for its setup. Raises LlmError."""
        self._take(self._open, "are open already")

    def release(self) -> None:
        """Give the slot back, if one is taken."""
        self._hold(None)

    def _take(self, shares: Shares, state: str) -> None:
        try:
            shares.take(self._agent)
        except ShareTaken as taken_share:
            raise _refusal(taken_share, state) from taken_share
        self._hold(shares)

    def _hold(self, shares: Shares | None) -> None:
        previous, self._held_shares = self._held_shares, shares
        if previous is not None:
            previous.give_back(self._agent)


def _refusal(taken_share: ShareTaken, state: str) -> LlmError:
    if taken_share.bound == "agent":
        text = (
            f"{taken_share.limit} of your speech sessions {state}, which is the limit for one agent: "
            "close a session, or retry"
        )
        return LlmError(429, text, RATE_LIMITED, headers=_RETRY_HEADERS)
    text = f"{taken_share.limit} speech sessions {state}, which is the limit of this gateway: retry later"
    return LlmError(503, text, "unavailable", headers=_RETRY_HEADERS)
