"""The gateway as resources of the REST API use it. One per gateway."""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from fairlead_api.meta import ServerKey
from fairlead_api.policies.subjects import Key
from fairlead_gateway.aggregates.tally import Tally
from fairlead_gateway.catalog.pins import PinReader
from fairlead_gateway.core.identity import IDENTITY, Identity
from fairlead_gateway.core.request import agent_in
from fairlead_gateway.core.share_counts import ShareCounts
from fairlead_gateway.events import EventLog
from fairlead_gateway.identity.made_keys import MadeKeys
from fairlead_gateway.identity.names import Issuers
from fairlead_gateway.policy.rules import subjects_of
from fairlead_gateway.policy.tier_moves import TierMoves
from fairlead_gateway.recent.ring import RecentCalls
from fairlead_mcp.host import ChildHost
from fairlead_offers.catalogs.subject_catalog import SubjectCatalog
from fairlead_offers.conversion.jobs import TWICE
from fairlead_offers.documents import encode
from fairlead_offers.problems import INVALID_ARGUMENTS, Problem
from fairlead_offers.services import ToolServices
from fairlead_rest.call_counts import CallCounts
from fairlead_rest.process_outputs import ProcessOutputs
from fairlead_web.bodies import answer, read_pieces
from fairlead_web.guard import RequestGuard

Result = TypeVar("Result")


class Tallies:
    """Source of the histograms of calls. `origin` is an opaque id of this process, by which merged histograms are told
    apart.
    """

    def __init__(self, environment: str, of: Callable[[ServerKey, str], Tally | None]) -> None:
        self.environment = environment
        self.of = of
        self.origin = secrets.token_hex(16)


class Requests(Protocol):
    """Requests that wait for an operator to fetch them: `reports.outbox`."""

    asked_at: float | None
    """When an operator asked last, seconds since the epoch."""

    def ask_refresh(self, server: ServerKey) -> None:
        """Have the server asked for its lists now."""
        ...

    def ask_approval(self, server: ServerKey, approval: str, by: str) -> None:
        """Have definitions approved that are held back."""
        ...


class Administration(msgspec.Struct, frozen=True, kw_only=True):
    """Things that administrators, and owners of keys, may change."""

    requests: Requests
    groups: frozenset[Key]
    """Groups of administrators."""
    issuers: Issuers
    """Who may give the names of agents and groups."""
    keys: MadeKeys | None
    """Keys that people make for themselves; `None` where nobody may."""
    pins: PinReader
    """Definitions that are held back."""
    moves: TierMoves
    """Moves of tools between tiers."""
    approvals: bool
    """Whether administrators may approve definitions here."""


class Records(msgspec.Struct, frozen=True, kw_only=True):
    """Records of events, of calls, and of what processes of servers printed."""

    events: EventLog
    calls: CallCounts
    shares: ShareCounts
    """Counts of what is refused to agents that have their share."""
    tallies: Tallies | None
    """Histograms of calls, where the installation keeps them."""
    recent: RecentCalls | None
    """Last calls, where these are kept."""
    outputs: ProcessOutputs
    """Printed lines of servers' processes."""
    children: ChildHost | None
    """Processes of servers, where this process runs them."""

    def end_streams(self) -> None:
        """End the streams of events and of calls: no more is to come."""
        self.events.close()
        if self.recent is not None:
            self.recent.close()


class RestContext:
    """Gives resources the services of tools, who asks, and what is recorded and administered."""

    def __init__(
        self,
        services: ToolServices,
        guard: RequestGuard,
        administration: Administration,
        records: Records,
        max_body: int,
    ) -> None:
        self.services = services
        self.guard = guard
        self.administration = administration
        self.records = records
        self.max_body = max_body
        """Bytes of a request's body."""

    def seen(self, request: Request) -> SubjectCatalog:
        """The catalog that the request's principal may see. Raises KeyError for a request that no guard admitted."""
        return self.services.catalogs.seen_by(request.scope[IDENTITY])

    async def when_ready(self, request: Request, work: Callable[[SubjectCatalog], Awaitable[Result]]) -> Result:
        """Do `work` with the catalog of the request's principal, as `SubjectCatalogs.when_ready`. Raises Problem."""
        return await self.services.catalogs.when_ready(request.scope[IDENTITY], agent_in(request.scope), work)

    async def answer(self, make: Callable[[], object]) -> Response:
        """A JSON answer of what `make` makes, in the thread. Raises Problem."""
        return answer(await self.services.work.do(lambda: encode(make())))

    async def answer_when_ready(self, request: Request, make: Callable[[SubjectCatalog], object]) -> Response:
        """A JSON answer of what `make` makes, in the thread, as `when_ready`. Raises Problem."""
        return await self.when_ready(request, lambda seen: self.answer(lambda: make(seen)))

    def administers(self, identity: Identity) -> bool:
        """Whether the principal may see what others may do: an administrator, or anyone without authentication."""
        if identity.made:
            return False
        sure = (key for key in subjects_of(identity) if key not in identity.doubtful)
        return self.guard.identities.open or not self.administration.groups.isdisjoint(sure)

    def makes_keys(self, identity: Identity) -> bool:
        """Whether the principal may make keys for itself."""
        keys = self.administration.keys
        return keys is not None and keys.may(identity, subjects_of(identity))

    async def read(self, request: Request) -> bytes:
        """The body of a request, in which no member comes twice. Raises Problem."""
        body = b"".join(await self.pieces(request))
        if await self.services.work.repeats(body):
            raise Problem(INVALID_ARGUMENTS, TWICE)
        return body

    async def pieces(self, request: Request) -> list[bytes]:
        """The body of a request as it came, which may be decoded. Raises Problem."""
        pieces = await read_pieces(request, self.max_body)
        refused = await self.services.work.excess(b"".join(pieces))
        if refused is not None:
            raise Problem(INVALID_ARGUMENTS, f"the body holds {refused}: send fewer")
        return pieces
