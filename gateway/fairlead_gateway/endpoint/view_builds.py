"""Builds views in slices between other work of the event loop, each view once for all requests that wait for it."""

from __future__ import annotations

import asyncio

from fairlead_gateway.core.identity import Identity
from fairlead_gateway.policy.selection import Selection
from fairlead_gateway.yielding import in_turns


class ViewBuilds:
    """Builds that are running. Requests for the same view wait for the one build that the first of them began."""

    def __init__(self) -> None:
        self._running: dict[tuple[int, bytes], asyncio.Task[None]] = {}

    async def ready(self, selection: Selection, identity: Identity, target: bytes) -> None:
        """Return when the view of a target, if the principal has one, is built."""
        if selection.ready(identity, target):
            return
        views = selection.views_of(identity)
        key = id(views), target  # unique while the task holds `views`
        task = self._running.get(key)
        if task is None:
            work = in_turns(views.build_in_slices(target))
            task = asyncio.get_running_loop().create_task(work, name=f"put together {target!r}")
            self._running[key] = task
            task.add_done_callback(lambda _: self._running.pop(key, None))
        await asyncio.shield(task)
