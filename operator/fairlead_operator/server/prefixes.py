"""Assigns prefixes to servers. Pure but for the table that it keeps.

A prefix is the manifest's own, else a function of namespace, name and one setting of the installation, never of other
servers. Of several servers with one prefix the oldest holds it: a newcomer breaks nothing that works.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Literal, NamedTuple

from fairlead_api.meta import ServerKey
from fairlead_api.v1alpha1.causes import Cause
from fairlead_api.v1alpha1.mcpserver import McpServer
from fairlead_operator.ports import ConditionVerdict

PrefixStyle = Literal["name", "namespace-name"]


class Claim(NamedTuple):
    """One server's claim; the smallest of those on a prefix wins: older first, then by namespace and name."""

    created: datetime
    key: ServerKey
    prefix: str


def wanted_prefix(server: McpServer, style: PrefixStyle) -> str:
    """The prefix that a server asks for, by its manifest or by default."""
    if server.spec.prefix is not None:
        return server.spec.prefix
    namespace, name = server.key
    return name if style == "name" else f"{namespace}-{name}"


class Prefixes:
    """The claims of all servers."""

    def __init__(self, style: PrefixStyle) -> None:
        self._style: PrefixStyle = style
        self._claims: dict[ServerKey, Claim] = {}
        self._by_prefix: dict[str, set[ServerKey]] = {}

    def claim(self, server: McpServer) -> set[ServerKey]:
        """Enter or renew a server's claim. Returns the other servers for which the holder has changed."""
        created = server.metadata.creation_timestamp or datetime.min.replace(tzinfo=UTC)
        claim = Claim(created, server.key, wanted_prefix(server, self._style))
        before = self._claims.get(server.key)
        if before == claim:
            return set()
        touched = self.release(server.key)
        contenders = self._by_prefix.setdefault(claim.prefix, set())
        contenders.add(server.key)
        self._claims[server.key] = claim
        if self.holder(claim.prefix) == server.key:
            touched |= contenders
        return touched - {server.key}

    def release(self, key: ServerKey) -> set[ServerKey]:
        """Drop a claim. Returns the servers that waited for it."""
        claim = self._claims.pop(key, None)
        if claim is None:
            return set()
        contenders = self._by_prefix[claim.prefix]
        contenders.discard(key)
        if not contenders:
            del self._by_prefix[claim.prefix]
        return set(contenders)

    def holder(self, prefix: str) -> ServerKey | None:
        """The server that holds a prefix."""
        claims = [self._claims[key] for key in self._by_prefix.get(prefix, ())]
        return min(claims).key if claims else None

    def granted(self, server: McpServer) -> tuple[ConditionVerdict | None, str | None]:
        """The condition Conflicted of a server, and its prefix. Without one of its own it is served at its own
        endpoint, and told so.
        """
        prefix = wanted_prefix(server, self._style)
        holder = self.holder(prefix)
        if holder is None or holder == server.key:
            return None, prefix
        message = f"prefix {prefix} is held by the older server {holder}; this one is served at its own endpoint only"
        return ConditionVerdict(True, Cause.PREFIX_TAKEN, message), None
