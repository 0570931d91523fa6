"""What a process says last is kept, with or without a line break."""

from __future__ import annotations

import sys
import time

import pytest

from fairlead_mcp.errors import McpError
from fairlead_mcp.host import ChildHost
from fairlead_mcp.stdio import ChildSpec


@pytest.mark.parametrize("end", ["", "\n"])
async def test_the_last_words_of_a_process_are_in_the_reason(end: str) -> None:
    script = f"import sys; sys.stderr.write({'no such database: stock' + end!r}); sys.exit(3)"
    host = ChildHost()
    try:
        child = host.get("broken", ChildSpec.of(sys.executable, ["-c", script]))
        with pytest.raises(McpError, match="no such database: stock"):
            await child.ready(time.monotonic() + 10)
    finally:
        await host.aclose()
