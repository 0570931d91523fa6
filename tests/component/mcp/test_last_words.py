"""The last output of a process is kept, also without a line break at its end."""

from __future__ import annotations

import sys
import time

import pytest

from fairlead_mcp.errors import McpError
from fairlead_mcp.host import ChildHost
from fairlead_mcp.stdio import ChildSpec


async def failure_of(script: str) -> str:
    """Why a Python program could not be started as a server."""
    host = ChildHost()
    try:
        child = host.get("broken", ChildSpec.of(sys.executable, ["-c", script]))
        with pytest.raises(McpError) as caught:
            await child.wait_until_ready(time.monotonic() + 10)
        return str(caught.value)
    finally:
        await host.aclose()


@pytest.mark.parametrize("end", ["", "\n"])
async def test_the_last_words_of_a_process_are_in_the_reason(end: str) -> None:
    script = f"import sys; sys.stderr.write({'no such database: stock' + end!r}); sys.exit(3)"
    host = ChildHost()
    try:
        child = host.get("broken", ChildSpec.of(sys.executable, ["-c", script]))
        with pytest.raises(McpError, match="no such database: stock"):
            await child.wait_until_ready(time.monotonic() + 10)
    finally:
        await host.aclose()


async def test_a_process_that_printed_nothing_is_said_to_have_no_output() -> None:
    assert await failure_of("import os; os._exit(3)") == "broken exited with code 3; it printed nothing"


async def test_lines_printed_after_standard_output_was_closed_are_read_as_well() -> None:
    script = "import os, sys; os.close(1); sys.stderr.write('Error: no vault'); sys.stderr.flush(); os._exit(3)"
    assert await failure_of(script) == "broken exited with code 3: Error: no vault"


async def test_a_line_of_any_length_does_not_take_the_reason_along() -> None:
    script = "import sys; sys.exit('x' * 300_000 + chr(10) + 'Error: no vault')"
    assert await failure_of(script) == "broken exited with code 1: Error: no vault"
