"""An informer whose streams the API server ends: it resumes where it stopped, and pauses between requests."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Any, cast

import pytest
from kubernetes.aio.client import ApiClient

from fairlead_kube.client import Kube, WatchEvent
from fairlead_kube.errors import Forbidden, Gone, Unavailable
from fairlead_kube.informer import Informer
from fairlead_kube.resources import PODS, Json, Scope
from virtualtime import in_virtual_time

pytestmark = in_virtual_time

Script = list[WatchEvent[Json] | Exception | None]
"""Items of a watch: an event, an error that ends the watch, or None where the API server ends the watch."""

Lists = Sequence[tuple[Sequence[str], str] | Exception]


class Scripted(Kube):
    """An API server that lists nothing at version 1, and whose watches follow a script and then stay silent. `lists`:
    answers or errors for the first list requests.
    """

    def __init__(self, script: Script, *, forever: bool = False, lists: Lists = ()) -> None:
        super().__init__(cast("ApiClient", None))
        self.script = script
        self.forever = forever
        self.lists = [*lists]
        self.requests: list[str] = []

    async def list(self, scope: Scope[Any], *, cached: bool = False) -> tuple[list[Any], str]:
        self.requests.append("list from the cache" if cached else "list")
        answer = self.lists.pop(0) if self.lists else ([], "1")
        if isinstance(answer, Exception):
            raise answer
        names, version = answer
        return [{"name": name} for name in names], version

    async def watch(
        self, scope: Scope[Any], version: str, opened: Callable[[], None] = lambda: None
    ) -> AsyncGenerator[WatchEvent[Any], None]:
        self.requests.append(f"watch {version}")
        opened()
        while self.script or self.forever:
            step = self.script[0] if self.forever else self.script.pop(0)
            if step is None:
                return
            if isinstance(step, Exception):
                raise step
            yield step
        await asyncio.Event().wait()


class Names:
    """Listener that collects the names of objects."""

    def __init__(self) -> None:
        self.there: list[str] = []

    def replace(self, objects: Sequence[Json], version: str) -> None:
        self.there = [item["name"] for item in objects]

    def update(self, item: Json) -> None:
        self.there.append(item["name"])

    async def delete(self, item: Json) -> None:
        await asyncio.sleep(1)
        self.there.remove(item["name"])


def event(type_: str, version: int, name: str = "") -> WatchEvent[Json]:
    return WatchEvent(type_, str(version), {"name": name} if name else None)


async def follow(kube: Scripted, seconds: float, **options: Any) -> Names:
    names = Names()
    informer = Informer(kube, Scope(PODS, Json), names, random=lambda: 0.0, **options)
    task = asyncio.create_task(informer.run())
    await asyncio.sleep(seconds)
    task.cancel()
    await asyncio.wait([task])
    return names


async def test_a_watch_goes_on_from_the_last_version_that_was_seen_bookmarks_included() -> None:
    away = Unavailable("away")
    kube = Scripted([event("ADDED", 5, "a"), event("BOOKMARK", 9), None, event("ADDED", 11, "b"), away])
    names = await follow(kube, 5)
    assert kube.requests == ["list", "watch 1", "watch 9", "watch 11"]
    assert names.there == ["a", "b"]


@pytest.mark.parametrize("expiries", [1, 2, 5])
async def test_after_each_expired_version_everything_is_listed_again_however_often(expiries: int) -> None:
    script: Script = []
    for _ in range(expiries):
        script += [event("ADDED", 5, "a"), Gone("too old")]
    kube = Scripted(script)
    names = await follow(kube, 30)
    assert kube.requests == ["list", "watch 1"] * (expiries + 1)
    assert names.there == []


async def test_a_watched_scope_is_listed_again_once_a_watch_ends_and_resync_seconds_have_passed() -> None:
    kube = Scripted([event("BOOKMARK", 4), None], lists=[(["a"], "1"), (["b"], "9")])
    await follow(kube, 5, resync=600.0)
    assert kube.requests == ["list", "watch 1", "watch 4"]
    kube = Scripted([event("BOOKMARK", 4), None], lists=[(["a"], "1"), (["b"], "9")])
    names = await follow(kube, 5, resync=0.05)
    assert (kube.requests, names.there) == (["list", "watch 1", "list", "watch 9"], ["b"])


async def test_without_a_watch_of_its_own_it_lists_from_the_cache_every_resync_seconds_and_takes_events() -> None:
    kube = Scripted([], lists=[(["a"], "1"), Unavailable("away"), (["a", "b"], "2"), (["c"], "3")])
    names = Names()
    informer = Informer(kube, Scope(PODS, Json), names, watches=False, resync=20.0, random=lambda: 0.5)
    task = asyncio.create_task(informer.run())
    await informer.synced.wait()
    informer.observe("ADDED", {"name": "x"})
    assert names.there == ["a", "x"]
    await asyncio.sleep(19)
    assert kube.requests == ["list"]
    await asyncio.sleep(2)
    assert (names.there, kube.requests) == (["a", "b"], ["list", "list from the cache", "list from the cache"])
    await asyncio.sleep(20)
    assert names.there == ["c"]
    task.cancel()
    await asyncio.wait([task])


async def test_a_list_from_a_cache_that_lags_behind_another_is_asked_for_again() -> None:
    kube = Scripted([], lists=[(["a"], "5"), (["old"], "4"), (["b"], "6")])
    names = Names()
    task = asyncio.create_task(Informer(kube, Scope(PODS, Json), names, watches=False, resync=1.0).run())
    await asyncio.sleep(1.5)
    task.cancel()
    await asyncio.wait([task])
    assert (kube.requests[:3], names.there) == (["list", "list from the cache", "list"], ["b"])


async def test_an_event_waits_for_the_one_before_it_to_be_taken_in() -> None:
    kube = Scripted([event("ADDED", 2, "a"), event("DELETED", 3, "a"), event("ADDED", 4, "a")])
    assert (await follow(kube, 0.5)).there == ["a"]
    assert (await follow(Scripted([event("ADDED", 2, "a"), event("DELETED", 3, "a")]), 5)).there == []


@pytest.mark.parametrize("end", [None, Gone("too old"), Unavailable("away"), Forbidden("no")], ids=str)
async def test_an_api_server_that_ends_each_watch_at_once_is_asked_every_other_second(end: Exception | None) -> None:
    kube = Scripted([end], forever=True)
    await follow(kube, 60)
    watches = [request for request in kube.requests if request != "list"]
    assert 25 <= len(watches) <= 40


async def test_events_begin_the_pauses_again() -> None:
    script: Script = [Unavailable("away")] * 8
    kube = Scripted([*script, event("BOOKMARK", 7), Unavailable("away")])
    failures: list[float] = []
    clock = asyncio.get_running_loop().time
    await follow(kube, 60, on_failure=lambda error: failures.append(clock()))
    assert kube.requests[-1] == "watch 7"
    pauses = [later - earlier for earlier, later in itertools.pairwise(failures)]
    assert pauses[:4] == pytest.approx([0.1, 0.2, 0.4, 0.8])
    assert max(pauses) == pytest.approx(2.0)


async def test_a_refusal_is_logged_once_and_an_outage_not_at_all(caplog: pytest.LogCaptureFixture) -> None:
    await follow(Scripted([Forbidden("cannot watch pods (403)")], forever=True), 10)
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    assert "cannot watch pods (403)" in caplog.text
    caplog.clear()
    await follow(Scripted([Unavailable("away")], forever=True), 10)
    assert caplog.records == []


async def test_a_reader_is_told_of_each_new_failure_once_outages_included_and_again_after_a_success() -> None:
    refusal, away = Forbidden("cannot watch pods (403)"), Unavailable("away")
    kube = Scripted([away, away, refusal, refusal, event("BOOKMARK", 7), refusal])
    told: list[str] = []
    await follow(kube, 60, on_new_failure=lambda error: told.append(str(error)))
    assert told == ["away", "cannot watch pods (403)", "cannot watch pods (403)"]
