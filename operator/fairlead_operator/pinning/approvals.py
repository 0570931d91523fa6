"""Approvals that administrators gave at gateways, kept until the next decision about their server. No I/O."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from fairlead_api.meta import ServerKey
from fairlead_api.reports import AskedApproval

MOST_SERVERS: Final = 1_000
MOST_EACH: Final = 100
"""Approvals of one server that wait; the oldest go first, and those who gave them see that they did nothing."""
MOST_CHARACTERS: Final = 256
"""Bound on a hash and on a name."""


class AskedApprovals:
    """Hashes by server, each with who approved it."""

    def __init__(self) -> None:
        self._by_server: dict[ServerKey, dict[str, str]] = {}

    def take(self, approvals: Iterable[AskedApproval]) -> set[ServerKey]:
        """Keep them; the servers that they are for."""
        servers = set()
        for approval in approvals:
            key = ServerKey(approval.namespace, approval.server)
            given = self._by_server.pop(key, {})
            given[approval.hash[:MOST_CHARACTERS]] = approval.by[:MOST_CHARACTERS]
            while len(given) > MOST_EACH:
                given.pop(next(iter(given)))
            self._by_server[key] = given
            servers.add(key)
        while len(self._by_server) > MOST_SERVERS:
            self._by_server.pop(next(iter(self._by_server)))
        return servers

    def of(self, key: ServerKey) -> Mapping[str, str]:
        """Hash to who approved it, for one server."""
        return self._by_server.get(key, {})

    def forget(self, key: ServerKey) -> None:
        """A decision was made with them: what they did not fit then, they shall not let through later."""
        self._by_server.pop(key, None)
