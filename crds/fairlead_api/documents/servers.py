"""The servers document: every server that is not simply ready, with its state and the reason.

There is one servers document per installation. A catalog only exists once a server has answered. A server that is being
installed or started, or that failed, may have no catalog; gateways find such a server in this document. A server
without an entry is ready or does not exist.
"""

from __future__ import annotations

from typing import Final

import msgspec

from fairlead_api.documents.base import DocumentStruct, current_format
from fairlead_api.documents.catalog import Refreshed
from fairlead_api.meta import ServerKey

SERVERS: Final = "servers"

WAITING: Final = "waiting"
"""The server is declared, and nothing has been done yet."""
INSTALLING: Final = "installing"
STARTING: Final = "starting"
"""The server is being started and has not responded yet."""
READY: Final = "ready"
OFFLINE: Final = "offline"
"""The server responded before and is unreachable now; its last tools are still listed."""
STOPPED: Final = "stopped"
"""The server has no pods, as its spec says (`replicas: 0`)."""
SIGN_IN: Final = "sign-in"
"""The server lists its tools to people only, and nobody has signed in yet; its one tool asks for that."""
FAILED: Final = "failed"
ON_THE_WAY: Final = frozenset({WAITING, INSTALLING, STARTING})
"""States of a server that may be ready soon."""
OVERDUE: Final = frozenset({"Silent", "ProbeFailed", "PodWarning"})
"""Causes (`fairlead_api.v1alpha1.causes`) of a starting server for which requests do not wait, because something keeps
it from becoming ready."""
MESSAGE_CHARS: Final = 500
"""Limit on a message in the document, in characters; the McpServer's status has the whole message."""
MOST_FILE_PROBLEMS: Final = 50
"""Limit on the problems of files in the document; `fairlead up` shows all of them."""


class ServerEntry(DocumentStruct, kw_only=True, frozen=True):
    """State of one server."""

    namespace: str
    name: str
    prefix: str | None = None
    """Prefix of its tools on merged endpoints; None if another server has the prefix, or none is assigned yet."""
    state: str
    """One of the constants above; readers treat an unknown value as `failed`."""
    reason: str = ""
    """Reason of the condition Ready: a constant of `fairlead_api.v1alpha1.condition_types`."""
    cause: str = ""
    """Observed cause, one of the words in `fairlead_api.v1alpha1.causes`; empty if unknown."""
    message: str = ""
    """A sentence for administrators, which may quote the server's standard error."""
    removed: bool = False
    """Whether the server failed with `discovery.onDisconnect: Remove`, so that its tools must be hidden."""
    conflict: str = ""
    """Sentence that names the other server that has the prefix which this server requests; empty without a conflict."""
    refreshed: Refreshed | None = None
    """The last discovery that somebody requested, if it failed; a successful one is in the server's catalog."""

    @property
    def key(self) -> ServerKey:
        return ServerKey(self.namespace, self.name)


def worth_waiting(state: str, cause: str) -> bool:
    """Whether a request may wait for a server of that state and cause: it is starting, and nothing is known to keep it
    from becoming ready.
    """
    return state in ON_THE_WAY and cause not in OVERDUE


class PrefixOwner(DocumentStruct, kw_only=True, frozen=True):
    """Server that a prefix is reserved for. The server may have been deleted, or an older server may request the
    prefix.
    """

    prefix: str
    namespace: str
    name: str
    until: str = ""
    """Time in RFC 3339 when the reservation of a deleted server ends; empty while the server exists."""

    @property
    def key(self) -> ServerKey:
        return ServerKey(self.namespace, self.name)


class FileProblem(DocumentStruct, kw_only=True, frozen=True):
    """Problem of a file of declarations as a whole, such as invalid JSON."""

    file: str
    message: str
    """A sentence for administrators with file, line and column, the fault and what to do."""


class Servers(DocumentStruct, kw_only=True, frozen=True, tag_field="kind", tag=SERVERS):
    """All servers that are not ready, sorted by namespace and name."""

    version: int = msgspec.field(default_factory=current_format)
    servers: tuple[ServerEntry, ...] = ()
    prefixes: tuple[PrefixOwner, ...] = ()
    """Reserved prefixes, sorted by prefix."""
    files: tuple[FileProblem, ...] = ()
    """Problems in the order of the files, at most MOST_FILE_PROBLEMS."""
