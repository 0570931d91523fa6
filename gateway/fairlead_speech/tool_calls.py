"""Runs the calls of a speech session: each in a task of its own, and every id once."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Any, Final

from fairlead_formats.messages.call import ModelCall
from fairlead_offers.problems import Problem
from fairlead_speech.metrics import CANCELLED, DUPLICATE, ERROR, OK, SpeechMetrics
from fairlead_speech.session import SpeechSession

MAX_RUNNING: Final = 32
"""Calls of one session that run at the same time."""
MAX_IDS: Final = 1024
"""Ids of calls that are remembered, to know one that comes again."""
log = logging.getLogger(__name__)
RunCall = Callable[[ModelCall], Awaitable[Mapping[str, Any]]]


def error_result(message: str) -> Mapping[str, Any]:
    """A result that tells a model of an error."""
    return {"content": [{"type": "text", "text": message}], "isError": True}


class ToolCallHandler:
    """Calls of one session. `aclose` it."""

    def __init__(
        self,
        session: SpeechSession,
        run: RunCall,
        interruptible: Callable[[str], bool],
        engine: str,
        metrics: SpeechMetrics,
    ) -> None:
        """`run` gives the result of a call, refusals included. `interruptible`: whether a call of the tool with that
        name may be cancelled when the speaker interrupts, for it changes nothing.
        """
        self._session = session
        self._run = run
        self._interruptible = interruptible
        self._engine = engine
        self._metrics = metrics
        self._seen: OrderedDict[str, None] = OrderedDict()
        self._running: dict[str, tuple[ModelCall, asyncio.Task[None]]] = {}
        self._interrupted: set[str] = set()
        self._cancelled_by_provider: set[str] = set()
        """Ids of calls that run on, and whose results nobody waits for."""

    @property
    def running(self) -> Collection[str]:
        """Ids of the calls that run."""
        return self._running.keys()

    def __contains__(self, ident: str) -> bool:
        """Whether a call of that id was begun."""
        return ident in self._seen

    def begin(self, call: ModelCall) -> bool:
        """Run a call; its result goes to the session. False for an id that was there before: it is not run again."""
        if call.id in self._seen:
            self._metrics.count_call(self._engine, DUPLICATE)
            return False
        self._seen[call.id] = None
        if len(self._seen) > MAX_IDS:
            self._seen.popitem(last=False)
        task = asyncio.create_task(self._run_to_end(call, len(self._running)), name="call of a speech session")
        self._running[call.id] = call, task
        return True

    def interrupt(self) -> None:
        """The speaker interrupts: calls that change nothing are cancelled, and the model is told so."""
        for ident, (call, task) in self._running.items():
            if self._interruptible(call.wire_name):
                self._interrupted.add(ident)
                task.cancel()

    def cancel(self, ids: Collection[str]) -> None:
        """The provider takes these calls back: they get no result. Those that may change something run to their end."""
        for ident in ids:
            entry = self._running.get(ident)
            if entry is None:
                continue
            call, task = entry
            if self._interruptible(call.wire_name):
                task.cancel()
            else:
                self._cancelled_by_provider.add(ident)

    async def aclose(self) -> None:
        """Cancel all calls: the session is over."""
        tasks = [task for _, task in self._running.values()]
        self._interrupted.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _run_to_end(self, call: ModelCall, others: int) -> None:
        result: Mapping[str, Any]
        try:
            result = await self._run_checked(call, others)
        except asyncio.CancelledError:
            self._metrics.count_call(self._engine, CANCELLED)
            if call.id not in self._interrupted:
                raise
            result = error_result("The call was cancelled: the user interrupted")
        finally:
            self._running.pop(call.id, None)
            self._interrupted.discard(call.id)
            unwanted = call.id in self._cancelled_by_provider
            self._cancelled_by_provider.discard(call.id)
        if not unwanted:
            await self._session.send_result(call, result)

    async def _run_checked(self, call: ModelCall, others: int) -> Mapping[str, Any]:
        if others >= MAX_RUNNING:
            self._metrics.count_call(self._engine, ERROR)
            return error_result(f"The call was not run: {MAX_RUNNING} calls of this session run already")
        try:
            result = await self._run(call)
        except Problem as problem:
            result = error_result(problem.document.detail)
        except Exception:
            log.exception("A call of a speech session failed")
            result = error_result("The gateway failed to run the call")
        self._metrics.count_call(self._engine, ERROR if result.get("isError") else OK)
        return result


MAX_MEDIA_BYTES: Final = 12 << 20
"""Bytes of such parts in one event, as base64 and text."""
_MEDIA: Final = frozenset({"image", "audio", "resource", "resource_link"})


def media_parts(result: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Images, audio, files and links of an MCP result, as they are; those beyond MOST_BYTES are left out."""
    content = result.get("content")
    parts: list[dict[str, Any]] = []
    room = MAX_MEDIA_BYTES
    for part in content if isinstance(content, list) else []:
        if not isinstance(part, dict) or part.get("type") not in _MEDIA:
            continue
        room -= _size(part)
        if room >= 0:
            parts.append(part)
    return parts


def _size(part: Mapping[str, Any]) -> int:
    resource = part.get("resource")
    texts = [*part.values(), *(resource.values() if isinstance(resource, dict) else ())]
    return sum(len(each) for each in texts if isinstance(each, str)) + 256
