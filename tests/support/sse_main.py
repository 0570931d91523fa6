"""The SDK's server with the tools of `sdk_tools` behind HTTP+SSE: `sse_main.py PORT [CERTIFICATE]`.

A process of its own, because the SDK leaves streams of this transport open when its application ends.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import uvicorn
from mcp.server.transport_security import TransportSecuritySettings

from sdk_tools import make_server

if __name__ == "__main__":
    port, *certificate = sys.argv[1:]
    app = make_server().sse_app(transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False))
    uvicorn.run(app, port=int(port), log_level="error", ssl_certfile=certificate[0] if certificate else None)
