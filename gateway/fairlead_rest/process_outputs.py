"""Output of servers' child processes and package installations, by server."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from fairlead_api.meta import ServerKey
from fairlead_mcp.host import ChildHost
from fairlead_mcp.printed import PrintedLines


class ProcessOutputs:
    """Output of servers' processes, by server. `children` are the child processes of this gateway; None if it runs no
    servers. `declared_servers` returns the servers that may have a process. `installation` returns the output of the
    installation of a server's package.
    """

    def __init__(
        self,
        children: ChildHost | None = None,
        declared_servers: Callable[[], Iterable[ServerKey]] | None = None,
        installation: Callable[[ServerKey], PrintedLines | None] | None = None,
    ) -> None:
        self._children = children
        self._declared_servers = declared_servers or tuple
        self._installation = installation

    @property
    def runs_processes(self) -> bool:
        """Whether this gateway runs processes of servers."""
        return self._children is not None

    def servers(self) -> set[ServerKey]:
        """Servers that have output, or may have a process."""
        children = () if self._children is None else self._children.children()
        return {*self._declared_servers(), *(key for key in children if isinstance(key, ServerKey))}

    def of(self, server: ServerKey) -> PrintedLines | None:
        """Output of a server's processes, or before the first start of its installation; None if there is neither."""
        child = None if self._children is None else self._children.find(server)
        if child is not None:
            return child.program.printed
        return None if self._installation is None else self._installation(server)
