"""Owners of prefixes: a prefix stays reserved for a while after a deletion, its owner gets it back at once, the number
of reservations is bounded, and wrong clocks do no harm."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest

from fairlead_api.documents.servers import PrefixOwner
from fairlead_api.meta import ANNOTATION_RELEASE_PREFIX, ServerKey
from fairlead_api.v1alpha1.causes import Cause
from fairlead_api.v1alpha1.common import Condition
from fairlead_api.v1alpha1.mcpserver import McpServer
from fairlead_operator.server.prefixes import (
    MAX_PER_NAMESPACE,
    MAX_RESERVATIONS,
    SKEW_S,
    UNSERVED_S,
    Prefixes,
    holder_by_status,
)
from operatorfakes import NOW, mcp_server

DAY = 86400.0
OWNER = ServerKey("strict", "faces")
HEIR = ServerKey("team-b", "faces")


class Clocks:
    """The two clocks of a machine, which the test sets."""

    def __init__(self, now: datetime = NOW, monotonic: float = 0.0) -> None:
        self.at = now
        self.monotonic = monotonic

    def pass_by(self, seconds: float) -> None:
        self.at += timedelta(seconds=seconds)
        self.monotonic += seconds

    def prefixes(self, *owners: PrefixOwner, changed: Callable[[], None] = lambda: None) -> Prefixes:
        prefixes = Prefixes("name", DAY, on_change=changed, now=lambda: self.at, monotonic=lambda: self.monotonic)
        prefixes.restore(owners)
        prefixes.end_start_phase()
        return prefixes


def server(key: ServerKey, age: int = 0, *, served: bool = True, release: str = "", **spec: Any) -> McpServer:
    made = mcp_server(key.name, age=age, uid=f"{key} of {age}", **spec)
    annotations = {ANNOTATION_RELEASE_PREFIX: release} if release else {}
    metadata = made.metadata.model_copy(update={"namespace": key.namespace, "annotations": annotations})
    status = made.status.model_copy(update={"tools": 3 if served else None})
    return made.model_copy(update={"metadata": metadata, "status": status})


def contested_prefixes(clocks: Clocks) -> Prefixes:
    prefixes = clocks.prefixes()
    prefixes.claim(server(OWNER, age=60))
    prefixes.claim(server(HEIR, age=30))
    return prefixes


def test_the_prefix_of_a_deleted_server_is_reserved_and_its_heir_reads_for_whom_and_how_long() -> None:
    prefixes = contested_prefixes(Clocks())
    assert prefixes.release(OWNER) == {HEIR}, "it has another sentence to read"
    assert prefixes.holder("faces") == OWNER
    conflicted, prefix = prefixes.grant(server(HEIR, age=30))
    assert prefix is None
    assert conflicted is not None
    assert conflicted.cause == Cause.PREFIX_RESERVED
    assert conflicted.message == (
        "prefix faces is reserved until 2026-11-21T12:00:00Z for strict/faces, which was deleted; "
        "this server is served at its own endpoint only"
    )
    assert conflicted.names == {"OWNER": "strict", "PREFIX": "faces"}


def test_a_server_that_never_listed_a_tool_gives_its_prefix_up_to_a_younger_one_that_works() -> None:
    clocks = Clocks()
    prefixes = clocks.prefixes()
    old, young = server(OWNER, age=60, served=False), server(HEIR, age=30)
    prefixes.claim(old)
    prefixes.claim(young)
    clocks.pass_by(UNSERVED_S - 1)
    assert (prefixes.expire(), prefixes.holder("faces")) == (set(), OWNER), "it may still be starting"
    clocks.pass_by(1)
    assert prefixes.expire() == {OWNER, HEIR}
    assert prefixes.grant(young) == (None, "faces")
    conflicted, prefix = prefixes.grant(old)
    assert (prefix, conflicted and conflicted.cause) == (None, Cause.PREFIX_TAKEN)
    prefixes.claim(server(OWNER, age=60))
    assert prefixes.expire() == set()
    assert prefixes.holder("faces") == HEIR, "names that agents know stay, once it lists tools too"
    assert PrefixOwner(prefix="faces", namespace="team-b", name="faces") in prefixes.owners()


@pytest.mark.parametrize(
    ("old", "young"),
    [(True, True), (False, False), (True, False)],
    ids=["both listed tools", "neither did", "the older one did"],
)
def test_a_prefix_passes_by_time_from_no_server_that_has_listed_tools_and_to_none_that_has_not(
    old: bool, young: bool
) -> None:
    clocks = Clocks()
    prefixes = clocks.prefixes()
    prefixes.claim(server(OWNER, age=60, served=old))
    prefixes.claim(server(HEIR, age=30, served=young))
    clocks.pass_by(10 * UNSERVED_S)
    assert (prefixes.expire(), prefixes.holder("faces")) == (set(), OWNER)


def test_a_server_that_took_a_prefix_lately_has_as_long_to_list_tools_as_a_new_one() -> None:
    clocks = Clocks()
    prefixes = clocks.prefixes()
    prefixes.claim(server(OWNER, age=60, served=False, prefix="other"))
    prefixes.claim(server(HEIR, age=30))
    clocks.pass_by(10 * UNSERVED_S)
    prefixes.claim(server(OWNER, age=60, served=False))
    assert (prefixes.expire(), prefixes.holder("faces")) == (set(), HEIR), "who works keeps it"


def test_the_owner_has_its_prefix_at_once_when_it_is_back_however_old_its_heir_is() -> None:
    prefixes = contested_prefixes(Clocks())
    prefixes.release(OWNER)
    assert prefixes.claim(server(OWNER, served=False)) == {HEIR}
    assert prefixes.grant(server(OWNER)) == (None, "faces")
    conflicted, _ = prefixes.grant(server(HEIR, age=30))
    assert conflicted is not None
    assert conflicted.cause == Cause.PREFIX_TAKEN
    assert prefixes.owners() == (PrefixOwner(prefix="faces", namespace="strict", name="faces"),), "age is not enough"
    prefixes.release(HEIR)
    prefixes.claim(server(OWNER))
    assert prefixes.owners() == (), "and now it is"


def test_the_heir_has_the_prefix_when_the_reservation_is_over_and_no_earlier() -> None:
    clocks = Clocks()
    prefixes = contested_prefixes(clocks)
    prefixes.release(OWNER)
    clocks.pass_by(DAY - 1)
    assert prefixes.expire() == set()
    clocks.pass_by(1)
    assert prefixes.expire() == {HEIR}
    assert prefixes.grant(server(HEIR)) == (None, "faces")


def test_a_correction_of_the_time_ends_no_reservation() -> None:
    clocks = Clocks()
    prefixes = contested_prefixes(clocks)
    prefixes.release(OWNER)
    clocks.at += timedelta(days=30)
    assert prefixes.expire() == set()


@pytest.mark.parametrize(
    ("until", "seconds"),
    [
        (NOW + timedelta(hours=3), 3 * 3600.0),
        (NOW - timedelta(days=2), SKEW_S),
        (NOW + timedelta(days=3650), DAY),
        ("9999-12-31T23:59:59-14:00", DAY),
        ("yesterday", DAY),
        ("", DAY),
    ],
    ids=["a clock that is right", "one ahead", "one behind", "out of range", "edited by hand", "one that existed"],
)
def test_a_reservation_of_another_leader_stands_five_minutes_at_least_and_the_retention_at_most(
    until: datetime | str, seconds: float
) -> None:
    clocks = Clocks()
    text = until if isinstance(until, str) else until.isoformat()
    prefixes = clocks.prefixes(PrefixOwner(prefix="faces", namespace="strict", name="faces", until=text))
    prefixes.claim(server(HEIR, age=30))
    assert prefixes.holder("faces") == OWNER
    clocks.pass_by(seconds - 1)
    assert prefixes.expire() == set()
    clocks.pass_by(1)
    assert prefixes.expire() == {HEIR}


def test_reservations_of_one_leader_are_those_of_the_next() -> None:
    clocks = Clocks()
    before = contested_prefixes(clocks)
    before.release(OWNER)
    after = clocks.prefixes(*before.owners())
    assert after.owners() == before.owners()
    after.claim(server(HEIR, age=30))
    after.claim(server(OWNER))
    assert after.grant(server(OWNER)) == (None, "faces")


def test_a_server_that_is_older_takes_no_prefix_by_changing_its_own() -> None:
    prefixes = Clocks().prefixes()
    prefixes.claim(server(OWNER, age=30))
    prefixes.claim(server(HEIR, age=60, prefix="other"))
    prefixes.claim(server(HEIR, age=60, prefix="faces"))
    assert prefixes.holder("faces") == OWNER
    assert prefixes.owners() == (PrefixOwner(prefix="faces", namespace="strict", name="faces"),)


def test_a_prefix_that_nobody_was_shown_is_not_reserved() -> None:
    prefixes = Clocks().prefixes()
    prefixes.claim(server(OWNER, age=60, served=False))
    prefixes.claim(server(HEIR, age=30))
    assert prefixes.release(OWNER) == {HEIR}
    assert prefixes.grant(server(HEIR)) == (None, "faces")


def test_an_owner_that_is_back_for_a_moment_and_answers_never_keeps_its_reservation() -> None:
    prefixes = Clocks().prefixes()
    prefixes.claim(server(OWNER, age=60))
    prefixes.release(OWNER)
    prefixes.claim(server(OWNER, served=False))
    prefixes.release(OWNER)
    prefixes.claim(server(HEIR))
    assert prefixes.holder("faces") == OWNER


def test_a_namespace_has_so_many_reservations_and_the_one_that_ends_first_makes_room() -> None:
    clocks = Clocks()
    prefixes = clocks.prefixes()
    keys = [ServerKey("squatter", f"tool-{number}") for number in range(MAX_PER_NAMESPACE + 1)]
    prefixes.claim(server(OWNER, age=60))
    prefixes.release(OWNER)
    for key in keys:
        clocks.pass_by(1)
        prefixes.claim(server(key))
        prefixes.release(key)
    owners = [owner.key for owner in prefixes.owners()]
    assert sorted(owners) == sorted([OWNER, *keys[1:]])


def test_all_namespaces_together_have_so_many_and_the_one_with_most_makes_room() -> None:
    clocks = Clocks()
    owners = [
        PrefixOwner(prefix=f"p{number}", namespace=f"n{number // MAX_PER_NAMESPACE}", name="a", until=NOW.isoformat())
        for number in range(MAX_RESERVATIONS)
    ]
    prefixes = clocks.prefixes(*owners)
    prefixes.claim(server(OWNER))
    prefixes.release(OWNER)
    assert len(prefixes.owners()) == MAX_RESERVATIONS
    assert prefixes.holder("faces") == OWNER


@pytest.mark.parametrize("namespace", ["strict", "team-b"])
def test_only_the_namespace_of_the_deleted_server_releases_its_prefix(namespace: str) -> None:
    prefixes = contested_prefixes(Clocks())
    prefixes.release(OWNER)
    by = server(ServerKey(namespace, "another"), release="scenes, faces")
    assert prefixes.claim(by) == ({HEIR} if namespace == "strict" else set())
    assert prefixes.holder("faces") == (HEIR if namespace == "strict" else OWNER)


def test_a_prefix_that_its_owner_releases_before_it_is_deleted_passes_at_once() -> None:
    prefixes = contested_prefixes(Clocks())
    prefixes.claim(server(OWNER, age=60, release="faces"))
    assert prefixes.holder("faces") == OWNER, "while it exists"
    assert prefixes.release(OWNER) == {HEIR}
    assert prefixes.holder("faces") == HEIR


def test_no_retention_passes_a_prefix_on_at_once_and_drops_what_was_reserved() -> None:
    prefixes = Prefixes("name")
    prefixes.restore([PrefixOwner(prefix="faces", namespace="strict", name="faces", until="9999-01-01T00:00:00+00:00")])
    prefixes.claim(server(HEIR))
    assert prefixes.grant(server(HEIR)) == (None, "faces")
    assert prefixes.owners() == ()


def observed(key: ServerKey, *, generation: int = 1, conflict: str = "", served: bool = True) -> McpServer:
    """A server whose status is of its first generation, with this message of the condition `Conflicted`."""
    made = server(key, served=served)
    condition = {"type": "Conflicted", "status": "True", "reason": "Conflicted", "message": conflict}
    conditions = [Condition.model_validate(condition | {"lastTransitionTime": NOW})] if conflict else []
    status = made.status.model_copy(update={"conditions": conditions, "observed_generation": 1})
    metadata = made.metadata.model_copy(update={"generation": generation})
    return made.model_copy(update={"status": status, "metadata": metadata})


TAKEN = "PrefixTaken: prefix faces belongs to strict/faces, which had it first"
UNDONE = "WritesUndone: the Deployment is changed by kubectl-edit each time"
THIRD = ServerKey("team-c", "faces")


@pytest.mark.parametrize(
    ("contenders", "holder"),
    [
        ([observed(OWNER), observed(HEIR, conflict=TAKEN)], OWNER),
        ([observed(OWNER, conflict=UNDONE), observed(HEIR, conflict=TAKEN)], OWNER),
        ([observed(OWNER, generation=2), observed(HEIR, generation=2, conflict=TAKEN)], OWNER),
        ([observed(OWNER), observed(HEIR, generation=2)], OWNER),
        ([observed(OWNER), observed(HEIR, served=False)], OWNER),
        ([observed(OWNER), observed(HEIR)], None),
        ([observed(OWNER, generation=2), observed(HEIR, generation=2), observed(THIRD, conflict=TAKEN)], None),
        ([observed(OWNER, served=False), observed(HEIR, served=False)], None),
    ],
)
def test_statuses_tell_which_claimant_has_had_a_prefix_or_that_it_is_not_certain(
    contenders: list[McpServer], holder: ServerKey | None
) -> None:
    """`HEIR` of another generation than that of its status may have claimed the prefix since."""
    assert holder_by_status(contenders) == holder
