"""Tool servers for a table of players, each a process of its own that speaks MCP: `fairlead serve NAME`.

A server is one folder with a module `server` whose `SERVER` is a `ToolServer`, and one row of `fairlead_servers.table`.
"""
