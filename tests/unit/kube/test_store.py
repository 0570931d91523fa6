"""A store with several sources ends with the existing objects, in whatever order the sources report."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Any

import pytest

from examples import examples
from fairlead_api.meta import ServerKey
from fairlead_kube.resources import Json
from fairlead_kube.store import MAX_DELETIONS, ObjectStore

DEMO = ServerKey("team", "demo")
Told = tuple[str, Any, Any]


def item(version: int, value: int, name: str = "demo", uid: str = "u") -> Json:
    metadata = {"namespace": "team", "name": name, "uid": uid, "resourceVersion": str(version)}
    return {"metadata": metadata, "value": value}


def store() -> tuple[ObjectStore[int], list[Told]]:
    told: list[Told] = []
    objects = ObjectStore[int](
        lambda document: document["value"], lambda key, before, after: told.append((key.name, before, after))
    )
    return objects, told


def apply_list(objects: ObjectStore[int], items: list[Json], version: str) -> None:
    asyncio.run(objects.replace(items, version))


def test_each_difference_is_told_once_with_what_was_and_what_is() -> None:
    objects, told = store()
    apply_list(objects, [item(1, 10), item(2, 20, "other")], "2")
    apply_list(objects, [item(1, 10), item(2, 20, "other")], "3")
    objects.update(item(4, 11))
    objects.update(item(5, 11))
    objects.delete(item(6, 11))
    apply_list(objects, [], "7")
    assert told == [
        ("demo", None, 10),
        ("other", None, 20),
        ("demo", 10, 11),
        ("demo", 11, None),
        ("other", 20, None),
    ]
    assert (len(objects), list(objects)) == (0, [])


@pytest.mark.parametrize(
    ("late", "left"),
    [
        pytest.param(lambda objects: objects.update(item(9, 0)), 1, id="an-older-event"),
        pytest.param(lambda objects: objects.update(item(10, 0)), 1, id="the-same-reading"),
        pytest.param(lambda objects: objects.update(item(9, 0, uid="before")), 1, id="a-predecessor"),
        pytest.param(lambda objects: objects.delete(item(9, 0, uid="before")), 1, id="end-of-a-predecessor"),
        pytest.param(lambda objects: apply_list(objects, [], "9"), 1, id="a-list-from-before"),
        pytest.param(lambda objects: apply_list(objects, [], "10"), None, id="a-list-without-it"),
        pytest.param(lambda objects: apply_list(objects, [item(9, 0)], "9"), 1, id="an-older-list"),
        pytest.param(lambda objects: objects.update(item(11, 2)), 2, id="a-newer-event"),
        pytest.param(lambda objects: objects.delete(item(11, 1)), None, id="its-end"),
        pytest.param(lambda objects: objects.update(item(11, 2, uid="successor")), 2, id="a-successor"),
    ],
)
def test_an_object_store_takes_newer_objects_alone(
    late: Callable[[ObjectStore[int]], object], left: int | None
) -> None:
    objects, _ = store()
    objects.update(item(10, 1))
    late(objects)
    assert objects.get(DEMO) == left


def test_an_object_that_a_list_or_a_deletion_took_away_does_not_return_by_an_older_event() -> None:
    objects, told = store()
    apply_list(objects, [item(10, 1)], "10")
    apply_list(objects, [], "12")
    objects.update(item(11, 2))
    objects.update(item(13, 3, "other"))
    objects.delete(item(15, 3, "other"))
    objects.update(item(14, 4, "other"))
    apply_list(objects, [item(14, 4, "other")], "14")
    assert told == [("demo", None, 1), ("demo", 1, None), ("other", None, 3), ("other", 3, None)]
    objects.update(item(16, 5, "other"))
    assert objects.get(ServerKey("team", "other")) == 5


def test_an_api_server_restored_from_a_backup_is_believed() -> None:
    objects, _ = store()
    apply_list(objects, [item(100, 1), item(101, 2, "gone")], "101")
    objects.delete(item(120, 1))
    apply_list(objects, [item(7, 3)], "9")
    assert objects.values() == [3]
    objects.update(item(10, 4))
    assert objects.values() == [4]


def test_an_object_deleted_from_here_is_gone_before_its_event_and_nobody_is_told() -> None:
    objects, told = store()
    objects.update(item(1, 1))
    objects.forget(DEMO)
    objects.delete(item(2, 1))
    assert (objects.get(DEMO), objects.version(DEMO), told) == (None, "", [("demo", None, 1)])


def test_deletions_between_two_lists_are_remembered_up_to_a_bound() -> None:
    objects, _ = store()
    for number in range(MAX_DELETIONS + 2):
        objects.delete(item(number + 10, 0, f"s{number}"))
    objects.update(item(1, 1, "s1"))
    objects.update(item(1, 1, "s2"))
    assert list(objects) == [ServerKey("team", "s1")], "the oldest two may return by an event that is older still"


def test_any_order_of_events_and_lists_ends_in_what_exists() -> None:
    for seed in range(examples(100)):
        _play(seed)


def _play(seed: int) -> None:
    """Play changes, events and lists in one random order."""
    rng = random.Random(seed)
    truth: dict[str, Json] = {}
    sources: list[Callable[[ObjectStore[int]], object]] = []

    def event(of: Json, *, deleted: bool) -> Callable[[ObjectStore[int]], object]:
        return lambda objects: objects.delete(of) if deleted else objects.update(of)

    def listing(of: list[Json], version: str) -> Callable[[ObjectStore[int]], object]:
        return lambda objects: apply_list(objects, of, version)

    lists: list[Callable[[ObjectStore[int]], object]] = []
    for version in range(1, 40):
        name = rng.choice("abc")
        if name in truth and rng.random() < 0.4:
            gone = truth.pop(name)
            sources.append(event(item(version, 0, name, gone["metadata"]["uid"]), deleted=True))
        else:
            uid = truth[name]["metadata"]["uid"] if name in truth else f"u{version}"
            truth[name] = item(version, version, name, uid)
            sources.append(event(truth[name], deleted=False))
        if rng.random() < 0.2:
            lists.append(listing(list(truth.values()), str(version)))
    rng.shuffle(sources)
    for position, each in zip(sorted(rng.sample(range(len(sources)), len(lists))), lists, strict=True):
        sources.insert(position, each)  # lists arrive in order, events in any order
    objects, told = store()
    for tell in sources:
        tell(objects)
    wanted = {ServerKey("team", name): document["value"] for name, document in truth.items()}
    assert {key: objects.get(key) for key in objects} == wanted
    replayed: dict[str, int | None] = {}
    for name, before, after in told:
        assert replayed.get(name) == before, "who follows what is told is never a step behind"
        replayed[name] = after
    assert {ServerKey("team", name): value for name, value in replayed.items() if value is not None} == wanted
