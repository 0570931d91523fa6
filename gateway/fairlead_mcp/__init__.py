"""Client side of MCP: message framing, protocol eras, transports over HTTP, TCP and stdio.

It reads no configuration, starts no task at import, and imports no other package of ours than `fairlead_api`.

Start at:

- `fairlead_mcp.session.McpSession` for listings and occasional calls;
- `fairlead_mcp.http.pool.Pool` for many calls per second over HTTP;
- `fairlead_mcp.host.ChildHost` for servers that are child processes;
- `fairlead_mcp.errors` for the exceptions, each with a stable reason.
"""
