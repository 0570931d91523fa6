"""Adds servers that the command line names to the servers of files."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from fairlead_api.load import ManifestProblem
from fairlead_operator.local.inventory import DeclaredServer
from fairlead_operator.local.localoperator import Scanner
from fairlead_operator.local.sources import Scan


class WithServers:
    """Scanner that adds servers to the servers of another scanner, whose server of the same name takes precedence."""

    def __init__(self, scanner: Scanner, extra_servers: Iterable[DeclaredServer]) -> None:
        self._scanner = scanner
        self._extra_servers = tuple(extra_servers)

    def scan(self) -> Scan | None:
        """Implements Scanner."""
        scan = self._scanner.scan()
        if scan is None:
            return None
        servers, problems = dict(scan.contents.servers), list(scan.problems)
        for server in self._extra_servers:
            existing = servers.setdefault(server.key, server)
            if existing is not server:
                message = (
                    f"this server is left out, because {existing.origin} declares a server with the name "
                    f"{server.key.name}; a manifest gives it another name (metadata.name)"
                )
                problems.append(ManifestProblem(server.origin, 0, "", message))
        return replace(scan, contents=replace(scan.contents, servers=servers), problems=tuple(problems))
