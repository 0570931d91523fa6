"""The servers document: every server that is not simply ready, with its state and why. One per installation.

A catalog exists only once a server has answered, so a server that starts, is installed or failed is in no catalog; this
document is how a gateway knows of it. A server without an entry is ready, or there is no such server.
"""

from __future__ import annotations

from typing import Final

import msgspec

from fairlead_api.documents.base import DocumentStruct, current_format
from fairlead_api.documents.catalog import Refreshed
from fairlead_api.meta import ServerKey

SERVERS: Final = "servers"

WAITING: Final = "waiting"
"""Declared; nothing has been done for it yet."""
INSTALLING: Final = "installing"
STARTING: Final = "starting"
"""Started, or about to be, and has not answered yet."""
READY: Final = "ready"
OFFLINE: Final = "offline"
"""It answered before and cannot be reached now; its last tools are still listed."""
STOPPED: Final = "stopped"
"""It runs nothing, as its owner asked (`replicas: 0`)."""
FAILED: Final = "failed"
ON_THE_WAY: Final = frozenset({WAITING, INSTALLING, STARTING})
"""States of a server that may be ready in a moment."""
OVERDUE: Final = frozenset({"Silent", "ProbeFailed", "PodWarning"})
"""Causes (`fairlead_api.v1alpha1.causes`) of a server on the way that nobody waits for: something keeps it from being
ready."""
MESSAGE_CHARS: Final = 500
"""Longest message in the document, in characters; the status of the McpServer has all of it."""
MOST_FILE_PROBLEMS: Final = 50
"""Problems of files in the document; `fairlead up` shows all of them."""


class ServerEntry(DocumentStruct, kw_only=True, frozen=True):
    """One server."""

    namespace: str
    name: str
    prefix: str | None = None
    """Prefix of its tools on merged endpoints; None where another server has it, or none is known yet."""
    state: str
    """One of the constants above; a reader takes one that it does not know for `failed`."""
    reason: str = ""
    """Reason of the condition Ready: a constant of `fairlead_api.v1alpha1.condition_types`."""
    cause: str = ""
    """Observation in one word of `fairlead_api.v1alpha1.causes`; empty where it is not known."""
    message: str = ""
    """A sentence that may quote what the server wrote to standard error: for administrators."""
    removed: bool = False
    """It failed, and `discovery.onDisconnect: Remove` wants its tools unknown while it does."""
    conflict: str = ""
    """Sentence that names the server which holds its prefix; empty where it has the prefix that it asks for."""
    refreshed: Refreshed | None = None
    """The last discovery that somebody asked for, where it brought no catalog."""

    @property
    def key(self) -> ServerKey:
        return ServerKey(self.namespace, self.name)


def worth_waiting(state: str, cause: str) -> bool:
    """Whether a request may wait for a server of that state and cause: it is on the way, and nothing is known that
    keeps it.
    """
    return state in ON_THE_WAY and cause not in OVERDUE


class PrefixOwner(DocumentStruct, kw_only=True, frozen=True):
    """Server that a prefix is reserved for, although it was deleted or another server that wants it is older."""

    prefix: str
    namespace: str
    name: str
    until: str = ""
    """RFC 3339, when the reservation for a deleted server ends; empty while the server exists."""

    @property
    def key(self) -> ServerKey:
        return ServerKey(self.namespace, self.name)


class FileProblem(DocumentStruct, kw_only=True, frozen=True):
    """Problem of a file of declarations that is not one of a single server, such as JSON that cannot be parsed."""

    file: str
    message: str
    """A sentence with file, line and column, what is wrong and what to do: for administrators."""


class Servers(DocumentStruct, kw_only=True, frozen=True, tag_field="kind", tag=SERVERS):
    """Sorted by namespace and name."""

    version: int = msgspec.field(default_factory=current_format)
    servers: tuple[ServerEntry, ...] = ()
    prefixes: tuple[PrefixOwner, ...] = ()
    """Sorted by prefix."""
    files: tuple[FileProblem, ...] = ()
    """In the order of the files; at most MOST_FILE_PROBLEMS."""
