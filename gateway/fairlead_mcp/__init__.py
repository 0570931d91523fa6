"""The MCP wire: framing, protocol eras, HTTP and child-process transports.

It reads no configuration, starts no task at import, and depends on nothing of ours but the API package.

Start at:

- `fairlead_mcp.session.McpSession` to list what a server offers or to call a tool now and then;
- `fairlead_mcp.http.pool.Pool` for many calls per second over HTTP;
- `fairlead_mcp.host.ChildHost` for servers that are child processes;
- `fairlead_mcp.errors` for what can go wrong, each with a stable reason.
"""
