"""Reports that gateways send to the operator: the second contract between these programs, beside the documents.

The leading operator polls `GET /samples?since=CURSOR&wait=SECONDS` on the operations port of every gateway replica and
receives a `Report` as JSON. A gateway stores reports until they are fetched, up to a limit. Tool calls do not depend on
reports.
"""

from __future__ import annotations

from typing import Final

import msgspec

from fairlead_api.documents.catalog import Catalog

PATH: Final = "/samples"
LONGEST_WAIT_S: Final = 30.0
"""Seconds after which a gateway responds even if it has nothing to report."""

OK: Final = "ok"
BAD: Final = "bad"
"""The server failed: transport error, timeout or internal error."""
UNREADABLE: Final = "unreadable"
"""The server's answer was not MCP. The attempt affects the tool's health, but not its measured latency."""
NEUTRAL: Final = "neutral"
"""The outcome says nothing about the tool: invalid arguments, a result with `isError`, a cancellation by the client."""
RUNNING: Final = "running"
"""The attempt has not ended yet."""

MOST_FAILED_GRANTS: Final = 200
"""Maximum number of servers in `Report.failed_grants`."""
SENTENCE_CHARS: Final = 500
"""Maximum number of characters of `FailedGrant.sentence` and `GrantedListing.refused`."""


class Attempt(msgspec.Struct, frozen=True, array_like=True):
    """One attempt to call a tool, from its first byte sent to its last message received."""

    number: int
    """Number of the attempt, unique within a gateway process; it stays the same when a running attempt ends."""
    at: float
    """End of the attempt, or time of the report while it runs, in seconds since the epoch."""
    duration_ms: float
    outcome: str
    """`OK`, `BAD`, `UNREADABLE`, `NEUTRAL` or `RUNNING`."""


class ToolAttempts(msgspec.Struct, frozen=True, rename="camel"):
    """Attempts of one tool, ordered by their end; running attempts are last."""

    namespace: str
    server: str
    tool: str
    """Name that the server lists, without prefix."""
    attempts: tuple[Attempt, ...]


class Doubt(msgspec.Struct, frozen=True, rename="camel"):
    """A server that a call could not reach, which the operator should therefore check."""

    namespace: str
    server: str
    reason: str


class FailedGrant(msgspec.Struct, frozen=True, rename="camel"):
    """A server whose calls get no access token, for a cause that is the same for all callers."""

    namespace: str
    server: str
    cause: str
    """One of `fairlead_mcp.oauth.errors.GRANT_CAUSES`."""
    sentence: str
    """Failure and remedy, without anything about a person; at most `SENTENCE_CHARS` characters."""
    since: float
    """Time of the first failure, in seconds since the epoch."""


class AskedApproval(msgspec.Struct, frozen=True, rename="camel"):
    """Approval of held-back definitions by an administrator of the gateway."""

    namespace: str
    server: str
    hash: str
    """Hash over all held-back definitions, or hash of one definition, as shown to the administrator."""
    by: str
    """User who approved; empty without authentication."""


class GrantedListing(msgspec.Struct, frozen=True, rename="camel"):
    """Lists that a gateway read from a server with the first grant that a person made for it, because
    `OAuthSettings.first_grant` of the server's catalog asks for that.

    The gateway lists after a person's consent, and afterwards with a valid token of that person: when the last listing
    of any gateway (`Catalog.lists_read_at`) is older than `OAuthSettings.listing_interval_s`, and when a refresh of the
    server is requested. The operator publishes the newest listing like one of its own, and keeps it while no newer one
    arrives. It ignores a listing of another `uid` or `url`, which is of an earlier spec.
    """

    namespace: str
    server: str
    uid: str
    """`Catalog.uid`."""
    url: str
    """URL of `Catalog.endpoint`."""
    at: float
    """When it was listed, in seconds since the epoch."""
    listing: msgspec.Raw
    """JSON of `fairlead_mcp.server_listing.RawListing`; `null` if `refused`."""
    refused: str = ""
    """Why the lists are not reported, without anything about a person; at most `SENTENCE_CHARS` characters."""


class Report(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """All data that a gateway reports since a cursor."""

    replica: str
    """Identifier of the gateway process; a cursor of another process is not valid."""
    cursor: str
    """Cursor for the next request."""
    environment: str
    tools: tuple[ToolAttempts, ...] = ()
    refresh: tuple[tuple[str, str], ...] = ()
    """Namespace and name of servers whose discovery was requested."""
    doubts: tuple[Doubt, ...] = ()
    approvals: tuple[AskedApproval, ...] = ()
    """Approvals. They count if the installation allows administrators of gateways to approve."""
    failed_grants: tuple[FailedGrant, ...] | None = None
    """All servers whose grants fail for everybody at present, at most `MOST_FAILED_GRANTS`. A server that is no longer
    among them works again, or has had no failed call for a while. None: unchanged since the cursor.
    """
    own: tuple[Catalog, ...] = ()
    """Catalogs of the gateway's own servers (custom tools), which no operator publishes. Sent if the request's cursor
    is not from this replica.
    """
    listings: tuple[GrantedListing, ...] = ()
    """Lists that were read with a person's token since the cursor; all if the request's cursor is not from this
    replica.
    """
