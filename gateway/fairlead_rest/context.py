"""The gateway as resources of the REST API use it. One per gateway."""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Awaitable, Callable, Collection, Mapping
from pathlib import Path
from typing import Final, Protocol, TypeVar, cast

from starlette.requests import Request

from fairlead_api.documents.servers import ServerEntry
from fairlead_api.meta import ServerKey
from fairlead_api.policies.subjects import Key
from fairlead_formats import registry
from fairlead_formats.tokens.counting import LazyCounter
from fairlead_formats.tokens.models import ContextWindows, LiveModels
from fairlead_formats.tokens.prices import ModelPrice
from fairlead_formats.tokens.routes import ModelRoute
from fairlead_formats.tokens.sizes import Sizes
from fairlead_formats.tool_format import Format
from fairlead_formats.tools.cache import Conversions
from fairlead_gateway.aggregates.tally import Tally
from fairlead_gateway.calls.path.direct import Caller
from fairlead_gateway.calls.path.startup import StartupWait, refusal_of
from fairlead_gateway.calls.results.context_recorder import ContextRecorder
from fairlead_gateway.catalog.pins import NoPins, PinReader
from fairlead_gateway.conversation.choosers import Choosers
from fairlead_gateway.core.exchange import agent_in
from fairlead_gateway.core.identity import IDENTITY, Identity
from fairlead_gateway.core.search_counts import SearchCounts
from fairlead_gateway.core.share_counts import ShareCounts
from fairlead_gateway.events import EventLog
from fairlead_gateway.identity.made_keys import MadeKeys
from fairlead_gateway.identity.names import Issuers
from fairlead_gateway.policy.rules import subjects_of
from fairlead_gateway.policy.selection import Selection
from fairlead_gateway.policy.tier_moves import TierMoves
from fairlead_gateway.policy.unready import on_the_way
from fairlead_gateway.recent.ring import RecentCalls
from fairlead_mcp.host import ChildHost
from fairlead_mcp.read_bounds import excess, is_long
from fairlead_rest.bodies import read_pieces
from fairlead_rest.call_counts import CallCounts
from fairlead_rest.catalog_changes import CatalogChanges
from fairlead_rest.compressor import compressor
from fairlead_rest.guard import RequestGuard
from fairlead_rest.jobs import COUNT, MEASURE, REPEATS, TWICE, Measured, measure, repeats
from fairlead_rest.kept_by_view import KeptByView
from fairlead_rest.pool import ProcessPool
from fairlead_rest.problems import INVALID_ARGUMENTS, RATE_LIMITED, UNKNOWN_FORMAT, Problem, unready_problem
from fairlead_rest.process import NotDone, Overloaded
from fairlead_rest.process_outputs import ProcessOutputs
from fairlead_rest.session_context import SessionContext
from fairlead_rest.subject_catalog import SubjectCatalog
from fairlead_rest.throttle import Throttle
from fairlead_rest.tool_search import ToolSearch
from fairlead_rest.tool_vectors import embedder
from fairlead_rest.visible_tools import MAX_KEPT_VIEWS, VisibleTools
from fairlead_rest.worker import MissingInput, WorkerThread, in_turn
from fairlead_search.compression import CompressorConfig
from fairlead_search.embedding import EmbeddingConfig, missing_modules

UNISSUED: Final = Issuers()
MAX_BODY: Final = 4 << 20
SMALL: Final = 16 << 10
"""Bytes of a body that is looked through in the loop, in less than a millisecond as a rule."""
MAX_LACKING: Final = 3
"""Times that a piece of work may lack something: sizes, then conversions, and once for a list that changed."""

Result = TypeVar("Result")
log = logging.getLogger(__name__)


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


