"""An MCP server with everything that the official conformance suite asks of a server, written with the SDK.

    python tests/support/conformance_subject.py PORT

Both eras on http://127.0.0.1:PORT/mcp.
"""

from __future__ import annotations

import sys

import uvicorn

import conformance_questions  # noqa: F401  # adds its tools
from conformance_offers import History, server

if __name__ == "__main__":
    app = server.streamable_http_app(event_store=History(), retry_interval=100)
    # httptools leaves white space at the end of header values, which the suite looks at
    uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), http="h11", log_level="warning")
