"""Printed lines of servers' child processes and installers, by server."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from fairlead_api.meta import ServerKey
from fairlead_mcp.host import ChildHost
from fairlead_mcp.printed import PrintedLines


class ProcessOutputs:
    """Output of the processes of `children`; with None there are no processes. `declared` names servers that have, or
    could have, one; `installation` has what was printed while the package of a server was installed.
    """

    def __init__(
        self,
        children: ChildHost | None = None,
        declared: Callable[[], Iterable[ServerKey]] | None = None,
        installation: Callable[[ServerKey], PrintedLines | None] | None = None,
    ) -> None:
        self._children = children
        self._declared = declared or tuple
        self._installation = installation

    @property
    def runs_processes(self) -> bool:
        """Whether this gateway runs processes at all."""
        return self._children is not None

    def servers(self) -> set[ServerKey]:
        """Those that have output, and those that are declared."""
        held = () if self._children is None else self._children.children()
        return {*self._declared(), *(key for key in held if isinstance(key, ServerKey))}

    def of(self, server: ServerKey) -> PrintedLines | None:
        """Lines that its processes printed, else those of its installation; None for one without a process."""
        child = None if self._children is None else self._children.find(server)
        if child is not None:
            return child.program.printed
        return None if self._installation is None else self._installation(server)