class RestContext:
    """Gives resources what is served, how a call is made and where heavy work is done."""

    def __init__(
        self,
        selection: Callable[[], Selection],
        caller: Caller,
        guard: RequestGuard,
        news: EventLog,
        requests: Requests,
        *,
        max_body: int = MAX_BODY,
        routes: Callable[[], Mapping[str, ModelRoute]],
        windows: Callable[[], ContextWindows],
        prices: Callable[[], Mapping[str, ModelPrice]],
        live_models: Callable[[], LiveModels | None],
        processes: int = 0,
        throttle: Throttle,
        indexing: Throttle,
        choosers: Choosers | None = None,
        tallies: Tallies | None = None,
        patience: StartupWait | None = None,
        children: ChildHost | None = None,
        admin_groups: Collection[Key] = (),
        issuers: Issuers = UNISSUED,
        outputs: ProcessOutputs | None = None,
        keys: MadeKeys | None = None,
        pins: PinReader | None = None,
        moves: TierMoves | None = None,
        approvals: bool = False,
        recorder: ContextRecorder,
        embedding: EmbeddingConfig | None = None,
        compression: CompressorConfig | None = None,
        vectors: Path | None = None,
        counts: SearchCounts,
        shares: ShareCounts,
        calls: CallCounts,
        recent: RecentCalls | None = None,
    ) -> None:
        self._selection = selection
        self._shelves = KeptByView(VisibleTools, MAX_KEPT_VIEWS)
        self._admin_groups = frozenset(admin_groups)
        self.issuers = issuers
        """Who may give the names of agents and groups."""
        self.outputs = outputs or ProcessOutputs()
        """Printed lines of servers' processes."""
        self.moves = TierMoves() if moves is None else moves
        """Moves of tools between tiers."""
        self.keys = keys
        """Keys that people make for themselves; `None` where nobody may."""
        self.pins = NoPins() if pins is None else pins
        """Definitions that are held back."""
        self.approvals = approvals
        """Whether administrators may approve definitions here."""
        self._sizes: Sizes | None = None
        self.caller = caller
        self.guard = guard
        self.news = news
        self.requests = requests
        self.max_body = max_body
        """Bytes of a request's body."""
        self.patience = StartupWait(selection) if patience is None else patience
        """Wait for servers that start."""
        self.children = children
        """Processes of servers, where this process runs them."""
        self.worker = WorkerThread(shares)
        self.throttle = throttle
        """Throttle of conversions of callers' definitions; those of served tools are made once, without it."""
        self.converting = ProcessPool(processes, bulk=True, counts=shares) if processes else None
        self.counting = ProcessPool(processes, counts=shares) if processes else None
        """Workers of their own, so that a plan does not wait for conversions."""
        makes = None if embedding is None else embedder(embedding, self.worker, indexing, process=processes > 0)
        self.search = ToolSearch(self.worker, process=processes > 0, embedder=makes, folder=vectors, shares=shares)
        self.counts = counts
        """Counts of searches."""
        self.shares = shares
        """Counts of what is refused to agents that have their share."""
        self.calls = calls
        """Counts of tool calls."""
        self.recent = recent
        """Last calls, where these are kept."""
        self._changes = CatalogChanges(news, lambda: self._selection().snapshot, self.worker, counts)
        self.kept = SessionContext(
            recorder,
            self.worker,
            process=processes > 0,
            encodes=embedding is not None and not missing_modules(),
            compressor=compressor(compression, counts, self.worker),
        )
        """Kept results of tools."""
        self.alone = False
        """The thread does everything itself: there are no processes, or they failed. Read and set in the worker."""
        self.conversions = Conversions()
        """Converted definitions, for the worker only."""
        self.choosers = choosers or Choosers()
        """Choosers of the tier of an answer, for the worker only."""
        self.tallies = tallies
        """Histograms of calls, where the installation keeps them."""
        self._configured_windows = windows
        self._windows = (windows(), windows())
        self._live_models = live_models
        self._live: LiveModels | None = None
        self._routes = routes
        self._prices = prices

    def seen(self, request: Request) -> SubjectCatalog:
        """The catalog that the request's principal may see. Raises KeyError for a request that no guard admitted."""
        return self.seen_by(request.scope[IDENTITY])

    def seen_by(self, identity: Identity) -> SubjectCatalog:
        """The catalog that an identity may see."""
        return SubjectCatalog(self._selection(), identity)

    def administers(self, identity: Identity) -> bool:
        """Whether the principal may see what others may do: an administrator, or anyone without authentication."""
        if identity.made:
            return False
        known = (key for key in subjects_of(identity) if key not in identity.doubtful)
        return self.guard.identities.open or not self._admin_groups.isdisjoint(known)

    def makes_keys(self, identity: Identity) -> bool:
        """Whether the principal may make keys for itself."""
        return self.keys is not None and self.keys.may(identity, subjects_of(identity))

    @property
    def routes(self) -> Mapping[str, ModelRoute]:
        """Routes of models, by name."""
        return self._routes()

    @property
    def prices(self) -> Mapping[str, ModelPrice]:
        """Prices that the installation states, by model."""
        return self._prices()

    @property
    def live_models(self) -> LiveModels | None:
        """Windows as the model server said last; None without one in the configuration."""
        return self._live_models()

    @property
    def windows(self) -> ContextWindows:
        """Context windows of models. The first look at one reads a small file."""
        configured, live = self._configured_windows(), self.live_models
        if configured is not self._windows[0] or live is not self._live:
            known = configured if live is None else configured.with_live(live.models)
            self._windows = (configured, known)
            self._live = live
        return self._windows[1]

    def shelf(self, seen: SubjectCatalog, tier: str | None) -> VisibleTools:
        """The visible tools of a tier. In the worker only. Raises Problem."""
        return self._shelves.of(seen, tier)

    def sizes(self) -> Sizes:
        """Sizes of tools in tokens. In the worker only: the first use loads the vocabulary."""
        if self._sizes is None:
            self._sizes = Sizes(LazyCounter())
        return self._sizes

    async def patiently(self, request: Request, work: Callable[[SubjectCatalog], Awaitable[Result]]) -> Result:
        """Do `work` with a subject's catalog. Where it finds no tool or server of a name that a starting one may have,
        wait for that, and do it again. Raises Problem: STARTING after the wait, CONNECTION_LOST for one that failed.
        """
        end = time.monotonic() + self.patience.seconds
        while True:
            seen = self.seen(request)
            try:
                return await work(seen)
            except Problem as problem:
                entry = seen.unready(problem)
                if entry is None:
                    raise
                if not self.starts(entry):
                    raise unready_problem(refusal_of(entry, starts=False)) from problem
                if not await self.patience.settled(entry.key, end - time.monotonic(), agent_in(request.scope)):
                    raise unready_problem(refusal_of(entry, starts=True)) from problem

    def starts(self, entry: ServerEntry | None) -> bool:
        """Whether a server may have a catalog in a moment, and has none; False for no server."""
        return entry is not None and on_the_way(self._selection(), entry.key)

    async def done(self, work: Callable[[], Result]) -> Result:
        """Do `work` in the thread; what it lacks is made in processes, and by itself where those fail."""
        for _ in range(MAX_LACKING if self.converting is not None else 0):
            try:
                return await self.worker.do(work)
            except MissingInput as missing:
                if not await self._made(missing):
                    break
        return await self.worker.do(lambda: self._by_itself(work))

    async def measured(self, body: list[bytes]) -> Measured:
        """The tokens of a request's conversation, and the request without it."""
        if self.counting is not None:
            try:
                return cast("Measured", await self.counting.do(MEASURE, body))
            except NotDone as error:
                _refuse_or_log(error)
        return await self.worker.do(lambda: measure(b"".join(body)))

    async def read(self, request: Request) -> bytes:
        """The body of a request, in which no member comes twice. Raises Problem."""
        body = b"".join(await self.pieces(request))
        if len(body) <= SMALL:
            twice = repeats(body)
        else:
            twice = await self._repeats(body)
        if twice:
            raise Problem(INVALID_ARGUMENTS, TWICE)
        return body

    async def pieces(self, request: Request) -> list[bytes]:
        """The body of a request as it came, which may be decoded. Raises Problem."""
        pieces = await read_pieces(request, self.max_body)
        refused = await self.excess(b"".join(pieces))
        if refused is not None:
            raise Problem(INVALID_ARGUMENTS, f"the body holds {refused}: send fewer")
        return pieces

    async def excess(self, document: bytes) -> str | None:
        """Reason not to decode a document, as `read_bounds.excess`; None where it may be decoded. Raises Problem."""
        return await self.reading(lambda: excess(document), long=True) if is_long(document) else None

    async def reading(self, work: Callable[[], Result], *, long: bool) -> Result:
        """Read or write a document: here at once, or in the thread, in its turn, where it is `long` (`is_long`)."""
        if not long:
            return work()
        with in_turn():
            return await self.worker.do(work)

    async def _repeats(self, body: bytes) -> bool:
        if self.counting is not None:
            try:
                return bool(await self.counting.do(REPEATS, [body]))
            except NotDone as error:
                _refuse_or_log(error)
        return await self.worker.do(lambda: repeats(body))

    async def _made(self, missing: MissingInput) -> bool:
        pool = self.counting if missing.job == COUNT else self.converting
        assert pool is not None
        answers = []
        try:
            for piece in missing.pieces:
                answers.append(await pool.do(missing.job, piece))
        except NotDone as error:
            _refuse_or_log(error)
            return False
        await self.worker.do(lambda: missing.take(answers))
        return True

    def _by_itself(self, work: Callable[[], Result]) -> Result:
        self.alone = True
        try:
            return work()
        finally:
            self.alone = False

    def end_streams(self) -> None:
        """End the streams of events and of calls: no more is to come."""
        self.news.close()
        if self.recent is not None:
            self.recent.close()

    async def aclose(self) -> None:
        """End what is being done, and the processes."""
        await self._changes.aclose()
        self.worker.close()
        await self.search.aclose()
        await self.kept.aclose()
        for pool in (self.converting, self.counting):
            if pool is not None:
                await pool.aclose()


def _refuse_or_log(error: NotDone) -> None:
    if isinstance(error, Overloaded):
        raise Problem(RATE_LIMITED, str(error), retry_after_ms=1000) from error
    log.warning("A worker process failed, and the work is done in the gateway itself: %s", error)


def format_called(name: str) -> Format:
    """The format of that name or alias, in any case. Raises Problem, which names the known ones."""
    try:
        return registry.find(name)
    except registry.UnknownFormat as error:
        raise Problem(UNKNOWN_FORMAT, str(error), known=error.known) from error
