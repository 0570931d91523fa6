"""Counters of requests for access tokens."""

from __future__ import annotations

from fairlead_api.meta import ServerKey
from fairlead_gateway.core.grant_counts import GRANTED, MAX_COUNTED, GrantCounts


def test_counters_of_servers_that_nobody_calls_any_more_make_room_for_those_of_others() -> None:
    counts = GrantCounts()
    servers = [ServerKey("default", f"s{number}") for number in range(MAX_COUNTED + 1)]
    for server in servers[:-1]:
        counts.count(server, GRANTED, 1.0)
        counts.count(server, "timeout", 2.0)
    counts.count(servers[0], GRANTED, 1.0)
    counts.count(servers[-1], GRANTED, 1.0)
    assert (counts.by_outcome[servers[0], GRANTED], counts.seconds[servers[0]]) == (2, 4.0)
    assert {server for server, _ in counts.by_outcome} == set(counts.seconds) == {*servers} - {servers[1]}
