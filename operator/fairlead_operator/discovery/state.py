"""State of the discovery of one server, and the intervals between discoveries. Declarations only."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from fairlead_api.documents.catalog import Endpoint, Refreshed
from fairlead_api.v1alpha1.causes import Cause
from fairlead_mcp.errors import McpError
from fairlead_mcp.oauth import errors as grants
from fairlead_mcp.oauth.errors import GrantFailed
from fairlead_mcp.server_listing import PackedListing
from fairlead_operator.openapi.api_source import ApiSource
from fairlead_operator.ports import ConditionVerdict
from fairlead_operator.workqueue import ItemBackoff

STILL_SILENT: Final = (
    "the server's process runs but has not answered: if its first start still downloads something, wait; else run its "
    "command by hand, to see whether it waits for input, or serves HTTP and not stdio"
)
REPLACED_SECONDS: Final = 17.0
"""Seconds after a rollout in which the last replaced pod may still be reached: it serves on for `DRAIN_SECONDS`, and
name servers give its address for 5 s.
"""
PODS_BEING_REPLACED: Final = (
    "pods of an earlier spec or installation still run and do not answer; the pods that replace them are starting"
)
EXPLAINED_BY_LOG: Final = frozenset({Cause.START_FAILED, Cause.START_TIMEOUT, Cause.PROCESS_EXITED, Cause.TIMEOUT})
"""Failures of a stdio server that its process may have explained in its log."""
_PROVIDER_UNAVAILABLE: Final = frozenset({grants.UNREACHABLE, grants.TIMEOUT, grants.PROVIDER_ERROR})
"""Causes of failed grants that pass without a change of the configuration."""


class RefusalMeaning(Enum):
    """Meaning of a refusal (401, 403) of the operator's requests."""

    FAILURE = "failure"
    """The operator's credential is missing or wrong."""
    SIGN_IN = "sign-in"
    """A user has to sign in, because the spec lists with the first grant."""
    SIGN_IN_IF_OFFERED = "sign-in-if-offered"
    """A user has to sign in if the server offers that, by a challenge or its metadata: the spec has no credential."""


@dataclass(frozen=True)
class DiscoveryTarget:
    """Identity of what a discovery queries: server, endpoint, credential and workload. An answer counts only for an
    equal target.
    """

    uid: str
    endpoint: Endpoint
    credential_hash: str
    revision: str
    """Revision of the workload; changes when the workload is replaced or restarts."""
    token_per_call: bool = False
    """Whether each call has an access token of its own, which requires streamable HTTP."""
    refusal: RefusalMeaning = RefusalMeaning.FAILURE
    api: ApiSource | None = None
    """Source of an HTTP API's tools; None for an MCP server."""


@dataclass(frozen=True)
class DiscoveryFailure:
    """A failed discovery; `reason` is the reason of an McpError, or a Cause."""

    reason: str
    message: str
    log_line: str | None = None
    """Last line in the log of the server's process, empty if the log is empty; None before the log was read."""
    of_replaced_pod: bool = False
    """Whether the discovery reached a pod that is being replaced."""

    @classmethod
    def of(cls, error: McpError) -> DiscoveryFailure:
        """The failure that an exception describes."""
        if isinstance(error, GrantFailed) and error.cause in _PROVIDER_UNAVAILABLE:
            return cls(Cause.ISSUER_UNREACHABLE, error.problem)
        return cls(error.reason, error.problem)

    @property
    def wants_log_line(self) -> bool:
        """Whether the log of the server's process may explain the failure and was not read yet."""
        return self.log_line is None and self.reason in EXPLAINED_BY_LOG and not self.of_replaced_pod

    @property
    def may_be_of_replaced_pod(self) -> bool:
        """Whether a gate closed the connection without a word, as it does when its pod ends, and for the token of
        another installation.
        """
        return self.reason == Cause.START_FAILED and not self.of_replaced_pod

    @property
    def is_silence(self) -> bool:
        """Whether the server's process has started and has not sent anything yet."""
        return self.reason == Cause.SILENT

    @property
    def hit_process_limit(self) -> bool:
        """Whether no process could be started because calls use the server's maximum number of processes."""
        return self.reason == Cause.TOO_MANY_PROCESSES

    def verdict(self) -> ConditionVerdict:
        """The failure as verdict for the condition Verified."""
        if self.is_silence:
            return ConditionVerdict(None, Cause.SILENT, STILL_SILENT)
        if self.of_replaced_pod:
            return ConditionVerdict(None, Cause.BEING_REPLACED, PODS_BEING_REPLACED)
        try:
            cause = Cause(self.reason)
        except ValueError:
            cause = Cause.MCP_ERROR
        message = (
            f"{self.message}; the last line in the server's log: {self.log_line}" if self.log_line else self.message
        )
        return ConditionVerdict(False, cause, message)


