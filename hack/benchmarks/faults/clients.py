"""Clients of the official SDK in `bench_faults`: the errors that a program sees which uses only the SDK.

They run in a thread with a loop of its own. After a failure, the client opens a new session, as such a program would.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from mcp import Client

from steadyload import OK, REFUSED, WRONG, Call

PAUSE: Final = 0.5
"""Seconds between two calls of one client."""
ANSWER_SECONDS: Final = 30.0
MODES: Final = ("auto", "legacy")


@dataclass
class SdkClients:
    """Clients of the SDK, one for each way to begin."""

    url: str
    tools: Sequence[str]
    calls: list[Call] = field(default_factory=list)

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Run the clients' calls within the context."""
        loop = asyncio.new_event_loop()
        thread = threading.Thread(target=loop.run_forever, name="SDK clients")
        thread.start()
        tasks = asyncio.run_coroutine_threadsafe(self._run(), loop)
        try:
            yield
        finally:
            tasks.cancel()
            with contextlib.suppress(BaseException):
                tasks.result(10)
            loop.call_soon_threadsafe(loop.stop)
            thread.join(10)
            loop.close()

    def report(self, since: float, at: float) -> dict[str, Any]:
        """Results in the form of a steady load's."""
        calls = [call for call in self.calls if call.began >= since and call.outcome != REFUSED]
        good = [call.ended - call.began for call in calls if call.outcome == OK]
        return {
            "where": "SDK clients",
            "calls": len(calls),
            "good": len(good),
            "open_then": sum(call.began <= at <= call.ended for call in self.calls),
            "reconnects": sum(call.began >= since and call.outcome == REFUSED for call in self.calls),
            "longest_ms": round(max(good, default=0.0) * 1000, 1),
            "bad": [asdict(call) for call in calls if call.outcome != OK],
        }

    async def _run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for mode in MODES:
                group.create_task(self._client(mode), name=f"SDK client, {mode}")

    async def _client(self, mode: str) -> None:
        turn, numbers = itertools.cycle(self.tools), itertools.count(1)
        while True:
            try:
                async with Client(self.url, mode=mode) as client:
                    while True:
                        if not await self._call(client, next(turn), next(numbers)):
                            break
                        await asyncio.sleep(PAUSE)
            except Exception as error:  # noqa: BLE001 - whatever the SDK makes of an outage, at the edge of its task
                self._opening_failed(error)
            await asyncio.sleep(0.1)

    async def _call(self, client: Client, tool: str, number: int) -> bool:
        call = Call(tool, time.time())
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                result = await client.call_tool(tool, {"a": number, "b": 1})
        except Exception as error:  # noqa: BLE001 - as above
            call.outcome, call.detail = _outcome(error)
        else:
            if result.is_error:
                call.outcome = "tool error"
                call.detail = str(result)[:300]
            elif (result.structured_content or {}).get("result") != number + 1:
                call.outcome = WRONG
                call.detail = str(result)[:300]
            else:
                call.outcome = OK
        call.ended = time.time()
        self.calls.append(call)
        return call.outcome == OK

    def _opening_failed(self, error: BaseException) -> None:
        """Record an error while a session was opened as a failed call."""
        now = time.time()
        self.calls.append(Call("(opening)", now, now, *_outcome(error)))


def _outcome(error: BaseException) -> tuple[str, str]:
    """Outcome of a call, and its message. A refused connection is a case of its own, because nothing was sent."""
    seen: list[BaseException] = [error]
    for each in seen:  # the list grows during the iteration
        seen += each.exceptions if isinstance(each, BaseExceptionGroup) else ()
        seen += [cause for cause in (each.__cause__, each.__context__) if cause is not None]
    detail = "; ".join(f"{type(each).__name__}: {each}" for each in seen[:4])[:300]
    if any(type(each).__name__ in ("ConnectError", "ConnectTimeout") for each in seen):
        return REFUSED, detail
    return type(seen[-1]).__name__, detail
