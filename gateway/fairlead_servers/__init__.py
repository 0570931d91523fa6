"""Bundled tool servers for tabletop games, each run as a process that speaks MCP: `fairlead serve NAME`.

A server is a folder with a module `server` that defines `SERVER`, a `ToolServer`, and a row in
`fairlead_servers.table`.
"""
