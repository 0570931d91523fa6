"""The audit log and the figures of `hack/bench operator`."""

from __future__ import annotations

from collections import Counter

from audit import Write, intruders
from fairlead_api.documents.codec import catalog_name
from fairlead_api.meta import ServerKey
from scale.bench_operator import Found, by_kind, report


def write(resource: str, namespace: str, name: str, user: str = "operator", status: int = 200) -> Write:
    return Write(user, "patch", resource, namespace, name, status, "2026-01-01T00:00:00Z")


def test_a_write_belongs_to_the_server_for_which_it_was_made() -> None:
    catalog = catalog_name(ServerKey("bench-image", "image-1"))
    writes = [
        write("mcpservers/status", "bench-url", "url-0"),
        write("events", "bench-url", ""),
        write("deployments", "bench-image", "image-1"),
        write("configmaps", "fairlead-system", catalog),
        write("configmaps", "fairlead-system", "fairlead-rules"),
        write("latencytiers", "", "fast"),
    ]
    assert by_kind(writes, 2) == {
        "url": Counter({"mcpservers/status": 1, "events": 1}),
        "image": Counter({"deployments": 1, "configmaps": 1}),
    }


def test_writers_without_the_lease_are_named_and_others_are_not() -> None:
    log = [
        write("leases", "r", "lease", "a"),
        write("services", "t", "one", "a"),
        write("services", "t", "refused", "b", status=409),
        write("leases", "r", "lease", "b", status=409),
        write("services", "t", "still mine", "a"),
        write("leases", "r", "lease", "b"),
        write("services", "t", "late", "a"),
        write("services", "t", "two", "b"),
        write("services", "t", "a person's", "admin"),
    ]
    assert [w.name for w in intruders(log, "lease")] == ["late"]


def test_a_goal_that_was_not_measured_is_not_met_and_growth_is_per_server() -> None:
    results = [
        Found(
            servers,
            seconds=1.0,
            cpu={"operator": seconds, "kube-apiserver": 1.0, "etcd": 0.5, "foreign": 9.0},
            writes={"url": Counter({"events": servers}), "image": Counter({"events": servers * 5 + 1})},
            idle_seconds=60.0,
            idle_writes=Counter({"configmaps": 1}),
        )
        for servers, seconds in ((20, 1.0), (40, 3.0))
    ]
    met = {goal.name: goal.met for goal in report(results).goals}
    assert met == {
        "API writes per url server": True,
        "API writes per image server": False,
        "writes when nothing changes, extrapolated": False,
        "1,000 servers converged": None,
        "operator RSS at 1,000, at its peak": None,
        "operator CPU per server at 40, against 20": False,
    }
