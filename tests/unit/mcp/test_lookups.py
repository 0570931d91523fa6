"""Lookups of host names: a name without an answer does not delay other lookups."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections import Counter

import pytest

from fairlead_mcp.http.dial import AddressInfo, Lookups, name_by_dns, resolve_by_dns, system_name
from waiting import eventually


class SilentResolver:
    """Resolver that answers for names that begin with `silent` when the test lets it, and for all others at once."""

    def __init__(self) -> None:
        self.lookups: Counter[str] = Counter()
        self.may_answer = threading.Event()

    def __call__(self, host: str, port: int, flags: int) -> AddressInfo:
        if flags & socket.AI_NUMERICHOST:
            return [*socket.getaddrinfo(host, port, flags=flags)]
        self.lookups[host] += 1
        if host.startswith("silent"):
            self.may_answer.wait()
        if host == "unknown":
            raise socket.gaierror(socket.EAI_NONAME, "unknown")
        return [(socket.AF_INET, socket.SOCK_STREAM, 0, "", ("192.0.2.1", port))]


async def test_a_name_without_an_answer_is_looked_up_once_and_keeps_no_other_name_waiting() -> None:
    resolver = SilentResolver()
    look_up = Lookups(resolver, threads=2)
    waiting = [asyncio.create_task(look_up("silent", 80)) for _ in range(20)]
    waiting[0].cancel()
    assert (await look_up("other", 81))[0][4] == ("192.0.2.1", 81)
    with pytest.raises(socket.gaierror):
        await look_up("unknown", 80)
    resolver.may_answer.set()
    answers = await asyncio.gather(*waiting, return_exceptions=True)
    assert isinstance(answers[0], asyncio.CancelledError)
    assert all(answer == answers[1] != [] for answer in answers[1:])
    assert resolver.lookups == {"silent": 1, "other": 1, "unknown": 1}
    await look_up("silent", 80)
    assert resolver.lookups["silent"] == 2


async def test_an_address_needs_no_thread() -> None:
    resolver = SilentResolver()
    look_up = Lookups(resolver, threads=1)
    waiting = asyncio.create_task(look_up("silent", 80))
    await asyncio.sleep(0)
    assert [(await look_up(host, 80))[0][4][0] for host in ("192.0.2.7", "::1")] == ["192.0.2.7", "::1"]
    assert set(resolver.lookups) == {"silent"}
    resolver.may_answer.set()
    await waiting


async def test_names_beyond_the_limit_wait_for_a_thread_and_threads_end_with_their_work() -> None:
    resolver = SilentResolver()
    look_up = Lookups(resolver, threads=2)
    waiting = [asyncio.create_task(look_up(f"silent{number}", 80)) for number in range(5)]
    await eventually(lambda: len(resolver.lookups) == 2)
    resolver.may_answer.set()
    assert len(await asyncio.gather(*waiting)) == len(resolver.lookups) == 5
    await eventually(lambda: all(thread.name != "resolver" for thread in threading.enumerate()))


async def test_a_name_for_which_no_thread_can_be_started_is_an_error_of_that_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    look_up = Lookups(SilentResolver(), threads=2)
    with monkeypatch.context() as full:
        full.setattr(threading.Thread, "start", refuse)
        with pytest.raises(OSError, match="can't start new thread"):
            await look_up("other", 80)
    assert await look_up("other", 80)


def test_an_answer_after_the_end_of_its_loop_is_dropped() -> None:
    resolver = SilentResolver()
    look_up = Lookups(resolver, threads=1)

    async def give_up() -> None:
        async with asyncio.timeout(0):
            await look_up("silent", 80)

    with pytest.raises(TimeoutError):
        asyncio.run(give_up())
    resolver.may_answer.set()
    assert asyncio.run(look_up("other", 80))


async def test_reverse_lookups_without_an_answer_keep_no_other_address_waiting() -> None:
    may_answer = threading.Event()
    looked_up: list[str] = []

    def look_up_name(address: str, port: int, flags: int) -> AddressInfo:
        if flags & socket.AI_NUMERICHOST:
            return system_name(address, port, flags)
        looked_up.append(address)
        if address == "192.0.2.1":
            may_answer.wait()
        return [("name.example",)]

    names = Lookups(look_up_name, threads=2)
    waiting = [asyncio.create_task(names("192.0.2.1", 0)) for _ in range(20)]
    assert await names("192.0.2.2", 0) == [("name.example",)]
    may_answer.set()
    await asyncio.gather(*waiting)
    assert looked_up.count("192.0.2.1") == 1
    assert await name_by_dns("127.0.0.1") == socket.getfqdn("127.0.0.1")


async def test_an_address_is_its_own_canonical_name() -> None:
    resolved = await resolve_by_dns("127.0.0.1", 80)
    assert [*resolved] == [("127.0.0.1", 80)]
    assert getattr(resolved, "canonical", None) == "127.0.0.1"
