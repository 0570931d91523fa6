"""Reports from gateways to the operator that polls them: the second contract between the two, beside the documents.

The leading operator polls `GET /samples?since=CURSOR&wait=SECONDS` on the operations port of every gateway replica and
gets a `Report` as JSON. A gateway keeps what nobody fetched, within bounds; no call needs anything of this.
"""

from __future__ import annotations

from typing import Final

import msgspec

from fairlead_api.documents.catalog import Catalog

PATH: Final = "/samples"
LONGEST_WAIT_S: Final = 30.0
"""A gateway answers after that long at the latest, with nothing new."""

OK: Final = "ok"
BAD: Final = "bad"
"""Transport error, time-out or internal error of the server."""
UNREADABLE: Final = "unreadable"
"""Answered with what is not MCP: counts against health, and says nothing of speed."""
NEUTRAL: Final = "neutral"
"""Refused arguments, a result that says `isError`, given up by the client: says nothing about the tool."""
RUNNING: Final = "running"
"""Not ended yet."""


class Attempt(msgspec.Struct, frozen=True, array_like=True):
    """One upstream attempt of a `tools/call`: from its first byte out to its last message in."""

    number: int
    """Unique in the life of a gateway process; the same for a running attempt and its end."""
    at: float
    """Seconds since the epoch: when it ended, or when the report was made."""
    duration_ms: float
    outcome: str


class ToolAttempts(msgspec.Struct, frozen=True, rename="camel"):
    """Attempts of one tool, in the order of their ends, those still running last."""

    namespace: str
    server: str
    tool: str
    """As the server calls it."""
    attempts: tuple[Attempt, ...]


class Doubt(msgspec.Struct, frozen=True, rename="camel"):
    """A server that could not be reached by a call."""

    namespace: str
    server: str
    reason: str


class AskedApproval(msgspec.Struct, frozen=True, rename="camel"):
    """An administrator of the gateway approves definitions of a server with `pin: true` that are held back."""

    namespace: str
    server: str
    hash: str
    """Hash over everything that was held back, or of one definition, as the administrator was shown it."""
    by: str
    """Who it was; empty where nobody is asked who they are."""


class Report(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Everything since a cursor."""

    replica: str
    """Changes when the gateway's process does; a cursor of another replica means nothing to it."""
    cursor: str
    """To be asked from next time."""
    environment: str
    tools: tuple[ToolAttempts, ...] = ()
    refresh: tuple[tuple[str, str], ...] = ()
    """Namespace and name of servers whose lists somebody wants to have asked for now."""
    doubts: tuple[Doubt, ...] = ()
    approvals: tuple[AskedApproval, ...] = ()
    """Heeded where the installation lets administrators of gateways approve."""
    own: tuple[Catalog, ...] = ()
    """Catalogs of the gateway's own servers (custom tools), which no operator publishes; told where the cursor is none
    of this replica's.
    """
