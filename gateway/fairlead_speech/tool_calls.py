"""Runs the function calls of a speech session, each in a task of its own and each call id only once. A later call with
the same id gets an error as its result, because the model would wait for a result.
"""

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
"""Maximum number of calls of one session that run at the same time."""
MAX_IDS: Final = 1024
"""Maximum number of stored call ids, by which repeated calls are recognized."""
log = logging.getLogger(__name__)
RunCall = Callable[[ModelCall], Awaitable[Mapping[str, Any]]]
MAX_MEDIA_BYTES: Final = 12 << 20
"""Maximum number of bytes of the media parts in one event, counted as base64 and text."""
_MEDIA: Final = frozenset({"image", "audio", "resource", "resource_link"})


def error_result(message: str) -> Mapping[str, Any]:
    """Result of a failed call, with a message for the model."""
    return {"content": [{"type": "text", "text": message}], "isError": True}


def _repeated_result(call: ModelCall) -> Mapping[str, Any]:
    """Result of a call that is not run, because an earlier call had its id."""
    reason = f"an earlier call has its id {call.id[:64]}"
    return error_result(f"{call.wire_name[:128]} was not run, because {reason}: call it again with another id")


class ToolCallHandler:
    """Runs the calls of one session, and passes their results to the session. Its owner calls `aclose` at the end."""

    def __init__(
        self,
        session: SpeechSession,
        run: RunCall,
        interruptible: Callable[[str], bool],
        engine: str,
        metrics: SpeechMetrics,
    ) -> None:
        """`run`: runs a call and returns its result, which may be a refusal. `interruptible`: whether the calls of a
        tool, given by its name, may be cancelled when the user interrupts; true for read-only tools.
        """
        self._session = session
        self._run = run
        self._interruptible = interruptible
        self._engine = engine
        self._metrics = metrics
        self._seen: OrderedDict[str, None] = OrderedDict()
        self._running: dict[str, tuple[ModelCall, asyncio.Task[None]]] = {}
        """Running calls and their tasks, by call id."""
        self._interrupted: set[str] = set()
        """Ids of running calls that were cancelled because the user interrupted."""
        self._cancelled_by_provider: set[str] = set()
        """Ids of calls that the provider has cancelled but that run to their end. Their results are dropped."""

    @property
    def running(self) -> Collection[str]:
        """Ids of the running calls."""
        return self._running.keys()

    def __contains__(self, ident: str) -> bool:
        """Whether a call with this id was started."""
        return ident in self._seen

    def begin(self, call: ModelCall) -> None:
        """Start a call, whose result is sent to the session. A call with the id of an earlier call is not run. If the
        earlier call is still running, its result answers both calls; if it has ended, the later call gets an error.
        """
        repeated = call.id in self._seen
        if repeated:
            self._metrics.count_call(self._engine, DUPLICATE)
        if call.id in self._running:
            return
        self._seen[call.id] = None
        if len(self._seen) > MAX_IDS:
            self._seen.popitem(last=False)
        others = len(self._running)
        run = self._run_to_end(call, others, repeated=repeated)
        self._running[call.id] = call, asyncio.create_task(run, name="call of a speech session")

    def interrupt(self) -> None:
        """Handle an interruption by the user: cancel the calls of read-only tools. Their results tell the model that
        they were cancelled.
        """
        for ident, (call, task) in self._running.items():
            if self._interruptible(call.wire_name):
                self._interrupted.add(ident)
                task.cancel()

    def cancel(self, ids: Collection[str]) -> None:
        """Handle a cancellation by the provider: the model gets no results of the calls. Calls of other tools than
        read-only ones still run to their end.
        """
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
        """Cancel all calls."""
        tasks = [task for _, task in self._running.values()]
        self._interrupted.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _run_to_end(self, call: ModelCall, others: int, *, repeated: bool) -> None:
        result: Mapping[str, Any]
        try:
            result = _repeated_result(call) if repeated else await self._run_checked(call, others)
        except asyncio.CancelledError:
            self._metrics.count_call(self._engine, CANCELLED)
            if call.id not in self._interrupted:
                raise
            result = error_result("The call was cancelled, because the user interrupted")
        finally:
            self._running.pop(call.id, None)
            self._interrupted.discard(call.id)
            drop_result = call.id in self._cancelled_by_provider
            self._cancelled_by_provider.discard(call.id)
        if not drop_result:
            await self._session.send_result(call, result)

    async def _run_checked(self, call: ModelCall, others: int) -> Mapping[str, Any]:
        if others >= MAX_RUNNING:
            self._metrics.count_call(self._engine, ERROR)
            reason = f"{MAX_RUNNING} calls of this session are running"
            return error_result(f"The call was not run, because {reason}: retry when one has ended")
        try:
            result = await self._run(call)
        except Problem as problem:
            result = error_result(problem.document.detail)
        except Exception:
            log.exception("The gateway failed to run the call of %s in a speech session", call.wire_name[:128])
            result = error_result("The gateway failed to run the call")
        self._metrics.count_call(self._engine, ERROR if result.get("isError") else OK)
        return result


def media_parts(result: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Images, audio, files and links of an MCP result, which cannot be spoken. Parts beyond MAX_MEDIA_BYTES in total
    are left out.
    """
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
