"""Findings of one reconcile of an McpServer, from which its catalog and its status are made. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from fairlead_api.v1alpha1.mcpserver import McpServer
from fairlead_operator.discovery.state import DiscoveryState
from fairlead_operator.ports import ConditionVerdict, ResolvedCredential, Workload


@dataclass(frozen=True)
class ReconcileFindings:
    """Verdicts on the spec, its references and its workload, and the state of its discovery."""

    server: McpServer
    accepted: ConditionVerdict
    prefix: str | None
    credential: ResolvedCredential
    workload: Workload
    round: DiscoveryState | None

    @property
    def online(self) -> bool:
        """Nothing that is known speaks against its answering a call: a process that the operator started for itself
        and that says nothing yet is none of those that gateways have.
        """
        return (
            self.workload.verdict.ok is True
            and self.workload.down is None
            and self.credential.verdict.ok is not False
            and (self.round is None or self.round.failure is None or self.round.failure.is_silence)
        )
