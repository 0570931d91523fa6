"""Tools that are tasks (SEP-2663), called through a registry."""

from __future__ import annotations

import sys

from fairlead_client import AsyncToolRegistry, Server
from toolservers import TASKS_STDIO


async def test_a_tool_of_a_process_that_is_always_a_task_is_waited_for() -> None:
    async with AsyncToolRegistry([Server(name="s", command=[sys.executable, TASKS_STDIO])]) as registry:
        outcome = await registry.execute("s__must")
        assert (outcome.error, outcome.text, outcome.attempts) == (None, "done", 1)
