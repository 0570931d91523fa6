"""An SDK server with one slow tool that creates a file when it is called."""

import time
from pathlib import Path

from mcp.server import MCPServer

server = MCPServer("marking")


@server.tool()
def mark(file: str, seconds: float) -> str:
    """Make the file, wait, answer."""
    Path(file).touch()
    time.sleep(seconds)
    return "marked"


if __name__ == "__main__":
    server.run()
