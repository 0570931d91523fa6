"""Findings of one reconcile of an McpServer, from which its catalog and its status are made. Pure."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from fairlead_api.documents.catalog import Catalog
from fairlead_api.v1alpha1.mcpserver import McpServer
from fairlead_operator.discovery.state import REPLACED_SECONDS, DiscoveryState
from fairlead_operator.ports import ConditionVerdict, ResolvedCredential, Workload


@dataclass(frozen=True)
class ReconcileFindings:
    """Verdicts about a server's spec, its references and its workload, and the state of its discovery."""

    server: McpServer
    accepted: ConditionVerdict
    """Verdict about the spec."""
    prefix: str | None
    """Prefix of the server's tools; None if another server holds the prefix."""
    credential: ResolvedCredential
    workload: Workload
    discovery: DiscoveryState | None
    """None while the server cannot be discovered and was not discovered before."""

    def note_replaced_pods(self, now: float) -> None:
        """Mark the failure of a discovery that may have reached a replaced pod: it says nothing about the server.

        `now` is on the monotonic clock.
        """
        state = self.discovery
        if state is None:
            return
        if self.workload.replacing:
            state.replaced_at = now
        failure = state.failure
        if failure is not None and failure.may_be_of_replaced_pod and now - state.replaced_at < REPLACED_SECONDS:
            state.failure = dataclasses.replace(failure, of_replaced_pod=True)

    @property
    def online(self) -> bool:
        """Whether the server is expected to answer calls.

        A stdio process that has not answered the operator yet does not count against the server: gateways start
        processes of their own.
        """
        return self._may_be_called and (self.discovery is None or not self.discovery.has_lost_server)

    def stored_tools_online(self, catalog: Catalog) -> bool:
        """Whether the tools of a stored catalog are expected to answer calls.

        The tools of an HTTP API stay online even if this operator cannot read the OpenAPI document, provided that the
        catalog was made from the present spec.
        """
        is_api = self.discovery is not None and self.discovery.target.api is not None
        has_same_spec = catalog.generation == self.server.metadata.generation
        return catalog.online and (self.online or (is_api and has_same_spec and self._may_be_called))

    @property
    def _may_be_called(self) -> bool:
        return (
            self.workload.verdict.ok is True
            and self.workload.outage is None
            and self.credential.verdict.ok is not False
        )
