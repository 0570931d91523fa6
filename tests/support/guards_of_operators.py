"""Guards that keep the operator from what others write to the cluster: see `guards`."""

from __future__ import annotations

from product_guard import Guard

OPERATORS = (
    Guard(
        "a Lease that a tenant makes up, so that the operator of the cluster never leads",
        "fairlead_operator.kube.watched_lease",
        (("while (now := boottime()) < until:", "while now := boottime():"),),
        "tests/component/operator/test_two_releases.py::test_a_lease_that_a_tenant_makes_up_keeps_nobody_from_leading_the_cluster",
        "AssertionError: leading: not within",
    ),
    Guard(
        "a writer that undoes every repair, so that the operator does nothing else",
        "fairlead_operator.kube.drift",
        (("if not pause or repairs is None:", "if repairs is None or True:"),),
        "tests/unit/operator/test_drift.py::test_a_rival_that_writes_in_a_loop_causes_no_look_while_it_is_too_early",
        "assert 5 <= first <= 9",
    ),
    Guard(
        "lists of a server that no report has room for, so that the operator hears nothing of the gateway any more",
        "fairlead_gateway.reports.outbox",
        (("if size > MAX_LISTINGS_BYTES:\n            refusal", "if False:\n            refused"),),
        "tests/unit/gateway/test_outbox.py::test_a_list_that_no_report_has_room_for_is_told_without_its_definitions",
        "AssertionError",
    ),
)
