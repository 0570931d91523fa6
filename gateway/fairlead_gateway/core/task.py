"""Reference to a server's task: a tool call that continues after its first response (SEP-2663)."""

from __future__ import annotations

from fairlead_api.meta import ServerKey
from fairlead_gateway.core.call_shape import CallShape
from fairlead_gateway.core.ports import SchemaCheck


class TaskRef:
    """A server's task, decoded from the sealed id that the client has: its server, pod and tool."""

    __slots__ = ("check", "id", "pod", "sealed_id", "server", "shape", "tool")

    def __init__(self, sealed_id: str, server: ServerKey, tool: str, task_id: str, pod: bytes | None) -> None:
        self.check: SchemaCheck | None = None
        """Schemas of the tool's current definition, to validate the result."""
        self.shape: CallShape | None = None
        """Shape of the tool for clients, to translate the result; None without one."""
        self.sealed_id = sealed_id
        """The client's id of the task, which the gateway signed."""
        self.server = server
        self.tool = tool
        """The server's own name of the called tool."""
        self.id = task_id
        """The server's id of the task."""
        self.pod = pod
        """Tag of the pod that created the task (`upstream.affinity`); None if any pod can serve it."""
