"""Client side of MCP: message framing, protocol eras, transports over HTTP, TCP and stdio.

The package reads no configuration, starts no task at import, and imports only `fairlead_api` of Fairlead's packages.

Start at:

- `fairlead_mcp.session.McpSession` for listings and occasional calls;
- `fairlead_mcp.http.pool.Pool` for many calls per second over HTTP;
- `fairlead_mcp.host.ChildHost` for servers that are child processes;
- `fairlead_mcp.errors` for the exceptions, each with a stable reason.
"""