@dataclass
class DiscoveryState:
    """State of the discovery of one server."""

    target: DiscoveryTarget
    listing: PackedListing | None = None
    """The last good answer of this target."""
    source: ApiSource | None = None
    """For an HTTP API, the source from which `listing` was made; the source in `target` may have changed since."""
    ungated_listing: PackedListing | None = None
    """The last good answer without gated tools, which only clients with certain capabilities see."""
    awaits_comparison: bool = False
    """Whether a discovery waits for its capability comparison: tools of a pinned server that are added later would be
    held back.
    """
    wants_sign_in: bool = False
    """Whether the server lists only to users, according to the last discovery and to gateways' listings."""
    only_events: bool = False
    """Whether a gateway read the last listing over HTTP+SSE, which cannot send a token per call."""
    granted_at: float = 0.0
    """Time at which `listing` was read with a user's token, in seconds since the epoch; 0: unknown, or read without
    one.
    """
    user_listing_refusal: str = ""
    """Why the last listing that a gateway read with a user's token is not used; empty if it is used."""
    lists_read_at: float = 0.0
    """When a gateway last read the lists with a user's token, as `Catalog.lists_read_at`."""
    refused: str = ""
    """Text of the last refusal that was interpreted as a request to sign in, if it may have another reason."""
    failure: DiscoveryFailure | None = None
    """The failure of the last discovery; None if it succeeded, or if a user has to sign in."""
    failures: int = 0
    """Number of consecutive failed discoveries."""
    silent_since: float | None = None
    """When the first of the last consecutive silent discoveries began, on the monotonic clock; None if the last
    discovery got an answer or another failure.
    """
    replaced_at: float = float("-inf")
    """When pods of an earlier spec were last seen beside those that take their place, on the monotonic clock."""
    due: float = 0.0
    """When the next discovery is due, on the monotonic clock."""
    began_at: float = float("-inf")
    """When the last discovery began, on the monotonic clock."""
    stale: bool = False
    """Whether the server announced a change after the last discovery began."""
    announced: dict[str, str] = field(default_factory=dict)
    """Each list that the server announced as changed, with the time of the last announcement (RFC 3339)."""
    is_announced: bool = False
    """Whether an announcement is the reason for the next discovery."""
    credit: float = 0.0
    """Token bucket: number of announcements that are answered by a discovery at once; grows by one per
    `DiscoveryOptions.floor`.
    """
    credit_computed_at: float = float("-inf")
    """When `credit` was last computed, on the monotonic clock."""
    up_since: float = float("-inf")
    """When the server first answered after its last failure, on the monotonic clock."""
    losses: int = 0
    """Number of losses in a row between which the server was up for less than `DiscoveryOptions.stable` seconds."""
    not_before: float = float("-inf")
    """Time before which a failed server is not queried, on the monotonic clock."""
    refresh_requested: bool = False
    """Whether a user requested a discovery that has not begun yet."""
    requested_at: str = ""
    """Start of the running discovery if a user requested it (RFC 3339), else empty."""
    refreshed: Refreshed | None = None
    """Result of the last discovery that a user requested."""
    task: asyncio.Task[None] | None = field(default=None, repr=False)
    """The running discovery."""

    @property
    def has_lost_server(self) -> bool:
        """Whether the last discovery shows that the server does not answer calls.

        The discovery of an HTTP API only reads the API's document, which may be at another host. A failure is therefore
        no loss of the API, unless the spec's source has changed.
        """
        failure = self.failure
        is_lost = failure is not None and not (
            failure.is_silence or failure.hit_process_limit or failure.of_replaced_pod
        )
        return is_lost and (self.target.api is None or self.target.api != self.source)


@dataclass(frozen=True)
class DiscoveryOptions:
    """Timing of discoveries, in seconds.

    `timeout` bounds one discovery as a whole; `floor` is the shortest interval that a server may request. After an
    announcement, the next discovery begins `prompt` seconds after the previous one, up to `burst` times in a row; a
    server that announces more often is queried once per `floor`.
    """

    timeout: float = 60.0
    floor: float = 10.0
    prompt: float = 0.25
    burst: int = 8
    jitter: float = 0.1
    """Width of the random variation of each interval, as a share of the interval."""
    retry: ItemBackoff = field(default_factory=lambda: ItemBackoff(first=1.0, limit=60.0))
    """Pause after each failed discovery."""
    stable: float = 60.0
    """Uptime after which a server's next loss counts as its first."""
    hold: ItemBackoff = field(default_factory=lambda: ItemBackoff(first=2.0, limit=60.0))
    """Pause after each loss beyond the first `spare` losses in a row."""
    spare: int = 2
    """Number of losses in a row that are followed by no pause."""
