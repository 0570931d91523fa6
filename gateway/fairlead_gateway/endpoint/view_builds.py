"""Builds views in slices, between other work of the event loop. Each view is built only once for all requests that wait
for it."""

from __future__ import annotations

import asyncio

from fairlead_gateway.core.identity import Identity
from fairlead_gateway.policy.selection import Selection
from fairlead_gateway.yielding import in_turns


class ViewBuilds:
    """Builds of views that are in progress. All requests for a view wait for the same build."""

    def __init__(self) -> None:
        self._builds: dict[tuple[int, bytes], asyncio.Task[None]] = {}

    async def wait_until_built(self, selection: Selection, identity: Identity, target: bytes) -> None:
        """Wait until the principal's view of a target is built. Returns at once if the principal has no view of this
        target."""
        if selection.is_built(identity, target):
            return
        views = selection.views_of(identity)
        key = id(views), target  # unique while the task holds `views`
        task = self._builds.get(key)
        if task is None:
            work = in_turns(views.build_in_slices(target))
            task = asyncio.get_running_loop().create_task(work, name=f"build the view of {target!r}")
            self._builds[key] = task
            task.add_done_callback(lambda _: self._builds.pop(key, None))
        await asyncio.shield(task)
