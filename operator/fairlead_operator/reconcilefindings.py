"""Findings of one reconcile of an McpServer, from which its catalog and its status are made. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from fairlead_api.v1alpha1.mcpserver import McpServer
from fairlead_operator.discovery.state import DiscoveryState
from fairlead_operator.ports import ConditionVerdict, ResolvedCredential, Workload


@dataclass(frozen=True)
class ReconcileFindings:
    """Verdicts on a server's spec, its references and its workload, and the state of its discovery."""

    server: McpServer
    accepted: ConditionVerdict
    prefix: str | None
    """Prefix of the server's tools; None if another server holds the prefix."""
    credential: ResolvedCredential
    workload: Workload
    discovery: DiscoveryState | None
    """None while the server cannot be discovered and was not discovered before."""

    @property
    def online(self) -> bool:
        """Whether the server is expected to answer calls.

        A stdio process that has not answered the operator yet does not count against the server: gateways start
        processes of their own.
        """
        return (
            self.workload.verdict.ok is True
            and self.workload.down is None
            and self.credential.verdict.ok is not False
            and (self.discovery is None or not self.discovery.has_lost_server)
        )
