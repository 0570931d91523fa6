"""A task of a server: a tool call that goes on after its first answer (SEP-2663)."""

from __future__ import annotations

from fairlead_api.meta import ServerKey
from fairlead_gateway.core.ports import SchemaCheck


class TaskRef:
    """Where a task is, as its sealed id says."""

    __slots__ = ("check", "id", "pod", "sealed", "server", "tool")

    def __init__(self, sealed: str, server: ServerKey, tool: str, own: str, pod: bytes | None) -> None:
        self.check: SchemaCheck | None = None
        """Schemas of the tool as it is now, for the result."""
        self.sealed = sealed
        """Id that the client has."""
        self.server = server
        self.tool = tool
        """Tool that was called, as the server calls it."""
        self.id = own
        """Id at the server."""
        self.pod = pod
        """Tag of the pod that created it (`upstream.affinity`); None for any."""
