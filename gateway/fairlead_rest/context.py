"""Objects of the gateway that the resources of the REST API share: services, records of calls and events, and
administration.
"""

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
from fairlead_gateway.grants.accounts import Accounts
from fairlead_gateway.identity.client_sign_ins import ClientSignIns
from fairlead_gateway.identity.made_keys import MadeKeys
from fairlead_gateway.identity.names import Issuers
from fairlead_gateway.policy.rules import subjects_of
from fairlead_gateway.policy.tier_moves import TierMoves
from fairlead_gateway.recent.ring import RecentCalls
from fairlead_gateway.sign_in.sign_ins import SignIns
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
    """Histograms of the durations of calls. `of` returns the histogram of a tool, by server and name; None if the tool
    was not called. `origin` is an opaque id of this process, by which readers can tell processes apart.
    """

    def __init__(self, environment: str, of: Callable[[ServerKey, str], Tally | None]) -> None:
        self.environment = environment
        self.of = of
        self.origin = secrets.token_hex(16)


class OperatorRequests(Protocol):
    """Requests to the operator, stored until the operator fetches them from this gateway (`reports.outbox`)."""

    asked_at: float | None
    """Time at which an operator last fetched requests, in seconds since the epoch; None: never."""

    def ask_refresh(self, server: ServerKey) -> None:
        """Request the discovery of a server."""
        ...

    def ask_approval(self, server: ServerKey, approval: str, by: str) -> None:
        """Request the approval of definitions that are held back. `approval` is their hash, `by` the principal."""
        ...


class Administration(msgspec.Struct, frozen=True, kw_only=True):
    """Settings and services for administrators, and for principals that make API keys or have accounts at servers."""

    requests: OperatorRequests
    groups: frozenset[Key]
    """Groups of administrators."""
    issuers: Issuers
    """Issuers of identities, with the names of agents and groups that each may issue."""
    keys: MadeKeys | None
    """API keys that principals make for themselves; None if that is turned off."""
    accounts: Accounts | None
    """Accounts of users at servers; None if no grants are stored."""
    client_sign_ins: ClientSignIns | None
    """Sign-ins of clients; None without an authorization server."""
    pins: PinReader
    """Reads definitions that are held back."""
    moves: TierMoves
    """Records moves of tools between tiers."""
    approvals: bool
    """Whether this gateway accepts approvals of definitions."""
    exchange_allowed: tuple[str, ...]
    """Authorization servers that callers' tokens may be sent to, besides the tokens' own issuers."""
    local: bool
    """Whether `fairlead up` runs this gateway."""

    @property
    def setting_hint(self) -> str:
        """Clause at the end of refusals: the setting that names the groups of administrators."""
        source = "which `fairlead up` reads when it starts" if self.local else "chart: gateway.settings.adminGroups"
        return f"administrators are the groups in FAIRLEAD_ADMIN_GROUPS ({source})"


class Records(msgspec.Struct, frozen=True, kw_only=True):
    """Records of events, of calls, and of the output of servers' processes."""

    events: EventLog
    calls: CallCounts
    shares: ShareCounts
    """Counts refusals of agents that have reached their limit."""
    tallies: Tallies | None
    """Histograms of calls; None if they are turned off."""
    recent: RecentCalls | None
    """Last calls; None if they are not stored."""
    outputs: ProcessOutputs
    """Output of servers' processes."""
    children: ChildHost | None
    """Child processes of this process that run servers; None if there are none."""

    def end_streams(self) -> None:
        """End the streams of events and of calls, when the gateway stops."""
        self.events.close()
        if self.recent is not None:
            self.recent.close()


class RestContext:
    """Services, records and principals for the resources of the REST API. Each gateway has one instance."""

    def __init__(
        self,
        services: ToolServices,
        guard: RequestGuard,
        administration: Administration,
        records: Records,
        sign_ins: SignIns,
        max_body: int,
        clock: Callable[[], float],
    ) -> None:
        self.services = services
        self.guard = guard
        self.administration = administration
        self.records = records
        self.sign_ins = sign_ins
        self.max_body = max_body
        """Maximum bytes of a request's body."""
        self.clock = clock
        """Seconds, monotonic."""

    def catalog(self, request: Request) -> SubjectCatalog:
        """Catalog of the request's principal. Raises KeyError for a request that the guard did not admit."""
        return self.services.catalogs.seen_by(request.scope[IDENTITY])

    async def when_ready(self, request: Request, work: Callable[[SubjectCatalog], Awaitable[Result]]) -> Result:
        """Run `work` with the catalog of the request's principal, by `SubjectCatalogs.when_ready`. Raises Problem."""
        return await self.services.catalogs.when_ready(request.scope[IDENTITY], agent_in(request.scope), work)

    async def answer(self, make: Callable[[], object]) -> Response:
        """Run `make` in the worker thread, and answer with its result as JSON. Raises Problem."""
        return answer(await self.services.work.do(lambda: encode(make())))

    async def answer_when_ready(self, request: Request, make: Callable[[SubjectCatalog], object]) -> Response:
        """Run `make` by `when_ready` in the worker thread, and answer with its result as JSON. Raises Problem."""
        return await self.when_ready(request, lambda seen: self.answer(lambda: make(seen)))

    def administers(self, identity: Identity) -> bool:
        """Whether the principal is an administrator. If authentication is off, every principal is. A caller with a key
        that a principal made for itself never is, nor is a caller with the token of a client that no setting names.
        """
        if identity.is_created_key or identity.of_anybody:
            return False
        certain_keys = (key for key in subjects_of(identity) if key not in identity.doubtful)
        return self.guard.identities.open or not self.administration.groups.isdisjoint(certain_keys)

    def makes_keys(self, identity: Identity) -> bool:
        """Whether the principal may make API keys for itself."""
        keys = self.administration.keys
        return keys is not None and keys.may_create(identity, subjects_of(identity))

    async def read(self, request: Request) -> bytes:
        """Read the body of a request. Raises Problem, also if an object of the body has a member twice."""
        body = b"".join(await self.pieces(request))
        if await self.services.work.repeats(body):
            raise Problem(INVALID_ARGUMENTS, TWICE)
        return body

    async def pieces(self, request: Request) -> list[bytes]:
        """Read the pieces of a request's body. Raises Problem if the body must not be decoded, as it has too many
        values.
        """
        pieces = await read_pieces(request, self.max_body)
        excess = await self.services.work.excess(b"".join(pieces))
        if excess is not None:
            raise Problem(INVALID_ARGUMENTS, f"the body has {excess}: send fewer")
        return pieces
