"""Stores the approvals of administrators of gateways until the next decision about their server. No I/O."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from fairlead_api.meta import ServerKey
from fairlead_api.reports import AskedApproval

MAX_SERVERS: Final = 1_000
"""Maximum number of servers with pending approvals; beyond it, those of the server without a new approval for the
longest time are dropped.
"""
MAX_PER_SERVER: Final = 100
"""Maximum number of pending approvals of one server. If there are more, the oldest is dropped and has no effect."""
MAX_CHARACTERS: Final = 256
"""Maximum number of characters of a hash and of an administrator's name."""


class PendingApprovals:
    """Pending approvals: the approved hashes of each server, each with the name of the administrator."""

    def __init__(self) -> None:
        self._by_server: dict[ServerKey, dict[str, str]] = {}

    def add(self, approvals: Iterable[AskedApproval]) -> set[ServerKey]:
        """Store approvals; return their servers."""
        servers = set()
        for approval in approvals:
            key = ServerKey(approval.namespace, approval.server)
            approvers_by_hash = self._by_server.pop(key, {})
            approvers_by_hash[approval.hash[:MAX_CHARACTERS]] = approval.by[:MAX_CHARACTERS]
            while len(approvers_by_hash) > MAX_PER_SERVER:
                approvers_by_hash.pop(next(iter(approvers_by_hash)))
            self._by_server[key] = approvers_by_hash
            servers.add(key)
        while len(self._by_server) > MAX_SERVERS:
            self._by_server.pop(next(iter(self._by_server)))
        return servers

    def of_server(self, key: ServerKey) -> Mapping[str, str]:
        """Approved hashes of one server, each with the name of the administrator."""
        return self._by_server.get(key, {})

    def forget(self, key: ServerKey) -> None:
        """Drop a server's approvals after a decision, so that an approval without an effect cannot apply to a later
        change.
        """
        self._by_server.pop(key, None)
