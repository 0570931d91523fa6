"""Failures of discoveries that may have reached a pod in whose place another one starts."""

from __future__ import annotations

import pytest

from fairlead_api.documents.catalog import TcpEndpoint
from fairlead_api.v1alpha1.causes import Cause
from fairlead_operator.discovery.state import (
    REPLACED_SECONDS,
    DiscoveryFailure,
    DiscoveryState,
    DiscoveryTarget,
)
from fairlead_operator.ports import ConditionVerdict, Workload
from fairlead_operator.reconcilefindings import ReconcileFindings
from operatorfakes import NO_CREDENTIAL, mcp_server

FINE = ConditionVerdict(True, Cause.PROGRAMMED, "up")
POD = TcpEndpoint(host="demo.team.svc", port=8080)


def state_with(reason: str) -> DiscoveryState:
    state = DiscoveryState(DiscoveryTarget("u", POD, "", ""))
    state.failure = DiscoveryFailure(reason, "the process ended")
    return state


def findings_of(state: DiscoveryState, *, replacing: bool) -> ReconcileFindings:
    workload = Workload(FINE, POD, replacing=replacing)
    return ReconcileFindings(mcp_server(), FINE, "demo", NO_CREDENTIAL, workload, state)


def verdict_of(state: DiscoveryState) -> tuple[bool | None, Cause]:
    assert state.failure is not None
    verdict = state.failure.verdict()
    return verdict.ok, verdict.cause


def test_connection_that_a_gate_closes_says_nothing_while_pods_are_replaced_and_a_moment_later() -> None:
    """Name servers still give the address of the last replaced pod when the Deployment no longer counts it."""
    state = state_with("StartFailed")
    findings_of(state, replacing=True).note_replaced_pods(100.0)
    assert verdict_of(state) == (None, Cause.BEING_REPLACED)
    assert findings_of(state, replacing=True).online, "gateways may reach the pods that start"
    state.failure = DiscoveryFailure("StartFailed", "the process ended")
    findings_of(state, replacing=False).note_replaced_pods(99.0 + REPLACED_SECONDS)
    assert verdict_of(state) == (None, Cause.BEING_REPLACED)
    state.failure = DiscoveryFailure("StartFailed", "the process ended")
    findings_of(state, replacing=False).note_replaced_pods(101.0 + REPLACED_SECONDS)
    assert verdict_of(state) == (False, Cause.START_FAILED)


@pytest.mark.parametrize("reason", ["StartTimeout", "NotMCP", "Unauthorized", "CommandNotFound"])
def test_answers_of_a_server_and_its_silence_count_while_its_pods_are_replaced(reason: str) -> None:
    state = state_with(reason)
    findings_of(state, replacing=True).note_replaced_pods(100.0)
    assert verdict_of(state)[0] is False


def test_failure_of_a_server_whose_pods_are_complete_counts() -> None:
    state = state_with("StartFailed")
    findings_of(state, replacing=False).note_replaced_pods(100.0)
    assert verdict_of(state) == (False, Cause.START_FAILED)
    assert not findings_of(state, replacing=False).online
